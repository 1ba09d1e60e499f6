"""Timers of questions: the clock that people see decides, however it is set."""

import asyncio
import logging

import pytest

from foveal.agent import ApprovalRule, Limits, ModelChoice, Runs, UserAnswer, question_timers, tool
from foveal.agent.deadlines import overdue_answers
from foveal.agent.inbox import StopRequest, post
from foveal.agent.question_timers import QuestionTimers
from foveal.agent.run_log import read_events, read_run
from foveal.agent.tools import UserQuestion
from foveal.session.options import now_ms
from foveal.testing.commit_faults import CommitFaults
from foveal.testing.run_checks import run_problems
from foveal.values.errors import StoreUnavailable

from .conftest import FakeModel, agent_with, calls, says

DUE_MS = 1_000_000


@tool
def look() -> str:
    """Look."""
    return "seen"


async def rung(monkeypatch, times_ms):
    """Return how often a timer has rung for a question that is due at `DUE_MS`, with these times at each look at the clock."""
    times, rings, looked = list(times_ms), [], asyncio.Event()

    def now_ms():
        if len(times) == 1:
            looked.set()
        return times.pop(0) if len(times) > 1 else times[0]

    async def go_on(session):
        rings.append(session)

    monkeypatch.setattr(question_timers, "now_ms", now_ms)
    timers = QuestionTimers(go_on)
    timers.mind("s", [UserQuestion("q", "question", "Which?", until_ms=DUE_MS)])
    await asyncio.wait_for(looked.wait(), 10)
    await asyncio.sleep(0)
    is_set = "s" in timers.by_session
    timers.end()
    return len(rings), is_set


@pytest.mark.parametrize(
    ("times_ms", "rings", "is_set"),
    [
        ([DUE_MS - 1, DUE_MS], 1, False),
        ([DUE_MS - 1, DUE_MS - 5_000], 0, True),
        ([DUE_MS - 1, DUE_MS - 3, DUE_MS - 3, DUE_MS], 1, False),
        ([DUE_MS - 3_600_000, DUE_MS], 1, False),
    ],
    ids=["in time", "set back", "set back a little", "the machine slept"],
)
def test_a_timer_rings_when_the_deadline_is_over_by_the_clock(monkeypatch, times_ms, rings, is_set):
    """One that comes too early is set again, and a late one looks at the clock before its time."""
    monkeypatch.setattr(question_timers, "MOST_S", 0.01)
    assert asyncio.run(rung(monkeypatch, times_ms)) == (rings, is_set)


def test_a_run_that_has_its_answer_keeps_no_timer(store):
    """A program that lives for long asks thousands of questions, whose deadlines may be days away."""

    async def talk():
        agent = agent_with(FakeModel(calls("look"), says("Done.")), look, approvals=[ApprovalRule("look")])
        agent.limits = Limits(question_s=86_400)
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await runs.wait(run, 10)
        is_minded = list(runs._timers.by_session)
        await runs.resume(run, UserAnswer(decision="allow"))
        return is_minded, (await runs.wait(run, 10)).status, list(runs._timers.by_session)

    assert asyncio.run(talk()) == (["s"], "completed", [])


ELSEWHERE = "openai:gpt-5@http://elsewhere.invalid/v1"


def asking(model="openai:gpt-5", question_s=0.05):
    """An agent whose call waits for an approval, for so long."""
    model_port, rules = FakeModel(calls("look"), says("Then not.")), [ApprovalRule("look")]
    agent = agent_with(model_port, look, approvals=rules, limits=Limits(question_s=question_s))
    agent.models = (ModelChoice.of(model),)
    return agent


async def asked(store, agent) -> Runs:
    """Runs with one that waits for an answer."""
    runs = Runs(store, [agent])
    await runs.wait(await runs.start(agent, "Go.", session="s"), 10)
    return runs


async def until(is_so) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)


async def overdue(store, agent) -> None:
    """Have a run wait for an answer for too long; the program that asked has ended."""
    runs = await asked(store, agent)
    await runs.drain()
    await until(lambda: overdue_answers(read_run(store, "s"), now_ms()))


@pytest.mark.parametrize("agents", [[], [asking(ELSEWHERE, 86_400)]], ids=["no agent", "another model"])
def test_a_deadline_is_minded_where_the_agent_has_the_model_of_the_run(store, agents):
    """No other program sets a timer for it when it starts."""

    async def talk():
        agent = asking(question_s=86_400)
        await (await asked(store, agent)).drain()
        other, same = Runs(store, agents), Runs(store, [agent])
        await other.recover()
        await same.recover()
        return list(other._timers.by_session), list(same._timers.by_session)

    assert asyncio.run(talk()) == ([], ["s"])


def test_a_deadline_is_left_to_others_where_the_agent_has_another_model(store):
    """Nobody has said that the conversation may go there; it was minded here before the run went on elsewhere."""
    other = asking(ELSEWHERE)

    async def talk():
        await overdue(store, asking())
        await Runs(store, [other])._time_up("s")
        return read_run(store, "s")

    state = asyncio.run(talk())
    assert (state.status, state.first_model) == ("awaiting_user", "openai:gpt-5")


def test_a_wish_to_stop_counts_more_than_a_deadline(store):
    """Somebody has cancelled the run, and nobody could grant that before its time was up."""

    async def talk():
        agent = asking()
        await overdue(store, agent)
        post(store, "s", StopRequest("cancelled", "enough"))
        runs = Runs(store, [agent])
        await runs._time_up("s")
        return await runs.wait("s", 10)

    outcome = asyncio.run(talk())
    assert (outcome.status, outcome.reason) == ("cancelled", "enough")


@pytest.mark.parametrize("error", [StoreUnavailable("away"), OSError("no such disk")], ids=["store", "host"])
@pytest.mark.parametrize("part", ["rows", "load"])
def test_a_deadline_that_comes_while_the_store_is_away_is_kept_later(store, monkeypatch, caplog, part, error):
    """It is tried again, slower and slower, and the program's log says so."""
    monkeypatch.setattr(question_timers, "AGAIN_S", 0.005)
    whole, failures = getattr(store, part), []

    def unsteady(*given, **options):
        if len(failures) < 3:
            failures.append(given)
            raise error
        return whole(*given, **options)

    async def talk():
        agent = asking()
        runs = Runs(store, [agent])
        await overdue(store, agent)
        monkeypatch.setattr(store, part, unsteady)
        runs._timers.mind("s", [UserQuestion("q", "question", "Which?", until_ms=1)])
        await until(lambda: len(failures) == 3)
        await until(lambda: read_run(store, "s").status == "completed")
        await runs.drain()

    with caplog.at_level(logging.WARNING):
        asyncio.run(talk())
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 3
    assert all("session s" in one and str(error) in one for one in told)
    assert run_problems(read_events(store, "s")) == []


@pytest.mark.parametrize("is_kept", [False, True], ids=["refused", "kept unseen"])
def test_a_deadline_whose_first_commit_fails_is_kept_later(store, monkeypatch, is_kept):
    """The run waits for the user as before, or is under way by the log alone, and is not failed."""
    monkeypatch.setattr(question_timers, "AGAIN_S", 0.005)

    async def talk():
        agent = asking()
        runs = Runs(store, [agent])
        await overdue(store, agent)
        CommitFaults(store).fail(is_kept=is_kept)
        runs._timers.mind("s", read_run(store, "s").asked.values())
        await until(lambda: read_run(store, "s").status in {"completed", "failed"})
        return await runs.wait("s", 10)

    assert asyncio.run(talk()).text == "Then not."


def test_a_run_that_cannot_write_that_it_goes_on_is_tried_again_after_some_time(store, monkeypatch):
    """Not at once, again and again, for as long as the store fails."""

    async def talk():
        agent = asking()
        await overdue(store, agent)
        faults = CommitFaults(store)
        for number in range(1, 100):
            faults.fail(number, is_kept=False)
        post(store, "s", StopRequest("cancelled"))  # written by the driver, and by nobody before
        runs = Runs(store, [agent])
        await runs._time_up("s")
        await until(lambda: not runs._live.by_session)
        tried, delay_s = len(faults.commits), runs._timers.by_session["s"].when() - asyncio.get_running_loop().time()
        await runs.drain()
        return tried, delay_s > 1

    assert asyncio.run(talk()) == (2, True)


@pytest.mark.parametrize("verb", ["cancel", "drain", "leave"])
def test_a_run_that_waits_no_longer_keeps_no_timer(store, verb):
    """Nor does a program that ends: what is overdue later is for others."""

    async def talk():
        runs = await asked(store, asking(question_s=86_400))
        await getattr(runs, verb)(*(["s"] if verb == "cancel" else []))
        return list(runs._timers.by_session)

    assert asyncio.run(talk()) == []
