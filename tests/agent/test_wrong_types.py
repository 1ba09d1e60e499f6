"""Values of a wrong type for words of a run: they are refused where they come from, and never kept to be read by nobody."""

import asyncio

import pytest

from foveal.agent import AskUser, Runs, ToolContext, UserAnswer, tool
from foveal.agent.inbox import StopRequest, letters, post
from foveal.agent.run_events import ToolEnded
from foveal.agent.run_log import read_events
from foveal.agent.run_marks import StatusSet, to_note
from foveal.values.errors import BadInput

from .conftest import FakeModel, agent_with, calls, says


@pytest.mark.parametrize(
    "asked",
    [
        {"options": [1, 2, 3]},
        {"options": [object()]},
        {"timeout_s": 60, "otherwise": False},
        {"timeout_s": "a minute"},
        {"timeout_s": float("nan")},
    ],
    ids=["numbers", "objects", "a flag", "a text as time", "no number as time"],
)
def test_a_question_that_no_log_can_keep_is_an_error_of_its_call(store, asked):
    """A tool that asks with other values than texts is run once, and its call says why; the run goes on."""
    ran = []

    @tool
    async def pick(ctx: ToolContext) -> str:
        """Pick."""
        ran.append(ctx.key)
        if len(ran) > 3:
            return "again and again"
        raise AskUser("How many?", **asked)

    ended = asyncio.run(agent_with(FakeModel(calls("pick"), says("Done.")), pick).run("Go.", session="s", store=store))
    [told] = [one for one in read_events(store, "s") if isinstance(one, ToolEnded)]
    assert (ended.text, len(ran), told.status) == ("Done.", 1, "error")
    assert told.text.startswith("pick asked, and ")


@tool(guarded=True)
def act() -> str:
    """Act."""
    return "ran"


def waiting(store):
    """The runs of a store in which one waits for approval, and its name."""

    async def begin():
        runs = Runs(store, [agent_with(FakeModel(calls("act"), says("Done.")), act)])
        name = await runs.start("agent", "Go.", session="s")
        await runs.wait(name)
        return runs, name

    return begin()


@pytest.mark.parametrize("decision", ["denied", "Allow"])
def test_an_unknown_decision_is_refused(store, decision):
    """The error names the decisions, and nothing is posted."""

    async def talk():
        runs, name = await waiting(store)
        with pytest.raises(BadInput, match="allow, deny, edit, always"):
            await runs.answer(name, UserAnswer(decision=decision))

    asyncio.run(talk())
    assert letters(store, "s") == []


def test_a_message_that_nobody_could_read_is_not_posted(store):
    """A wish to cancel whose reason is no text is an error of the caller, and no message that is dropped later."""
    with pytest.raises(BadInput, match=r"StopRequest cannot be kept: .*\$\.reason"):
        post(store, "s", StopRequest("cancelled", None))  # pyright: ignore[reportArgumentType]
    assert letters(store, "s") == []


def test_a_mark_that_nobody_could_read_is_not_written():
    """A mark with a value of a wrong type is an error, and no note that is no mark."""
    with pytest.raises(BadInput, match=r"StatusSet cannot be kept: .*\$\.reason"):
        to_note(StatusSet("paused", 1, "agent", None))  # pyright: ignore[reportArgumentType]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("form", ["run_sync", "stream_sync"])
def test_the_forms_without_an_event_loop_say_which_to_take_beside_one(store, form):
    """A notebook has a loop of its own, which asyncio's words do not tell."""
    agent = agent_with(FakeModel(says("Hello.")))

    async def talk():
        with pytest.raises(BadInput, match=r"one is running here; use `.*agent\."):
            list(getattr(agent, form)("Go.", session="s", store=store))

    asyncio.run(talk())
    assert store.cards() == []
