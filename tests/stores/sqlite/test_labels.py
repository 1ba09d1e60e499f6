"""Titles and tags in a store file: upgraded, damaged, salvaged."""

import lzma
from pathlib import Path

import apsw
import pytest

from foveal.stores import open_store
from foveal.stores.sqlite.doctor import examine, salvage
from foveal.values.errors import SchemaTooNew, StoreCorrupt

SCHEMA_3 = Path(__file__).parents[1] / "fixtures" / "schema-3.db.xz"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A store of schema 3: three sessions of three entries, one of them in a scope with a note, and a tombstone."""
    path = tmp_path / "old.db"
    path.write_bytes(lzma.decompress(SCHEMA_3.read_bytes()))
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A closed store with three sessions, two of which have labels."""
    path = tmp_path / "agent.db"
    with open_store(path) as store:
        for name in ("a", "b", "c"):
            store.acquire(name).release()
        store.entitle("a", "The first")
        store.tag("b", add=["x", "y"])
    return path


def changed(path: Path, statement: str) -> Path:
    db = apsw.Connection(str(path))
    db.execute(statement)
    db.close()
    return path


def test_a_store_of_schema_3_is_upgraded(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is whole before and after, keeps its logs, notes and tombstones, can be labelled, and Foveal of its time refuses it."""
    before = examine(old)
    assert (before.damage, before.sessions, before.entries) == ((), 3, 9)
    with open_store(old) as store:
        assert [note.text for note in store.scope("home").notes()] == ["It is blue."]
        assert len(store.tombstones()) == 1
        assert store.tag("weather", add=["sky"]) == ("sky",)
    assert examine(old).damage == ()
    monkeypatch.setattr("foveal.stores.sqlite.errors.SCHEMA_VERSION", 3)
    with pytest.raises(SchemaTooNew, match="version 4"):
        open_store(old)


def test_a_damaged_store_of_schema_3_is_salvaged_with_its_notes(old: Path) -> None:
    """The doctor reads it by the rules of its time."""
    changed(old, "UPDATE sessions SET updated_ms = 7 WHERE id = 'fix-login'")
    assert examine(old).damage
    salvage(old, old.with_name("new.db"))
    with open_store(old.with_name("new.db")) as store:
        assert [note.text for note in store.scope("home").notes()] == ["It is blue."]


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE labels SET title = 'forged' WHERE title IS NOT NULL", "do not match their seal"),
        ("UPDATE labels SET tags = 'x' WHERE title IS NULL", "do not match their seal"),
        ("DELETE FROM labels WHERE title IS NULL", "labels of 1 sessions of 2"),
    ],
)
def test_damaged_labels_are_told_and_the_others_salvaged(file: Path, statement: str, said: str) -> None:
    """A label that is changed or missing is found by whoever lists the sessions and by the doctor."""
    changed(file, statement)
    with open_store(file) as store, pytest.raises(StoreCorrupt, match=said):
        store.cards()
    assert any(said in str(damage) for damage in examine(file).damage)
    salvage(file, file.with_name("new.db"))
    with open_store(file.with_name("new.db")) as store:
        labels = {card.id: (card.title, card.tags) for card in store.cards()}
    whole = {"a": ("The first", ()), "b": (None, ("x", "y")), "c": (None, ())}
    lost = "a" if "NOT NULL" in statement else "b"
    assert labels == whole | {lost: (None, ())}


def test_a_page_reads_the_labels_of_its_own_sessions_alone(file: Path) -> None:
    """A page costs what it shows: a damaged label of a session that is on another page is not met, and one of its own is told."""
    with open_store(file) as store:
        for name in ("d", "e"):
            store.acquire(name).release()
    changed(file, "UPDATE labels SET title = 'forged' WHERE title IS NOT NULL")
    with open_store(file) as store:
        assert [(card.id, card.tags) for card in store.page(after="a")][:2] == [("b", ("x", "y")), ("c", ())]
        with pytest.raises(StoreCorrupt, match="do not match their seal"):
            store.page()
