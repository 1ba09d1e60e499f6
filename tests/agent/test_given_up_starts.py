"""Callers that are cancelled while they start or resume a run: none is left under way that nobody drives."""

import asyncio
import threading

import pytest

from foveal.agent import ApprovalRule, Runs, UserAnswer
from foveal.agent.run_log import read_events, read_run
from foveal.testing.run_checks import run_problems

from .conftest import FakeModel, agent_with, calls, says
from .test_killed_trees import WatchedStore, look


async def given_up(store, work):
    """Do something, and cancel it between its first commit and the moment at which it hears of that."""
    kept, go = threading.Event(), threading.Event()

    def hold(session, drafts):
        store.on_commit = lambda session, drafts: None
        kept.set()
        go.wait(10)

    store.on_commit = hold
    doing = asyncio.create_task(work)
    await asyncio.to_thread(kept.wait, 10)
    doing.cancel()
    await asyncio.sleep(0)
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await doing


def asking():
    return agent_with(FakeModel(calls("look"), says("Done.")), look, approvals=[ApprovalRule("look")])


def test_a_run_whose_starter_is_cancelled_goes_on():
    """Its beginning is in the log: nobody else could begin one in this session."""

    async def talk():
        store, agent = WatchedStore(), asking()
        runs = Runs(store, [agent])
        await given_up(store, runs.start(agent, "Go.", session="s"))
        await asyncio.gather(*runs._beginning)
        return (await runs.wait("s", 10)).status, run_problems(read_events(store, "s"))

    assert asyncio.run(talk()) == ("awaiting_user", [])


def test_a_run_whose_resumption_is_cancelled_goes_on():
    """Its log says that it is under way."""

    async def talk():
        store, agent = WatchedStore(), asking()
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await runs.wait(run, 10)
        await runs.answer(run, UserAnswer(decision="allow"))
        await given_up(store, runs.resume(run))
        await asyncio.gather(*runs._beginning)
        return (await runs.wait(run, 10)).status, run_problems(read_events(store, "s"))

    assert asyncio.run(talk()) == ("completed", [])


def test_an_agent_whose_caller_is_cancelled_while_its_run_begins_leaves_it_paused():
    """As later: nobody goes on with it unasked, and somebody who is asked can."""

    async def talk():
        store, agent = WatchedStore(), agent_with(FakeModel(says("Done.")))
        await given_up(store, agent.run("Go.", session="s", store=store))
        runs = Runs(store, [agent])
        paused, recovered = runs.outcome("s").status, await runs.recover("resume")
        await runs.resume("s")
        ended = await runs.wait("s", 10)
        return paused, recovered, ended.text, run_problems(read_events(store, "s"))

    assert asyncio.run(talk()) == ("paused", [], "Done.", [])


def test_an_agent_whose_caller_is_cancelled_again_and_again_while_its_run_begins_leaves_it_paused():
    """No model is asked behind the back of the caller, who could not wait for the beginning."""

    async def talk():
        store, model = WatchedStore(), FakeModel(says("Never."))
        agent = agent_with(model)
        kept, go = threading.Event(), threading.Event()

        def hold(session, drafts):
            store.on_commit = lambda session, drafts: None
            kept.set()
            go.wait(10)

        store.on_commit = hold
        answering = asyncio.create_task(agent.run("Go.", session="s", store=store))
        await asyncio.to_thread(kept.wait, 10)
        while not answering.done():
            answering.cancel()
            await asyncio.sleep(0)
        go.set()
        while any(card.holder for card in store.cards("s")):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
        return read_run(store, "s").status, model.requests

    assert asyncio.run(talk()) == ("paused", [])
