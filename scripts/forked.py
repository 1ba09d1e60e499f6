"""A process that a script forks to have something to kill: it starts at once, where an interpreter imports for half a second."""

import multiprocessing
import os
import signal
from collections.abc import Callable

FORK = multiprocessing.get_context("fork")


class Forked:
    """Runs `work` in a process of its own, and reads what it writes to standard output."""

    def __init__(self, work: Callable[[], None], *, is_heard: bool = False) -> None:
        """Fork now: this process has no other threads, and no store that is open."""
        reading, writing = os.pipe() if is_heard else (-1, -1)
        self._process = FORK.Process(target=_speak, args=(work, writing))
        self._process.start()
        if is_heard:
            os.close(writing)
        self._said = open(reading, encoding="utf-8") if is_heard else None  # noqa: PTH123, SIM115 - closed by `wait`

    @property
    def status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._process.exitcode

    def read_line(self) -> str:
        """Return the next line, or nothing if it ended without one."""
        assert self._said
        return self._said.readline()

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self._process.exitcode is None and self._process.pid:
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout_s: float | None = None) -> str:
        """Return the rest of what it said, once it has ended."""
        self._process.join(timeout_s)
        if self._process.exitcode is None:
            self.kill()
            raise TimeoutError(f"process {self._process.pid} did not end within {timeout_s:.0f} s")
        if self._said is None:
            return ""
        with self._said:
            return self._said.read()


def _speak(work: Callable[[], None], writing: int) -> None:
    if writing >= 0:
        os.dup2(writing, 1)
        os.close(writing)
    work()
