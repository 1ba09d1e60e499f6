"""Calls to a summariser: with one deadline and a bounded number of attempts, and a typed outcome for every case.

    outcome = ask(summariser, question, deadline_s=60, judge=judge)
    match outcome:
        case AcceptedSummary(text): …      accepted, ready for use
        case FailedSummary(reason): …      the deterministic summary takes its place

The caller's thread waits; it may be any thread, also one with a running event loop. The deadline is for all attempts
together. After a refused answer or an exception the summariser is asked once more, with the reason. A failure that would
repeat itself is not retried: a rate limit, a wrong key, a question that is too long, an answer that is no text.
"""

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Literal, TypeAlias, assert_never

import msgspec

from foveal.summary.accept import Accepted, RefusalReason, Refused
from foveal.summary.question import Question, with_remark
from foveal.values.entry import Usage
from foveal.values.errors import BadInput
from foveal.writers.faults import describe, fault_of, without_secrets
from foveal.writers.port import Fault, Reply, Summariser, Unanswered
from foveal.writers.worker import WorkerCall

SummaryFailure: TypeAlias = Fault | RefusalReason | Literal["deadline", "cancelled"]
Judge: TypeAlias = Callable[[str, Question], Accepted | Refused]
"""`accept` with all arguments but the answer and the question."""

_FINAL: frozenset[SummaryFailure] = frozenset(
    ("rejected", "rate_limited", "too_long", "not_text", "deadline", "cancelled")
)
"""Failures that asking again at once would not change."""


class Spent(msgspec.Struct, frozen=True):
    """The cost of an outcome: attempts, time, and money if the summariser knows it (else None)."""

    attempts: int = 0
    duration_s: float = 0.0
    usage: tuple[Usage, ...] = ()
    cost_usd: float | None = None


class AcceptedSummary(msgspec.Struct, frozen=True):
    """A summary that was accepted."""

    text: str
    spent: Spent = Spent()


class FailedSummary(msgspec.Struct, frozen=True):
    """The reason why there is no summary: `detail` is a sentence with numbers."""

    reason: SummaryFailure
    detail: str
    spent: Spent = Spent()


SummaryOutcome: TypeAlias = AcceptedSummary | FailedSummary


class Cancel:
    """A button that ends an `ask` under way in another thread. It stays pressed."""

    def __init__(self) -> None:
        self._call: WorkerCall | None = None
        self.pressed = False

    @property
    def is_running(self) -> bool:
        """Whether the summariser is still at work, even if the caller no longer waits for it."""
        return self._call is not None and self._call.is_running

    def press(self) -> None:
        self.pressed = True
        if self._call is not None:
            self._call.give_up()

    def watch(self, call: WorkerCall) -> None:
        """Let the button end this call. The button may have been pressed while the call was started."""
        self._call = call
        if self.pressed:
            call.give_up()


CANCEL: ContextVar[Cancel | None] = ContextVar("foveal_cancel", default=None)
"""The button of the call that is being made, for callers that may stop waiting for it."""


def ask(
    summariser: Summariser,
    question: Question,
    *,
    deadline_s: float,
    judge: Judge,
    retries: int = 1,
    clock: Callable[[], float] = time.monotonic,
    cancel: Cancel | None = None,
) -> SummaryOutcome:
    """Return the accepted answer, or the reason why there is none, by the deadline. A failing summariser raises nothing."""
    if not deadline_s > 0 or retries < 0:
        raise BadInput(f"deadline_s must be above 0 and retries at least 0, not {deadline_s} and {retries}")
    cancel, start, spent = cancel or Cancel(), clock(), Spent()
    failed = FailedSummary("cancelled", "The caller cancelled before the first attempt.")
    asked = question
    for attempt in range(1, retries + 2):
        left_s = start + deadline_s - clock()
        if cancel.pressed or left_s <= 0:
            break
        outcome, paid = _attempt(summariser, asked, left_s, judge, cancel)
        spent = _sum(spent, paid, attempt, clock() - start)
        if isinstance(outcome, Accepted):
            return AcceptedSummary(outcome.text, spent)
        failed = msgspec.structs.replace(outcome, spent=spent)
        if failed.reason in _FINAL:
            break
        asked = question if failed.reason == "raised" else with_remark(question, failed.detail)
    return failed


def _attempt(
    summariser: Summariser, question: Question, left_s: float, judge: Judge, cancel: Cancel
) -> tuple[Accepted | FailedSummary, Reply | None]:
    call = WorkerCall(summariser, question)
    cancel.watch(call)
    try:
        in_time = call.wait(left_s)
    finally:
        call.give_up()  # after the deadline, or when the wait itself was interrupted: accept no result any more
    if not in_time:
        return FailedSummary("deadline", f"No answer within the {left_s:,.3g} seconds that were left."), None
    if call.given_up:
        return FailedSummary("cancelled", "The caller cancelled."), None
    return _judged(call.result, question, judge)


def _judged(result: object, question: Question, judge: Judge) -> tuple[Accepted | FailedSummary, Reply | None]:
    match result:
        case BaseException():
            usage = result.usage if isinstance(result, Unanswered) else None
            return _failure(result), Reply("", usage)
        case str():
            reply = Reply(result)
        case Reply(str()):
            reply = result
        case _:
            what = without_secrets(f"The summariser returned {type(result).__name__}, not text.")
            return FailedSummary("not_text", what), None
    verdict = judge(reply.text, question)
    match verdict:
        case Accepted():
            return verdict, reply
        case Refused(reason, detail):
            return FailedSummary(reason, detail), reply
        case _:
            assert_never(verdict)


def _failure(error: BaseException) -> FailedSummary:
    """Return the failure for an exception. Cancellation has two classes of its own, one of which may not be loaded."""
    if type(error).__name__ == "CancelledError":
        return FailedSummary("cancelled", "The summariser was cancelled.")
    return FailedSummary(fault_of(error), describe(error))


def _sum(spent: Spent, reply: Reply | None, attempts: int, duration_s: float) -> Spent:
    usage = (*spent.usage, reply.usage) if reply and reply.usage else spent.usage
    told_usd = [cost for cost in (spent.cost_usd, reply.cost_usd if reply else None) if cost is not None]
    cost_usd = sum(told_usd) if told_usd else None
    return Spent(attempts, duration_s, usage, cost_usd)
