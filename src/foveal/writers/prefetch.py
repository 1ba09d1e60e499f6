"""A summary asked for ahead: in the background at the soft trigger, so that the answer may be ready at the hard one."""

import threading
from collections.abc import Callable

from foveal.summary.question import Question
from foveal.writers.call import Cancel, Judge, SummaryOutcome
from foveal.writers.worker import THREAD_NAME


class Prefetch:
    """At most one question under way, in daemon threads. The answer to a question that was dropped is discarded.

    The holder decides whether the answer still matches: it compares `question` with the question it would ask now, and takes or
    drops the answer. `ask` is the function `ask` with its summariser and its limits.
    """

    def __init__(self, ask: Callable[..., SummaryOutcome]) -> None:
        self._ask = ask
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
            outcome.append(self._ask(question, judge=judge, cancel=cancel))

        self._thread = threading.Thread(target=run, name=f"{THREAD_NAME}-ahead", daemon=True)
        self._thread.start()
        return True

    @property
    def is_running(self) -> bool:
        """Whether a thread of this prefetch is still alive."""
        return self._cancel.is_running or (self._thread is not None and self._thread.is_alive())

    def take(self) -> SummaryOutcome | None:
        """Return the outcome, once, if it is there."""
        if not self._outcome:
            return None
        self.question = None
        return self._outcome.pop()

    def drop(self) -> None:
        """Forget the question; an answer that still comes is discarded."""
        self._cancel.press()
        self.question, self._outcome = None, []
