"""Sub-agents whose runs are resumed under their own names: the call that they work for waits for them, and they stop with it."""

import asyncio

from foveal.agent import ApprovalRule, Runs, UserAnswer, driver, tool
from foveal.agent.abandoned_runs import AbandonedRuns
from foveal.agent.inbox import StopRequest, post
from foveal.agent.run_log import read_events
from foveal.agent.run_queue import StoreQueue
from foveal.testing.run_checks import run_problems
from foveal.values.errors import SessionHeld

from .conftest import FakeModel, agent_with, calls, damage, says

LONG = "The function is in login.py, line 12, and sets the cookie twice; I am sure of it. " * 4


@tool
def look() -> str:
    """Look."""
    return "seen"


class Asked:
    """A run whose sub-agent has asked whether it may look; `below` are the replies of the sub-agent's model after the answer."""

    def __init__(self, store, *below):
        self.store = store
        rules = [ApprovalRule("look")]
        self.reader = agent_with(FakeModel(calls("look"), *below), look, name="reader", approvals=rules)
        self.agent = agent_with(FakeModel(calls("delegate", task="Look."), says("Done.")), agents=[self.reader])
        self.runs, self.run, self.child = Runs(store, [self.agent]), "", ""

    async def begin(self) -> None:
        self.run = await self.runs.start(self.agent, "Go.", session="s")
        await self.runs.wait(self.run, 20)
        self.child = self.runs.tree(self.run).children[0].run

    async def resume_child(self) -> None:
        await self.runs.resume(self.child, UserAnswer("", "allow"))

    async def resume_above(self, monkeypatch) -> None:
        """Resume the run above, and return when its call has found the session of the sub-agent held."""
        loop, is_held, acquire = asyncio.get_running_loop(), asyncio.Event(), self.store.acquire

        def watched(session, **options):
            try:
                return acquire(session, **options)
            except SessionHeld:
                loop.call_soon_threadsafe(is_held.set)
                raise

        monkeypatch.setattr(self.store, "acquire", watched)
        await self.runs.resume(self.run)
        await is_held.wait()

    def problems(self) -> list[str]:
        return [one for card in self.runs.list() for one in run_problems(read_events(self.store, card.session))]


class Patient(FakeModel):
    """Gives its replies when it is told to; the first one at once."""

    def __init__(self, *replies):
        super().__init__(*replies)
        self.asked, self.go = asyncio.Event(), asyncio.Event()

    async def complete(self, request):
        if self.requests:
            self.asked.set()
            await self.go.wait()
        async for event in super().complete(request):
            yield event


def test_a_run_that_is_cancelled_cancels_a_sub_agent_that_is_driven_under_its_own_name(store, monkeypatch):
    """Whoever drives the sub-agent finds the wish in its inbox."""
    monkeypatch.setattr(driver, "INBOX_PAUSE_S", 0.01)

    async def talk():
        begun = asyncio.Event()
        bench = Asked(store, [begun])
        await bench.begin()
        await bench.resume_child()
        await begun.wait()
        await bench.runs.cancel(bench.run, "enough")
        return bench, await bench.runs.wait(bench.child, 20)

    bench, below = asyncio.run(talk())
    assert (below.status, below.reason, bench.runs.state("s").status) == ("cancelled", "enough", "cancelled")
    assert bench.problems() == []


def test_a_run_that_is_resumed_waits_for_a_sub_agent_that_is_driven_under_its_own_name(store, monkeypatch):
    """Its call takes the answer that the sub-agent gives there, and the run does not fail because of the session that is held."""

    async def talk():
        bench = Asked(store)
        model = Patient(calls("look"), says(LONG))
        bench.reader.open_model = lambda _: model
        await bench.begin()
        await bench.resume_child()
        await model.asked.wait()
        await bench.resume_above(monkeypatch)
        model.go.set()
        return bench, await bench.runs.wait(bench.run, 20)

    bench, outcome = asyncio.run(talk())
    assert (outcome.status, outcome.text) == ("completed", "Done.")
    assert bench.runs.tree("s").children[0].status == "completed"
    assert bench.problems() == []


def test_a_run_that_is_paused_pauses_the_sub_agent_that_it_waits_for(store, monkeypatch):
    """Also one that is driven under its own name; resuming the run above goes on with both."""
    monkeypatch.setattr(driver, "INBOX_PAUSE_S", 0.01)

    async def talk():
        begun = asyncio.Event()
        bench = Asked(store, [begun], says(LONG))
        await bench.begin()
        await bench.resume_child()
        await begun.wait()
        await bench.resume_above(monkeypatch)
        await bench.runs.pause(bench.run)
        below = await bench.runs.wait(bench.child, 20)
        await bench.runs.wait(bench.run, 20)
        await bench.runs.resume(bench.run)
        return bench, below, await bench.runs.wait(bench.run, 20)

    bench, below, outcome = asyncio.run(talk())
    assert (below.status, outcome.text) == ("paused", "Done.")
    assert bench.problems() == []


def test_a_pause_that_a_sub_agent_reads_too_late_is_no_answer_of_it(store):
    """A call that was resumed goes on with the sub-agent until that has ended, or asks."""

    async def talk():
        bench = Asked(store, says(LONG))
        await bench.begin()
        post(store, bench.child.partition("#")[0], StopRequest("paused"))
        await bench.runs.resume(bench.run, UserAnswer("", "allow"))
        return bench, await bench.runs.wait(bench.run, 20)

    bench, outcome = asyncio.run(talk())
    assert (outcome.text, bench.runs.tree("s").children[0].status) == ("Done.", "completed")


def test_a_worker_drives_a_sub_agent_that_was_resumed_under_its_own_name(store):
    """Its log says that it goes on alone, so that any worker finds it, although the run above waits and a process has died."""

    async def talk():
        bench = Asked(store, says(LONG))
        await bench.begin()
        asker = Runs(store, [bench.agent], queue=StoreQueue())
        await asker.resume(bench.child, UserAnswer("", "allow"))
        found = [one.run for one in AbandonedRuns(store).look()]
        again = Runs(store, [bench.agent])
        await again.recover()
        below = await again.wait(bench.child, 20)
        return bench, found, below.status, AbandonedRuns(store).look()

    bench, found, status, later = asyncio.run(talk())
    assert (found, status, later) == ([bench.child], "completed", [])
    assert bench.problems() == []


def test_a_sub_agent_that_is_left_behind_with_the_run_above_is_no_run_of_its_own(store):
    """Workers take the run above up, whose call goes on with the sub-agent, until somebody resumes it under its own name."""

    async def talk():
        begun = asyncio.Event()
        bench = Asked(store, [begun])
        await bench.begin()
        await bench.runs.resume(bench.run, UserAnswer("", "allow"))
        await begun.wait()
        await bench.runs.leave()
        assert bench.runs.state(bench.child).status == "running"
        before = [one.run for one in AbandonedRuns(store).look()]
        await Runs(store, [bench.agent], queue=StoreQueue()).resume(bench.child)
        return bench, before, {one.run for one in AbandonedRuns(store).look()}

    bench, before, after = asyncio.run(talk())
    assert (before, after) == ([bench.run], {bench.run, bench.child})
    assert bench.problems() == []


def test_a_run_that_is_cancelled_while_its_program_ends_cancels_its_sub_agents(store, monkeypatch):
    """The program would only let them rest; the wish of the user is for the whole tree."""
    monkeypatch.setattr(driver, "INBOX_PAUSE_S", 600.0)

    async def talk():
        begun = asyncio.Event()
        bench = Asked(store, [begun])
        await bench.begin()
        await bench.runs.resume(bench.run, UserAnswer("", "allow"))
        await begun.wait()
        post(store, "s", StopRequest("cancelled", "enough"))
        await bench.runs.drain(0)
        return bench

    bench = asyncio.run(talk())
    tree = bench.runs.tree("s")
    assert (tree.status, tree.children[0].status) == ("cancelled", "cancelled")
    assert bench.problems() == []


def test_a_run_whose_sub_agent_cannot_be_read_rests_all_the_same(store, monkeypatch, caplog):
    """Its pause is written, and the program's log says what could not be paused with it."""

    async def talk():
        begun = asyncio.Event()
        bench = Asked(store, [begun])
        await bench.begin()
        await bench.runs.resume(bench.run, UserAnswer("", "allow"))
        await begun.wait()
        await bench.runs.leave()
        damage(store, monkeypatch, bench.child.partition("#")[0])
        await Runs(store, [bench.agent]).pause(bench.run)
        return bench.runs.state(bench.run).status

    assert asyncio.run(talk()) == "paused"
    assert "is not paused with run s#1" in caplog.text


def test_a_sub_agent_that_is_resumed_under_its_own_name_keeps_its_bounds(store):
    """A thin answer is asked for again, as it is where the run above drives it."""

    async def talk():
        bench = Asked(store, says("Thin."), says(LONG))
        await bench.begin()
        await bench.resume_child()
        return await bench.runs.wait(bench.child, 20)

    assert asyncio.run(talk()).text == LONG
