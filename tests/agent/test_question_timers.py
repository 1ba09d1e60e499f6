"""Timers of questions: the clock that people see decides, however it is set."""

import asyncio

import pytest

from foveal.agent import ApprovalRule, Limits, Runs, UserAnswer, question_timers, tool
from foveal.agent.question_timers import QuestionTimers
from foveal.agent.tools import UserQuestion

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
