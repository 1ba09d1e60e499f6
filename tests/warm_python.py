"""Programs in processes of their own that need not import anything: each is forked from an interpreter that has.

An interpreter that imports an SDK takes a second of CPU and more, and tests of a terminal start more than fifty. A program gets
its own session, streams, folder and environment, and ends as any other does. What is set up before an interpreter runs, such as
`PYTHONHASHSEED`, is that of the tests: a test of that starts a new one.
"""

import fcntl
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

_MOST = 1 << 20
_STANDARD = (0, 1, 2)


class WarmPython:
    """An interpreter that has run this code, and waits for programs."""

    def __init__(self, code: str) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, __file__, str(theirs.fileno()), code]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()])

    def start(
        self, words: Sequence[str], fds: Sequence[int], *, cwd: Path, env: Mapping[str, str], is_terminal: bool = False
    ) -> "WarmProgram":
        """Run `-m module …` or `file …` with these three standard streams."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        wish = {"words": list(words), "cwd": str(cwd), "env": dict(env), "is_terminal": is_terminal}
        with theirs:
            socket.send_fds(self._socket, [json.dumps(wish).encode()], [*fds, theirs.fileno()])
        return WarmProgram(ours)

    def run(
        self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], given: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, with this text as its input."""
        with TemporaryFile("w+") as put, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
            put.write(given)
            put.seek(0)
            status = self.start(words, [one.fileno() for one in (put, out, err)], cwd=cwd, env=env).wait()
            out.seek(0)
            err.seek(0)
            return subprocess.CompletedProcess(list(words), status, out.read(), err.read())

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


class WarmProgram:
    """A program that was started. Its methods are those of `subprocess.Popen`."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self.pid = int(told.recv(64))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        with suppress(TimeoutError):
            self._hear(0.0001)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        try:
            return self._hear(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired("a warm program", timeout or 0) from None

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _hear(self, timeout: float | None) -> int:
        if self.returncode is None:
            self._told.settimeout(timeout)
            status = self._told.recv(64)
            self._told.close()
            self.returncode = int(status)
        return self.returncode


# The other side


def serve(connection: socket.socket) -> dict[str, Any]:
    """Start programs until the connection ends. In the process of a program, return what it shall be."""
    while True:
        data, fds, _, _ = socket.recv_fds(connection, _MOST, 4)
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if not data:
            with suppress(ChildProcessError):
                while os.waitpid(-1, 0)[0]:
                    pass
            sys.exit(0)
        if os.fork():
            for fd in fds:
                os.close(fd)
            continue
        connection.close()
        told = socket.socket(fileno=fds.pop())
        if program := os.fork():
            told.send(str(program).encode())
            for fd in (*fds, *_STANDARD):  # a terminal is left when nobody has it open
                os.close(fd)
            _, status = os.waitpid(program, 0)
            with suppress(OSError):
                told.send(str(os.waitstatus_to_exitcode(status)).encode())
            os._exit(0)
        told.close()
        wish = json.loads(data)
        become(wish, fds)
        return wish


def become(wish: dict[str, Any], fds: list[int]) -> None:
    """Take over the streams, the folder and the environment of a new process."""
    os.setsid()
    for number, fd in zip(_STANDARD, fds, strict=True):
        os.dup2(fd, number)
    for fd in set(fds):
        os.close(fd)
    if wish["is_terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(wish["cwd"])
    os.environ.clear()
    os.environ.update(wish["env"])
    is_plain = "PYTHONUNBUFFERED" in wish["env"]
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty(), write_through=is_plain)
    sys.stderr.reconfigure(line_buffering=True)


def run(words: list[str]) -> None:
    """Run a module or a file as a new interpreter does."""
    if words[0] == "-m":
        sys.argv, sys.path[0] = words[1:], ""
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = words, str(Path(words[0]).parent)
        runpy.run_path(words[0], run_name="__main__")


if __name__ == "__main__":
    exec(sys.argv[2], {})  # noqa: S102 - the code of a test
    gc.freeze()  # what all programs share is not looked at by each
    run(serve(socket.socket(fileno=int(sys.argv[1])))["words"])
