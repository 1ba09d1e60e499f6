"""The work of a step, counted: commits, changes of thread and reads of the log. And that no outcome is lost for it."""

import asyncio
import threading

from foveal.agent import Runs, driver, tool
from foveal.agent.driver import RunDriver
from foveal.agent.run_events import ModelReplied, RunReleased, ToolEnded, ToolReturned
from foveal.agent.run_log import read_events
from foveal.session.async_session import SessionTurns
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore

from .conftest import FakeModel, agent_with, calls, collect, says


@tool
async def look(n: int) -> str:
    """Look."""
    return f"saw {n}"


class Counts:
    """The commits, turns, wake-ups of the event loop and reads of one run of so many steps."""

    def __init__(self, monkeypatch):
        self.commits = self.turns = self.wakes = self.reads = 0
        turn, load, rows = SessionTurns.run, MemoryStore.load, MemoryStore.rows
        wake = asyncio.BaseEventLoop.call_soon_threadsafe

        async def run(turns, call, *behind):
            self.turns += 1
            return await turn(turns, call, *behind)

        def woken(loop, *given, **more):
            self.wakes += 1
            return wake(loop, *given, **more)

        def loaded(store, session, **options):
            opened = load(store, session, **options)
            append = opened.writer.append

            def counted(*given, **more):
                self.commits += 1
                return append(*given, **more)

            monkeypatch.setattr(opened.writer, "append", counted)
            return opened

        def read(store, session, **options):
            self.reads += not session.endswith(".inbox")
            return rows(store, session, **options)

        monkeypatch.setattr(driver, "INBOX_PAUSE_S", 60.0)  # that look is made once in a while, not in each step
        monkeypatch.setattr(SessionTurns, "run", run)
        monkeypatch.setattr(asyncio.BaseEventLoop, "call_soon_threadsafe", woken)
        monkeypatch.setattr(MemoryStore, "load", loaded)
        monkeypatch.setattr(MemoryStore, "rows", read)

    def of(self, steps):
        self.commits = self.turns = self.wakes = self.reads = 0
        model = FakeModel(*(calls("look", n=n) for n in range(steps)), says("Done."))
        assert asyncio.run(agent_with(model, look).run("Go.", session=f"s{steps}", store=MemoryStore())).text == "Done."
        return self.commits, self.turns, self.wakes, self.reads


def test_a_step_commits_three_times_changes_its_thread_and_wakes_the_loop_twice_and_reads_nothing_again(monkeypatch):
    """The reply, the mark that the tool starts, and its result are durable one after the other; nothing else is."""
    counts = Counts(monkeypatch)
    few, more = counts.of(4), counts.of(9)
    assert [(after - before) / 5 for before, after in zip(few, more, strict=True)] == [3, 2, 2, 0]


def test_a_result_is_durable_before_the_call_beside_it_has_one(store):
    """Only the last of them is written with the decision about the next step."""
    fast = asyncio.Event()

    @tool
    async def slow() -> str:
        await fast.wait()
        async for event in Runs(store).observe("s"):
            if isinstance(event, ToolEnded):
                return event.text
        return "nothing"

    @tool
    async def quick() -> str:
        fast.set()
        return "quick"

    model = FakeModel(says("", ("slow", {}), ("quick", {})), says("Done."))
    asyncio.run(asyncio.wait_for(agent_with(model, slow, quick).run("Go.", session="s", store=store), 30))
    assert [one.text for one in read_events(store, "s") if isinstance(one, ToolEnded)] == ["quick", "quick"]


def test_a_reply_that_has_come_is_kept_by_a_process_that_leaves_its_run(store):
    """It is paid for, although the process writes nothing else of the run."""

    async def talk():
        model = FakeModel(says("Never told again."))
        agent = agent_with(model)
        runs = Runs(store, [agent])
        await runs.start(agent, "Go.", session="s")
        live, task = runs._live.by_session["s"]
        put = live.journal.put

        def leave_with(*items, **more):
            put(*items, **more)
            live.stop("running")

        live.journal.put = leave_with
        return await task

    assert asyncio.run(talk()).status == "running"
    assert [one.text for one in read_events(store, "s") if isinstance(one, ModelReplied)] == ["Never told again."]


def test_the_value_of_a_tool_is_told_behind_its_result(store):
    """A program that has the value finds the result in the log."""

    @tool
    async def measure() -> dict[str, int]:
        return {"n": 1}

    agent = agent_with(FakeModel(calls("measure"), says("Done.")), measure)
    events = asyncio.run(collect(agent.stream("Go.", session="s", store=store)))
    kinds = [type(one) for one in events]
    assert kinds.index(ToolEnded) < kinds.index(ToolReturned)


def test_streams_end_although_the_end_of_the_run_was_given_up(store, monkeypatch):
    """A caller that is cancelled twice does not wait until the session is closed; a listener would wait for ever."""
    entered, may_close, close = threading.Event(), threading.Event(), Session.close

    def closed(session):
        entered.set()
        may_close.wait(60)
        close(session)

    monkeypatch.setattr(Session, "close", closed)

    async def talk():
        begun = RunDriver(agent_with(FakeModel()), store, "s")
        await begun.begin("Go.")
        heard = begun.journal.hub.listen()
        ending = asyncio.create_task(begun.let_go())
        await asyncio.to_thread(entered.wait)
        ending.cancel()
        await asyncio.wait({ending})
        may_close.set()
        return await asyncio.wait_for(collect(heard), 30)

    assert [type(one) for one in asyncio.run(talk())] == [RunReleased]


def test_a_run_whose_task_ends_before_it_drives_is_taken_up(store, monkeypatch):
    """A task that is cancelled before it begins does nothing: its session would be held while the process lives."""
    agent = agent_with(FakeModel(says("Done.")))

    async def begin():
        runs = Runs(store, [agent])
        drive = runs._live.drive
        monkeypatch.setattr(runs._live, "drive", lambda one: drive(one).cancel())
        await runs.start(agent, "Go.", session="s")

    async def go_on():
        runs = Runs(store, [agent])
        assert await runs.recover() == ["s#1"]
        return await runs.wait("s")

    asyncio.run(begin())
    assert asyncio.run(go_on()).text == "Done."


def test_words_that_wait_are_kept_by_a_run_that_is_cancelled(store):
    """They were said before it was, while the model was at work: a chat goes on with them."""

    async def talk():
        begun = asyncio.Event()
        agent = agent_with(FakeModel([begun]))
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await begun.wait()
        runs._live.by_session["s"][0].wake = lambda: None  # nobody looks before the run is stopped
        await runs.follow_up(run, "And then?")
        runs._live.by_session["s"][0].stop("cancelled")
        assert (await runs.wait(run)).status == "cancelled"
        return [one.text for one in runs.state(run).following]

    assert asyncio.run(talk()) == ["And then?"]
