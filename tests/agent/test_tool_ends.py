"""Ends of tools: whatever a tool raises or swallows, its call has one result, and its run goes on or stops in order."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from foveal.agent import AskUser, Runs, ToolContext, ToolOutput, tool, tool_calls
from foveal.agent.run_events import ToolEnded, ToolStarted
from foveal.agent.run_log import read_events
from foveal.agent.tool_calls import CANCELLED, INTERRUPTED
from foveal.values.entry import ToolCall

from .conftest import FakeModel, agent_with, calls, says

ODD_ENDS = (
    SystemExit(2),
    asyncio.CancelledError("by a library"),
    GeneratorExit(),
    BaseExceptionGroup("many", [ValueError("a"), GeneratorExit()]),
)


def results(store, session="s"):
    """Status and text of every tool result."""
    return [(one.status, one.text) for one in read_events(store, session) if isinstance(one, ToolEnded)]


def outcome(store, *tools):
    """The outcome of a run that calls the first one of these tools, and then answers."""
    agent = agent_with(FakeModel(calls(tools[0].name), says("Done.")), *tools)
    return asyncio.run(agent.run("Go.", session="s", store=store))


@pytest.mark.parametrize("raised", [*ODD_ENDS, KeyboardInterrupt()], ids=lambda one: type(one).__name__)
def test_a_plain_tool_that_would_end_the_program_has_an_error(store, raised):
    """Exceptions that end an event loop, raised in a tool's thread, are the result of the call, and the run goes on."""

    @tool
    def odd() -> str:
        """Odd."""
        raise raised

    assert outcome(store, odd).text == "Done."
    [(status, text)] = results(store)
    assert (status, type(raised).__name__ in text) == ("error", True)


@pytest.mark.parametrize("raised", ODD_ENDS, ids=lambda one: type(one).__name__)
def test_an_asynchronous_tool_that_would_end_the_program_has_an_error(store, raised):
    """Exceptions that end an event loop or cancel a task, raised by a tool itself, are the result of the call."""

    @tool
    async def odd() -> str:
        """Odd."""
        raise raised

    assert outcome(store, odd).text == "Done."
    [(status, text)] = results(store)
    assert (status, text.partition(":")[0]) == ("error", type(raised).__name__)


def test_a_tool_that_cancels_its_own_task_has_an_error(store):
    """Nobody has stopped the run: to rest, and to call the tool again when it is resumed, would go on for ever."""

    @tool
    async def odd() -> str:
        """Odd."""
        task = asyncio.current_task()
        assert task is not None
        task.cancel("by the tool")
        await asyncio.sleep(0)
        return "never"

    assert outcome(store, odd).text == "Done."
    assert results(store) == [("error", "[odd has cancelled itself]")]


class Markup(str):
    """A text as libraries return it: a string of their own class."""

    def __str__(self) -> str:
        return "shown in another way"


@pytest.mark.parametrize(
    "output",
    [Markup("text"), ToolOutput(Markup("text"), summary=Markup("short")), ToolOutput((Markup("text"),))],
    ids=["text", "output", "parts"],
)
def test_a_text_of_a_class_of_its_own_is_kept_as_a_text(store, output):
    """What the log could not keep would end the run with its result lost, and the tool would be run again."""

    @tool
    def page() -> object:
        """Page."""
        return output

    assert outcome(store, page).text == "Done."
    assert results(store) == [("ok", "text")]


def test_a_question_of_a_class_of_its_own_is_asked(store):
    """A text is a text, whoever made it."""

    @tool
    def book() -> str:
        """Book."""
        raise AskUser(Markup("Which seat?"), [Markup("window")], otherwise=Markup("any"))

    asked = outcome(store, book).questions[0]
    assert (asked.text, asked.options, asked.otherwise) == ("Which seat?", ("window",), "any")


def test_a_timeout_of_the_tool_itself_is_told_as_such(store):
    """A tool's own `TimeoutError` says nothing about the time that the tool had."""

    @tool
    async def fetch() -> str:
        """Fetch."""
        raise TimeoutError("no answer of the server")

    outcome(store, fetch)
    assert results(store) == [("error", "TimeoutError: no answer of the server")]


def test_no_further_call_begins_after_a_tool_that_swallows_its_cancellation(store):
    """The result of the tool that ended all the same is kept; the serial call behind it is not run."""
    ran = []

    async def talk():
        began = asyncio.Event()

        @tool(serial=True, retry="never")
        async def first() -> str:
            """First."""
            began.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            return "through"

        @tool(serial=True, retry="never")
        async def pay() -> str:
            """Pay."""
            ran.append("paid")
            return "paid"

        runs = Runs(store, [agent_with(FakeModel(says("", ("first", {}), ("pay", {}))), first, pay)])
        name = await runs.start("agent", "Go.", session="s")
        await began.wait()
        await runs.cancel(name)
        return await runs.wait(name)

    assert asyncio.run(talk()).status == "cancelled"
    assert (ran, results(store)) == ([], [("ok", "through"), ("interrupted", CANCELLED)])


class Stubborn:
    """A tool that goes on through every cancellation until it is released."""

    def __init__(self, timeout_s: float | None = None) -> None:
        self.began, self.release = asyncio.Event(), asyncio.Event()

        @tool(timeout_s=timeout_s)
        async def stubborn() -> str:
            """Go on."""
            self.began.set()
            while not self.release.is_set():
                try:
                    await self.release.wait()
                except asyncio.CancelledError:
                    continue
            return "late"

        self.tool = msgspec.structs.replace(stubborn, grace_s=0.01)


def test_a_tool_that_does_not_end_does_not_keep_its_run_from_being_cancelled(store):
    """After its time of grace a tool is left behind, and the run ends."""

    async def talk():
        held = Stubborn()
        runs = Runs(store, [agent_with(FakeModel(calls("stubborn")), held.tool)])
        name = await runs.start("agent", "Go.", session="s")
        await held.began.wait()
        await runs.cancel(name)
        ended = await runs.wait(name)
        held.release.set()
        return ended

    assert asyncio.run(talk()).status == "cancelled"


def test_a_tool_that_does_not_end_is_given_up_after_its_time(store):
    """The call has a result, and the run goes on beside the tool."""

    async def talk():
        held = Stubborn(timeout_s=0.01)
        agent = agent_with(FakeModel(calls("stubborn"), says("Done.")), held.tool)
        ended = await agent.run("Go.", session="s", store=store)
        held.release.set()
        return ended

    assert asyncio.run(talk()).text == "Done."
    assert results(store) == [("error", "[stubborn was given up after 0.01 s]")]


def test_a_call_is_not_cancelled_from_the_start(store):
    """A second call under the id of one that has ended finds `ctx.is_cancelled` unset."""
    seen = []

    @tool
    async def poll(ctx: ToolContext, n: int) -> str:
        """Poll."""
        seen.append(ctx.is_cancelled)
        return str(n)

    agent = agent_with(FakeModel(calls("poll", n=1), calls("poll", n=2), says("Done.")), poll)
    asyncio.run(agent.run("Go.", session="s", store=store))
    assert seen == [False, False]


def test_a_plain_tool_that_ends_while_its_run_is_paused_does_not_run_again(store):
    """A pause leaves a tool in a thread its time of grace; its result is kept, and the run goes on with it."""
    ran = []

    async def talk():
        began = threading.Event()

        @tool
        def charge(ctx: ToolContext) -> str:
            """Charge."""
            ran.append(ctx.key)
            began.set()
            while not ctx.is_cancelled:
                threading.Event().wait(0.001)
            return "charged"

        agent = agent_with(FakeModel(calls("charge"), says("Done.")), charge)
        runs = Runs(store, [agent])
        name = await runs.start("agent", "Go.", session="s")
        await asyncio.to_thread(began.wait)
        await runs.pause(name)
        paused = await runs.wait(name)
        await runs.resume(name)
        return paused, await runs.wait(name)

    paused, ended = asyncio.run(talk())
    assert (paused.status, ended.text) == ("paused", "Done.")
    assert (len(ran), results(store)) == (1, [("ok", "charged")])


@pytest.mark.parametrize("retry", ["again", "never"])
@pytest.mark.parametrize("ends", ["before it is resumed", "afterwards"])
def test_a_plain_tool_that_goes_on_after_a_pause_does_not_run_again_in_this_program(store, ends, retry):
    """Its thread cannot be ended; the run that is resumed waits for it and takes its result, also if it is paused once more."""
    ran: list[str] = []
    begun, go, over = threading.Event(), threading.Event(), threading.Event()

    @tool(retry=retry)
    def send() -> str:
        """Send."""
        ran.append("sent")
        begun.set()
        go.wait(20)
        over.set()
        return "sent"

    agent = agent_with(FakeModel(calls("send"), says("Done.")), msgspec.structs.replace(send, grace_s=0.001))

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await asyncio.to_thread(begun.wait, 20)
        for _ in range(2):
            await runs.pause(run)
            await runs.wait(run, 20)
            if ends == "before it is resumed":
                go.set()
                await asyncio.to_thread(over.wait, 20)
            await runs.resume(run)
            if ends == "before it is resumed":
                break
        go.set()
        return await runs.wait(run, 20)

    assert asyncio.run(talk()).text == "Done."
    assert (ran, results(store)) == (["sent"], [("ok", "sent")])
    assert retry == "again" or sum(isinstance(one, ToolStarted) for one in read_events(store, "s")) == 1


@pytest.mark.parametrize(("retry", "times", "status"), [("again", 2, "ok"), ("never", 1, "interrupted")])
def test_a_tool_that_was_ended_by_a_pause_runs_again_if_it_may_although_it_took_its_time(
    store, monkeypatch, retry, times, status
):
    """It has closed its connections when the run is already resumed; nothing has come of that call."""
    ran: list[str] = []
    begun, go = asyncio.Event(), asyncio.Event()

    @tool(retry=retry)
    async def send() -> str:
        """Send."""
        ran.append("sent")
        begun.set()
        if len(ran) == 1:
            try:
                await asyncio.Event().wait()
            finally:
                await go.wait()
        return "sent"

    def found(ctx, find=tool_calls._left_at_work):
        left = find(ctx)
        if left is not None:
            go.set()  # the run waits for it from now on
        return left

    monkeypatch.setattr(tool_calls, "_left_at_work", found)
    agent = agent_with(FakeModel(calls("send"), says("Done.")), msgspec.structs.replace(send, grace_s=0.001))

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await begun.wait()
        await runs.pause(run)
        await runs.wait(run, 20)
        await runs.resume(run)
        return await runs.wait(run, 20)

    assert asyncio.run(talk()).text == "Done."
    assert (len(ran), [one for one, _ in results(store)]) == (times, [status])


def test_a_tool_that_must_not_run_twice_is_not_called_when_its_work_is_gone(store):
    """Nobody has kept the work that the call was to wait for: the model is told that it was interrupted."""

    @tool(retry="never")
    def send() -> str:
        """Send."""
        raise AssertionError

    batch: Any = SimpleNamespace(session="s", run="s#1")
    ctx, call = ToolContext(batch, key="s/e1.0", call="c1", tool="send"), ToolCall("c1", "send", "{}")
    ended = asyncio.run(tool_calls.run_call(send, call, ctx, is_at_work=True))
    assert ended.message.parts[0] == tool_calls.refused("c1", INTERRUPTED, "interrupted").parts[0]


@pytest.mark.parametrize("stops", ["timeout", "pause"])
def test_a_generator_that_is_left_behind_ends_at_its_next_piece(store, stops):
    """One that follows a file has no end of its own, and would fill the store for ever. After a pause it begins again."""
    ended: list[str] = []
    begun, over = threading.Event(), threading.Event()

    @tool(timeout_s=0.01 if stops == "timeout" else 20)
    def follow() -> Iterator[str]:
        """Follow."""
        begun.set()
        try:
            while not ended:
                threading.Event().wait(0.001)
                yield "line\n"
            yield "the end"
        finally:
            ended.append("closed")
            over.set()

    agent = agent_with(FakeModel(calls("follow"), says("Done.")), msgspec.structs.replace(follow, grace_s=0.001))

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        if stops == "pause":
            await asyncio.to_thread(begun.wait, 20)
            await runs.pause(run)
            await runs.wait(run, 20)
            await runs.resume(run)
        outcome = await runs.wait(run, 20)
        assert await asyncio.to_thread(over.wait, 20)
        return outcome

    assert asyncio.run(talk()).text == "Done."
    told = {"timeout": ("error", "[follow was given up after 0.01 s]"), "pause": ("ok", "the end")}
    assert results(store) == [told[stops]]
