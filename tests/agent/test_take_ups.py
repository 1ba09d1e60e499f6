"""Runs that end whoever takes them up: they fail after some times, and can be resumed when that is mended."""

import asyncio

import pytest

import foveal
from foveal.agent import Runs, tool
from foveal.agent.driver import MOST_TAKE_UPS, RunDriver
from foveal.agent.inbox import NOTHING_READ
from foveal.agent.run_events import RunEnded
from foveal.agent.run_log import read_events, read_run
from foveal.testing.run_checks import run_problems

from .conftest import FakeModel, agent_with, calls, says
from .test_other_agents import LONG, named


@tool
def look() -> str:
    """Look."""
    return "seen"


async def killed(agent, store, times: int) -> list[bool]:
    """Take the run up and leave its log as a kill -9 would, so many times; return whether it was taken up each time."""
    taken: list[bool] = []
    for _ in range(times):
        driver = RunDriver(agent, store, "s")
        taken.append(await driver.take_up())
        await driver.let_go()
    return taken


async def begun(agent, store) -> None:
    """Begin a run and leave it running, as a process would that died before its first step."""
    driver = RunDriver(agent, store, "s")
    await driver.begin("Go.")
    await driver.journal.write(driver.journal.status_mark("running"))
    await driver.let_go()


def test_a_run_that_ends_all_who_take_it_up_fails_and_can_be_resumed(store):
    """After five of them without one more reply or result: the sixth does not drive it, and the reason says how it goes on."""

    async def talk():
        agent = agent_with(FakeModel(says("Done.")))
        await begun(agent, store)
        assert await killed(agent, store, MOST_TAKE_UPS) == [True] * MOST_TAKE_UPS
        runs = Runs(store, [agent])
        assert await runs.recover() == []
        failed = runs.outcome("s")
        assert {card.holder for card in store.cards()} == {None}
        await runs.resume("s")
        return failed, await runs.wait("s")

    failed, outcome = asyncio.run(talk())
    assert failed.status == "failed"
    assert failed.reason.startswith("5 processes in a row that took it up have ended without one more reply or result")
    assert "resume('s#1') goes on" in failed.reason
    assert outcome.text == "Done."
    assert [one.status for one in read_events(store, "s") if isinstance(one, RunEnded)] == ["failed", "completed"]
    assert run_problems(read_events(store, "s")) == []


def test_a_resumed_run_may_be_taken_up_as_often_again(store):
    """Somebody has said that it is mended."""

    async def talk():
        agent = agent_with(FakeModel(says("Done.")))
        await begun(agent, store)
        await killed(agent, store, MOST_TAKE_UPS + 1)
        resumed = RunDriver(agent, store, "s")
        await resumed.go_on(wished_at=NOTHING_READ)
        await resumed.let_go()
        return await killed(agent, store, MOST_TAKE_UPS + 1)

    assert asyncio.run(talk()) == [True] * MOST_TAKE_UPS + [False]


@pytest.mark.parametrize("kept", [foveal.assistant("Well."), foveal.result("call_0", "seen")], ids=["reply", "result"])
def test_a_reply_or_a_result_begins_the_count_again(store, kept):
    """A run that comes further each time is none that ends its process."""

    async def talk():
        agent = agent_with(FakeModel())
        await begun(agent, store)
        await killed(agent, store, MOST_TAKE_UPS)
        driver = RunDriver(agent, store, "s")
        await driver.go_on()
        await driver.journal.write(kept)
        await driver.let_go()
        return await killed(agent, store, MOST_TAKE_UPS + 1)

    assert asyncio.run(talk()) == [True] * MOST_TAKE_UPS + [False]


def test_the_work_of_a_sub_agent_counts(store):
    """The log of the run above does not grow for as long as its sub-agent works."""

    async def talk():
        thinking = asyncio.Event()
        reader = named("reader", FakeModel(calls("look"), [thinking]), look)
        agent = agent_with(FakeModel(calls("delegate", task="Dig.")), agents=[reader])
        runs = Runs(store, [agent])
        await runs.start(agent, "Go.", session="s")
        await thinking.wait()
        await runs.leave()
        before = await killed(agent, store, MOST_TAKE_UPS)
        child = next(iter(read_run(store, "s").children.values())).partition("#")[0]
        below = RunDriver(reader, store, child)
        await below.go_on()
        await below.journal.write(foveal.assistant(LONG))
        await below.let_go()
        return before, await killed(agent, store, MOST_TAKE_UPS + 1)

    before, then = asyncio.run(talk())
    assert (before, then) == ([True] * MOST_TAKE_UPS, [True] * MOST_TAKE_UPS + [False])


def test_workers_that_end_in_order_do_not_count(store):
    """They leave the run to others, as with every deployment, however long its model thinks."""

    async def talk():
        for _ in range(MOST_TAKE_UPS + 2):
            thinking = asyncio.Event()
            agent = agent_with(FakeModel([thinking]))
            runs = Runs(store, [agent])
            if read_run(store, "s").status is None:
                await begun(agent, store)
            assert await runs.recover() == ["s#1"]
            await thinking.wait()
            await runs.leave()
        return read_run(store, "s").status

    assert asyncio.run(talk()) == "running"
