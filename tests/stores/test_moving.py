"""Sessions moved from one store to another: whole, proven, resumable."""

import io
from base64 import b64encode
from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_bytes

import pytest

from foveal.stores import moving, open_store
from foveal.stores.artifacts import artifacts_folder
from foveal.stores.examination import examine_store
from foveal.stores.keys import LocalKeys
from foveal.stores.memory import MemoryScope, MemoryStore, MemoryWriter
from foveal.stores.moving import BATCH_ROWS, StoreMove, copy_store, move_sessions
from foveal.stores.port import Draft, KeptNote, Row, Snapshot, Store, Tombstone
from foveal.stores.portable import export_session, import_session
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite import store as sqlite_store
from foveal.testing.store_contract import draft, drafts
from foveal.values.codec import encode
from foveal.values.entry import user
from foveal.values.errors import BadInput, NotFound, StoreCorrupt


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


def test_sessions_of_a_store_that_cannot_be_written_are_copied_unheld(
    filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As they are at the moment, which the outcome says; one that somebody has is left, as always."""
    with SqliteStore(filled) as owner:
        owner.acquire("s1")
        monkeypatch.setattr(sqlite_store, "can_be_written", lambda _: False)
        with SqliteStore(filled, may_be_read_only=True) as source, MemoryStore() as target:
            done = move_sessions(source, target)
            assert (done.in_use, sorted(done.unheld), done.left) == (("s1",), ["s0", "s2"], ())
            assert list(target.rows("s0")) == list(source.rows("s0"))


def test_another_session_of_the_same_name_is_never_mixed(source: Store) -> None:
    """A log that is not a part of the one to be moved is left as it is, and told; the other sessions are moved."""
    for other in (drafts(3), [draft(f"more{i}") for i in range(99)]):
        with MemoryStore() as target:
            writer = target.acquire("s0")
            writer.append(other)
            writer.release()
            done = move_sessions(source, target)
            (problem,) = done.left
            assert problem.startswith("session s0: the new store has another session of this name")
            assert (done.sessions, done.is_whole) == (3, False)
            assert len(list(target.rows("s0"))) == len(other)


def fill(store: Store, session: str, *entries: str) -> None:
    """Append an entry of each name to a session."""
    writer = store.acquire(session)
    writer.append([Draft(name, None, 1, "me", encode(user(name))) for name in entries])
    writer.release()


class Interrupted(MemoryStore):
    """A store in which a session is deleted just before the first call of a method."""

    def __init__(self, at: str, session: str) -> None:
        super().__init__()
        self.at, self.session = at, session

    def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
        self._meanwhile("rows")
        return super().rows(session, after=after, upto=upto)

    def acquire(
        self, session: str, *, takeover: bool = False, secret: bytes | None = None, scope: str | None = None
    ) -> MemoryWriter:
        self._meanwhile("acquire")
        return super().acquire(session, takeover=takeover, secret=secret, scope=scope)

    def _meanwhile(self, at: str) -> None:
        if at == self.at and self.cards(self.session):
            self.at = ""
            self.delete([self.session], takeover=True)


@pytest.mark.parametrize(("at", "holds"), [("acquire", True), ("rows", True), ("rows", False)])
def test_a_session_that_is_deleted_during_the_move_is_in_neither_store(at: str, holds: bool) -> None:
    """Neither store has an empty session of its name afterwards, and the others are moved."""
    source = Interrupted("", "s1")
    with source, MemoryStore() as target:
        for name in ("s1", "s2", "s3"):
            fill(source, name, "e0")
        source.at = at
        done = move_sessions(source, target, holds=holds)
        assert (done.sessions, done.is_whole) == (2, True)
        assert {card.id for card in source.cards()} == {card.id for card in target.cards()} == {"s2", "s3"}


def test_a_part_of_a_session_that_is_deleted_during_the_move_is_removed() -> None:
    """A log that was copied in part, and can no longer be copied to its end, is not left behind as if it were a session."""

    class Vanishing(MemoryStore):
        def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
            for row in super().rows(session, after=after, upto=upto):
                if row.seq == BATCH_ROWS + 1:
                    self.delete(["s"], takeover=True)
                    raise NotFound("the session was deleted while it was read")
                yield row

    with Vanishing() as source, MemoryStore() as target:
        fill(source, "s", *(f"e{i}" for i in range(BATCH_ROWS + 9)))
        assert move_sessions(source, target).sessions == 0
        assert (source.cards(), target.cards()) == ([], [])


def test_a_session_that_went_on_in_the_new_store_stays_as_it_is_there(source: Store) -> None:
    """It has every entry of the old store, so that it is whole; neither its newer entries nor its title are touched."""
    with MemoryStore() as target:
        move_sessions(source, target)
        fill(target, "s0", "goes-on")
        target.entitle("s0", "Named in the new store")
        before = target.cards("s0")
        done = move_sessions(source, target)
        assert (done.sessions, done.copied, done.is_whole) == (4, 0, True)
        assert target.cards("s0") == before


def test_a_session_that_was_deleted_in_the_new_store_is_not_brought_back(source: Store) -> None:
    """Its tombstone there is of the same log, whether it was copied to its end, in part, or went on."""
    with MemoryStore() as target:
        part = [Draft(row.id, row.parent, row.time_ms, row.author, row.payload) for row in source.rows("s1", upto=11)]
        writer = target.acquire("s1", secret=source.secret("s1"))
        writer.append(part)
        target.delete(["s1"], takeover=True)
        move_sessions(source, target)
        fill(target, "s2", "goes-on")
        target.delete(["s0", "s2"])
        done = move_sessions(source, target)
        assert (set(done.deleted), done.is_whole) == ({"s0", "s1", "s2"}, True)
        assert [card.id for card in target.cards()] == ["scoped"]


def test_a_session_of_a_name_that_was_deleted_before_is_moved(source: Store) -> None:
    """A tombstone of another session of the same name does not keep it."""
    with MemoryStore() as target:
        fill(target, "s0", "another")
        target.delete(["s0"])
        fill(source, "gone", "made again")
        assert move_sessions(source, target).deleted == ()
        assert move_sessions(source, target).sessions == 5
        assert target.cards() == source.cards()


def test_a_copy_whose_original_was_deleted_is_told(source: Store) -> None:
    """It may be the only copy: it stays without a tombstone until somebody deletes it, and the run is not done."""
    with MemoryStore() as target:
        move_sessions(source, target)
        source.delete(["s1"])
        done = move_sessions(source, target)
        assert (done.outlived, done.is_whole) == (("s1",), False)
        assert len(target.tombstones()) == 1
        target.delete(["s1"])
        assert move_sessions(source, target).is_whole
        assert set(source.tombstones()) < set(target.tombstones())


def test_a_session_that_was_imported_again_after_its_deletion_is_moved() -> None:
    """The old store has its tombstone and itself, and so has the new one."""
    with MemoryStore() as source, MemoryStore() as target:
        fill(source, "s", "e0")
        copy = io.BytesIO()
        export_session(source, "s", copy)
        source.delete(["s"])
        copy.seek(0)
        import_session(source, copy)
        for _ in range(2):
            assert move_sessions(source, target).is_whole
            assert (target.cards(), target.tombstones()) == (source.cards(), source.tombstones())


def test_a_note_and_a_title_that_the_new_store_refuses_are_told(source: Store) -> None:
    """Everything else is moved: the session, its tags and times, the other notes and the tombstones."""

    class Strict(MemoryStore):
        def entitle(self, session: str, title: str | None) -> None:
            raise BadInput("the title is too long to be encrypted")

        def scope(self, name: str) -> MemoryScope:
            found = super().scope(name)
            keep = found.keep

            def strict_keep(note: KeptNote) -> None:
                if len(note.text) > 10:
                    raise BadInput(f"the note {note.key} is too long to be encrypted")
                keep(note)

            found.keep = strict_keep
            return found

    source.scope("x").keep(KeptNote("long", "x" * 11, "scoped", "host", 6))
    with Strict() as target:
        done = move_sessions(source, target)
        assert done.left == (
            "session scoped: the title is too long to be encrypted",
            "scope x: the note long is too long to be encrypted",
        )
        assert [note.key for note in target.scope("x").notes()] == ["k"]
        assert target.tombstones() == source.tombstones()
        (was,), (now,) = source.cards("scoped"), target.cards("scoped")
        assert (now.tags, now.created_ms, now.updated_ms) == (was.tags, was.created_ms, was.updated_ms)


def test_a_note_that_was_replaced_in_the_new_store_stays_replaced(source: Store) -> None:
    """A later run does not put the old text in the place of the new one."""
    with MemoryStore() as target:
        move_sessions(source, target)
        newer = KeptNote("k", "green", "scoped", "host", 6)
        target.scope("x").keep(newer)
        assert move_sessions(source, target).is_whole
        assert target.scope("x").notes() == [newer]


def test_a_note_that_was_forgotten_in_the_new_store_is_not_brought_back(source: Store) -> None:
    """It is told; what was kept since, in a session that went on, is copied."""
    with MemoryStore() as target:
        move_sessions(source, target)
        assert target.scope("x").forget("k")
        done = move_sessions(source, target)
        assert (done.forgotten, done.is_whole) == (("scope x: k",), True)
        assert target.scope("x").notes() == []
        fill(source, "scoped", "goes-on")
        later = source.cards("scoped")[0].updated_ms + 1
        source.scope("x").keep(KeptNote("new", "green", "scoped", "host", later))
        assert move_sessions(source, target).forgotten == ("scope x: k",)
        assert [note.key for note in target.scope("x").notes()] == ["new"]


def test_notes_that_a_stopped_move_did_not_come_to_are_copied_by_the_next(source: Store) -> None:
    """The new store has the sessions and no notes, and nothing was forgotten in it."""
    with MemoryStore() as target:
        move = moving._Move(source, target)
        for card in source.cards():
            move.bring(card, holds=True)
        assert (move_sessions(source, target).forgotten, len(target.scope("x").notes())) == ((), 1)


def test_a_missing_artifact_is_told_until_it_is_there(source: Store, filled: Path) -> None:
    """Its session is not counted as whole; when the file is back, the next run copies it although the entries are there."""
    lost = min(artifacts_folder(filled).glob("*/*"))
    kept = lost.read_bytes()
    lost.unlink()
    with MemoryStore() as target:
        done = move_sessions(source, target)
        assert (done.sessions, done.copied, done.artifacts, done.is_whole) == (3, 91, 8, False)
        (problem,) = done.missing
        assert lost.name in problem
        assert move_sessions(source, target).missing == done.missing
        lost.write_bytes(kept)
        done = move_sessions(source, target)
        assert (done.sessions, done.copied, done.artifacts, done.is_whole) == (4, 0, 1, True)


def test_a_session_under_a_lost_key_does_not_keep_the_others(tmp_path: Path) -> None:
    """It is told with the name of the key; the sessions whose keys are there are moved."""
    lost, kept = (LocalKeys(b64encode(token_bytes(32)).decode(), "env:KEYS") for _ in range(2))
    for keys, name in ((lost, "lost"), (kept, "kept")):
        with open_store(tmp_path / "a.db", keys=keys) as store:
            fill(store, name, "e0")
    with open_store(tmp_path / "a.db", keys=kept) as source, MemoryStore() as target:
        done = move_sessions(source, target)
        (problem,) = done.left
        assert problem.startswith("session lost: this was encrypted under the key")
        assert [card.id for card in target.cards()] == ["kept"]


def test_a_damaged_tombstone_does_not_keep_the_sessions() -> None:
    """It is told once, and the sessions are moved."""

    class Hurt(MemoryStore):
        def tombstones(self) -> list[Tombstone]:
            raise StoreCorrupt("the store", "tombstone 1 does not match its seal")

    with Hurt() as source, MemoryStore() as target:
        fill(source, "s", "e0")
        done = move_sessions(source, target)
        assert (done.sessions, len(done.damaged)) == (1, 1)


def test_a_backup_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy takes its name when it is whole, so that the same command can be given again."""
    with open_store(tmp_path / "a.db", tenant="acme") as store:
        fill(store, "s", "e0")
    monkeypatch.setattr(moving, "move_sessions", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        copy_store(tmp_path / "a.db", str(tmp_path / "copy.db"), tenant="acme")
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]
    monkeypatch.undo()
    assert copy_store(tmp_path / "a.db", str(tmp_path / "copy.db"), tenant="acme").sessions == 1


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


@pytest.fixture(params=["tenant", "keys", "tenant and keys"])
def private(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Store]:
    """Open a file as a tenant, under keys, or both: each time by a new handle."""
    keys = LocalKeys(b64encode(token_bytes(32)).decode(), "env:KEYS") if "keys" in request.param else None
    tenant = "acme" if "tenant" in request.param else None
    return lambda name: open_store(tmp_path / name, tenant=tenant, keys=keys)


def test_a_deletion_in_the_new_store_holds_under_tenants_and_keys(private: Callable[[str], Store]) -> None:
    """The handles of the second run have made no tombstone themselves, and the hashes of the two stores differ."""
    with private("a.db") as source, private("b.db") as target:
        for name in ("whole", "part", "stays"):
            fill(source, name, *(f"e{i}" for i in range(3)))
        assert move_sessions(source, target).sessions == 3
    with private("b.db") as target:
        target.delete(["whole"])
    with private("a.db") as source, private("b.db") as target:
        done = move_sessions(source, target)
        assert (done.deleted, done.is_whole) == (("whole",), True)
        assert {card.id for card in target.cards()} == {"part", "stays"}


def test_a_part_that_was_deleted_in_the_new_store_is_not_brought_back_under_tenants_and_keys(
    private: Callable[[str], Store],
) -> None:
    """A run was stopped after the first entries; their copy has the time of the original from the beginning."""
    with private("a.db") as source, private("b.db") as target:
        fill(source, "s", *(f"e{i}" for i in range(BATCH_ROWS + 9)))
        source.backdate("s", created_ms=5, updated_ms=7)
        rows = source.rows

        def stopped(session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
            for row in rows(session, after=after, upto=upto):
                if row.seq == BATCH_ROWS + 1:
                    raise KeyboardInterrupt
                yield row

        source.rows = stopped  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            move_sessions(source, target)
    with private("b.db") as target:
        assert target.cards("s")[0].entries == BATCH_ROWS
        target.delete(["s"])
    with private("a.db") as source, private("b.db") as target:
        assert move_sessions(source, target).deleted == ("s",)
        assert target.cards() == []


def test_a_copy_whose_original_was_deleted_is_told_to_a_tenant(private: Callable[[str], Store]) -> None:
    """Whether this handle has deleted it or another one; once the copy is deleted, its proofs are in the new store."""
    with private("a.db") as source, private("b.db") as target:
        for name in ("one", "two"):
            fill(source, name, "e0")
        move_sessions(source, target)
        source.delete(["one"])
        assert move_sessions(source, target).outlived == ("one",)
    with private("a.db") as source, private("b.db") as target:
        assert move_sessions(source, target).outlived == ("one",)
        target.delete(["one"])
        assert move_sessions(source, target).is_whole
