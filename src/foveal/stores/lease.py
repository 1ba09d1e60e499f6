"""The lease of a session: the process that may write it, and whether that process still lives.

A process is known by its host, the host's boot, its pid and the moment it started: a pid alone is given out again, and after
a reboot all of them are. A process that cannot be seen from here (on another host) counts as alive; even a wrong answer
is harmless, because only the newest writer can append.
"""

import os
import secrets
import socket
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import msgspec


class Lease(msgspec.Struct, frozen=True):
    """The right of one process to write one session."""

    program: str
    host: str
    boot: str
    """The id of the host's boot; empty where the system has none."""
    pid: int
    started: str
    """The start of the process, in the system's own unit; empty where the system does not tell it."""
    token: str
    since_ms: int

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).isoformat(timespec="seconds")
        return f"{self.program} (pid {self.pid}) on {self.host} since {since}"

    def lives(self) -> bool:
        """Return False only if the process is known to be gone."""
        if self.host != _host():
            return True
        if self.boot != _boot():
            return False
        return _is_alive(self.pid, self.started)


def this_process(since_ms: int) -> Lease:
    """Return a new lease of this process."""
    pid = os.getpid()
    program = Path(sys.argv[0]).name.encode("ascii", "replace").decode() if sys.argv else ""
    return Lease(program or "python", _host(), _boot(), pid, _started(pid) or "", secrets.token_hex(8), since_ms)


def pack(holder: Lease) -> str:
    return msgspec.json.encode(holder).decode()


def unpack(text: str) -> Lease:
    return msgspec.json.decode(text, type=Lease)


@cache
def _host() -> str:
    return socket.gethostname()


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _is_alive(pid: int, started: str) -> bool:
    if sys.platform == "win32":
        return True  # os.kill would end the process there
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # the process exists and belongs to another user
    now = _started(pid)
    return now is None or now == started


def _started(pid: int) -> str | None:
    """Return the start of a process; None if the system does not tell it, "ended" for a process that waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The second field is the program's name in parentheses and may hold anything; state and start are the 3rd and 22nd.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return "ended" if fields[0] in (b"Z", b"X") else fields[19].decode()
