"""One call of a summariser in a thread of its own, which the caller can abandon.

A thread cannot be stopped from outside. So the result passes one lock, and is dropped if the caller has given up before. The
thread is a daemon and keeps no process alive. An async summariser runs on a loop of its own in that thread, never on the
caller's, and its task is cancelled when the call is given up.
"""

import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, cast

from foveal.summary.question import Question
from foveal.writers.port import Summariser, SummariserAnswer

if TYPE_CHECKING:
    import asyncio

THREAD_NAME = "foveal-summariser"


class WorkerCall:
    """A call, started by its constructor. `wait` returns whether it is over; then `result` holds its outcome."""

    def __init__(self, summariser: Summariser, question: Question) -> None:
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.given_up = False
        self._stop: Callable[[], object] | None = None
        self.result: object = None
        """The returned value, of any type, or the exception that was raised."""
        context = contextvars.copy_context()
        self._thread = threading.Thread(
            target=context.run, args=(self._run, summariser, question), name=THREAD_NAME, daemon=True
        )
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the thread is still alive, even if the caller no longer waits for it."""
        return self._thread.is_alive()

    def wait(self, timeout_s: float) -> bool:
        """Wait until there is a result, the call was given up, or the time is over. Return False in the last case."""
        return self._over.wait(max(0.0, min(timeout_s, threading.TIMEOUT_MAX)))

    def give_up(self) -> None:
        """Accept no result from here on. Any thread may call it."""
        with self._lock:
            if self._over.is_set():
                return
            self.given_up = True
            self._over.set()
            stop = self._stop
        if stop is not None:
            stop()

    def _run(self, summariser: Summariser, question: Question) -> None:
        result: object
        try:
            answer = summariser(question)
            result = self._awaited(answer) if inspect.isawaitable(answer) else answer
        except BaseException as error:  # noqa: BLE001, RUF100 - nothing may end the thread without a word
            result = error
        with self._lock:
            if not self.given_up:
                self.result = result
                self._over.set()

    def _awaited(self, answer: Awaitable[SummariserAnswer]) -> SummariserAnswer:
        import asyncio  # noqa: PLC0415 - only async summarisers need it

        async def main() -> SummariserAnswer:
            task = cast("asyncio.Task[SummariserAnswer]", asyncio.current_task())
            loop = asyncio.get_running_loop()
            with self._lock:
                self._stop = lambda: _cancel(loop, task)
                if self.given_up:
                    task.cancel()
            return await answer

        try:
            return asyncio.run(main())
        finally:
            with self._lock:
                self._stop = None


def _cancel(loop: "asyncio.AbstractEventLoop", task: "asyncio.Task[SummariserAnswer]") -> None:
    with suppress(RuntimeError):  # the loop was closed in the meantime: there is nothing left to cancel
        loop.call_soon_threadsafe(task.cancel)
