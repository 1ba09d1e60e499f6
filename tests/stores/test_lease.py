"""Who counts as alive, and for how long."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from foveal.stores import lease as leases
from foveal.stores.lease import LEASE_MS, Lease, has_ended, held_text, pack, this_process, unpack


def altered(**changes: object) -> Lease:
    return msgspec.structs.replace(this_process(0), **changes)


@contextmanager
def without_proc() -> Iterator[None]:
    """Let the system have no /proc, as macOS has none; what was learned of it before is forgotten."""

    def missing(path: Path) -> None:
        raise FileNotFoundError(path)

    with pytest.MonkeyPatch.context() as patch:
        for name in ("read_text", "read_bytes", "readlink"):
            patch.setattr(Path, name, missing)
        for known in (leases._boot, leases._namespace):
            patch.setattr(leases, known.__name__, known.__wrapped__)
        yield


def test_this_process_lives() -> None:
    """The holder that was just written down is alive, and survives being written down."""
    holder = this_process(1_700_000_000_000)
    assert holder.lives()
    assert unpack(pack(holder)) == holder
    assert f"pid {os.getpid()}" in str(holder)
    assert "since 2023-11-14T22:13:20" in str(holder)


def test_two_holders_of_one_process_differ() -> None:
    """Each handle has a token of its own."""
    assert this_process(0) != this_process(0)


@pytest.mark.parametrize(
    "changes", [{"host": "elsewhere", "boot": "another"}, {"namespace": "pid:[7]"}, {"namespace": "pid:[7]", "pid": 1}]
)
def test_a_process_that_cannot_be_seen_lives_as_long_as_its_lease(changes: dict[str, object]) -> None:
    """In another container or on another host, a process is neither seen nor declared dead: its lease decides."""
    lease = altered(**changes)
    assert lease.lives() is None
    assert not has_ended(lease, 1000, 999)
    assert has_ended(lease, 1000, 1000)
    assert has_ended(lease, None, 0)


def test_a_process_that_can_be_seen_needs_no_lease() -> None:
    """A living process keeps its session however long it was stopped; a dead one loses it at once."""
    assert not has_ended(this_process(0), None, 1 << 50)
    assert has_ended(altered(started="1"), 1 << 50, 0)


@pytest.mark.parametrize("changes", [{"boot": "an earlier one"}, {"started": "1"}, {"pid": (1 << 22) - 1}])
def test_a_process_of_an_earlier_boot_or_with_a_reused_pid_is_dead(changes: dict[str, object]) -> None:
    """A pid alone proves nothing."""
    assert altered(**changes).lives() is False


def test_a_process_that_ended_is_dead() -> None:
    """Its pid is free again."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert altered(pid=ended.pid).lives() is False


def test_a_process_that_ended_and_was_not_reaped_is_dead() -> None:
    """Its pid is still its own, and so is its start; it writes nothing any more."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    lease = altered(pid=ended.pid, started=_started(ended.pid))
    assert lease.lives() is False
    ended.wait()


def test_the_host_decides_where_a_boot_has_no_id() -> None:
    """A process of this host can be asked about; of one on another host, whose boot has no id either, nothing is known."""
    assert altered(boot="").lives() is True
    assert altered(boot="", host="elsewhere").lives() is None


def test_a_system_without_proc_has_leases() -> None:
    """A lease can be written down and read there; since a pid may be another process's, it holds as long as it is renewed."""
    with without_proc():
        lease = unpack(pack(this_process(0)))
        assert not has_ended(lease, 1_000, 999)
        assert has_ended(lease, 1_000, 1_000)
    assert (lease.boot, lease.namespace, lease.started) == ("", "", "")


@pytest.mark.parametrize(
    ("words", "program"),
    [(["/srv/agent.py", "--fast"], "agent.py"), (["agént"], "ag?nt"), ([""], "python"), ([], "python")],
)
def test_a_lease_names_the_program(monkeypatch: pytest.MonkeyPatch, words: list[str], program: str) -> None:
    """People know a process by the file that they started, and not by its arguments; an interpreter by itself is Python."""
    monkeypatch.setattr(sys, "argv", words)
    assert this_process(0).program == program


def test_leases_of_one_handle_share_its_token() -> None:
    """They are renewed together."""
    assert this_process(0, "mine").token == this_process(1, "mine").token == "mine"


@pytest.mark.skipif(os.getuid() != 0, reason="asks about a process of another user")
def test_a_process_of_another_user_is_seen() -> None:
    """The first process of the system lives, whoever asks."""
    assert altered(pid=1, started=_started(1)).lives()


def test_the_error_names_the_holder_its_age_and_the_ways_out() -> None:
    """Somebody who finds a session held learns who has it, since when, how long to wait, and how to take it over."""
    unseen = altered(host="c0ffee", namespace="pid:[7]", pid=7, program="agent.py")
    said = held_text("build", unseen, LEASE_MS, 10_000)
    assert "build is held by agent.py (pid 7) on c0ffee since 1970-01-01T00:00:00+00:00, for 10 s now" in said
    assert "wait 20 s for its lease to end" in said
    assert "takeover=True" in said
    assert "wait" not in held_text("build", this_process(0), LEASE_MS, 7_200_000)
    assert "for 2 hours now" in held_text("build", this_process(0), LEASE_MS, 7_200_000)


@pytest.mark.parametrize(
    ("seconds", "age"),
    [
        (-1, "0 s"),
        (0, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7_199, "119 min"),
        (7_200, "2 hours"),
        (172_799, "47 hours"),
        (172_800, "2 days"),
        (259_199, "2 days"),
        (259_200, "3 days"),
    ],
)
def test_an_age_is_told_in_the_largest_unit_of_which_it_has_two(seconds: int, age: str) -> None:
    """Also if the clock of the holder is ahead: it has held the session for no time then."""
    assert f", for {age} now. " in held_text("build", altered(since_ms=0), LEASE_MS, 1_000 * seconds)


@pytest.mark.parametrize(
    ("left_ms", "wait"), [(600_000, "600 s"), (1_600, "2 s"), (400, "1 s"), (0, "1 s"), (-5_000, "1 s")]
)
def test_somebody_who_waits_is_told_for_how_long(left_ms: int, wait: str) -> None:
    """In seconds, and one at least: a lease that is about to end has not been given up."""
    assert f"wait {wait} for its lease to end" in held_text(
        "build", altered(boot="", host="c0ffee"), 9_000 + left_ms, 9_000
    )


def test_a_holder_without_a_lease_is_not_waited_for() -> None:
    """There is no end to tell."""
    assert "wait" not in held_text("build", altered(boot="", host="c0ffee"), None, 9_000)


def _started(pid: int) -> str:
    with open(f"/proc/{pid}/stat") as file:  # noqa: PTH123 - as plain as the kernel's own documentation
        return file.read().rpartition(")")[2].split()[19]
