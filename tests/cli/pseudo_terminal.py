"""A terminal of its own for a program under test: keys go in, and the screen is what a person would see."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte

from ..warm_python import WarmPython

PATIENCE_S = 20.0
ENTER, ESCAPE, TAB, INTERRUPT, END, UP = "\r", "\x1b", "\t", "\x03", "\x04", "\x1b[A"


class PseudoTerminal:
    """Runs `foveal` with these words on a screen of 100 columns."""

    def __init__(
        self,
        *words: str,
        cwd: Path,
        rows: int = 45,
        env: dict[str, str] | None = None,
        warm: WarmPython | None = None,
    ) -> None:
        """Start the program: anew, or from an interpreter that has imported it."""
        self.screen = pyte.HistoryScreen(100, rows, history=2_000)
        self._stream = pyte.ByteStream(self.screen)
        self._fd, worker = pty.openpty()
        self.screen.write_process_input = self.type  # where the cursor is, for a program that asks
        fcntl.ioctl(worker, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 100, 0, 0))
        around = {
            name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES")
        }  # of pytest-xdist
        settings = {**around, "TERM": "xterm-256color", "NO_PROXY": "127.0.0.1"}
        settings |= env or {}
        command = ["-m", "foveal", *words]
        if warm:
            self.program = warm.start(command, [worker] * 3, cwd=cwd, env=settings, is_terminal=True)
        else:
            self.program = subprocess.Popen(
                [sys.executable, *command],
                stdin=worker,
                stdout=worker,
                stderr=worker,
                cwd=cwd,
                env=settings,
                start_new_session=True,
                preexec_fn=_take_terminal,  # noqa: PLW1509 - nothing else runs in it yet
            )
        os.close(worker)

    def resize(self, columns: int, rows: int) -> None:
        """Give the screen another size; the program is told by its signal."""
        self.screen.resize(rows, columns)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, data: str) -> None:
        os.write(self._fd, data.encode())

    def say(self, line: str) -> None:
        self.type(line + ENTER)

    @property
    def text(self) -> str:
        """Everything that is on the screen or has left it at the top."""
        past = ["".join(line[x].data for x in range(self.screen.columns)) for line in self.screen.history.top]
        return "\n".join(line.rstrip() for line in (*past, *self.screen.display))

    def see(self, *wanted: str) -> str:
        """Read until the screen shows all of these texts, and return it."""
        return self._until(lambda text: all(one in text for one in wanted), wanted)

    def see_rest(self) -> str:
        """Read until the agent has come to an end, and return the screen."""
        return self._until(lambda text: "tokens (" in text and "working" not in text, "an end")

    def _until(self, is_there: Callable[[str], bool], wanted: object) -> str:
        end = time.monotonic() + PATIENCE_S
        while not is_there(self.text):
            if time.monotonic() > end or not self._read():
                raise AssertionError(f"{wanted} did not come; the screen is:\n{self.text}")
        return self.text

    def leave(self) -> int:
        """Read to the end of the program and return its exit code."""
        while self._read():
            pass
        return self.program.wait(PATIENCE_S)

    def _read(self) -> bool:
        if not select.select([self._fd], [], [], PATIENCE_S)[0]:
            return False
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # Linux: the program has closed its side
            return False
        self._stream.feed(data)
        return bool(data)

    def close(self) -> None:
        if self.program.poll() is None:
            self.program.kill()
            self.program.wait()
        os.close(self._fd)


def _take_terminal() -> None:
    """Make the terminal on its input that of this process, whom Ctrl-C reaches, also where the tests run in the background: a
    shell lets its background programs ignore it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
