"""The writer of a session's summaries: asks the summariser, accepts or refuses its prose, and falls back to code.

Every planned fold has a summary made by code; prose may replace some of its lines. A summariser is asked within a deadline, and
the fold is made whether its answer is accepted or not. The question is asked ahead at the soft trigger, so that the answer is
ready at the hard one: an answer about the older part of the folded messages is still true, and code knows the rest.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any

from foveal.fit.stages.compact import Compact
from foveal.fit.stages.summarise import Summarise
from foveal.summary.accept import Accepted, Refused, accept
from foveal.summary.ledger import LedgerStep
from foveal.summary.prose import AnsweredRequest, question_for, summary_in, with_prose
from foveal.summary.question import Question
from foveal.summary.relevance import LineSelection
from foveal.summary.state import decode_summary
from foveal.text.shorten.allowance import CountTokens
from foveal.values.entry import Fold, RangeFold
from foveal.values.errors import SummaryFailed
from foveal.values.events import CODE, CompactionEnded, CompactionStarted, Listener, SummaryRefused, tell
from foveal.writers.breaker import Breaker
from foveal.writers.call import CANCEL, AcceptedSummary, FailedSummary, Judge, SummaryOutcome, ask
from foveal.writers.port import Summariser
from foveal.writers.prefetch import Prefetch
from foveal.writers.registry import find

AGENT = "agent"
NOTHING_FETCHED: Mapping[str, str] = MappingProxyType({})


class SummaryWriter:
    """One session's summariser and its record of failures. The lines beside accepted prose are chosen again, as `stage` says."""

    def __init__(
        self,
        session: str,
        compact: Compact,
        summariser: Summariser | None,
        listener: Listener,
        *,
        stage: Summarise = Summarise(),  # noqa: B008 - frozen
    ) -> None:
        self._session, self._compact, self._listener = session, compact, listener
        summariser = summariser or (find(compact.summariser) if compact.summariser else None)
        self._author = compact.summariser or getattr(summariser, "__name__", type(summariser).__name__)
        self._with_prose = partial(with_prose, selection=LineSelection(stage.score, stage.weights))
        self._breaker = Breaker()
        self._sent: AnsweredRequest | None = None
        self._ask = summariser and partial(ask, summariser, deadline_s=compact.deadline_s, retries=compact.retries)
        self._ahead = Prefetch(self._ask) if self._ask else None
        self._asked: tuple[int, ...] = ()
        """Places of the messages that the question under way covers."""

    @property
    def is_wanted(self) -> bool:
        """Whether there is a summariser that has not failed too often."""
        return self._ask is not None and not self._breaker.is_open

    @property
    def is_asked_ahead(self) -> bool:
        return self._ahead is not None and (self._ahead.question is not None or self._ahead.is_running)

    def sent(self, request: dict[str, Any], dialect: str) -> None:
        """Keep the request of the prompt just built: a summariser of the same model may append to it, as its prefix is cached."""
        self._sent = AnsweredRequest(request, dialect) if self._compact.reuse_prefix else None

    def ask_ahead(self, fold: Fold, steps: Sequence[LedgerStep], count: CountTokens) -> None:
        """Ask for the summary of this planned fold in the background."""
        if self._ahead is not None and (item := summary_in(fold)) and steps:
            self._asked = tuple(step.number for step in steps)
            self._ahead.start(question_for(item, steps, count, sent=self._sent), _judge(count, item))

    def write(
        self,
        fold: Fold,
        steps: Sequence[LedgerStep],
        *,
        count: CountTokens,
        shown: Sequence[str] = (),
        fetched: Mapping[str, str] = NOTHING_FETCHED,
        instructions: str = "",
        by_hand: bool = False,
        checkpoint: str = "",
        may_ask: bool = True,
    ) -> Fold:
        """Return the fold with the best prose available for its summary; unchanged if there is none.

        With `by_hand`, the summariser is asked however often it failed. Without `may_ask`, it is not asked at all.
        """
        start = time.monotonic()
        tell(self._listener, CompactionStarted(self._session, fold.reason, fold.before))
        author, cost_usd = CODE, None
        item = summary_in(fold)
        if item and checkpoint:
            fold = self._with_prose(fold, checkpoint, AGENT, count=count, shown=shown, fetched=fetched)
            author = AGENT
        elif item and steps and may_ask and self._ask:
            question = question_for(item, steps, count, instructions=instructions, sent=self._sent)
            outcome = self._outcome(question, steps, _judge(count, item), by_hand=by_hand)
            if isinstance(outcome, AcceptedSummary):
                author, cost_usd = self._author, outcome.spent.cost_usd
                fold = self._with_prose(fold, outcome.text, author, count=count, shown=shown, fetched=fetched)
            elif outcome is not None:
                self._refuse(outcome)
        took_ms = int((time.monotonic() - start) * 1_000)
        sizes = fold.before, fold.after, fold.rebilled
        tell(self._listener, CompactionEnded(self._session, fold.reason, *sizes, author, took_ms, cost_usd))
        return fold

    def close(self) -> None:
        """Drop the question that was asked ahead."""
        if self._ahead is not None:
            self._ahead.drop()

    def _outcome(
        self, question: Question, steps: Sequence[LedgerStep], judge: Judge, *, by_hand: bool
    ) -> SummaryOutcome | None:
        """Return the answer asked for ahead if it covers the same messages, else a new one; None while the breaker is open."""
        outcome = None if by_hand else self._taken(steps)
        if outcome is not None:
            self._breaker = self._breaker.after_outcome(outcome)
            if isinstance(outcome, AcceptedSummary):
                return outcome
        if self._ask is None or (self._breaker.is_open and not by_hand):
            self._breaker = self._breaker.after_skip()
            return outcome
        cancel = CANCEL.get()
        outcome = self._ask(question, judge=judge, cancel=cancel)
        if cancel and cancel.pressed and isinstance(outcome, FailedSummary):
            self._tell_refused(outcome)  # nobody waits for the fold any more: it is planned again when it is asked for
            raise SummaryFailed(self._author, outcome.reason, outcome.detail)
        self._breaker = self._breaker.after_outcome(outcome)
        return outcome

    def _taken(self, steps: Sequence[LedgerStep]) -> SummaryOutcome | None:
        """Return the outcome that was asked for ahead, if all messages it covers are folded now."""
        if self._ahead is None or self._ahead.question is None:
            return None
        known = set(self._asked) <= {step.number for step in steps}
        outcome = self._ahead.take() if known else None
        if outcome is None:
            self._ahead.drop()  # late, or about other messages: a question asked now knows more
        return outcome

    def _tell_refused(self, failed: FailedSummary) -> None:
        took_ms = int(failed.spent.duration_s * 1_000)
        tell(self._listener, SummaryRefused(self._session, self._author, failed.reason, failed.detail, took_ms))

    def _refuse(self, failed: FailedSummary) -> None:
        self._tell_refused(failed)
        if self._compact.on_failure == "raise":
            raise SummaryFailed(self._author, failed.reason, failed.detail)


def _judge(count: CountTokens, item: RangeFold) -> Judge:
    """Return a judge for this summary, which accepts prose that is smaller than the covered messages and holds no frame tags."""
    covered = decode_summary(item.state).covered.tokens

    def judge(answer: str, question: Question) -> Accepted | Refused:
        return accept(answer, question, count=count, smaller_than=covered)

    return judge
