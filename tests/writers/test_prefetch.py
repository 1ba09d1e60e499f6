"""Asking ahead: one at a time, taken once, dropped when it no longer matches."""

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from foveal.summary.accept import Accepted, Refused
from foveal.summary.question import Question
from foveal.writers.call import AcceptedSummary, FailedSummary, SummaryOutcome, ask
from foveal.writers.prefetch import Prefetch
from foveal.writers.worker import THREAD_NAME

ONE, TWO = Question("one", 100), Question("two", 100)


def judge(answer: str, _: Question) -> Accepted | Refused:
    return Accepted(answer) if answer else Refused("empty", "nothing")


def of_ours() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(THREAD_NAME)]


def ended(ahead: Prefetch) -> SummaryOutcome | None:
    """What is there to take when the threads have ended."""
    for thread in of_ours():
        thread.join(10)
    return ahead.take()


@pytest.fixture
def go() -> Iterator[threading.Event]:
    """The summariser answers when this is set; at the end no thread is left."""
    event = threading.Event()
    yield event
    event.set()
    for thread in of_ours():
        thread.join(10)
    assert of_ours() == []


@pytest.fixture
def ahead(go: threading.Event) -> Prefetch:
    def summarise(question: Question) -> str:
        go.wait(60)
        return f"about {question.transcript}"

    return Prefetch(partial(ask, summarise, deadline_s=60))


def test_an_answer_is_taken_once(ahead, go):
    """It is there when it is needed, and gone when it was taken."""
    assert ahead.start(ONE, judge)
    go.set()
    outcome = ended(ahead)
    assert isinstance(outcome, AcceptedSummary)
    assert outcome.text == "about one"
    assert ahead.take() is None
    assert ahead.question is None


def test_polling_does_not_wait(ahead):
    """Nothing yet is no outcome, and the question stays under way."""
    ahead.start(ONE, judge)
    assert ahead.take() is None
    assert ahead.question == ONE
    assert ahead.is_running


def test_there_is_one_at_a_time(ahead, go):
    """Neither while one is under way, nor while its answer waits to be taken."""
    assert ahead.start(ONE, judge)
    assert not ahead.start(TWO, judge)
    go.set()
    assert ended(ahead)
    assert ahead.start(TWO, judge)


def test_the_answer_to_a_dropped_question_reaches_nobody(ahead, go):
    """What was asked is no longer what is needed."""
    ahead.start(ONE, judge)
    ahead.drop()
    assert ahead.question is None
    go.set()
    assert ended(ahead) is None


def test_after_a_drop_it_starts_anew_when_the_old_one_has_ended(ahead, go):
    """A summariser that hangs is not joined by a second one, however often it is tried."""
    ahead.start(ONE, judge)
    ahead.drop()
    assert not any(ahead.start(TWO, judge) for _ in range(5))
    assert len([thread for thread in of_ours() if not thread.name.endswith("ahead")]) == 1
    go.set()
    for thread in of_ours():
        thread.join(10)
    assert ahead.start(TWO, judge)
    outcome = ended(ahead)
    assert isinstance(outcome, AcceptedSummary)
    assert outcome.text == "about two"


def test_a_failure_is_an_outcome_too(go):
    """What could not be written ahead is known ahead."""
    go.set()
    ahead = Prefetch(partial(ask, lambda q: "", deadline_s=60))
    ahead.start(ONE, judge)
    outcome = ended(ahead)
    assert isinstance(outcome, FailedSummary)
    assert outcome.reason == "empty"


def test_its_threads_are_daemons(ahead):
    """A process may end while a question is under way."""
    ahead.start(ONE, judge)
    assert of_ours()
    assert all(thread.daemon for thread in of_ours())


def test_a_drop_with_nothing_under_way_does_nothing(ahead):
    """It may be called at any time."""
    ahead.drop()
    assert ahead.start(ONE, judge)
