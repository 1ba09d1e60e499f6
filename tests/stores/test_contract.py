"""Our stores keep the promises of the port."""

from collections.abc import Callable
from pathlib import Path

import apsw
import msgspec
import pytest

from foveal.stores.chain import seed
from foveal.stores.database import Database
from foveal.stores.lease import pack, unpack
from foveal.stores.memory import MemoryArtifacts, MemoryStore
from foveal.stores.port import SearchIndex, Store
from foveal.stores.sqlite import MemoryIndex, SqliteStore
from foveal.stores.sqlite.records import update_record
from foveal.stores.sqlite.schema import TABLES
from foveal.stores.sqlite.tables import Tables
from foveal.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    def make_store(self) -> Store:
        return MemoryStore()

    def lose_tail(self, store: Store, session: str, entries: int) -> bool:
        assert isinstance(store, MemoryStore)
        log = store._logs[session]
        del log.rows[entries:]
        log.seqs = {row.id: row.seq for row in log.rows}
        log.snapshot = None
        return True


class TestSqliteStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "store.db"

    def make_store(self) -> Store:
        return SqliteStore(self.path)

    def reopen(self, store: Store) -> Store:
        store.close()
        return SqliteStore(self.path)

    def second_handle(self, store: Store) -> Store:
        return SqliteStore(self.path)

    def lapse(self, store: Store) -> bool:
        """Let the holder seem to be in another container, and its lease of long ago."""
        assert isinstance(store, SqliteStore)

        def job(db: Database) -> None:
            for record in Tables(db, self.path).records():
                if record.holder is not None:
                    far = msgspec.structs.replace(unpack(record.holder), boot="another boot", host="another host")
                    update_record(db, msgspec.structs.replace(record, holder=pack(far)))
            db.execute("DELETE FROM leases")

        store._run(job)
        return True

    def lose_tail(self, store: Store, session: str, entries: int) -> bool:
        assert isinstance(store, SqliteStore)

        def job(db: Database) -> None:
            record = Tables(db, self.path).known_record(session)
            trigger = next(sql for sql in TABLES if "entries_never_go" in sql)
            db.execute("DROP TRIGGER entries_never_go")
            db.execute(
                "DELETE FROM entries WHERE place > ? AND place <= ?", (record.base + entries, record.base + 1000)
            )
            db.execute("DELETE FROM snapshots")
            db.execute(trigger)
            sql = "SELECT id, hash FROM entries WHERE place = ?"
            head, chain = db.execute(sql, (record.base + entries,)).fetchone() or (None, seed(session))
            update_record(db, msgspec.structs.replace(record, entries=entries, head=head, chain=chain))

        store._run(job)
        return True


class _LongSpan(MemoryArtifacts):
    def span(self, sha256: str, start: int, size: int) -> bytes:
        return super().span(sha256, start, size + 1)


class _LateSpan(MemoryArtifacts):
    def span(self, sha256: str, start: int, size: int) -> bytes:
        return super().span(sha256, start + 1, size)


class _NoSidecar(MemoryArtifacts):
    def write_sidecar(self, sha256: str, data: bytes) -> None:
        pass


class _OneSidecar(MemoryArtifacts):
    def write_sidecar(self, sha256: str, data: bytes) -> None:
        for name in self._kept:
            super().write_sidecar(name, data)


class _SidecarInPlace(MemoryArtifacts):
    def write_sidecar(self, sha256: str, data: bytes) -> None:
        self._kept[sha256] = data
        super().write_sidecar(sha256, data)


class _NewIndexes(MemoryStore):
    def index(self, session: str) -> SearchIndex:
        return MemoryIndex()


class _OneIndex(MemoryStore):
    def index(self, session: str) -> SearchIndex:
        return super().index("the same for all")


class _StubbornIndex(MemoryIndex):
    def clear(self) -> None:
        pass


class _UnclearedIndexes(MemoryStore):
    def index(self, session: str) -> SearchIndex:
        if session not in self._indexes:
            self._indexes[session] = _StubbornIndex()
        return super().index(session)


def with_artifacts(artifacts: MemoryArtifacts) -> MemoryStore:
    store = MemoryStore()
    store.artifacts = artifacts
    return store


@pytest.mark.parametrize(
    ("make", "test"),
    [
        (lambda: with_artifacts(_LongSpan()), "test_a_span_is_read_alone"),
        (lambda: with_artifacts(_LateSpan()), "test_a_span_is_read_alone"),
        (lambda: with_artifacts(_NoSidecar()), "test_a_sidecar_belongs_to_one_artifact"),
        (lambda: with_artifacts(_OneSidecar()), "test_a_sidecar_belongs_to_one_artifact"),
        (lambda: with_artifacts(_SidecarInPlace()), "test_a_sidecar_belongs_to_one_artifact"),
        (_NewIndexes, "test_an_index_keeps_its_tables_from_one_opening_to_the_next"),
        (_OneIndex, "test_an_index_keeps_its_tables_from_one_opening_to_the_next"),
        (_UnclearedIndexes, "test_a_cleared_index_is_empty_and_of_use"),
    ],
)
def test_a_store_that_breaks_a_promise_fails_the_contract(make: Callable[[], Store], test: str) -> None:
    """Each planted fault in spans, sidecars or indexes is found by the contract test of that capability."""

    class Contract(StoreContract):
        def make_store(self) -> Store:
            return make()

    with pytest.raises((AssertionError, apsw.SQLError)):
        getattr(Contract(), test)()
