"""The lease of an open store: containers that come and go, renewals, and writers that wake up too late."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from foveal.stores.lease import LEASE_MS
from foveal.stores.port import Draft
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite import store as store_module
from foveal.stores.sqlite.tables import Tables
from foveal.values.errors import LeaseLost, SessionHeld

ELSEWHERE = """
import sys
from foveal.stores import lease
lease._host = lambda: sys.argv[2]
lease._namespace = lambda: "pid:[" + sys.argv[2] + "]"
from foveal.stores.port import Draft
from foveal.stores.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
writer = store.acquire("s")
print(*writer.append([Draft(sys.argv[3], None, 1, "me", b"x")]), flush=True)
if sys.stdin.readline():
    print("goes on", flush=True)
"""
"""A writer that looks as if it were in a container of its own; it ends without closing when it hears nothing."""

QUICKSTART = """
import foveal
store = foveal.open_store("agent.db")
session = foveal.Session(store, "fix-login", model="gpt-5")
session.append(foveal.user("Find out why."))
session.prompt()
print(len(list(store.rows("fix-login"))))
"""


class Time:
    """A clock that stands still until it is moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = store_module._now_ms()
        monkeypatch.setattr(store_module, "_now_ms", lambda: self.now_ms)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    return Time(monkeypatch)


def draft(name: str) -> Draft:
    return Draft(name, None, 1, "me", b"x")


def lease_end(store: SqliteStore) -> int:
    """The end of the only lease in the store."""
    with store._tables() as tables:
        ((token,),) = tables._db.execute("SELECT token FROM leases")
        end = Tables(tables._db, store.path).lease_until(token)
    assert end is not None
    return end


def can_unshare() -> bool:
    """Whether this user may make namespaces, which containers are made of."""
    made = shutil.which("unshare") and subprocess.run(
        ["unshare", "--uts", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, check=False
    )
    return bool(made) and made.returncode == 0


@pytest.mark.skipif(not can_unshare(), reason="needs the right to make namespaces")
def test_the_quickstart_runs_twice_in_throwaway_containers(tmp_path: Path) -> None:
    """Each run has a host name and a pid namespace of its own, shares the folder, and does not close anything."""
    counts = []
    for host in ("c0ffee", "decade"):
        inner = 'hostname "$0" && exec "$1" -c "$2"'
        words = [
            "unshare",
            "--uts",
            "--pid",
            "--fork",
            "--mount-proc",
            "sh",
            "-c",
            inner,
            host,
            sys.executable,
            QUICKSTART,
        ]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        counts.append(int(done.stdout))
    assert counts[1] > counts[0]


def test_a_program_that_ends_without_closing_gives_its_sessions_back(path: Path, child: Callable[..., Any]) -> None:
    """Another container goes on at once, and the file is complete without a WAL."""
    child(ELSEWHERE, path, "one", "a").rest()
    assert not Path(f"{path}-wal").exists()
    assert child(ELSEWHERE, path, "two", "b").hear() == "2"


def test_a_process_killed_in_another_container_holds_its_session_until_its_lease_ends(
    path: Path, child: Callable[..., Any], time: Time
) -> None:
    """Nobody can see that it is dead; the error says how long to wait, and then the session is given out."""
    killed = child(ELSEWHERE, path, "one", "a")
    assert killed.hear() == "1"
    killed.process.kill()
    killed.process.wait()
    store = SqliteStore(path)
    with pytest.raises(SessionHeld, match=r"on one since .* wait \d+ s .* takeover=True"):
        store.acquire("s")
    time.now_ms += 10 * LEASE_MS  # the child has a clock of its own, a little ahead
    writer = store.acquire("s")
    assert (writer.epoch, writer.append([draft("b")])) == (2, [2])
    store.close()


def test_a_writer_whose_lease_ended_is_fenced_when_it_wakes_up(
    path: Path, child: Callable[..., Any], time: Time
) -> None:
    """A stopped process in another container loses the session to the next one, and cannot write a byte any more."""
    time.now_ms -= 10 * LEASE_MS
    sleeper = SqliteStore(path)
    asleep = sleeper.acquire("s")
    asleep.append([draft("a")])
    time.now_ms += 10 * LEASE_MS
    other = child(ELSEWHERE, path, "one", "b")
    assert other.hear() == "2"
    with pytest.raises(LeaseLost, match=r"on one since .*\(epoch 2, this writer has 1\)"):
        asleep.append([draft("c")])
    assert [row.id for row in sleeper.rows("s")] == ["a", "b"]
    sleeper.close()


def test_a_lease_is_renewed_with_a_commit_when_half_of_it_has_passed(path: Path, time: Time) -> None:
    """Until then an append writes nothing of it, and then it costs no commit of its own."""
    store = SqliteStore(path)
    writer = store.acquire("s")
    commits: list[int] = []
    hook = store._commits._note_wal
    store._commits._db.set_wal_hook(lambda db, name, pages: commits.append(pages) or hook(db, name, pages))
    began = lease_end(store)
    time.now_ms += LEASE_MS // 2 - 1
    writer.append([draft("a")])
    assert lease_end(store) == began
    time.now_ms += 1
    writer.append([draft("b")])
    assert lease_end(store) == began + LEASE_MS // 2
    assert len(commits) == 2
    store.close()


def test_an_idle_writer_renews_its_lease(path: Path, time: Time) -> None:
    """A process that waits for its model for minutes keeps its sessions, all of them by one row."""
    store = SqliteStore(path)
    for name in ("a", "b", "c"):
        store.acquire(name)
    began = lease_end(store)
    time.now_ms += LEASE_MS
    assert store._commits._rest_s() == 0.0
    store._commits.run_alone(lambda db: store._commits._rest())  # in the thread, as if the queue had been empty
    assert lease_end(store) == began + LEASE_MS
    store.close()


def test_closing_leaves_no_lease(path: Path) -> None:
    """A handle that held sessions leaves neither a holder nor a lease, and a handle that only reads never has one."""
    store = SqliteStore(path)
    store.acquire("s")
    store.close()
    again = SqliteStore(path)
    with again._tables() as tables:
        assert tables._db.execute("SELECT count(*) FROM leases").fetchall() == [(0,)]
    assert [card.holder for card in again.cards()] == [None]
    again.close()


def test_an_acquisition_that_was_undone_leaves_no_lease_to_renew(path: Path) -> None:
    """A handle that was refused a session holds none."""
    one, two = SqliteStore(path), SqliteStore(path)
    one.acquire("s")
    with pytest.raises(SessionHeld, match=f"pid {os.getpid()}"):
        two.acquire("s")
    assert two._lease.rest_s() is None
    one.close()
    two.close()
