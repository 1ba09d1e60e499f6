"""A summary asked for ahead: in the background at the soft trigger, so that the answer may be ready at the hard one."""

import threading
import time
from collections.abc import Callable

from foveal.summary.question import Question
from foveal.writers.call import Cancel, Judge, SummaryOutcome, ask
from foveal.writers.port import Summariser
from foveal.writers.worker import THREAD_NAME


class Prefetch:
    """At most one question under way, in daemon threads. The answer to a question that was dropped is discarded.

    The holder decides whether the answer still matches: it compares `question` with the question it would ask now, and takes or
    drops the answer.
    """

    def __init__(
        self,
        summariser: Summariser,
        *,
        deadline_s: float,
        retries: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._summariser = summariser
        self._deadline_s, self._retries, self._clock = deadline_s, retries, clock
        self._thread: threading.Thread | None = None
        self._cancel = Cancel()
        self._outcome: list[SummaryOutcome] = []
        self.question: Question | None = None
        """The question that is under way or answered; None if there is nothing to take."""

    def start(self, question: Question, judge: Judge) -> bool:
        """Ask in the background. Return False, and start nothing, while another question is under way or its answer waits.

        A summariser that hangs counts as under way until its thread ends, also after its question was dropped: otherwise
        every compaction could leave one more thread behind.
        """
        if self.question is not None or self.is_running:
            return False
        self.question, self._cancel, outcome = question, Cancel(), list[SummaryOutcome]()
        self._outcome = outcome  # the thread holds this list and no other: after a drop no reader is left

        def run(cancel: Cancel = self._cancel) -> None:
            outcome.append(
                ask(
                    self._summariser,
                    question,
                    deadline_s=self._deadline_s,
                    judge=judge,
                    retries=self._retries,
                    clock=self._clock,
                    cancel=cancel,
                )
            )

        self._thread = threading.Thread(target=run, name=f"{THREAD_NAME}-ahead", daemon=True)
        self._thread.start()
        return True

    @property
    def is_running(self) -> bool:
        """Whether a thread of this prefetch is still alive."""
        return self._cancel.is_running or (self._thread is not None and self._thread.is_alive())

    def take(self, question: Question, *, wait_s: float = 0.0) -> SummaryOutcome | None:
        """Return the outcome, once, if it is there or comes within `wait_s`. A question that does not match drops it."""
        if question != self.question:
            self.drop()
            return None
        if self._thread is not None:
            self._thread.join(wait_s)
        if not self._outcome:
            return None
        self.question = None
        return self._outcome.pop()

    def drop(self) -> None:
        """Forget the question; an answer that still comes is discarded."""
        self._cancel.press()
        self.question, self._outcome = None, []
