"""Runs that began with one model, and processes whose agent of that name has another: no conversation goes there by itself."""

import asyncio
import logging

import pytest

from foveal.agent import ModelChoice, Runs
from foveal.agent.abandoned_runs import AbandonedRuns
from foveal.agent.driver import RunDriver
from foveal.agent.run_log import read_run
from foveal.agent.run_queue import StoreQueue

from .conftest import FakeModel, agent_with, calls, says

ELSEWHERE = "openai:gpt-5@http://elsewhere.invalid/v1"


def agent_at(model: str, *replies):
    agent = agent_with(FakeModel(*replies))
    agent.models = (ModelChoice.of(model),)
    return agent


def here(*replies):
    return agent_at("openai:gpt-5", *replies)


def elsewhere(*replies):
    return agent_at(ELSEWHERE, *replies)


async def begun(store) -> str:
    """A run that waits for a worker."""
    agent = here()
    return await Runs(store, [agent], queue=StoreQueue()).start(agent, "Go.", session="s")


async def searched(worker: Runs, store, times: int) -> None:
    """Let a worker search the store so many times."""
    queue, abandoned = StoreQueue(), AbandonedRuns(store)
    async with queue.serving(["agent"], worker._take_up, 4):
        for _ in range(times):
            await worker._search(abandoned, queue)
        await worker._live.ended()


def test_a_worker_leaves_a_run_that_began_with_another_model(store, caplog):
    """It says so once, with both models; a worker with the run's model takes it up."""

    async def talk():
        run = await begun(store)
        with caplog.at_level(logging.WARNING, "foveal.runs"):
            await searched(Runs(store, [elsewhere(says("Elsewhere."))]), store, 3)
        assert read_run(store, "s").status == "pending"
        await searched(Runs(store, [here(says("Here."))]), store, 1)
        return Runs(store).outcome(run)

    outcome = asyncio.run(talk())
    assert outcome.text == "Here."
    (told,) = [record.getMessage() for record in caplog.records]
    assert f"s#1 began with openai:gpt-5, and the agent 'agent' has {ELSEWHERE} here" in told


def test_a_program_that_starts_leaves_a_run_that_began_with_another_model(store, caplog):
    """`recover` takes up the others."""

    async def talk():
        await begun(store)
        other = elsewhere(says("Mine."))
        await Runs(store, [other], queue=StoreQueue()).start(other, "Go.", session="t")
        runs = Runs(store, [other])
        found = await runs.recover()
        return found, (await runs.wait("t", 10)).text

    assert asyncio.run(talk()) == (["t#1"], "Mine.")
    assert read_run(store, "s").status == "pending"
    assert "s#1 began with openai:gpt-5" in caplog.text


def test_whoever_resumes_a_run_names_the_model_that_it_goes_on_with(store):
    """The log has it, so that a worker with that model takes the run up, and no other one."""

    async def talk():
        run = await begun(store)
        asker = Runs(store, [elsewhere()], queue=StoreQueue())
        await asker.pause(run)
        await asker.resume(run)
        assert read_run(store, "s").first_model == ELSEWHERE
        await searched(Runs(store, [here(says("Here."))]), store, 2)
        assert read_run(store, "s").status == "running"
        await searched(Runs(store, [elsewhere(says("Elsewhere."))]), store, 1)
        return Runs(store).outcome(run).text

    assert asyncio.run(talk()) == "Elsewhere."


def test_a_run_that_was_handed_over_is_left_where_its_new_agent_has_another_model(store, caplog):
    """The log names the first model of the agent that took over; a program in which that agent has it takes the run up."""

    def at(address: str, *replies):
        second = agent_with(FakeModel(*replies), name="second")
        second.models = (ModelChoice("gpt-5", "openai", base_url=address),)
        return agent_with(FakeModel(calls("handoff", agent="second")), handoffs=[second])

    async def talk():
        asked = asyncio.Event()
        agent = at("http://inside/v1", [asked])
        first = Runs(store, [agent])
        run = await first.start(agent, "Go.", session="s")
        await asked.wait()
        await first.leave()
        found = await Runs(store, [at("http://outside/v1")]).recover()
        again = Runs(store, [at("http://inside/v1", says("Inside."))])
        return found, await again.recover(), (await again.wait(run, 10)).text

    assert asyncio.run(talk()) == ([], ["s#1"], "Inside.")
    assert "s#1 began with openai:gpt-5@http://inside/v1" in caplog.text


@pytest.mark.parametrize("agent", [elsewhere(), agent_with(FakeModel(), name="other")], ids=["model", "agent"])
def test_a_run_that_changes_hands_while_it_is_taken_up_is_left_alone(store, agent):
    """Whoever takes it up looks once more when he has its session."""

    async def talk():
        await begun(store)
        return await RunDriver(agent, store, "s").take_up()

    assert asyncio.run(talk()) is False
    assert [card.holder for card in store.cards("s")] == [None]
