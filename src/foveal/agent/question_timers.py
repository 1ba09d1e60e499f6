"""Timers of this process for runs that wait for an answer with a deadline. A timer costs nothing until then."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from foveal.agent.deadlines import first_deadline
from foveal.agent.tools import UserQuestion
from foveal.session.options import now_ms


class QuestionTimers:
    """Calls `go_on` with the session of a run when the first of its questions is overdue."""

    def __init__(self, go_on: Callable[[str], Awaitable[None]]) -> None:
        self._go_on = go_on
        self.by_session: dict[str, asyncio.TimerHandle] = {}
        self._late: set[asyncio.Future[None]] = set()
        self._is_over = False

    def mind(self, session: str, questions: Iterable[UserQuestion], least_s: float = 0.0) -> None:
        """Set the timer of a session to the first deadline of these questions, and at least so many seconds from now on."""
        until_ms = first_deadline(questions)
        if until_ms is None or self._is_over:
            return
        if session in self.by_session:
            self.by_session[session].cancel()
        delay_s = max(least_s, (until_ms - now_ms()) / 1_000)
        self.by_session[session] = asyncio.get_running_loop().call_later(delay_s, self._ring, session)

    def end(self) -> None:
        """Stop all timers: whatever is overdue from here on is for others."""
        self._is_over = True
        for timer in self.by_session.values():
            timer.cancel()

    def _ring(self, session: str) -> None:
        self.by_session.pop(session, None)
        task = asyncio.ensure_future(self._go_on(session))
        self._late.add(task)
        task.add_done_callback(self._late.discard)
