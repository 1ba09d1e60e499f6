"""Damage to the file is found, named, and kept from hiding what is whole."""

import random
import shutil
import sqlite3
from pathlib import Path

import apsw
import pytest

from foveal.stores.port import Draft
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.doctor import examine
from foveal.stores.sqlite.tables import BATCH_ROWS
from foveal.values.errors import NotFound, SchemaTooNew, StoreCorrupt, StoreError

FLIPS = 400


def tampered(path: Path, *statements: str) -> None:
    """Change the file behind the store's back, as SQL that the triggers would refuse."""
    db = apsw.Connection(
        str(path)
    )  # as the store does: a second SQLite in one process would break the locks of the first
    db.execute("DROP TRIGGER entries_never_change")
    db.execute("DROP TRIGGER entries_never_go")
    for statement in statements:
        db.execute(statement)
        assert db.changes() == 1
    db.close()


def contents(path: Path) -> object:
    """All that can be read from the file without checking anything; or the error."""
    db = None
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        return [
            list(db.execute("SELECT * FROM sessions")),
            list(db.execute("SELECT * FROM entries")),
            list(db.execute("SELECT * FROM snapshots")),
            list(db.execute("SELECT session, id, place FROM entries INDEXED BY entry_ids")),
            list(db.execute("SELECT id FROM sessions ORDER BY id")),
            list(db.execute("SELECT * FROM sqlite_schema")),
        ]
    except (apsw.Error, UnicodeDecodeError) as error:
        return repr(error)
    finally:
        if db is not None:
            db.close()


def is_reported(path: Path) -> bool:
    try:
        return bool(examine(path).damage)
    except StoreError:
        return True


def test_every_effective_bit_flip_is_reported(filled: Path) -> None:
    """Of random single-bit flips anywhere in the file, the doctor reports all that change what can be read."""
    rng = random.Random(11)
    sound, whole = contents(filled), filled.read_bytes()
    assert examine(filled).damage == ()
    effective, missed = 0, []
    for _ in range(FLIPS):
        bit = rng.randrange(len(whole) * 8)
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        filled.write_bytes(damaged)
        if contents(filled) != sound:
            effective += 1
            if not is_reported(filled):
                missed.append(bit)
    assert missed == []
    assert effective > FLIPS / 4


def test_bit_flips_in_rows_never_give_other_rows(filled: Path) -> None:
    """A reader gets the true rows up to the damage and then an error; never a changed one."""
    store = SqliteStore(filled)
    truth = {name: list(store.rows(name)) for name in ("s0", "s1", "s2")}
    store.close()
    rng = random.Random(12)
    whole = filled.read_bytes()
    refusals = 0
    for _ in range(FLIPS // 4):
        bit = rng.randrange(4096 * 8, len(whole) * 8)
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        filled.write_bytes(damaged)
        try:
            store = SqliteStore(filled)
        except StoreError:
            continue
        for name, rows in truth.items():
            got = []
            try:
                got.extend(store.rows(name))
                assert got == rows
            except (StoreError, LookupError):
                refusals += 1
                assert got == rows[: len(got)]
        store.close()
    assert refusals > 0


def test_a_truncated_file_is_reported(filled: Path) -> None:
    """Losing the end of the file is damage, wherever it is cut."""
    whole = filled.read_bytes()
    for size in range(512, len(whole) - 1, len(whole) // 40):
        filled.write_bytes(whole[:size])
        assert is_reported(filled), size


def test_a_changed_row_is_named_and_hides_no_other(filled: Path) -> None:
    """The error names session, entry and remedy; what stands before and after can be read."""
    tampered(filled, "UPDATE entries SET payload = x'3d7b7d' WHERE id = 's1-011'")
    store = SqliteStore(filled)
    reading = store.rows("s1")
    assert [next(reading).seq for _ in range(11)] == list(range(1, 12))
    with pytest.raises(StoreCorrupt, match=rf"session s1, entry 12:.*foveal doctor {filled}"):
        next(reading)
    assert [row.seq for row in store.rows("s1", after=12)] == list(range(13, 31))
    assert len(store.rows_at("s1", [11, 13])) == 2
    with pytest.raises(StoreCorrupt, match="entry 12"):
        store.rows_at("s1", [11, 12])
    with pytest.raises(StoreCorrupt, match="entry 12"):
        store.find("s1", "s1-011")
    assert len(list(store.rows("s2"))) == 30
    store.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE entries SET id = 's1-x' WHERE id = 's1-011'",
        "UPDATE entries SET parent = NULL WHERE id = 's1-011'",
        "UPDATE entries SET time_ms = time_ms + 1 WHERE id = 's1-011'",
        "UPDATE entries SET author = 'mallory' WHERE id = 's1-011'",
        "UPDATE entries SET hash = zeroblob(32) WHERE id = 's1-011'",
        "DELETE FROM entries WHERE id = 's1-011'",
    ],
)
def test_every_field_of_a_row_is_covered(filled: Path, change: str) -> None:
    """Whatever is changed in a row, reading the log stops there."""
    tampered(filled, change)
    store = SqliteStore(filled)
    with pytest.raises(StoreCorrupt, match="session s1, entry 12"):
        list(store.rows("s1"))
    store.close()


def test_a_log_that_lost_its_end_is_noticed(filled: Path) -> None:
    """Rows missing at the end are noticed by holding, appending and reading."""
    store = SqliteStore(filled)
    writer = store.acquire("s1")
    tampered(filled, "DELETE FROM entries WHERE id = 's1-029'")
    with pytest.raises(StoreCorrupt, match="ends at entry 29, its record says 30"):
        writer.append([Draft("new", None, 1, "me", b"x")])
    with pytest.raises(StoreCorrupt, match="session s1"):
        store.acquire("s1", takeover=True)
    with pytest.raises(StoreCorrupt, match="entry 30: it is missing"):
        list(store.rows("s1"))
    assert store.acquire("s2").append([Draft("new", None, 1, "me", b"x")]) == [31]
    store.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE sessions SET entries = 29 WHERE id = 's1'",
        "UPDATE sessions SET epoch = 0 WHERE id = 's1'",
        "UPDATE sessions SET updated_ms = 5 WHERE id = 's1'",
        "UPDATE sessions SET created_ms = 5 WHERE id = 's1'",
        "UPDATE sessions SET head = 'x' WHERE id = 's1'",
        "UPDATE sessions SET holder = '{}' WHERE id = 's1'",
    ],
)
def test_a_changed_session_record_is_noticed(filled: Path, change: str) -> None:
    """The record of a session is sealed: counts and epochs cannot be changed unseen."""
    tampered(filled, change)
    store = SqliteStore(filled)
    with pytest.raises(StoreCorrupt, match="session s1"):
        store.rows("s1")
    with pytest.raises(StoreCorrupt, match="session s1"):
        store.acquire("s1")
    assert len(list(store.rows("s0"))) == 30
    store.close()


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE snapshots SET payload = x'00' WHERE session = 2",
        "UPDATE snapshots SET seal = zeroblob(32) WHERE session = 2",
        "UPDATE snapshots SET seq = 29 WHERE session = 2",
        "UPDATE snapshots SET seq = 31 WHERE session = 2",
    ],
)
def test_a_damaged_snapshot_is_ignored(filled: Path, change: str) -> None:
    """A snapshot is only a shortcut: a bad one is as good as none, and the next one replaces it."""
    tampered(filled, change)
    store = SqliteStore(filled)
    assert store.snapshot("s1") is None
    assert store.snapshot("s2") is not None
    store.acquire("s1").append([], snapshot=b"fresh")
    snapshot = store.snapshot("s1")
    assert snapshot is not None
    assert (snapshot.seq, snapshot.payload) == (30, b"fresh")
    store.close()


@pytest.mark.parametrize("statement", ["UPDATE entries SET author = 'x'", "DELETE FROM entries"])
def test_the_database_itself_refuses_to_change_the_log(filled: Path, statement: str) -> None:
    """Another program that opens the file cannot rewrite history by accident."""
    db = sqlite3.connect(filled)
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute(statement)
    db.close()


def test_a_wal_of_another_store_is_reported_or_ignored(filled: Path, tmp_path: Path) -> None:
    """A swapped -wal file never gives other rows silently."""
    other = tmp_path / "other.db"
    stranger = SqliteStore(other)
    stranger.acquire("s1").append([Draft("x", None, 1, "me", b"y" * 9000)])
    shutil.copy(f"{other}-wal", f"{filled}-wal")
    stranger.close()
    try:
        store = SqliteStore(filled)
        rows = list(store.rows("s1"))
        store.close()
    except StoreError:
        return
    if len(rows) != 30:
        assert is_reported(filled)


def test_a_file_that_vanishes_is_an_error(filled: Path) -> None:
    """Reading does not make a new, empty store in its place."""
    store = SqliteStore(filled)
    filled.rename(filled.with_name("elsewhere.db"))
    with pytest.raises(StoreError):
        store.cards()
    assert not filled.exists()
    store.close()


def test_every_flip_in_the_first_page_names_the_repair(filled: Path) -> None:
    """Header and list of tables: nothing is missing, or the error says what to do, and the doctor reads what is left."""
    rng = random.Random(13)
    whole = filled.read_bytes()
    flips = [*rng.sample(range(100 * 8), 60), *rng.sample(range(100 * 8, 4096 * 8), 60)]
    for bit in flips:
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        filled.write_bytes(damaged)
        try:
            with SqliteStore(filled) as store:
                assert sum(len(list(store.rows(card.id))) for card in store.cards()) == 90
        except SchemaTooNew:
            continue
        except StoreError as error:
            assert "foveal doctor" in str(error), bit  # noqa: PT017 - whichever of them it is
            assert examine(filled).entries == 90
        for name in ("-wal", "-shm"):
            Path(f"{filled}{name}").unlink(missing_ok=True)


def test_a_changed_definition_of_a_table_names_the_repair(filled: Path) -> None:
    """One changed byte of it may make SQLite refuse each new row."""
    with apsw.Connection(str(filled)) as db:
        db.execute("PRAGMA writable_schema = ON")
        db.execute("UPDATE sqlite_schema SET sql = replace(sql, 'place >> 32', 'place || 32') WHERE name = 'entries'")
        assert db.changes() == 1
    db.close()
    with SqliteStore(filled) as store, pytest.raises(StoreCorrupt, match="foveal doctor"):
        store.acquire("new").append([Draft("next", None, 1, "user", b"{}")])


def test_an_entry_that_its_index_misplaces_is_not_said_to_be_absent(filled: Path) -> None:
    """A flip in any byte of the index's key (session, id or place) is an error, and never "no such entry"."""
    whole = filled.read_bytes()
    name, starts = b"s1-011", []
    at = whole.find(name)
    while at >= 0:
        starts.append(at)
        at = whole.find(name, at + 1)
    assert len(starts) > 1
    for byte in {start + offset for start in starts for offset in range(-8, len(name) + 6)}:
        for bit in range(8):
            damaged = bytearray(whole)
            damaged[byte] ^= 1 << bit
            filled.write_bytes(damaged)
            try:
                with SqliteStore(filled) as store:
                    assert [row.id for row in store.find("s1", "s1-011")] == ["s1-011"], (byte, bit)
            except StoreError:
                continue


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_session_that_is_deleted_while_it_is_read_is_not_damaged(path: Path, is_made_again: bool) -> None:
    """The rest of it is `NotFound`, also if there is a session of the same name again."""
    many = [Draft(f"e{i}", None, 1, "me", b"=x") for i in range(2 * BATCH_ROWS)]
    with SqliteStore(path) as store:
        store.acquire("s").append(many)
        rows = store.rows("s")
        next(rows)
        store.delete(["s"], takeover=True)
        if is_made_again:
            store.acquire("s").append(many)
        with pytest.raises(NotFound, match="'s' was deleted while it was read"):
            list(rows)
