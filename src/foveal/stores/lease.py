"""The lease of a session: the process that may write it, and whether that process still lives.

A process is known by its host, the host's boot, its pid namespace (each container has one of its own), its pid and the moment
it started: a pid alone is given out again, and after a reboot all of them are. A process that can be seen from here is asked
about. One that cannot, in another container or on another host, lives as long as its lease, which it renews while it does.

A wrong answer is harmless, because only the newest writer can append: the epoch of a session is the fence, the lease only says
when to give out a new one.
"""

import os
import secrets
import socket
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import msgspec

LEASE_MS = 30_000
"""Time for which an unseen process counts as alive after it last renewed its lease: far above any pause of a healthy process,
and short enough to wait for in a container that succeeds a killed one."""


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
    """The store handle that holds the session; all leases of one handle are renewed together."""
    since_ms: int
    namespace: str = ""
    """The pid namespace; empty where the system has none."""

    def __str__(self) -> str:
        since = datetime.fromtimestamp(self.since_ms / 1000, UTC).isoformat(timespec="seconds")
        return f"{self.program} (pid {self.pid}) on {self.host} since {since}"

    def lives(self) -> bool | None:
        """Return whether the process lives; None if that cannot be seen from here."""
        if self.boot and self.boot != _boot() and self.host == _host():
            return False  # the host was started again since
        is_near = (self.boot, self.namespace) == (_boot(), _namespace()) if self.boot else self.host == _host()
        return _is_alive(self.pid, self.started) if is_near else None


def has_ended(lease: Lease, until_ms: int | None, now_ms: int) -> bool:
    """Return whether a lease is over: its process is known to be dead, or cannot be seen and has not renewed it in time."""
    lives = lease.lives()
    return not lives if lives is not None else until_ms is None or until_ms <= now_ms


def held_text(session: str, lease: Lease, until_ms: int | None, now_ms: int) -> str:
    """Return the text of the error for somebody who finds the session held."""
    if lease.lives() or until_ms is None:
        remedy = "Close it there, or take it over"
    else:
        left_s = max(1, round((until_ms - now_ms) / 1000))
        remedy = f"If that process is gone, wait {left_s} s for its lease to end; or close it there, or take it over"
    return (
        f"session {session} is held by {lease}, for {_age(now_ms - lease.since_ms)} now. {remedy} with takeover=True "
        "(`foveal delete`: --takeover): that writer's next append is then refused."
    )


def this_process(since_ms: int, token: str | None = None) -> Lease:
    """Return a new lease of this process."""
    pid = os.getpid()
    program = Path(sys.argv[0]).name.encode("ascii", "replace").decode() if sys.argv else ""
    return Lease(
        program or "python", _host(), _boot(), pid, _started(pid) or "", token or new_token(), since_ms, _namespace()
    )


def new_token() -> str:
    """Return a new name for a store handle."""
    return secrets.token_hex(8)


def pack(holder: Lease) -> str:
    return msgspec.json.encode(holder).decode()


def unpack(text: str) -> Lease:
    return msgspec.json.decode(text, type=Lease)


def _age(age_ms: int) -> str:
    seconds = max(0, age_ms // 1000)
    for unit, size in (("days", 86_400), ("hours", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


@cache
def _host() -> str:
    return socket.gethostname()


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@cache
def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _is_alive(pid: int, started: str) -> bool | None:
    """Return whether the process is there; None if a process of this pid is there that may be another one."""
    if sys.platform == "win32":
        return None  # os.kill would end the process there
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # the process exists and belongs to another user
    now = _started(pid)
    return None if now is None else now == started


def _started(pid: int) -> str | None:
    """Return the start of a process; None if the system does not tell it, "ended" for a process that waits to be reaped."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    # The second field is the program's name in parentheses and may hold anything; state and start are the 3rd and 22nd.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return "ended" if fields[0] in (b"Z", b"X") else fields[19].decode()
