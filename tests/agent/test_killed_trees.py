"""Runs with sub-agents whose program is killed after any commit of theirs: they can be read, resumed and ended."""

import asyncio
from collections.abc import Sequence

import pytest

from foveal.agent import ApprovalRule, Runs, tool
from foveal.agent.audit import audit_trail
from foveal.agent.driver import RunDriver
from foveal.agent.run_log import read_events, read_run
from foveal.agent.run_marks import ENDED
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Draft
from foveal.testing.run_checks import run_problems

from .conftest import FakeModel, agent_with, calls, says

LONG = "The function is in login.py, line 12, and sets the cookie twice; I am sure of it. " * 4


@tool
def look() -> str:
    """Look."""
    return "seen"


class WatchedStore(MemoryStore):
    """A store that keeps the order of its commits over all sessions, and calls a listener after each."""

    def __init__(self) -> None:
        super().__init__()
        self.commits: list[tuple[str, Sequence[Draft]]] = []
        self.on_commit = lambda session, drafts: None

    def acquire(self, session, **options):
        writer = super().acquire(session, **options)
        append = writer.append

        def told(drafts, **more):
            done = append(drafts, **more)
            if drafts:
                self.commits.append((session, list(drafts)))
                self.on_commit(session, drafts)
            return done

        writer.append = told
        return writer

    def killed_after(self, number: int) -> MemoryStore:
        """Return the store as a program has left it that was killed after so many commits."""
        left = MemoryStore()
        for session, drafts in self.commits[:number]:
            writer = left.acquire(session, secret=self.secret(session))
            writer.append(drafts)
            writer.release()
        return left


def replying(*replies):
    """A model whose reply follows from how many the conversation has, so that it goes on after a kill."""

    def reply(request):
        made = sum(one["role"] == "assistant" for one in request["messages"])
        return replies[min(made, len(replies) - 1)]

    return FakeModel(by=reply)


def looker():
    return agent_with(replying(says("", ("look", {})), says(LONG)), look, name="looker", description="looks")


def delegating():
    above = replying(says("", ("delegate", {"task": "A"}), ("delegate", {"task": "B"})), says("Done."))
    return agent_with(above, agents=[looker()])


def spawning():
    return agent_with(replying(says("", ("spawn", {"task": "A"})), says("Done.")), detached=[looker()])


async def driven(agent, store):
    runs = Runs(store, [agent])
    outcome = await runs.wait(await runs.start(agent, "Go.", session="s"), 30)
    await runs._live.ended()
    return outcome


@pytest.mark.parametrize("make", [delegating, spawning])
def test_a_tree_can_be_read_wherever_its_program_is_killed(make):
    """A sub-agent whose session is there and whose run has not begun costs nothing, and hides nothing of the others. The price of
    a model call that was under way is unknown."""
    agent, whole = make(), WatchedStore()
    assert asyncio.run(driven(agent, whole)).status == "completed"
    for number in range(1, len(whole.commits) + 1):
        store = whole.killed_after(number)
        if read_run(store, "s").run:
            tree, cost = Runs(store).tree("s"), Runs(store).cost("s")
            assert [one.run for one in tree.children] == [one.run for one in cost.children], number
            sessions = ["s", *(one.run.partition("#")[0] for one in tree.children)]
            is_known = all(store.cards(one) and not read_run(store, one).is_asking for one in sessions)
            assert (cost.total_usd is not None) == is_known, number
            assert list(audit_trail(store, "s")), number


@pytest.mark.parametrize("make", [delegating, spawning])
def test_a_tree_goes_on_wherever_its_program_is_killed(make):
    """Every run of it ends with an answer, and keeps the rules of runs."""
    agent, whole = make(), WatchedStore()
    asyncio.run(driven(agent, whole))

    async def gone_on(store):
        runs = Runs(store, [agent])
        await runs.recover()
        await runs.wait("s", 30)
        await runs._live.ended()
        return runs.list()

    for number in range(2, len(whole.commits) + 1):
        store = whole.killed_after(number)
        if read_run(store, "s").run:
            cards = asyncio.run(gone_on(store))
            assert {card.status for card in cards} == {"completed"}, number
            assert [one for card in cards for one in run_problems(read_events(store, card.session))] == [], number


def test_cancelling_a_run_whose_program_was_killed_ends_every_sub_agent():
    """Also one that had only just begun: it would be listed as pending for ever."""
    agent, whole = delegating(), WatchedStore()
    asyncio.run(driven(agent, whole))
    for number in range(2, len(whole.commits) + 1):
        store = whole.killed_after(number)
        if read_run(store, "s").run and read_run(store, "s").status not in ENDED:
            runs = Runs(store)
            asyncio.run(runs.cancel("s"))
            assert {card.status for card in runs.list()} <= ENDED, number


@pytest.mark.parametrize("status", ["paused", "cancelled"])
def test_a_run_that_is_stopped_while_a_sub_agent_begins_leaves_none_pending(status):
    """The sub-agent rests or ends as the run above does, and goes on with it."""

    async def talk():
        store, agent, loop = WatchedStore(), delegating(), asyncio.get_running_loop()
        runs = Runs(store, [agent])

        def stop(session, drafts):
            if session.startswith("s/looker") and any(b"began" in one.payload for one in drafts):
                loop.call_soon_threadsafe(runs._live.by_session["s"][0].stop, status)

        store.on_commit = stop
        run = await runs.start(agent, "Go.", session="s")
        assert (await runs.wait(run, 30)).status == status
        assert {card.status for card in runs.list()} == {status}
        store.on_commit = lambda session, drafts: None
        if status == "paused":
            await runs.resume(run)
            assert (await runs.wait(run, 30)).text == "Done."

    asyncio.run(talk())


@pytest.mark.parametrize("status", ["paused", "cancelled"])
def test_a_run_that_is_stopped_while_it_spawns_leaves_a_run_at_work(status):
    """The detached run has begun, and is one of its own: it goes on to its answer."""

    async def talk():
        store, agent, loop = WatchedStore(), spawning(), asyncio.get_running_loop()
        runs = Runs(store, [agent])

        def stop(session, drafts):
            if session.startswith("s/looker") and any(b'\\"is\\":\\"began' in one.payload for one in drafts):
                loop.call_soon_threadsafe(runs._live.by_session["s"][0].stop, status)

        store.on_commit = stop
        run = await runs.start(agent, "Go.", session="s")
        assert (await runs.wait(run, 30)).status == status
        await runs._live.ended()
        assert {bool(card.session.partition("/")[2]): card.status for card in runs.list()} == {
            False: status,
            True: "completed",
        }

    asyncio.run(talk())


def test_the_sub_agents_of_a_failed_run_end_with_the_next_one(store):
    """Until then it may be resumed, and goes on with them."""
    sub = agent_with(FakeModel(calls("look")), look, name="sub", approvals=[ApprovalRule("look")])
    agent = agent_with(FakeModel(calls("delegate", task="Look."), says("Now this.")), agents=[sub])

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await runs.wait(run, 10)
        driver = RunDriver(agent, store, "s")
        await driver.journal.open()
        await driver.fail("of its host")
        assert [one.status for one in runs.tree(run).children] == ["awaiting_user"]
        await runs.wait(await runs.start(agent, "Something else.", session="s"), 10)
        return runs.tree(run)

    tree = asyncio.run(talk())
    assert (tree.status, [one.status for one in tree.children]) == ("failed", ["cancelled"])
    assert run_problems(read_events(store, "s")) == []
