"""A store that cannot be read for a moment: no session stays held, and no run is forgotten."""

import asyncio
import logging
from itertools import count

from foveal.agent import Runs
from foveal.agent.abandoned_runs import UNREADABLE_LOOKS, AbandonedRuns
from foveal.agent.run_queue import StoreQueue
from foveal.stores.memory import MemoryStore
from foveal.values.errors import StoreUnavailable

from .conftest import FakeModel, agent_with, damage, says


class ReadFault:
    """Lets one read of a session's log fail."""

    def __init__(self, store, session: str, number: int) -> None:
        self.left = number
        rows = store.rows

        def tried(name: str, **options):
            self.left -= name == session
            if name == session and self.left == 0:
                raise StoreUnavailable("the connection was lost")
            return rows(name, **options)

        store.rows = tried


def test_a_read_that_fails_while_a_run_is_begun_leaves_its_session_free():
    """Whoever starts the run is told, and starts it again."""

    async def talk(number: int) -> tuple[bool, str]:
        store = MemoryStore()
        agent = agent_with(FakeModel(says("One."), says("Two.")))
        runs = Runs(store, [agent])
        await runs.wait(await runs.start(agent, "Go.", session="s"), 10)
        fault = ReadFault(store, "s", number)
        try:
            run = await runs.start(agent, "Again.", session="s")
        except StoreUnavailable:
            run = await runs.start(agent, "Again.", session="s")
        is_over = fault.left <= 0
        fault.left = 0
        return is_over, (await runs.wait(run, 10)).status

    for number in count(1):
        is_over, status = asyncio.run(talk(number))
        assert status == "completed", number
        if not is_over:
            assert number > 1
            return


def test_a_run_that_could_not_be_read_is_found_when_it_can_be(store, monkeypatch, caplog):
    """Its log does not grow until somebody drives it. The program's log is told at the first look, and rarely after it."""

    async def started():
        agent = agent_with(FakeModel())
        await Runs(store, [agent], queue=StoreQueue()).start(agent, "Go.", session="s")

    asyncio.run(started())
    abandoned = AbandonedRuns(store)
    with monkeypatch.context() as away, caplog.at_level(logging.WARNING):
        damage(store, away, "s")
        assert [abandoned.look() for _ in range(UNREADABLE_LOOKS + 1)] == [[]] * (UNREADABLE_LOOKS + 1)
        assert caplog.text.count("session s cannot be read") == 2
    assert [one.run for one in abandoned.look()] == ["s#1"]
