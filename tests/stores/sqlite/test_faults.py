"""Full disks and failing ones: nothing acknowledged is lost, and a broken handle never claims success."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from foveal.stores.lease import LEASE_MS
from foveal.stores.port import Draft
from foveal.stores.sqlite import SqliteStore, group_commit, wal
from foveal.stores.sqlite import store as store_module
from foveal.stores.sqlite.doctor import examine
from foveal.values.errors import StoreBusy, StoreCorrupt, StoreFailed, StoreFull

FULL = """
import resource, sys
from foveal.values.errors import StoreFull
from foveal.stores.port import Draft
from foveal.stores.sqlite import SqliteStore, wal
store = SqliteStore(sys.argv[1])
writers = [store.acquire("a"), store.acquire("b")]
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, most))
acknowledged, refused = [], 0
for number in range(600):
    writer, draft = writers[number % 2], Draft(f"e{number}", None, 1, "me", bytes([number % 256]) * 3000)
    try:
        writer.append([draft], snapshot=b"s" * 2000)
        acknowledged.append(number)
    except StoreFull:
        refused += 1
        if refused == 5:
            break
try:
    store.artifacts.put([b"x" * 700_000])
except StoreFull:
    refused += 1
assert refused == 6, refused
read = sorted(int(row.id[1:]) for name in "ab" for row in store.rows(name))
assert read == acknowledged, (read, acknowledged)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
for number in (1000, 1001):
    writers[number % 2].append([Draft(f"e{number}", None, 1, "me", b"x")])
store.close()
print(len(acknowledged))
"""


def test_a_full_disk_loses_nothing_and_is_over_when_there_is_space(path: Path, child: Callable[..., Any]) -> None:
    """Appends are refused with StoreFull, what was acknowledged can be read, and the same handle goes on afterwards."""
    acknowledged = int(child(FULL, path).rest())
    assert acknowledged > 10
    store = SqliteStore(path)
    assert sum(card.entries for card in store.cards()) == acknowledged + 2
    assert len(list(store.rows("a"))) + len(list(store.rows("b"))) == acknowledged + 2
    store.close()
    assert not [damage for damage in examine(path).damage if "SQLite" in damage.what]


class Faulty:
    """A connection on which one statement fails."""

    def __init__(self, db: Any, statement: str, error: Exception) -> None:
        self._db, self._statement, self._error = db, statement, error
        self.errno = 0

    @property
    def system_errno(self) -> int:
        return self.errno

    def execute(self, statement: str, bindings: Any = ()) -> Any:
        if statement.startswith(self._statement):
            self._statement = "never again"
            raise self._error
        return self._db.execute(statement, bindings)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


def failing(store: SqliteStore, statement: str, error: Exception, code: int = 0) -> None:
    error.extendedresult = code  # type: ignore[attr-defined]
    store._commits._db = Faulty(store._commits._db, statement, error)  # type: ignore[assignment]


@pytest.mark.parametrize("statement", ["COMMIT", "INSERT INTO entries", "BEGIN", "UPDATE sessions"])
def test_an_io_error_poisons_the_handle(path: Path, statement: str) -> None:
    """After one I/O error every later write fails, although the disk would take it; a new handle works."""
    store = SqliteStore(path)
    writer = store.acquire("s")
    writer.append([Draft("a", None, 1, "me", b"x")])
    failing(store, statement, apsw.IOError("disk I/O error"), apsw.SQLITE_IOERR_FSYNC)
    for name in ("b", "c", "d"):
        with pytest.raises(StoreFailed, match="open the store again"):
            writer.append([Draft(name, None, 1, "me", b"x")])
    with pytest.raises(StoreFailed):
        store.acquire("t")
    assert [row.id for row in store.rows("s")] == ["a"]
    writer.release()
    store.close()
    again = SqliteStore(path)
    assert again.acquire("s", takeover=True).append([Draft("b", None, 1, "me", b"x")]) == [2]
    again.close()


@pytest.mark.parametrize("statement", ["COMMIT", "INSERT INTO entries", "INSERT INTO snapshots"])
def test_a_full_disk_in_any_step_leaves_nothing_behind(path: Path, statement: str) -> None:
    """Whichever statement runs out of space, the append is wholly undone and its retry is written once."""
    store = SqliteStore(path)
    writer = store.acquire("s")
    failing(store, statement, apsw.FullError("database or disk is full"))
    given = [Draft(name, None, 1, "me", b"x") for name in "ab"]
    with pytest.raises(StoreFull):
        writer.append(given, snapshot=b"view")
    assert list(store.rows("s")) == []
    assert store.snapshot("s") is None
    assert writer.append(given, snapshot=b"view") == [1, 2]
    store.close()


def test_damage_met_while_writing_is_named(path: Path) -> None:
    """SQLite's own finding of damage becomes StoreCorrupt, and does not poison the handle for other sessions."""
    store = SqliteStore(path)
    writer = store.acquire("s")
    failing(store, "INSERT INTO entries", apsw.CorruptError("database disk image is malformed"))
    with pytest.raises(StoreCorrupt, match="malformed"):
        writer.append([Draft("a", None, 1, "me", b"x")])
    assert writer.append([Draft("a", None, 1, "me", b"x")]) == [1]
    store.close()


def test_a_failed_checkpoint_poisons_the_handle(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sync that fails while the WAL is carried over is not tried again: the second would seem to succeed."""
    monkeypatch.setattr("foveal.stores.sqlite.group_commit.CHECKPOINT_PAGES", 1)
    store = SqliteStore(path)
    writer = store.acquire("s")

    def checkpoint(**_: object) -> None:
        raise apsw.IOError("disk I/O error")

    failing(store, "never", apsw.Error())
    store._commits._db.wal_checkpoint = checkpoint  # type: ignore[assignment, method-assign]
    assert writer.append([Draft("a", None, 1, "me", b"x")]) == [1]
    store._commits._checkpoint()  # it comes after the answer, so that the next append may be earlier
    with pytest.raises(StoreFailed):
        writer.append([Draft("b", None, 1, "me", b"x")])
    store.close()


def test_a_disk_that_fails_at_the_close_costs_nothing(path: Path) -> None:
    """The WAL keeps what could not be carried over; the file counts as closed, and is looked at when it is opened again."""
    store = SqliteStore(path)
    store.acquire("s").append([Draft("a", None, 1, "me", b"x")])
    failing(store, "never", apsw.Error())
    db = store._commits._db

    def close(_force: bool = False) -> None:
        db._db.close()  # type: ignore[attr-defined]
        raise apsw.FullError("database or disk is full")

    db.close = close  # type: ignore[assignment, method-assign]
    store.close()
    assert wal._open_files[path.stat().st_dev, path.stat().st_ino] == 0
    with SqliteStore(path) as again:
        assert [row.id for row in again.rows("s")] == ["a"]


def test_a_deletion_whose_bytes_stay_says_that_the_session_is_deleted(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process holds the file after the session is deleted and before the file is written anew: something was written."""
    store, other = SqliteStore(path, busy_timeout_s=0.01), apsw.Connection(str(path))
    store.acquire("s").release()

    def hold(*_: object) -> dict[str, OSError]:
        if not other.in_transaction:
            other.execute("BEGIN IMMEDIATE")
        return {}

    monkeypatch.setattr("foveal.stores.sqlite.store.remove_indexes", hold)
    with pytest.raises(StoreBusy) as told:
        store.delete(["s"])
    assert "nothing was written" not in str(told.value)
    assert "was deleted cannot be read any more" in str(told.value)
    assert "foveal store vacuum" in str(told.value)
    assert store.cards() == []
    other.close()
    store.vacuum()
    store.close()


FULL_BEHIND_A_DELETION = """
import resource, sys
from foveal.values.errors import StoreFull
from foveal.stores.port import Draft
from foveal.stores.sqlite import SqliteStore
with SqliteStore(sys.argv[1]) as store:
    store.acquire("stays").append([Draft("e", None, 1, "me", b"x" * 900_000)])
    store.acquire("goes").append([Draft("e", None, 1, "me", b"x")])
store = SqliteStore(sys.argv[1])
_, most = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, most))
try:
    store.delete(["goes"])
except StoreFull as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
store.vacuum()
print([card.id for card in store.cards()])
store.close()
"""


def test_a_deletion_for_which_there_is_no_space_says_that_the_session_is_deleted(
    path: Path, child: Callable[..., Any]
) -> None:
    """The file cannot be written anew: the session is gone, its bytes are not, and `vacuum` removes them when there is space."""
    told, left = child(FULL_BEHIND_A_DELETION, path).rest().splitlines()
    assert "was deleted cannot be read any more" in told
    assert "foveal store vacuum" in told
    assert left == "['stays']"


def test_a_vacuum_that_is_kept_from_the_file_does_not_speak_of_a_deletion(path: Path) -> None:
    """Nothing was deleted by it: it says what is left and how that goes."""
    store, other = SqliteStore(path, busy_timeout_s=0.01), apsw.Connection(str(path))
    store.acquire("s").release()
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy, match="could not be written anew: other processes use it") as told:
        store.vacuum()
    assert "cannot be read any more" not in str(told.value)
    assert "when it is run again" in str(told.value)
    other.close()
    store.vacuum()
    store.close()


def test_a_lease_that_cannot_be_renewed_on_a_full_disk_is_tried_again_after_a_pause(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not at once, for ever, by a thread that takes a whole processor; the log tells of it once, and the handle goes on."""
    store = SqliteStore(path)
    writer = store.acquire("s")
    commits, now_ms = store._commits, store_module._now_ms() + LEASE_MS
    monkeypatch.setattr(store_module, "_now_ms", lambda: now_ms)
    monkeypatch.setattr(group_commit, "RETRY_S", 3600.0)
    for _ in range(2):
        failing(store, "BEGIN", apsw.FullError("database or disk is full"))
        assert commits._rest_s() == 0.0
        commits._rest()
        assert (commits._rest_s() or 0) > 3000
        commits._retry_s = 0.0  # the pause is over
    commits._rest()
    assert 0 < (commits._upkeep.rest_s() or 0) <= LEASE_MS / 1000
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "no space is left" in caplog.text
    assert writer.append([Draft("a", None, 1, "me", b"x")]) == [1]
    store.close()
