"""Sessions moved from one store to another: whole, proven, resumable."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from foveal.stores import open_store
from foveal.stores.examination import examine_store
from foveal.stores.memory import MemoryStore
from foveal.stores.moving import StoreMove, move_sessions
from foveal.stores.port import Draft, KeptNote, Row, Snapshot, Store
from foveal.stores.sqlite import SqliteStore
from foveal.testing.store_contract import draft, drafts
from foveal.values.codec import encode
from foveal.values.entry import user
from foveal.values.errors import BadInput


@pytest.fixture
def source(filled: Path) -> Iterator[Store]:
    """Three sessions of 30 entries with artifacts, one of them in a scope with a note, and a tombstone."""
    with open_store(filled) as store:
        writer = store.acquire("scoped", scope="x", secret=b"s" * 32)
        writer.append([Draft("e0", None, 7, "somebody", encode(user("hello")))])
        writer.release()
        store.scope("x").keep(KeptNote("k", "blue", "scoped", "host", 5))
        store.entitle("scoped", "A title")
        store.tag("scoped", add=["a", "b"])
        store.acquire("gone").release()
        store.delete(["gone"])
        yield store


def test_everything_is_moved(source: Store) -> None:
    """Rows, secrets, scopes, labels, snapshots, times, notes, artifacts and tombstones are the same in the new store."""
    with MemoryStore() as target:
        done = move_sessions(source, target)
        assert (done.sessions, done.copied, done.artifacts, done.in_use, done.damaged) == (4, 91, 9, (), ())
        assert target.cards() == source.cards()
        for card in source.cards():
            assert list(target.rows(card.id)) == list(source.rows(card.id))
            assert target.secret(card.id) == source.secret(card.id)
            assert target.snapshot(card.id) == source.snapshot(card.id)
        assert target.scope("x").notes() == source.scope("x").notes()
        assert target.tombstones() == source.tombstones()
        assert examine_store(target, "target").damage == ()
        assert examine_store(target, "target").artifacts == 9


def test_a_move_that_stopped_goes_on(source: Store) -> None:
    """Entries that were copied before are compared and not written again; a second run writes nothing."""
    with MemoryStore() as target:
        part = [Draft(row.id, row.parent, row.time_ms, row.author, row.payload) for row in source.rows("s1", upto=11)]
        writer = target.acquire("s1", secret=source.secret("s1"))
        writer.append(part)
        writer.release()
        assert move_sessions(source, target).copied == 91 - 11
        assert move_sessions(source, target).copied == 0
        assert list(target.rows("s1")) == list(source.rows("s1"))
        assert len(target.tombstones()) == 1


def test_a_session_that_is_written_is_left(source: Store) -> None:
    """It is named, and moved by the next run."""
    with MemoryStore() as target:
        writer = source.acquire("s1")
        assert move_sessions(source, target).in_use == ("s1",)
        assert {card.id for card in target.cards()} == {"s0", "s2", "scoped"}
        writer.append([Draft("late", None, 9, "somebody", encode(user("late")))])
        writer.release()
        assert move_sessions(source, target).sessions == 4
        assert [row.id for row in target.rows("s1")][-1] == "late"


def test_another_session_of_the_same_name_is_never_mixed(source: Store) -> None:
    """A log that is not a part of the one to be moved, or is longer, is refused."""
    for other in (drafts(3), [draft(f"more{i}") for i in range(99)]):
        with MemoryStore() as target:
            writer = target.acquire("s0")
            writer.append(other)
            writer.release()
            with pytest.raises(BadInput, match="s0"):
                move_sessions(source, target)
            assert len(list(target.rows("s0"))) == len(other)


def test_a_copy_that_differs_is_noticed(source: Store) -> None:
    """The chain of the copy is computed from the rows that the new store returns."""

    class Forgetful(MemoryStore):
        def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
            return iter([row for row in super().rows(session, after=after, upto=upto) if row.seq != 17])

    with Forgetful() as target:
        done: StoreMove = move_sessions(source, target)
        assert (done.sessions, len(done.damaged)) == (1, 3)


def test_a_snapshot_in_the_middle_of_a_log_is_kept_there(tmp_path: Path) -> None:
    """The copy opens from the same snapshot as the original."""
    with SqliteStore(tmp_path / "a.db") as source, SqliteStore(tmp_path / "b.db") as target:
        writer = source.acquire("s")
        writer.append(drafts(300), snapshot=b"view")
        writer.append(drafts(9, prefix="later"))
        writer.release()
        move_sessions(source, target)
        assert target.snapshot("s") == Snapshot(300, b"view")
        assert len(list(target.rows("s"))) == 309


def test_damage_is_told_for_any_store(source: Store) -> None:
    """The examination passes over a damaged row, counts the rest, and names the place."""
    assert isinstance(source, SqliteStore)

    def hurt(db) -> None:
        db.execute("DROP TRIGGER entries_never_change")
        db.execute("UPDATE entries SET author = 'forger' WHERE id = 's1-004'")

    source._run(hurt)
    report = examine_store(source, "here")
    assert [str(damage) for damage in report.damage] == [
        "session s1, entry 5: its bytes do not match its hash, or the hash of the entry before it"
    ]
    assert (report.sessions, report.entries) == (4, 90)
