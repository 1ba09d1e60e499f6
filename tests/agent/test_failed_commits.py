"""A store that fails for a moment, at each commit of a run: before it has written, or after, when nobody knows that it has."""

import asyncio
from itertools import count

import pytest

import foveal
from foveal.agent import Agent, ApprovalRule, Runs, UserAnswer, tool
from foveal.agent.driver import RunDriver
from foveal.agent.run_events import ModelReplied, ToolReturned
from foveal.agent.run_log import read_events
from foveal.agent.run_marks import RunLeft
from foveal.stores.memory import MemoryStore
from foveal.testing.run_checks import run_problems
from foveal.values.errors import StoreUnavailable

from .conftest import FakeModel, agent_with, calls, collect, says


class Interrupted:
    """A store in memory whose writers fail once, at the commit of this number."""

    def __init__(self, number, *, is_kept):
        self.store, self._left, self._is_kept = MemoryStore(), number, is_kept
        load = self.store.load

        def loaded(session, **options):
            opened = load(session, **options)
            append = opened.writer.append

            def tried(drafts, **more):
                self._left -= bool(drafts)
                if drafts and self._left == 0:
                    if self._is_kept:
                        append(drafts, **more)
                    raise StoreUnavailable("the connection was lost")
                return append(drafts, **more)

            opened.writer.append = tried
            return opened

        self.store.load = loaded

    def fail_next(self, *, is_kept):
        self._left, self._is_kept = 1, is_kept

    @property
    def has_failed(self):
        return self._left <= 0


async def finished(agent: Agent, store, seen=lambda event: None):
    """The outcome of a run that is resumed when it has failed."""
    runs = Runs(store, [agent])
    run = await runs.start(agent, "Go.", session="s")
    for _ in range(3):
        for event in await collect(runs.observe(run)):
            seen(event)
        outcome = await runs.wait(run, 30)
        if outcome.status == "completed":
            return outcome
        if outcome.status == "failed":
            assert outcome.reason == "the connection was lost"
        try:
            await runs.resume(run, UserAnswer("", "allow") if outcome.status == "awaiting_user" else None)
        except StoreUnavailable:  # the answer is in the inbox
            await runs.resume(run)
    raise AssertionError("it failed more than once")


@pytest.mark.parametrize("is_kept", [False, True], ids=["refused", "kept unseen"])
def test_no_reply_and_no_result_is_lost_by_a_commit_that_fails(is_kept):
    """Each reply is paid for, and each tool may have done something that must not be done twice."""
    for number in count(2):  # the first one begins the run: whoever starts it is told
        ran: list[int] = []
        values: list[object] = []

        @tool
        async def look(n: int) -> dict[str, int]:
            ran.append(n)  # noqa: B023 - called within the turn of the loop
            return {"n": n}

        def seen(event):
            if isinstance(event, ToolReturned):
                values.append(event.data)  # noqa: B023 - as above

        broken = Interrupted(number, is_kept=is_kept)
        beside = says("", ("look", {"n": 2}), ("look", {"n": 3}))
        model = FakeModel(calls("look", n=1), beside, says("Done."))
        outcome = asyncio.run(finished(agent_with(model, look), broken.store, seen))
        assert (outcome.text, len(model.requests), sorted(ran)) == ("Done.", 3, [1, 2, 3]), number
        assert run_problems(read_events(broken.store, "s")) == [], number
        assert len(values) == 3, number
        if not broken.has_failed:
            assert number > 8
            return


@pytest.mark.parametrize("is_kept", [False, True], ids=["refused", "kept unseen"])
def test_a_call_that_waits_for_the_user_runs_once_although_a_commit_fails(is_kept):
    for number in count(2):
        ran: list[str] = []

        @tool
        async def send(text: str) -> str:
            ran.append(text)  # noqa: B023 - called within the turn of the loop
            return "sent"

        broken = Interrupted(number, is_kept=is_kept)
        model = FakeModel(calls("send", text="hello"), says("Done."))
        agent = agent_with(model, send, approvals=[ApprovalRule("send")])
        outcome = asyncio.run(finished(agent, broken.store))
        assert (outcome.text, len(model.requests), ran) == ("Done.", 2, ["hello"]), number
        assert run_problems(read_events(broken.store, "s")) == [], number
        if not broken.has_failed:
            assert number > 6
            return


def test_a_bill_that_was_kept_unseen_hides_no_reply():
    """Two failures: the first commit was made, and the next one, with a reply that is paid for, was not."""
    broken = Interrupted(0, is_kept=True)

    async def talk():
        driver = RunDriver(agent_with(FakeModel()), broken.store, "s")
        await driver.begin("Go.")
        bills = [[RunLeft()]]
        driver.journal.bills = lambda: bills.pop() if bills else ()
        broken.fail_next(is_kept=True)
        await driver.journal.write()
        driver.journal.put(foveal.assistant("Paid for."))
        broken.fail_next(is_kept=False)
        with pytest.raises(StoreUnavailable):
            await driver.journal.write()
        await driver.let_go()

    asyncio.run(talk())
    told = [one.text for one in read_events(broken.store, "s") if isinstance(one, ModelReplied)]
    assert told == ["Paid for."]
