"""The breaker: three failures in a row, a rest, one attempt."""

from foveal.writers.breaker import Breaker
from foveal.writers.call import AcceptedSummary, FailedSummary, SummaryOutcome

BAD, GOOD, STOPPED = FailedSummary("empty", "x"), AcceptedSummary("text"), FailedSummary("cancelled", "x")


def after(*outcomes: SummaryOutcome, breaker: Breaker | None = None) -> Breaker:
    breaker = breaker or Breaker(after=3, rest=2)
    for outcome in outcomes:
        breaker = breaker.after_outcome(outcome)
    return breaker


def test_it_opens_after_failures_in_a_row():
    """Two are bad luck, three are a habit."""
    assert not after(BAD, BAD).is_open
    assert after(BAD, BAD, BAD).is_open


def test_a_success_in_between_starts_the_count_anew():
    """In a row means in a row."""
    assert not after(BAD, BAD, GOOD, BAD, BAD).is_open


def test_what_the_caller_cancelled_does_not_count():
    """It says nothing about the summariser."""
    assert after(BAD, BAD, STOPPED) == after(BAD, BAD)


def test_it_lets_one_attempt_through_after_its_rest():
    """And is open again at once if that fails."""
    rested = after(BAD, BAD, BAD).after_skip().after_skip()
    assert not rested.is_open
    assert rested.after_outcome(BAD).is_open
    assert not rested.after_outcome(GOOD).is_open


def test_a_success_by_hand_closes_it():
    """Who asks although it is open, and succeeds, has mended it."""
    assert after(BAD, BAD, BAD, GOOD) == Breaker(after=3, rest=2)
