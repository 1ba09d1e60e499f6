"""Several writers: threads, processes, the dead and the stopped."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from foveal.stores.port import Draft
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.tables import Tables
from foveal.values.errors import BadEntry, NotFound, SchemaTooNew, SessionHeld, StoreBusy

WRITER = """
import sys
from foveal.values.errors import LeaseLost, SessionHeld
from foveal.stores.port import Draft
from foveal.stores.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
try:
    writer = store.acquire("s")
except SessionHeld as error:
    print("SessionHeld", error, flush=True)
    sys.exit()
print("held", flush=True)
for line in sys.stdin:
    try:
        print(*writer.append([Draft(line.strip(), None, 1, "child", b"x")]), flush=True)
    except LeaseLost as error:
        print("LeaseLost", error, flush=True)
"""


def entry(name: str, payload: bytes = b"x") -> Draft:
    return Draft(name, None, 1, "parent", payload)


def test_of_racing_processes_one_holds_the_session(path: Path, child: Callable[..., Any]) -> None:
    """Of four processes that ask for one session at once, one gets it and the others are told who has it."""
    SqliteStore(path).close()
    racers = [child(WRITER, path) for _ in range(4)]
    answers = [racer.hear() for racer in racers]
    (winner,) = (racer for racer, answer in zip(racers, answers, strict=True) if answer == "held")
    losers = [answer for answer in answers if answer.startswith("SessionHeld")]
    assert len(losers) == 3
    assert all(f"pid {winner.process.pid}" in answer and "takeover=True" in answer for answer in losers)
    winner.tell("a")
    assert winner.hear() == "1"


def test_a_dead_holder_is_succeeded_silently(path: Path, child: Callable[..., Any]) -> None:
    """A process that was killed leaves its name on the session, but nobody has to ask for a takeover."""
    holder = child(WRITER, path)
    assert holder.hear() == "held"
    store = SqliteStore(path)
    with pytest.raises(SessionHeld):
        store.acquire("s")
    holder.process.kill()
    holder.process.wait()
    assert store.acquire("s").epoch == 2
    store.close()


def test_a_killed_process_that_nobody_waited_for_is_dead(path: Path, child: Callable[..., Any]) -> None:
    """A zombie in the process table still has a pid and a start time, and yet does not live."""
    holder = child(WRITER, path)
    assert holder.hear() == "held"
    holder.process.kill()
    os.waitid(os.P_PID, holder.process.pid, os.WEXITED | os.WNOWAIT)
    store = SqliteStore(path)
    assert store.acquire("s").epoch == 2
    store.close()


def test_a_stopped_writer_is_fenced_when_it_wakes_up(path: Path, child: Callable[..., Any]) -> None:
    """A process that slept through a takeover is refused by its epoch; its log and the new one do not mix."""
    zombie = child(WRITER, path)
    assert zombie.hear() == "held"
    zombie.tell("before")
    assert zombie.hear() == "1"
    os.kill(zombie.process.pid, signal.SIGSTOP)
    os.waitpid(zombie.process.pid, os.WUNTRACED)
    zombie.tell("while-stopped")
    store = SqliteStore(path)
    with pytest.raises(SessionHeld):  # stopped is not dead
        store.acquire("s")
    assert store.acquire("s", takeover=True).append([entry("after")]) == [2]
    os.kill(zombie.process.pid, signal.SIGCONT)
    said = zombie.hear()
    assert said.startswith("LeaseLost")
    assert f"pid {os.getpid()}" in said
    assert [row.id for row in store.rows("s")] == ["before", "after"]
    store.close()


def test_another_handle_of_this_process_is_refused(path: Path) -> None:
    """The process that holds the session is alive, even if it is this one."""
    one, two = SqliteStore(path), SqliteStore(path)
    writer = one.acquire("s")
    with pytest.raises(SessionHeld, match=f"pid {os.getpid()}"):
        two.acquire("s")
    writer.release()
    assert two.acquire("s").append([entry("a")]) == [1]
    one.close()
    two.close()


def test_closing_releases_what_was_held(path: Path) -> None:
    """A closed handle leaves no holder behind."""
    one, two = SqliteStore(path), SqliteStore(path)
    one.acquire("a")
    one.acquire("b")
    one.close()
    assert [card.holder for card in two.cards()] == [None, None]
    two.close()


FORK = """
import os, sys, warnings
from foveal.values.errors import StoreError
from foveal.stores.port import Draft
from foveal.stores.sqlite import SqliteStore
store = SqliteStore(sys.argv[1])
if sys.argv[2] == "held":
    writer = store.acquire("s")
    writer.append([Draft("a", None, 1, "me", b"x")])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # newer Pythons warn of forking with threads, which is what is tested
    pid = os.fork()
if pid == 0:
    uses = [store.cards, lambda: store.acquire("t"), lambda: store.rows("s")]
    if sys.argv[2] == "held":
        uses.append(lambda: writer.append([Draft("b", None, 1, "me", b"x")]))
    for use in uses:
        try:
            use()
            print("worked", flush=True)
        except StoreError as error:
            print("after a fork" in str(error), flush=True)
    store.close()
    os._exit(0)
os.waitpid(pid, 0)
print("parent", *(writer if sys.argv[2] == "held" else store.acquire("s")).append([Draft("c", None, 1, "me", b"x")]))
store.close()
"""


@pytest.mark.parametrize(("state", "refusals", "seq"), [("fresh", 3, 1), ("held", 4, 2)])
def test_a_forked_child_is_told_to_open_the_store_again(
    path: Path, child: Callable[..., Any], state: str, refusals: int, seq: int
) -> None:
    """The child gets a clear error for every use, and the parent goes on undisturbed."""
    said = child(FORK, path, state).rest().splitlines()
    assert said == ["True"] * refusals + [f"parent {seq}"]


def test_appends_that_wait_are_committed_together(path: Path) -> None:
    """Sixteen threads share transactions: fewer commits than appends, and each append is whole when it returns."""
    store = SqliteStore(path)
    writers = [store.acquire(f"s{number}") for number in range(16)]
    commits: list[int] = []
    hook = store._commits._note_wal
    store._commits._db.set_wal_hook(lambda db, name, pages: commits.append(pages) or hook(db, name, pages))
    gate = threading.Barrier(16)

    def work(number: int) -> None:
        gate.wait()
        for i in range(40):
            (seq,) = writers[number].append([entry(f"e{i}", b"y" * 100)])
            assert store.rows_at(f"s{number}", [seq])[seq].id == f"e{i}"

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [card.entries for card in store.cards()] == [40] * 16
    assert len(commits) < 16 * 40 / 2
    store.close()


def test_a_refused_job_in_a_group_fails_alone(path: Path) -> None:
    """A conflict and a damaged session are undone by savepoint while their neighbours in the transaction are kept."""
    store = SqliteStore(path)
    good, bad = store.acquire("good"), store.acquire("bad")
    bad.append([entry("a", b"1")])
    outcomes: dict[str, object] = {}
    entered, leave = threading.Event(), threading.Event()

    def blocking(_db: object) -> None:
        entered.set()
        leave.wait()

    def attempt(name: str, act: Callable[[], object]) -> None:
        try:
            outcomes[name] = act()
        except BadEntry as error:
            outcomes[name] = type(error)

    acts: dict[str, Callable[[], object]] = {
        "first": lambda: good.append([entry("1")]),
        "conflict": lambda: bad.append([entry("new"), entry("a", b"2")]),
        "second": lambda: good.append([entry("2")]),
    }
    threads = [threading.Thread(target=store._commits.run, args=(blocking,))]
    threads[0].start()
    entered.wait()  # the writer is busy now, so that what follows is one group
    for name, act in acts.items():
        threads.append(threading.Thread(target=attempt, args=(name, act)))
        threads[-1].start()
        while store._commits._queue.qsize() < len(threads) - 1:
            pass
    leave.set()
    for thread in threads:
        thread.join()
    assert outcomes == {"first": [1], "conflict": BadEntry, "second": [2]}
    assert [row.id for row in store.rows("bad")] == ["a"]
    store.close()


def test_a_store_that_stays_locked_is_busy(path: Path) -> None:
    """The wait is bounded, the error says how long it was, reading goes on, and the next try works."""
    store = SqliteStore(path, busy_timeout_s=0.05)
    writer = store.acquire("s")
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match=r"longer than 0\.\d s"):
        writer.append([entry("a")])
    assert store.cards()[0].entries == 0
    other.execute("ROLLBACK")
    other.close()
    assert writer.append([entry("a")]) == [1]
    store.close()


def test_a_writer_keeps_its_store_alive(path: Path) -> None:
    """Somebody who keeps only the writer can still write."""
    writer = SqliteStore(path).acquire("s")
    assert writer.append([entry("a")]) == [1]
    writer.release()


@pytest.mark.parametrize("before", ["predecessor", "_checked_record", "_check_next"])
@pytest.mark.parametrize("made", ["s/.inbox", "s1", "s!"])
def test_a_session_that_is_made_while_another_is_looked_for_is_no_damage(path, monkeypatch, made, before):
    """At its own place, before it and after it, whatever the reader has read by then."""
    with SqliteStore(path) as store, SqliteStore(path) as other:
        for name in ("s", "t"):
            store.acquire(name).release()
        whole, called = getattr(Tables, before), []

        def late(tables, *given):
            called.append(given)
            if len(called) == 1:
                other.acquire(made).release()
            return whole(tables, *given)

        monkeypatch.setattr(Tables, before, late)
        with pytest.raises(NotFound):
            list(store.rows("s/.inbox"))
        assert called


def _upgrade(path: Path) -> None:
    """Do what a newer Foveal would do to a store that others have open: its tables have another meaning from now on."""
    db = apsw.Connection(str(path))
    db.execute("UPDATE sessions SET seal = zeroblob(32)")
    db.pragma("user_version", 99)
    db.close()


def test_a_handle_that_was_open_writes_nothing_in_a_store_of_a_newer_foveal(path: Path) -> None:
    """The next commit of a session that is held says so, and so does all that follows; closing writes nothing either."""
    store = SqliteStore(path)
    writer = store.acquire("s")
    writer.append([entry("first")])
    _upgrade(path)
    before = apsw.Connection(str(path)).execute("SELECT * FROM sessions").fetchall()
    for refused in (
        lambda: writer.append([entry("second")]),
        lambda: writer.append([]),
        lambda: store.acquire("new"),
        lambda: store.entitle("s", "title"),
        store.vacuum,
        store.cards,
        lambda: list(store.rows("s")),
    ):
        with pytest.raises(SchemaTooNew, match="99"):
            refused()
    writer.release()
    store.close()
    db = apsw.Connection(str(path))
    assert db.execute("SELECT * FROM sessions").fetchall() == before
    assert db.execute("SELECT id FROM entries").fetchall() == [("first",)]


def test_a_handle_that_is_closed_writes_nothing_in_a_store_of_a_newer_foveal(path: Path) -> None:
    """It may be the first that it hears of the upgrade."""
    store = SqliteStore(path)
    store.acquire("s").append([entry("first")])
    _upgrade(path)
    before = apsw.Connection(str(path)).execute("SELECT * FROM sessions").fetchall()
    store.close()
    assert apsw.Connection(str(path)).execute("SELECT * FROM sessions").fetchall() == before


def test_a_deletion_reads_the_names_of_children_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All others would be read within the transaction: a child's name begins with that of its parent."""
    read = list[str]()
    with SqliteStore(path) as store:
        for name in ("a", "a/b", "a/b/c", "a0", "ab", "b", "a/"):
            store.acquire(name).release()
        check = "foveal.stores.sqlite.transactions.check_seen"
        monkeypatch.setattr(check, lambda found, names, seen: read.extend(names))
        store.delete(["a", "a/b"], seen={"a": 0, "a/b": 0})
    assert sorted(set(read)) == ["a/", "a/b", "a/b/c"]
