"""Runs that are driven on one event loop, and used from another one: in a thread, or after the first one was closed."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from foveal.agent import Runs, live_runs
from foveal.agent.driver import RunDriver
from foveal.agent.run_log import read_events, read_run
from foveal.testing.run_checks import run_problems

from .conftest import FakeModel, agent_with, says


class HeldModel(FakeModel):
    """A model that answers when it is told to, on whichever loop; from the second request on, at once."""

    def __init__(self) -> None:
        super().__init__(by=lambda request: says("Done."))
        self.begun, self.go = threading.Event(), threading.Event()

    async def complete(self, request: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any], None]:
        is_first = not self.begun.is_set()
        self.begun.set()
        while is_first and not self.go.is_set():  # noqa: ASYNC110 - it is set in another thread
            await asyncio.sleep(0.01)
        async for event in super().complete(request):
            yield event


@pytest.fixture
def elsewhere():
    """Do something on an event loop of another thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield lambda work: asyncio.run_coroutine_threadsafe(work, loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


@pytest.fixture
def driven(store, elsewhere):
    """A run that is driven in another thread, with its model."""
    model = HeldModel()
    agent = agent_with(model)
    runs = Runs(store, [agent])
    elsewhere(runs.start(agent, "Go.", session="s"))
    assert model.begun.wait(10)
    yield runs, model
    model.go.set()
    elsewhere(runs.drain())


async def waited(runs, model):
    waiting = asyncio.create_task(runs.wait("s", 10))
    await asyncio.sleep(0)
    model.go.set()
    return (await waiting).status


async def observed(runs, model):
    told = []
    async for event in runs.observe("s"):
        model.go.set()
        told.append(type(event).__name__)
    return "completed" if told[-1] == "RunEnded" else told


async def cancelled(runs, model):
    await runs.cancel("s")
    return (await runs.wait("s", 10)).status


async def drained(runs, model):
    await runs.drain(0.1)
    return runs.state("s").status


async def left(runs, model):
    await runs.leave()
    return runs.state("s").status


@pytest.mark.parametrize(
    ("verb", "status"),
    [(waited, "completed"), (observed, "completed"), (cancelled, "cancelled"), (drained, "paused"), (left, "running")],
)
def test_a_run_is_watched_and_stopped_from_another_thread(store, driven, verb, status):
    """As if another process drove it."""

    async def talk():
        loop = asyncio.get_running_loop()
        began = loop.time()
        ended = await asyncio.wait_for(verb(*driven), 20)
        return ended, loop.time() - began < 20  # a loop that nobody wakes goes on when that time is over

    assert asyncio.run(talk()) == (status, True)
    assert run_problems(read_events(store, "s")) == []


def test_a_run_goes_on_after_its_event_loop_was_closed_without_an_end_of_its_tasks(store, monkeypatch):
    """Nobody drives it any more, and its session is given up."""
    model = HeldModel()
    agent = agent_with(model)
    runs = Runs(store, [agent])
    loop = asyncio.new_event_loop()

    async def begun():
        await runs.start(agent, "Go.", session="s")
        await asyncio.to_thread(model.begun.wait, 10)

    async def again():
        await runs.resume("s")
        return await runs.wait("s", 10)

    loop.run_until_complete(begun())
    with monkeypatch.context() as closed:
        closed.setattr(loop, "is_closed", lambda: True)
        assert asyncio.run(again()).status == "completed"
    assert run_problems(read_events(store, "s")) == []
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    assert len(model.requests) == 1


async def left_behind(store, agent) -> None:
    """Have a program end that drives a run."""
    runs, thinking = Runs(store, [agent]), agent.open_model(agent.models[0])
    await runs.start(agent, "Go.", session="s")
    await asyncio.to_thread(thinking.begun.wait, 10)
    await runs.leave()


def held_open(monkeypatch, verb):
    """Events: a driver has done this, and it may go on. Threads wait for them, too."""
    done, go, whole = threading.Event(), threading.Event(), getattr(RunDriver, verb)

    async def hold(driver, *given, **options):
        result = await whole(driver, *given, **options)
        done.set()
        await asyncio.to_thread(go.wait, 10)
        return result

    monkeypatch.setattr(RunDriver, verb, hold)
    return done, go


@pytest.mark.parametrize("way", ["recover", "worker"])
@pytest.mark.parametrize("verb", ["drain", "leave"])
def test_a_run_that_is_taken_up_while_the_program_ends_is_left_to_others(store, monkeypatch, caplog, verb, way):
    """Nothing is driven behind the end, nobody holds the session, and the next program goes on with the run."""

    async def talk():
        agent = agent_with(HeldModel())
        await left_behind(store, agent)
        runs = Runs(store, [agent])
        with monkeypatch.context() as during:
            taken, go = held_open(during, "take_up")
            taking = asyncio.create_task(runs.recover() if way == "recover" else runs._take_up("s#1", "agent"))
            await asyncio.to_thread(taken.wait, 10)
            ending = asyncio.create_task(getattr(runs, verb)())
            await asyncio.sleep(0)
            go.set()
            await ending
            assert [(card.holder, read_run(store, "s").status) for card in store.cards("s")] == [(None, "running")]
            assert not runs._live.by_session
            assert not await taking
        later = Runs(store, [agent])
        return await later.recover(), (await later.wait("s", 10)).text

    with caplog.at_level(logging.WARNING):
        assert asyncio.run(talk()) == (["s#1"], "Done.")
    assert (caplog.text, read_run(store, "s").take_ups) == ("", 0)
    assert run_problems(read_events(store, "s")) == []


def test_a_run_that_begins_on_another_event_loop_while_the_program_ends_rests(store, elsewhere, monkeypatch):
    """Whoever drains, in whichever thread, waits until it is driven, and pauses it."""
    agent = agent_with(HeldModel())
    runs = Runs(store, [agent])
    begun, go = held_open(monkeypatch, "begin")
    starting = threading.Thread(target=lambda: elsewhere(runs.start(agent, "Go.", session="s")))
    starting.start()
    assert begun.wait(10)

    async def drained():
        draining = asyncio.create_task(runs.drain(0))
        await asyncio.wait({draining}, timeout=0.2)
        go.set()
        await draining
        return read_run(store, "s").status, [card.holder for card in store.cards("s")]

    assert asyncio.run(drained()) == ("paused", [None])
    starting.join()


@pytest.mark.parametrize("verb", ["drain", "leave"])
def test_a_run_whose_event_loop_was_stopped_is_left_and_told(store, monkeypatch, caplog, verb):
    """The program ends all the same, and whoever begins again finds the run."""
    monkeypatch.setattr(live_runs, "STOPPED_S", 0.05)
    model = HeldModel()
    agent = agent_with(model)
    runs, loop = Runs(store, [agent]), asyncio.new_event_loop()

    async def begun():
        await runs.start(agent, "Go.", session="s")
        await asyncio.to_thread(model.begun.wait, 10)

    async def again():
        await asyncio.wait_for(getattr(runs, verb)(), 20)
        state = read_run(store, "s")
        later = Runs(store, [agent])
        return state.status, await later.recover(), (await later.wait("s", 10)).status

    loop.run_until_complete(begun())
    with caplog.at_level(logging.WARNING, "foveal.runs"):
        assert asyncio.run(again()) == ("running", ["s#1"], "completed")
    assert "s#1" in caplog.text
    assert "event loop" in caplog.text
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    assert run_problems(read_events(store, "s")) == []


def test_a_worker_that_is_cancelled_while_it_waits_for_its_runs_leaves_them_to_others(store, monkeypatch):
    """They are not paused: no answer of the user is needed."""
    monkeypatch.setattr("foveal.agent.runs._SEARCH_S", 0.0)

    async def talk():
        model = HeldModel()
        agent = agent_with(model)
        runs, ending = Runs(store, [agent]), asyncio.Event()
        await runs.start(agent, "Go.", session="s")
        await asyncio.to_thread(model.begun.wait, 10)
        whole = runs._live.ended

        async def ended():
            ending.set()
            await whole()

        monkeypatch.setattr(runs._live, "ended", ended)
        working = asyncio.create_task(runs.work())
        draining = asyncio.create_task(runs.drain())
        await ending.wait()
        await asyncio.sleep(0)
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working
        await draining
        return read_run(store, "s").status, [card.holder for card in store.cards("s")]

    assert asyncio.run(talk()) == ("running", [None])
    assert run_problems(read_events(store, "s")) == []
