"""Wishes that a run stops, while the program itself ends, leaves, or is killed: none of them is lost, and the user's counts."""

import asyncio

import pytest

from foveal.agent import Runs, driver, tool
from foveal.agent.inbox import FollowUp, StopRequest, post
from foveal.agent.run_log import read_run
from foveal.testing.commit_faults import CommitFaults

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
