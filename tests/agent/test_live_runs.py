"""Runs that are driven on one event loop, and used from another one: in a thread, or after the first one was closed."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from foveal.agent import Runs
from foveal.agent.run_log import read_events
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
