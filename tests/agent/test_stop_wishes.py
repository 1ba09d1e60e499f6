"""Wishes that a run stops, while the program itself ends, leaves, or is killed: none of them is lost, and the user's counts."""

import asyncio
from contextlib import suppress

import pytest

from foveal.agent import ApprovalRule, Runs, UserAnswer, driver, tool
from foveal.agent import runs as supervision
from foveal.agent.driver import RunDriver
from foveal.agent.inbox import FollowUp, StopRequest, letters, post
from foveal.agent.run_events import StatusChanged
from foveal.agent.run_log import read_events, read_run
from foveal.agent.run_queue import StoreQueue
from foveal.testing.commit_faults import CommitFaults
from foveal.testing.run_checks import run_problems
from foveal.values.errors import BadInput, SessionHeld

from .conftest import FakeModel, agent_with, calls, says


@pytest.fixture(autouse=True)
def seldom(monkeypatch):
    """Let nobody look into the inbox while a model is at work."""
    monkeypatch.setattr(driver, "INBOX_PAUSE_S", 600.0)


async def begun(store, model_replies):
    """Runs with one that waits for its model."""
    asked = asyncio.Event()
    agent = agent_with(FakeModel([asked], *model_replies))
    runs = Runs(store, [agent])
    await runs.start(agent, "Go.", session="s")
    await asked.wait()
    return runs, agent


def test_a_run_that_is_left_to_others_is_cancelled_by_whoever_takes_it_up(store):
    """The wish came between the last look into the inbox and the end of the worker."""

    async def talk():
        runs, agent = await begun(store, [says("Never.")])
        post(store, "s", StopRequest("cancelled", "enough"))
        await runs.leave()
        assert read_run(store, "s").status == "running"
        others = Runs(store, [agent])
        await others.recover()
        return await others.wait("s")

    outcome = asyncio.run(talk())
    assert (outcome.status, outcome.reason) == ("cancelled", "enough")


@pytest.mark.parametrize("status", ["cancelled", "paused"])
@pytest.mark.parametrize("way", ["drain", "interrupt"])
def test_the_wish_of_the_user_counts_more_than_the_end_of_the_program(store, status, way):
    """A run that the user has stopped does not go on when the program begins again."""

    async def talk():
        runs, _ = await begun(store, [])
        post(store, "s", StopRequest(status, "enough"))
        if way == "drain":
            await runs.drain(0)
        else:
            task = runs._live.by_session["s"][1]
            task.cancel()
            await asyncio.wait({task})

    asyncio.run(talk())
    state = read_run(store, "s")
    assert (state.status, state.reason) == (status, "enough")


def test_a_run_that_was_to_rest_and_then_to_end_ends(store):
    """Both wishes are read at once; the second is no less a wish."""

    async def talk():
        runs, _ = await begun(store, [])
        post(store, "s", StopRequest("paused", "later"))
        post(store, "s", StopRequest("cancelled", "never"))
        runs._live.by_session["s"][0].wake()
        return await runs.wait("s")

    outcome = asyncio.run(talk())
    assert (outcome.status, outcome.reason) == ("cancelled", "never")


@pytest.mark.parametrize("status", ["cancelled", "paused"])
def test_a_wish_is_read_and_granted_with_one_commit(store, status):
    """A process that is killed in between would leave a run that goes on although somebody has stopped it."""
    faults = CommitFaults(store)

    async def talk():
        runs, _ = await begun(store, [])
        post(store, "s", FollowUp("And then?"))
        post(store, "s", StopRequest(status, "enough"))
        runs._live.by_session["s"][0].wake()
        await runs.wait("s")

    asyncio.run(talk())
    commits = [b"".join(one.payload for one in drafts) for drafts in faults.commits]
    (heard,) = [one for one in commits if b"heard" in one]
    assert f'\\"status\\":\\"{status}\\"'.encode() in heard
    assert [one.text for one in read_run(store, "s").following] == ["And then?"]


@pytest.mark.parametrize("way", ["run", "stream"])
def test_a_caller_that_is_cancelled_again_and_again_leaves_the_run_paused(store, way):
    """Frameworks cancel at each await; no further tool runs behind the back of the caller."""
    ran: list[int] = []

    @tool
    async def work(n: int) -> str:
        """Work."""
        ran.append(n)
        begun.set()
        await asyncio.sleep(0)
        return "done"

    model = FakeModel(by=lambda request: calls("work", n=len(request["messages"])))
    agent = agent_with(model, work)
    begun = asyncio.Event()

    async def answered() -> None:
        if way == "run":
            await agent.run("Go.", session="s", store=store)
        else:
            async for _ in agent.stream("Go.", session="s", store=store):
                pass

    async def talk() -> int:
        task = asyncio.create_task(answered())
        await begun.wait()
        while not task.done():
            task.cancel()
            await asyncio.sleep(0)
        runs = Runs(store, [agent])
        return (await runs.wait("s", 30)).steps

    assert len(ran) <= asyncio.run(talk()) <= 3
    assert read_run(store, "s").status == "paused"


@tool
def look() -> str:
    """Look."""
    return "seen"


def opening(monkeypatch):
    """Events: the session of a run that is gone on with is open from now on, and it may go on."""
    is_open, go, whole = asyncio.Event(), asyncio.Event(), RunDriver.go_on

    async def go_on(driver, **options):
        opened = driver._opened_state

        async def held():
            state = await opened()
            is_open.set()
            await go.wait()
            return state

        monkeypatch.setattr(driver, "_opened_state", held)
        return await whole(driver, **options)

    monkeypatch.setattr(RunDriver, "go_on", go_on)
    return is_open, go


@pytest.mark.parametrize("queue", [None, StoreQueue()], ids=["here", "by workers"])
@pytest.mark.parametrize("verb", ["cancel", "pause"])
def test_a_wish_that_comes_while_a_run_is_being_resumed_is_granted(store, monkeypatch, verb, queue):
    """Nobody asks a model or calls a tool after it: only wishes before the resumption are void."""
    is_open, go = opening(monkeypatch)
    model = FakeModel(calls("look"), says("Never."))
    agent = agent_with(model, look, approvals=[ApprovalRule("look")])
    wish = StopRequest({"cancel": "cancelled", "pause": "paused"}[verb], "enough")

    async def talk():
        first = Runs(store, [agent])
        run = await first.start(agent, "Go.", session="s")
        await first.wait(run, 10)
        runs = Runs(store, [agent], queue=queue)
        post(store, "s", StopRequest("paused", "before"))
        resuming = asyncio.create_task(runs.resume(run, UserAnswer("", "allow")))
        await is_open.wait()
        wishing = asyncio.create_task(getattr(runs, verb)(run, "enough"))
        while wish not in unread() and not wishing.done():  # noqa: ASYNC110 - it is posted in a thread
            await asyncio.sleep(0.005)
        go.set()
        await asyncio.gather(resuming, wishing)
        return await runs.wait(run, 10)

    def unread():
        return [one for _, one in letters(store, "s", read_run(store, "s").inbox)]

    outcome = asyncio.run(talk())
    assert (outcome.status, outcome.reason) == (wish.status, "enough")
    assert (len(model.requests), read_run(store, "s").started) == (1, set())
    assert run_problems(read_events(store, "s")) == []


@pytest.mark.parametrize("where", ["here", "elsewhere", "by workers"])
def test_a_run_that_is_resumed_as_soon_as_it_was_paused_goes_on(store, monkeypatch, where):
    """Whoever drives it has not let go yet, and may not even have read the pause: it rests, and then goes on."""
    monkeypatch.setattr(supervision, "_SEARCH_S", 0.01)
    monkeypatch.setattr(driver, "INBOX_PAUSE_S", 0.01)

    async def talk():
        asked = asyncio.Event()
        agent = agent_with(FakeModel([asked], says("Done.")))
        first = Runs(store, [agent])
        working = asyncio.create_task(first.work()) if where == "by workers" else None
        asker = Runs(store, [agent], queue=StoreQueue() if working else None)
        runs = first if where == "here" else asker
        run = await (asker if working else first).start(agent, "Go.", session="s")
        await asked.wait()
        await runs.pause(run)
        await runs.resume(run)
        outcome = await runs.wait(run, 10)
        if working:
            await first.drain()
            await working
        return outcome.text

    assert asyncio.run(talk()) == "Done."
    told = [one.status for one in read_events(store, "s") if isinstance(one, StatusChanged)]
    assert told == ["pending", "running", "paused", "running", "completed"]


def test_a_run_that_is_resumed_twice_at_once_goes_on_once(store):
    """The second one finds it under way, as it would a moment later."""

    async def talk():
        agent = agent_with(FakeModel(calls("look"), says("Done.")), look, approvals=[ApprovalRule("look")])
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await runs.wait(run, 10)
        await runs.approve(run)
        await asyncio.gather(runs.resume(run), runs.resume(run))
        return (await runs.wait(run, 10)).text

    assert asyncio.run(talk()) == "Done."
    assert run_problems(read_events(store, "s")) == []


def test_a_pause_that_nobody_grants_is_no_reason_to_wait_for_ever(store, monkeypatch):
    """The session of a run that was left behind is open somewhere else, and the run was to rest."""
    monkeypatch.setattr(supervision, "LETTING_GO_S", 0.05)

    async def talk():
        runs, agent = await begun(store, [])
        await runs.leave()
        post(store, "s", StopRequest("paused"))
        reader = store.acquire("s")
        with pytest.raises(SessionHeld):
            await Runs(store, [agent]).resume("s")
        reader.release()

    asyncio.run(talk())


def test_a_cancellation_is_granted_while_a_resumption_waits_for_the_run_to_rest(store):
    """It is the newer word of the two: nothing goes on behind it."""

    async def talk():
        asked, closing, go = asyncio.Event(), asyncio.Event(), asyncio.Event()
        model = FakeModel([asked], says("Never."))

        async def close():
            closing.set()
            await go.wait()

        model.close = close
        agent = agent_with(model)
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await asked.wait()
        await runs.pause(run)
        resuming = asyncio.create_task(runs.resume(run))
        await closing.wait()
        post(store, "s", StopRequest("cancelled", "enough"))
        go.set()
        await resuming
        assert len(model.requests) == 1
        await Runs(store, [agent]).cancel(run)
        return await runs.wait(run, 10)

    outcome = asyncio.run(talk())
    assert (outcome.status, outcome.reason) == ("cancelled", "enough")
    assert run_problems(read_events(store, "s")) == []


@pytest.mark.parametrize("turns", range(6))
def test_nobody_looks_into_the_inbox_of_a_run_that_has_ended(store, turns):
    """Also if somebody has just said something: its looker ends with it."""

    async def talk():
        one = RunDriver(agent_with(FakeModel()), store, "s")
        looking = asyncio.create_task(one._watch())
        for _ in range(3):
            await asyncio.sleep(0)
        one.wake()
        for _ in range(turns):
            await asyncio.sleep(0)
        looking.cancel()
        await asyncio.wait({looking}, timeout=2)
        return looking.done()

    assert asyncio.run(talk())


def test_a_run_whose_task_is_cancelled_rests_although_its_model_swallows_that(store):
    """A port that the host brought must not keep a program from its end."""

    async def talk():
        asked = asyncio.Event()

        class Stubborn(FakeModel):
            async def complete(self, request):
                self.requests.append(request)
                asked.set()
                with suppress(asyncio.CancelledError):
                    await asyncio.Event().wait()
                yield calls("look")

        model = Stubborn()
        agent = agent_with(model, look)
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await asked.wait()
        task = runs._live.by_session["s"][1]
        task.cancel()
        await asyncio.wait({task}, timeout=10)
        return task.cancelled(), (await runs.wait(run, 10)).status, len(model.requests)

    assert asyncio.run(talk()) == (True, "paused", 1)
    assert run_problems(read_events(store, "s")) == []


def test_a_run_that_has_ended_cannot_be_cancelled_while_another_one_begins_in_its_session(store, monkeypatch):
    """The wish would be taken for one about the other run."""
    is_open, go, whole = asyncio.Event(), asyncio.Event(), RunDriver.begin

    async def begin(driver, text, **options):
        is_open.set()
        await go.wait()
        return await whole(driver, text, **options)

    async def talk():
        agent = agent_with(FakeModel(says("One."), says("Two.")))
        runs = Runs(store, [agent])
        first = await runs.start(agent, "Go.", session="s")
        await runs.wait(first, 10)
        monkeypatch.setattr(RunDriver, "begin", begin)
        starting = asyncio.create_task(runs.start(agent, "More.", session="s"))
        await is_open.wait()
        cancelling = asyncio.create_task(runs.cancel(first))
        await asyncio.wait({cancelling}, timeout=0.1)
        go.set()
        with pytest.raises(BadInput, match="is completed already"):
            await cancelling
        return (await runs.wait(await starting, 10)).text

    assert asyncio.run(talk()) == "Two."


def test_a_run_that_has_just_come_to_rest_elsewhere_can_be_resumed(store):
    """Its log says so before its session is free."""

    async def talk():
        model = FakeModel(calls("look"), says("Done."))
        closing, go = asyncio.Event(), asyncio.Event()

        async def close():
            closing.set()
            await go.wait()

        model.close = close
        agent = agent_with(model, look, approvals=[ApprovalRule("look")])
        runs, others = Runs(store, [agent]), Runs(store, [agent])
        run = await others.start(agent, "Go.", session="s")
        await closing.wait()
        resuming = asyncio.create_task(runs.resume(run, UserAnswer("", "allow")))
        await asyncio.wait({resuming}, timeout=0.1)
        go.set()
        await resuming
        return (await runs.wait(run, 10)).text

    assert asyncio.run(talk()) == "Done."
