"""Runs after the user went back in the conversation: what was said on a branch that was left counts no more."""

import asyncio

import msgspec
import pytest

import foveal
from foveal.agent import AskUser, Limits, Runs, ToolContext, UserAnswer, tool
from foveal.agent.audit import audit_trail
from foveal.agent.built_in_tools import built_in_tools
from foveal.agent.run_events import WentBack, place_of
from foveal.agent.run_log import read_events, read_run
from foveal.testing.run_checks import run_problems
from foveal.values.errors import BadInput

from .conftest import FakeModel, agent_with, calls, says


def rewind(store, entry: str) -> None:
    with foveal.Session(store, "s", model="gpt-5") as session:
        session.branches.rewind(entry, "by the user")


async def talk(store, *said) -> None:
    """Let one agent after the other answer these words."""
    runs = Runs(store, [agent for agent, _ in said])
    for agent, text in said:
        await runs.wait(await runs.start(agent, text, session="s"), 10)


def shown(request) -> list[str]:
    return [one["content"] for one in request["messages"]]


def test_an_agent_is_told_its_instructions_again_when_its_branch_was_left(store):
    """They stand on the branch that was left, and the model would not know them."""
    model = FakeModel(says("1"), says("2"), says("3"), says("4"))
    first, second = (agent_with(model, name=name, instructions=f"You are {name}.") for name in ("a", "b"))
    asyncio.run(talk(store, (first, "One.")))
    end = list(store.rows("s"))[-1].id
    asyncio.run(talk(store, (second, "Two.")))
    rewind(store, end)
    asyncio.run(talk(store, (second, "Two again."), (second, "Three.")))
    assert shown(model.requests[2]) == ["You are a.", "One.", "1", "You are b.", "Two again."]
    assert shown(model.requests[3]) == [*shown(model.requests[2]), "3", "Three."]


def test_an_agent_is_not_told_its_instructions_again_where_its_branch_has_them(store):
    """Also after the session went back to the branch that was left."""
    model = FakeModel(says("1"), says("2"), says("3"), says("4"))
    agent = agent_with(model, instructions="You are careful.")
    asyncio.run(talk(store, (agent, "One.")))
    end = list(store.rows("s"))[-1].id
    asyncio.run(talk(store, (agent, "Two.")))
    left = list(store.rows("s"))[-1].id
    rewind(store, end)
    asyncio.run(talk(store, (agent, "Two again.")))
    assert shown(model.requests[2]) == ["You are careful.", "One.", "1", "Two again."]
    rewind(store, left)
    asyncio.run(talk(store, (agent, "Three.")))
    assert shown(model.requests[3]) == ["You are careful.", "One.", "1", "Two.", "2", "Three."]


def test_a_client_that_tells_its_own_list_does_not_rid_the_agent_of_its_instructions(store):
    """Its list goes on behind them, though it does not tell them; where it leaves their branch, they are told again."""
    model = FakeModel(says("Yes."), says("Fine."), says("Well."))
    agent = agent_with(model, instructions="You are careful.")
    said = [foveal.user("Hi."), foveal.assistant("Hello.")]
    with foveal.Session(store, "s", model="gpt-5") as session:
        session.follow(said)
    asyncio.run(talk(store, (agent, "Read it.")))
    with foveal.Session(store, "s", model="gpt-5") as session:
        session.follow([*said, foveal.user("Read it."), foveal.assistant("Yes.")])
    asyncio.run(talk(store, (agent, "Next.")))
    assert shown(model.requests[1]) == ["Hi.", "Hello.", "You are careful.", "Read it.", "Yes.", "Next."]
    with foveal.Session(store, "s", model="gpt-5") as session:
        session.follow([*said, foveal.user("Stop."), foveal.assistant("So be it.")])
    asyncio.run(talk(store, (agent, "Last.")))
    assert shown(model.requests[2]) == ["Hi.", "Hello.", "Stop.", "So be it.", "You are careful.", "Last."]


@pytest.mark.parametrize("is_left", [True, False], ids=["left", "taken"])
def test_todos_count_on_their_branch_alone(store, is_left):
    """The model is not told to finish todos that it cannot see."""
    todo = {"content": "Mend it.", "status": "pending"}
    model = FakeModel(calls("todo_write", todos=[todo]), says("A."), says("B."), says("Hello."), says("Still open."))
    agent = agent_with(model, *built_in_tools(["todos"], "."))
    with foveal.Session(store, "s", model="gpt-5") as session:
        before = session.append(foveal.user("Before.")).id
    asyncio.run(talk(store, (agent, "One.")))
    rewind(store, before if is_left else list(store.rows("s"))[-1].id)
    assert read_run(store, "s").todos_open == (0 if is_left else 1)
    asyncio.run(talk(store, (agent, "Hi.")))
    assert len(model.requests) == (4 if is_left else 5)


@pytest.fixture
def looks():
    """A tool that counts how often it has run, and must not run twice for one call."""

    @tool(retry="never")
    def look() -> str:
        """Look."""
        seen.append("once")
        return f"seen {len(seen)}"

    seen: list[str] = []
    return look, seen


def entry_with(store, word: str) -> str:
    """Return the id of the first entry that holds a word."""
    return next(row.id for row in store.rows("s") if word.encode() in row.payload)


async def begun(store, agent, text: str = "Look."):
    runs = Runs(store, [agent])
    return await runs.wait(await runs.start(agent, text, session="s"), 10)


async def resumed(store, agent):
    runs = Runs(store, [agent])
    return await runs.wait(await runs.resume("s"), 10)


FAULT = ValueError("refused")


def test_a_failed_run_asks_again_where_its_answer_was_left(store, looks):
    """The answer of a branch that was left is none on this one: it is asked for before the final one is."""
    model = FakeModel(calls("look"), says("Wrong."), FAULT, says("Right."), says("Final."))
    agent = agent_with(model, looks[0], finalize="In one word.")
    assert asyncio.run(begun(store, agent)).status == "failed"
    rewind(store, entry_with(store, "seen 1"))
    assert asyncio.run(resumed(store, agent)).text == "Final."
    assert "Right." in str(model.requests[-1])
    assert "Wrong." not in str(model.requests[-1])


def test_a_call_that_is_open_again_has_run_all_the_same(store, looks):
    """A tool that must not run twice does not, although the conversation went back to its call."""
    model = FakeModel(calls("look"), FAULT, says("It is unknown."))
    agent = agent_with(model, looks[0])
    assert asyncio.run(begun(store, agent)).status == "failed"
    rewind(store, entry_with(store, '"look"'))
    assert asyncio.run(resumed(store, agent)).text == "It is unknown."
    assert looks[1] == ["once"]
    assert "interrupted" in str(model.requests[-1])


@pytest.mark.parametrize("length", [1, 150], ids=["short", "long"])
def test_a_run_whose_beginning_was_left_cannot_go_on(store, length):
    """Its words are on another branch; back there, it goes on. However long the log is."""
    model = FakeModel(FAULT, says("Done."))
    agent = agent_with(model)
    with foveal.Session(store, "s", model="gpt-5") as session:
        before = [session.append(foveal.user(f"Word {n}.")).id for n in range(length)][-1]
    asyncio.run(begun(store, agent, "Do it."))
    left = list(store.rows("s"))[-1].id
    rewind(store, before)
    with pytest.raises(BadInput, match="went back to before this run began"):
        asyncio.run(resumed(store, agent))
    rewind(store, left)
    assert asyncio.run(resumed(store, agent)).text == "Done."
    assert "Do it." in str(model.requests[-1])


def test_a_worker_ends_a_run_whose_beginning_was_left(store):
    """Nobody asked for a prompt without the words of the run."""
    model = FakeModel(says("One."), [asyncio.Event()])
    agent = agent_with(model)
    asyncio.run(begun(store, agent, "First."))
    end = list(store.rows("s"))[-1].id

    async def left_under_way() -> None:
        runs = Runs(store, [agent])
        await runs.start(agent, "Second.", session="s")
        await runs.leave()

    async def recovered():
        runs = Runs(store, [agent])
        assert await runs.recover() == ["s#2"]
        return await runs.wait("s#2", 10)

    asyncio.run(left_under_way())
    rewind(store, end)
    outcome = asyncio.run(recovered())
    assert (outcome.status, outcome.text) == ("failed", "")
    assert "went back" in outcome.reason


def test_the_answer_of_a_run_stays_its_answer(store):
    """Also after the conversation went back to before it."""
    model = FakeModel(says("One."), says("Two."))
    agent = agent_with(model)
    asyncio.run(begun(store, agent, "First."))
    end = list(store.rows("s"))[-1].id
    asyncio.run(begun(store, agent, "Second."))
    rewind(store, end)
    runs = Runs(store, [agent])
    assert [runs.outcome(f"s#{n}").text for n in (1, 2)] == ["One.", "Two."]


@pytest.mark.parametrize("is_guarded", [False, True], ids=["question", "approval"])
def test_an_answer_to_a_question_of_a_branch_that_was_left_answers_no_other(store, is_guarded):
    """The user has seen another question: the one that is asked after a rewind has an id of its own."""
    ran: list[str] = []

    @tool(guarded=is_guarded)
    def book(ctx: ToolContext) -> str:
        """Book."""
        if not is_guarded and ctx.answer is None:
            raise AskUser("Which seat?")
        ran.append("booked")
        return "booked"

    agent = agent_with(FakeModel(calls("book"), says("Booked.")), book)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        first = (await runs.wait(run, 10)).questions[0]
        rewind(store, entry_with(store, '"call_0"'))
        await runs.resume(run)
        second = (await runs.wait(run, 10)).questions[0]
        allowed = UserAnswer("", "allow" if is_guarded else "", question=first.id)
        with pytest.raises(BadInput, match="has had its answer"):
            await runs.answer(run, allowed)
        assert ran == []
        await runs.resume(run, msgspec.structs.replace(allowed, question=second.id))
        return await runs.wait(run, 10)

    assert asyncio.run(talk()).text == "Booked."
    assert ran == ["booked"]
    allowed = [(one.actor, one.action) for one in audit_trail(store, "s") if one.action.startswith("tool.allow")]
    assert ("user", "tool.allow") in allowed or not is_guarded


def test_the_events_of_a_run_keep_the_rules_over_a_rewind(store, looks):
    """They tell to where the session went back: a call that is open again may have a result again."""
    agent = agent_with(FakeModel(calls("look"), FAULT, says("It is unknown.")), looks[0])
    asyncio.run(begun(store, agent))
    at = next(row for row in store.rows("s") if b'"look"' in row.payload)
    rewind(store, at.id)
    asyncio.run(resumed(store, agent))
    events = list(read_events(store, "s"))
    (back,) = [one for one in events if isinstance(one, WentBack)]
    assert [place_of(one.id) for one in events if one.id <= back.upto][-1] == at.seq
    assert run_problems(events) == []
    assert any("no reply calls" in one for one in run_problems(one for one in events if one is not back))


def two_agents(model, *tools, **more):
    """Return an agent and the one that it hands over to, which has a tool of its own and asks about it."""

    @tool(guarded=True)
    def remove() -> str:
        return "removed"

    taker = agent_with(model, remove, name="b", instructions="You are b.")
    return agent_with(model, *tools, name="a", instructions="You are a.", handoffs=[taker], **more)


def handed(*more):
    """Return the replies of two agents until the second one waits for the user, then further ones."""
    return FakeModel(calls("handoff", agent="b"), calls("remove"), *more)


def tools_of(request) -> list[str]:
    return [one["function"]["name"] for one in request.get("tools", ())]


def test_the_agent_before_goes_on_where_the_conversation_went_back_to_before_it_handed_over(store):
    """With its own instructions and tools, and with all its steps; cards and the state name it before it is resumed."""
    model = handed(says("I do it myself."))
    agent = two_agents(model, limits=Limits(max_steps=2))
    assert asyncio.run(begun(store, agent)).status == "awaiting_user"
    assert [card.agent for card in Runs(store).list()] == ["b"]
    rewind(store, entry_with(store, "Look."))
    assert ([card.agent for card in Runs(store).list()], read_run(store, "s").agent) == (["a"], "a")
    assert asyncio.run(resumed(store, agent)).text == "I do it myself."
    assert (shown(model.requests[-1])[:2], tools_of(model.requests[-1])) == (["You are a.", "Look."], ["handoff"])
    assert run_problems(read_events(store, "s")) == []


@pytest.mark.parametrize("place", ['"handoff"', "b takes over"], ids=["call", "result"])
def test_the_other_agent_is_told_its_instructions_where_it_takes_over_once_more(store, place):
    """Whoever goes back to the handoff, or to its result, has the conversation handed over again, as often as they go back."""
    model = handed(calls("remove"), says("Kept."))
    agent = two_agents(model, limits=Limits(max_handoffs=1))
    asyncio.run(begun(store, agent))
    rewind(store, entry_with(store, place))
    assert asyncio.run(resumed(store, agent)).status == "awaiting_user"
    rewind(store, entry_with(store, place))
    assert asyncio.run(resumed(store, agent)).text == "Kept."
    told = "The agent b goes on with this conversation.\nYou are b."
    assert (shown(model.requests[-1])[-1], tools_of(model.requests[-1])) == (told, ["remove"])


def test_a_handoff_goes_on_where_the_conversation_went_back_to_words_before_it(store):
    """Words by which the user steered after the call, and before the other agent had begun."""
    running: list[Runs] = []

    @tool
    async def note() -> str:
        await running[0].steer("s", "Be careful.")
        return "noted"

    replies = says("", ("handoff", {"agent": "b"}), ("note", {})), calls("remove"), says("Kept.")
    model = FakeModel(*replies)
    agent = two_agents(model, note)

    async def talk():
        running.append(Runs(store, [agent]))
        return await running[0].wait(await running[0].start(agent, "Look.", session="s"), 10)

    assert asyncio.run(talk()).status == "awaiting_user"
    rewind(store, [row.id for row in store.rows("s") if b'"role":"user"' in row.payload][-1])
    assert asyncio.run(resumed(store, agent)).text == "Kept."
    assert shown(model.requests[-1])[-2:] == ["Be careful.", "The agent b goes on with this conversation.\nYou are b."]


def test_a_worker_takes_a_run_up_as_the_agent_that_it_went_back_to(store):
    """The one that had it last is not asked."""
    is_asked = asyncio.Event()
    model = FakeModel(calls("handoff", agent="b"), [is_asked], says("I do it myself."))
    agent = two_agents(model)

    async def left_under_way() -> None:
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Look.", session="s")
        await is_asked.wait()
        await runs.leave()
        assert runs.state(run).agent == "b"

    async def recovered():
        runs = Runs(store, [agent])
        assert await runs.recover() == ["s#1"]
        return await runs.wait("s#1", 10)

    asyncio.run(left_under_way())
    rewind(store, [row.id for row in store.rows("s") if b'"role":"user"' in row.payload][-1])
    assert asyncio.run(recovered()).text == "I do it myself."
    assert tools_of(model.requests[-1]) == ["handoff"]
