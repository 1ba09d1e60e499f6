"""Who counts as alive, and for how long."""

import os
import subprocess
import sys

import msgspec
import pytest

from foveal.stores.lease import LEASE_MS, Lease, has_ended, held_text, pack, this_process, unpack


def altered(**changes: object) -> Lease:
    return msgspec.structs.replace(this_process(0), **changes)


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


@pytest.mark.skipif(os.getuid() != 0, reason="asks about a process of another user")
def test_a_process_of_another_user_is_seen() -> None:
    """The first process of the system lives, whoever asks."""
    assert altered(pid=1, started=_started_of_init()).lives()


def test_the_error_names_the_holder_its_age_and_the_ways_out() -> None:
    """Somebody who finds a session held learns who has it, since when, how long to wait, and how to take it over."""
    unseen = altered(host="c0ffee", namespace="pid:[7]", pid=7, program="agent.py")
    said = held_text("build", unseen, LEASE_MS, 10_000)
    assert "build is held by agent.py (pid 7) on c0ffee since 1970-01-01T00:00:00+00:00, for 10 s now" in said
    assert "wait 20 s for its lease to end" in said
    assert "takeover=True" in said
    assert "wait" not in held_text("build", this_process(0), LEASE_MS, 7_200_000)
    assert "for 2 hours now" in held_text("build", this_process(0), LEASE_MS, 7_200_000)


def _started_of_init() -> str:
    with open("/proc/1/stat") as file:  # noqa: PTH123 - as plain as the kernel's own documentation
        return file.read().rpartition(")")[2].split()[19]
