"""Scopes and notes in a store file: upgraded, sealed, examined, salvaged, and gone with their session."""

from pathlib import Path

import apsw
import pytest

from foveal.stores import open_store
from foveal.stores import rows as log
from foveal.stores.chain import seal
from foveal.stores.port import Draft, KeptNote
from foveal.stores.sqlite.backup import back_up
from foveal.stores.sqlite.connection import connect
from foveal.stores.sqlite.doctor import examine, salvage
from foveal.stores.sqlite.version_2 import SELECT_RECORDS
from foveal.values.entry import user
from foveal.values.errors import StoreCorrupt

NOTE = KeptNote("code", "the code is 4711", "a", "host", 5)

TABLE_2 = """CREATE TABLE sessions (
    key INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, next TEXT, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,
    entries INTEGER NOT NULL, head TEXT, chain BLOB NOT NULL, epoch INTEGER NOT NULL, holder TEXT, secret BLOB NOT NULL,
    seal BLOB NOT NULL
) STRICT"""


def drafts(count: int, prefix: str) -> list[Draft]:
    return [Draft(f"{prefix}{n}", None, n, "host", log.encoded(user(f"word {n}")).payload) for n in range(count)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A closed store with a session in a scope, with a note, and one in none."""
    path = tmp_path / "agent.db"
    with open_store(path) as store:
        for name, scope in (("a", "x"), ("b", None)):
            writer = store.acquire(name, scope=scope)
            writer.append(drafts(3, prefix=name), snapshot=b"view")
            writer.release()
        store.scope("x").keep(NOTE)
    return path


def as_version_2(path: Path) -> None:
    """Turn a store into one of schema 2, as it was written before there were scopes."""
    db = connect(path)
    records = db.execute(SELECT_RECORDS).fetchall()
    db.execute("PRAGMA foreign_keys = OFF")
    for name in ("notes", "scopes", "sessions"):
        db.execute(f"DROP TABLE {name}")
    db.execute(TABLE_2)
    for raw in records:
        db.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*raw[:-1], seal(*raw[:-1])))
    db.pragma("user_version", 2)
    db.close()


def tampered(path: Path, *statements: str) -> Path:
    db = apsw.Connection(str(path))
    for statement in statements:
        db.execute(statement)
    db.close()
    return path


def test_a_store_of_schema_2_is_upgraded(file):
    """Its logs, snapshots and secrets are as they were, its sessions are in no scope and can be given one."""
    with open_store(file) as store:
        before = list(store.rows("a")), store.secret("a"), store.snapshot("a")
    as_version_2(file)
    assert (examine(file).damage, examine(file).entries) == ((), 6)
    with open_store(file) as store:
        assert (list(store.rows("a")), store.secret("a"), store.snapshot("a")) == before
        assert [card.scope for card in store.cards()] == [None, None]
        store.acquire("b", scope="y").append(drafts(1, prefix="new"))
        assert [card.id for card in store.scope("y").sessions()] == ["b"]
    assert examine(file).damage == ()


def test_a_damaged_store_of_schema_2_is_not_upgraded(file):
    """It is refused with the repair, as often as it is opened, and can be salvaged."""
    as_version_2(file)
    tampered(file, "UPDATE sessions SET updated_ms = 7 WHERE id = 'b'")
    for _ in range(2):
        with pytest.raises(StoreCorrupt, match=r"session b.*foveal doctor"):
            open_store(file)
    assert len(examine(file).damage) == 1
    assert salvage(file, file.with_name("new.db")).entries == 6


DAMAGE = {
    "UPDATE notes SET text = 'the code is 9999'": "does not match its seal",
    "UPDATE notes SET scope = 'y'": "has 0 notes of 1",
    "DELETE FROM notes": "has 0 notes of 1",
    "UPDATE scopes SET notes = 0": "does not match its seal",
}


@pytest.mark.parametrize("statement", DAMAGE)
def test_a_changed_or_missing_note_is_loud(file, statement):
    """A note that nobody kept is shown to nobody, and one that vanished is missed."""
    with open_store(tampered(file, statement)) as store, pytest.raises(StoreCorrupt, match=DAMAGE[statement]):
        store.scope("x").notes()


def test_a_session_that_is_moved_to_another_scope_is_damage(file):
    """The scope is under the seal of the record."""
    with open_store(tampered(file, "UPDATE sessions SET scope = 'y' WHERE id = 'a'")) as store:
        with pytest.raises(StoreCorrupt, match="session a"):
            store.scope("y").sessions()
        assert store.scope("x").sessions() == []


def test_the_doctor_finds_damaged_notes_and_saves_the_others(file):
    """A salvaged store has the scopes and the notes that are whole."""
    with open_store(file) as store:
        store.scope("x").keep(KeptNote("gate", "the gate is 12", "a", "agent", 6))
    tampered(file, "UPDATE notes SET text = 'forged' WHERE key = 'code'")
    assert ["a note does not match its seal" in str(one) for one in examine(file).damage] == [True]
    salvage(file, file.with_name("new.db"))
    with open_store(file.with_name("new.db")) as store:
        assert [note.text for note in store.scope("x").notes()] == ["the gate is 12"]
        assert [card.id for card in store.scope("x").sessions()] == ["a"]


def test_a_backup_has_the_scopes_and_their_notes(file):
    """The copy remembers as the original does."""
    assert back_up(file, file.with_name("copy.db")).damage == ()
    with open_store(file.with_name("copy.db")) as store:
        assert store.scope("x").notes() == [NOTE]


def test_no_byte_of_a_deleted_session_is_left_in_notes_and_indexes(file):
    """The note, its key and the words in the index of the scope are gone from all files."""
    with open_store(file) as store:
        with store.scope("x").index().opened() as db:
            db.execute("CREATE TABLE words (word)")
            db.execute("INSERT INTO words VALUES ('4711')")
        store.delete(["a"])
    left = [path for path in file.parent.rglob("*") if path.is_file() and b"4711" in path.read_bytes()]
    assert left == []
    assert examine(file).damage == ()


def test_scopes_are_kept_over_a_restart(file):
    """Sessions, notes and the count of changes are those of before."""
    with open_store(file) as store:
        assert store.scope("x").notes() == [NOTE]
        assert store.scope("x").changes() == 1
        assert [card.id for card in store.scope("x").sessions()] == ["a"]
