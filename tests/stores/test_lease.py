"""Who counts as alive."""

import os
import subprocess
import sys

import msgspec
import pytest

from foveal.stores.lease import Lease, pack, this_process, unpack


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
    """Each hold has a token of its own."""
    assert this_process(0) != this_process(0)


def test_a_process_on_another_host_counts_as_alive() -> None:
    """What cannot be known from here is not declared dead."""
    assert altered(host="elsewhere", pid=1 << 22).lives()


@pytest.mark.parametrize("changes", [{"boot": "an earlier one"}, {"started": "1"}, {"pid": (1 << 22) - 1}])
def test_a_process_of_an_earlier_boot_or_with_a_reused_pid_is_dead(changes: dict[str, object]) -> None:
    """A pid alone proves nothing."""
    assert not altered(**changes).lives()


def test_a_process_that_ended_is_dead() -> None:
    """Its pid is free again."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert not altered(pid=ended.pid).lives()


@pytest.mark.skipif(os.getuid() != 0, reason="asks about a process of another user")
def test_a_process_of_another_user_is_seen() -> None:
    """The first process of the system lives, whoever asks."""
    assert altered(pid=1, started=_started_of_init()).lives()


def _started_of_init() -> str:
    with open("/proc/1/stat") as file:  # noqa: PTH123 - as plain as the kernel's own documentation
        return file.read().rpartition(")")[2].split()[19]
