"""The conversation behind `foveal chat`, without a terminal: the cost at its foot."""

import asyncio
import io

import pytest

from foveal import File, Policy
from foveal.agent import Agent, Limits, tool
from foveal.agent.built_in_tools import built_in_tools
from foveal.agent.inbox import FollowUp, post
from foveal.agent.run_events import StatusChanged
from foveal.cli.chat_commands import ChatCommands
from foveal.cli.chat_session import ChatSession
from foveal.cli.chat_terminal import PlainTerminal
from foveal.cli.output import Output
from foveal.stores import open_store

from ..agent.conftest import FakeModel, agent_with, calls, damage, says

FOUND = "The cookie is set twice, in login.py, lines 12 and 40, which I have read twice over. " * 4


def chat_of(agent, store) -> ChatSession:
    return ChatSession(agent, store, PlainTerminal(Output(io.StringIO())), session="s")


def shown_by(chat: ChatSession) -> str:
    """Everything that a chat has printed."""
    stream = chat.terminal.out.stream
    assert isinstance(stream, io.StringIO)
    return stream.getvalue()


def agent_that(calls: str) -> Agent:
    """An agent whose first reply gives a sub-agent a task, by `delegate` or by `spawn`."""

    def reply(request):
        is_first = not any(one["role"] == "assistant" for one in request["messages"])
        return says("", (calls, {"task": "Look."})) if is_first else says("Done.")

    looker = agent_with(FakeModel(by=lambda request: says(FOUND)), name="looker")
    inline, detached = ([looker], []) if calls == "delegate" else ([], [looker])
    return agent_with(FakeModel(by=reply), agents=inline, detached=detached)


def test_another_conversation_is_loaded_without_reading_the_others(monkeypatch):
    """Only a name that nobody has is looked for among all of them, for the nearest."""

    async def talk():
        chat = chat_of(agent_with(FakeModel(by=lambda request: says("Done."))), store)
        await chat.say("Go.")
        await chat.settled()
        chat.use_new()
        monkeypatch.setattr(chat.runs, "list", lambda: listed.append(True) or [])
        await ChatCommands(chat).hear("/load s")
        assert (chat.session, listed) == ("s", [])
        await ChatCommands(chat).hear("/load t")
        assert (chat.session, listed) == ("s", [True])
        return shown_by(chat)

    listed: list[bool] = []
    with open_store() as store:
        assert "there is no conversation 't'" in asyncio.run(talk())


def test_the_cost_of_detached_sub_agents_is_at_the_foot():
    """As soon as the chat has settled after their end; it is the same as that of another chat that goes on."""

    async def talk():
        agent = agent_that("spawn")
        chat = chat_of(agent, store)
        await chat.say("Go.")
        await chat.settled()
        await chat.runs.wait(chat.runs.tree("s#1").children[0].run)
        await chat.say("And?")
        await chat.settled()
        billed = sum(chat.runs.cost(run).total_usd or 0.0 for run in ("s#1", "s#2"))
        return chat.usd, chat_of(agent, store).usd, billed

    with open_store() as store:
        usd, again, billed = asyncio.run(talk())
    assert usd == pytest.approx(again)
    assert usd == pytest.approx(billed)


def test_a_chat_goes_on_whose_sub_agent_was_deleted():
    """Its cost is unknown, which is said, and nothing else is lost."""

    async def talk():
        agent = agent_that("delegate")
        chat = chat_of(agent, store)
        await chat.say("Go.")
        await chat.settled()
        store.delete([chat.runs.tree("s").children[0].run.partition("#")[0]])
        return chat_of(agent, store)

    with open_store() as store:
        chat = asyncio.run(talk())
    assert (chat.run, chat.usd) == ("s#1", None)
    assert "cost unknown" in chat.status


def test_a_chat_goes_on_whose_sub_agent_has_a_damaged_log(monkeypatch):
    """Its cost is unknown; the conversation itself is whole."""

    async def talk():
        agent = agent_that("delegate")
        chat = chat_of(agent, store)
        await chat.say("Go.")
        await chat.settled()
        damage(store, monkeypatch, chat.runs.tree("s").children[0].run.partition("#")[0])
        again = chat_of(agent, store)
        await again.say("And?")
        await again.settled()
        return again

    with open_store() as store:
        chat = asyncio.run(talk())
        assert (chat.runs.outcome("s#2").text, chat.usd) == ("Done.", None)


class GatedModel(FakeModel):
    """Answers when the gate is open."""

    def __init__(self, *replies):
        super().__init__(*replies)
        self.gate = asyncio.Event()

    async def complete(self, request):
        await self.gate.wait()
        async for event in super().complete(request):
            yield event


@pytest.mark.parametrize("remind", [True, False])
def test_a_message_that_waited_is_shown_behind_the_reminders_of_the_run(remind):
    """The run reminds the model beside the prompt or in the user's place; only the user's words are shown, above their answer."""

    async def talk():
        model = GatedModel(says("Thin."), says("Still."), says(FOUND))
        chat = chat_of(agent_with(model, limits=Limits(thin_answer=100), policy=Policy(remind=remind)), store)
        await chat.say("First.")
        await chat.say("Second.")
        model.gate.set()
        await chat.settled()
        return shown_by(chat)

    with open_store() as store:
        shown = asyncio.run(talk())
    assert [line for line in shown.splitlines() if line.startswith("› ")] == ["› Second."]
    assert f"Still.\n› Second.\n{FOUND}" in shown


def test_the_foot_begins_with_what_the_agent_does():
    """That it works, or waits for an answer: a narrow screen cuts the end of the line."""

    async def talk():
        model = GatedModel(calls("ask_human", question="Which?"))
        chat = chat_of(agent_with(model, *built_in_tools(("ask_human",))), store)
        await chat.say("Go.")
        working = chat.status
        model.gate.set()
        await chat.settled()
        return working, chat.status

    with open_store() as store:
        working, waiting = asyncio.run(talk())
    assert working.startswith("working, Esc interrupts · ")
    assert waiting.startswith("waits for your answer · ")


def test_the_result_of_a_call_of_an_earlier_chat_is_shown_with_its_tool():
    """A question that was answered after the chat was opened again is told by the name of its tool, not by the id of its call."""

    async def talk():
        agent = agent_with(
            FakeModel(calls("ask_human", question="Which?"), says("Good.")), *built_in_tools(("ask_human",))
        )
        first = chat_of(agent, store)
        await first.say("Go.")
        await first.settled()
        again = chat_of(agent, store)
        await again.say("green")
        await again.settled()
        return shown_by(again)

    with open_store() as store:
        assert "  ask_human: green\n" in asyncio.run(talk())


def test_a_message_that_is_typed_as_the_run_ends_begins_another():
    """The run has ended by its log, and the chat has not shown that yet: the message is no word for that run."""

    async def talk():
        said = list[asyncio.Task[None]]()

        def on_event(event):
            if isinstance(event, StatusChanged) and event.status == "completed" and not said:
                said.append(asyncio.ensure_future(chat.say("Second.")))

        agent = agent_with(FakeModel(says("One."), says("Two.")))
        agent.on_event = on_event
        chat = chat_of(agent, store)
        await chat.say("First.")
        await chat.settled()
        await asyncio.gather(*said)
        await chat.settled()
        return chat.run, chat.runs.outcome(chat.run).text

    with open_store() as store:
        assert asyncio.run(talk()) == ("s#2", "Two.")


def test_a_file_without_words_does_not_keep_the_queue_of_an_interrupted_run():
    """Somebody else has sent it to the run; the message that waited behind it is said all the same."""

    async def talk():
        begun = asyncio.Event()

        @tool
        async def wait() -> str:
            """Wait."""
            begun.set()
            return await asyncio.sleep(60, "over")

        chat = chat_of(agent_with(FakeModel(calls("wait"), says("Two.")), wait), store)
        await chat.say("First.")
        await begun.wait()
        await chat.runs.follow_up(chat.run, "", files=[File("", "a.txt", b"alpha")])
        await chat.say("Second.")
        await chat.interrupt()
        await chat.settled()
        return chat.run, chat.runs.outcome(chat.run).text

    with open_store() as store:
        assert asyncio.run(talk()) == ("s#2", "Two.")


def test_a_message_that_came_too_late_for_a_run_is_told():
    """It is in the inbox, unread; the next run hears it."""

    async def talk():
        chat = chat_of(agent_with(FakeModel(says("One."), says("Two."), says("Three."))), store)
        rest = chat.runs.wait

        async def wait(run, timeout_s=None):
            outcome = await rest(run, timeout_s)
            if outcome.text == "One.":
                post(store, "s", FollowUp("Second."))
            return outcome

        chat.runs.wait = wait
        await chat.say("First.")
        await chat.settled()
        told = shown_by(chat)
        await chat.say("Third.")
        await chat.settled()
        return told, shown_by(chat)

    with open_store() as store:
        told, after = asyncio.run(talk())
    assert "came as the answer ended, and is heard with your next message: Second." in told
    assert after.count("came as the answer ended") == 1
    assert "› Second." in after
