"""Reading while others write: what is read together is of one moment, so that a healthy store is never called damaged."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

from foveal.stores.port import Draft, KeptNote
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.tables import Tables
from foveal.values.errors import NotFound, StoreBusy, StoreCorrupt

NOTE = KeptNote("k", "It is blue.", "s", "model", 1)


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """An open store with three sessions, tagged, and a note that one of them has kept."""
    with SqliteStore(path) as store:
        for name, scope in (("s", "home"), ("t", None), ("u", None)):
            writer = store.acquire(name, scope=scope)
            writer.append([Draft(f"{name}{i}", None, 1, "me", b"x") for i in range(3)])
            writer.release()
            store.tag(name, add=["x"])
        store.scope("home").keep(NOTE)
        yield store


@pytest.fixture
def other(path: Path) -> Iterator[SqliteStore]:
    """Another handle, which does not wait long for readers."""
    with SqliteStore(path, busy_timeout_s=0.0) as other:
        yield other


def _delete(other: SqliteStore) -> None:
    with suppress(StoreBusy):  # the reader keeps the WAL from being emptied
        other.delete(["s"])


def _make(other: SqliteStore) -> None:
    writer = other.acquire("s/child")
    writer.append([Draft("q", None, 1, "me", b"x")])
    writer.release()


ACTS = {
    "tag": lambda other: other.tag("s", remove=["x"]),
    "forget": lambda other: other.scope("home").forget("k"),
    "delete": _delete,
    "make": _make,
}
READS = {
    "cards": lambda store: sorted(card.id for card in store.cards() if card.tags),
    "page": lambda store: [card.id for card in store.page(tag="x")],
    "notes": lambda store: [note.text for note in store.scope("home").notes()],
    "rows_at": lambda store: sorted(store.rows_at("s", [1, 3])),
    "find": lambda store: store.find("s", "unknown"),
    "snapshot": lambda store: store.snapshot("s"),
}


@pytest.mark.parametrize(
    "case",
    [
        ("cards", "scope_state", "tag"),
        ("cards", "scope_state", "delete"),
        ("cards", "labels", "delete"),
        ("page", "name_of", "delete"),
        ("notes", "scope_state", "forget"),
        ("notes", "name_of", "delete"),
        ("rows_at", "rows_at", "delete"),
        ("find", "_check_absent", "delete"),
        ("find", "check_index", "delete"),
        ("find", "check_index", "make"),
    ],
)
def test_what_is_read_together_is_of_one_moment(
    store: SqliteStore, other: SqliteStore, monkeypatch: pytest.MonkeyPatch, case: tuple[str, str, str]
) -> None:
    """Whatever another process commits between two statements of a reader, it is told what was there at the first of them."""
    read, between, act = case
    before = READS[read](store)
    store._counted.clear()
    called = _once_before(monkeypatch, between, lambda: ACTS[act](other))
    assert READS[read](store) == before
    assert called


def _once_before(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], object]) -> list[str]:
    whole, called = getattr(Tables, name), list[str]()

    def late(tables: Tables, *given: object) -> object:
        called.append(name)
        if len(called) == 1:
            act()
        return whole(tables, *given)

    monkeypatch.setattr(Tables, name, late)
    return called


def test_a_reader_is_back_in_the_present_after_every_reading(store: SqliteStore, other: SqliteStore) -> None:
    """Also after one that ended with an error; and no reader that is put back holds up whoever empties the WAL."""
    for wrong in (lambda: store.secret("unknown"), lambda: store.rows_at("unknown", [1])):
        with pytest.raises(NotFound):
            wrong()
    assert not any(db.in_transaction for db in store._readers)
    other.tag("s", add=["new"])
    assert store.page(tag="new")
    other.delete(["t"])
    assert [card.id for card in store.cards()] == ["u", "s"]


def test_rows_that_are_walked_slowly_hold_up_nobody(store: SqliteStore, other: SqliteStore) -> None:
    """A consumer that rests between two rows keeps no reader in the past."""
    rows = store.rows("s")
    assert next(rows).seq == 1
    other.delete(["t"])
    assert [row.seq for row in rows] == [2, 3]


def test_an_error_that_ends_a_reading_keeps_its_name(
    store: SqliteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether SQLite has ended the transaction or not, and the next reader works."""

    def broken(tables: Tables, _record: object) -> None:
        tables._db.execute("ROLLBACK")
        raise apsw.CorruptError("a page is torn")

    monkeypatch.setattr(Tables, "snapshot", broken)
    with pytest.raises(StoreCorrupt, match="a page is torn"):
        store.snapshot("s")
    assert len(store.cards()) == 3
