"""Timers of this process for runs that wait for an answer with a deadline. A timer costs nearly nothing until then."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from foveal.agent.deadlines import first_deadline
from foveal.agent.tools import UserQuestion
from foveal.session.options import now_ms
from foveal.values.errors import FovealError
from foveal.writers.faults import describe

MOST_S = 60.0
"""Seconds after which a timer compares the deadline with the clock again: it may have been set, or the machine may have slept."""

AGAIN_S = 2.0
"""Seconds after which an overdue run that could not go on is tried again; twice as long each time, up to `MOST_S`."""

logger = logging.getLogger("foveal.runs")


class QuestionTimers:
    """Calls `go_on` with the session of a run when the first of its questions is overdue; again later if that fails."""

    def __init__(self, go_on: Callable[[str], Awaitable[None]]) -> None:
        self._go_on = go_on
        self.by_session: dict[str, asyncio.TimerHandle] = {}
        self._late: set[asyncio.Future[None]] = set()
        self._is_over = False

    def mind(self, session: str, questions: Iterable[UserQuestion], least_s: float = 0.0) -> None:
        """Set the timer of a session to the first deadline of these questions, and at least so many seconds from now on. Without
        a deadline it has none."""
        if (before := self.by_session.pop(session, None)) is not None:
            before.cancel()
        until_ms = first_deadline(questions)
        if until_ms is None or self._is_over:
            return
        self._set(session, until_ms, least_s)

    def end(self) -> None:
        """Stop all timers: whatever is overdue from here on is for others."""
        self._is_over = True
        for timer in self.by_session.values():
            timer.cancel()
        self.by_session.clear()

    def _set(self, session: str, until_ms: int, least_s: float = 0.0, again_s: float | None = None) -> None:
        delay_s = max(least_s, min(MOST_S, (until_ms - now_ms()) / 1_000))
        call_later = asyncio.get_running_loop().call_later
        self.by_session[session] = call_later(delay_s, self._ring, session, until_ms, again_s)

    def _ring(self, session: str, until_ms: int, again_s: float | None) -> None:
        if now_ms() < until_ms:
            self._set(session, until_ms)
            return
        self.by_session.pop(session, None)
        task = asyncio.ensure_future(self._gone_on(session, until_ms, AGAIN_S if again_s is None else again_s))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _gone_on(self, session: str, until_ms: int, again_s: float) -> None:
        try:
            await self._go_on(session)
        except Exception as error:  # noqa: BLE001, RUF100 - of the store, or of a part that the host brought
            reason = error if isinstance(error, FovealError) else describe(error)
            told = "session %s has an overdue question, and its run could not go on; it is tried again: %s"
            logger.warning(told, session, reason)
            if session not in self.by_session and not self._is_over:
                self._set(session, until_ms, again_s, min(MOST_S, 2 * again_s))
