"""The default store: one SQLite file, and a folder of artifacts beside it.

When `append` returns, the transaction is committed and synced (WAL, synchronous=FULL). All writing goes through one thread
that commits waiting callers together (`group_commit`); reading has connections of its own and never waits for a writer.
Several processes may use one file; each session has one writer at a time, and a writer that lost its session is refused by
the epoch it carries, inside the transaction, however late it wakes up. A handle has one lease for all the sessions it holds.

Closing releases the sessions and leaves one file without a WAL. A program that ends without closing is closed at its end; one
that is killed is not.
"""

import atexit
import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

import apsw

from foveal.stores.artifacts import SUFFIX as ARTIFACTS
from foveal.stores.artifacts import FileArtifacts, artifacts_folder
from foveal.stores.chain import by_name
from foveal.stores.checks import check_drafts, check_scope, check_sealed, check_secret, check_session
from foveal.stores.database import Database
from foveal.stores.disk import size_of_folder
from foveal.stores.labels import NO_LABELS, Labels
from foveal.stores.lease import LEASE_MS, Lease, new_token, this_process
from foveal.stores.opened import opened
from foveal.stores.port import (
    PAGE_CARDS,
    Artifacts,
    Draft,
    KeptArtifact,
    KeptNote,
    Opened,
    Row,
    SearchIndex,
    SessionCard,
    Snapshot,
    StoreStats,
    Tombstone,
)
from foveal.stores.session_artifacts import plain_artifacts
from foveal.stores.sqlite import transactions
from foveal.stores.sqlite.connection import reading, resolved
from foveal.stores.sqlite.errors import BROKEN, check_version, translated
from foveal.stores.sqlite.group_commit import GroupCommit
from foveal.stores.sqlite.index import (
    INDEX_OF_ALL,
    FileIndex,
    MemoryIndex,
    index_file,
    index_files,
    list_index_files,
    remove_index_files,
    remove_indexes,
    scope_key,
)
from foveal.stores.sqlite.index import SUFFIX as INDEXES
from foveal.stores.sqlite.no_commits import NoCommits
from foveal.stores.sqlite.opening import can_be_written, open_reader, open_store, open_to_read
from foveal.stores.sqlite.records import Record
from foveal.stores.sqlite.tables import Tables, card
from foveal.stores.sqlite.transactions import Request
from foveal.values.errors import (
    IndexLeft,
    LeaseLost,
    NotFound,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
    TailLost,
)

T = TypeVar("T")

IDLE_READERS = 8
"""Reading connections kept open between uses; more threads than this open and close their own."""


class HandleLease:
    """The lease of one open store for all the sessions that it holds: one row, renewed with its commits when half of it has
    passed, and by the writer thread if there are none."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._token = new_token()
        self._held: dict[tuple[int, int], Record] = {}
        self._new: list[Record] = []
        """Sessions that are acquired by the transaction under way."""
        self._lease: Lease | None = None
        self._due_ms = self._renewing_ms = 0
        """When the lease is to be renewed; 0 until it is taken. And the time of a renewal in the transaction under way."""

    def wish(self, session: str, *, takeover: bool, secret: bytes | None, scope: str | None) -> Request:
        """Return the wish of this handle to become the writer of a session."""
        return Request(session, this_process(_now_ms(), self._token), takeover, secret, scope)

    def acquire(self, db: Database, wish: Request) -> Record:
        """Become the writer of a session, within the transaction under way."""
        record = transactions.acquire(db, self._path, wish)
        self._new.append(record)
        self._lease = self._lease or wish.lease
        return record

    def release(self, db: Database, held: Record) -> None:
        """Stop being the writer of a session, within the transaction under way."""
        transactions.release(db, self._path, held)
        self._held.pop((held.key, held.epoch), None)

    def tend(self, db: Database) -> bool:
        if self._lease is None or not (self._held or self._new):
            return False
        now_ms = _now_ms()
        if now_ms < self._due_ms:
            return False
        transactions.renew_lease(db, self._lease, now_ms)
        self._renewing_ms = now_ms
        return self._due_ms == 0

    def settle(self, *, is_kept: bool) -> None:
        if is_kept and self._new:
            self._held.update({(record.key, record.epoch): record for record in self._new})
        if is_kept and self._renewing_ms:
            self._due_ms = self._renewing_ms + LEASE_MS // 2
        self._new.clear()
        self._renewing_ms = 0

    def rest_s(self) -> float | None:
        return max(0.0, (self._due_ms - _now_ms()) / 1000) if self._held else None

    def is_needed(self, db: Database) -> bool:
        return db.execute("SELECT count(*) FROM leases").fetchall() != [(0,)]

    def end(self, db: Database) -> bool:
        for held in tuple(self._held.values()):
            self.release(db, held)
        return transactions.end_lease(db, self._token, _now_ms())


class SqliteStore:
    """Logs in the SQLite file at `path`, which is made if it does not exist. Safe to use from many threads.

    A file that cannot be written is refused, unless it `may_be_read_only`: then all that changes it is refused.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, busy_timeout_s: float = 5.0, may_be_read_only: bool = False
    ) -> None:
        self.path = resolved(path)
        """The path of the store's file, without symbolic links: its companions lie beside the file itself."""
        self.artifacts = FileArtifacts(artifacts_folder(self.path))
        self._busy_timeout_s = busy_timeout_s
        self._pid = os.getpid()
        self._is_closed = False
        self._readers: deque[Database] = deque()
        self._counted: set[int] = set()
        """Sessions whose index was seen to have all entries."""
        self._lease = HandleLease(self.path)
        self._memory_indexes: dict[str, MemoryIndex] = {}
        """Search indexes of a store that cannot be written."""
        self._is_writable = not may_be_read_only or can_be_written(self.path)
        if self._is_writable:
            db, file = open_store(self.path, busy_timeout_s)
            self._commits = GroupCommit(db, self.path, self._lease, file.close)
        else:
            refusing = NoCommits(self.path, open_to_read(self.path, busy_timeout_s).close)
            self._commits = cast("GroupCommit", refusing)  # it stands in for one
        weakref.finalize(self, _end, self._readers, self._commits)
        _open_stores.add(self)

    def artifacts_for(self, session: str) -> Artifacts:
        return plain_artifacts(self.artifacts, session)

    def kept_artifacts(self) -> list[KeptArtifact]:
        return [KeptArtifact(name, self.artifacts) for name in self.artifacts.names()]

    def acquire(
        self, session: str, *, takeover: bool = False, secret: bytes | None = None, scope: str | None = None
    ) -> "SqliteWriter":
        """Become the session's writer. A dead process is succeeded silently; `takeover` succeeds a live one."""
        check_session(session)
        check_secret(secret)
        check_scope(scope)
        wish = self._lease.wish(session, takeover=takeover, secret=secret, scope=scope)
        held = self._run(lambda db: self._lease.acquire(db, wish))
        return SqliteWriter(held, append=self._append, release=self._release)

    def load(
        self, session: str, *, takeover: bool = False, secret: bytes | None = None, scope: str | None = None
    ) -> Opened:
        return opened(self, session, self.acquire(session, takeover=takeover, secret=secret, scope=scope))

    def secret(self, session: str) -> bytes:
        with self._tables() as tables:
            return tables.known_record(session).secret

    def secrets(self, sessions: Sequence[str]) -> dict[str, bytes]:
        with self._tables() as tables:
            found = [tables.record(session) for session in sessions]
            return {record.id: record.secret for record in found if record is not None}

    def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
        """Yield the rows after < seq <= upto, each verified. Those before a damaged one are given before it raises."""
        with self._tables() as tables:
            record = tables.known_record(session)
        last = record.entries if upto is None else min(upto, record.entries)
        return self._walk(record, max(after, 0), last)

    def rows_at(self, session: str, seqs: Iterable[int]) -> dict[int, Row]:
        with self._tables() as tables:
            return tables.rows_at(tables.known_record(session), seqs)

    def find(self, session: str, prefix: str) -> list[Row]:
        with self._tables() as tables:
            record = tables.known_record(session)
            found = tables.find(record, prefix)
            if (
                not found and record.key not in self._counted
            ):  # once for each handle: it takes the time of the whole log
                tables.check_index(record)
                self._counted.add(record.key)
            return found

    def snapshot(self, session: str) -> Snapshot | None:
        with self._tables() as tables:
            return tables.snapshot(tables.known_record(session))

    def cards(self, session: str | None = None) -> list[SessionCard]:
        with self._tables() as tables:
            if session is None:
                return _labelled(tables, tables.records(), tables.labels())
            record = tables.record(session)
            return [] if record is None else _labelled(tables, [record])

    def page(
        self, *, prefix: str = "", after: str = "", limit: int = PAGE_CARDS, tag: str | None = None
    ) -> list[SessionCard]:
        with self._tables() as tables:
            if tag is None:
                return _labelled(tables, tables.page(prefix, after, limit))
            tagged = [key for key, labels in tables.labels().items() if tag in labels.tags]
            named = sorted((tables.name_of(key) for key in tagged), key=str.encode)
            found = [name for name in named if name > after and name.startswith(prefix)]
            return _labelled(tables, [tables.known_record(name) for name in found[: max(limit, 0)]])

    def entitle(self, session: str, title: str | None) -> None:
        def change(known: Labels, secret: bytes) -> Labels:
            check_sealed(session, secret, title)
            return known.entitled(title, secret)

        self._run(lambda db: transactions.relabel(db, self.path, session, change))

    def tag(self, session: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> tuple[str, ...]:
        def change(known: Labels, _secret: bytes) -> Labels:
            return known.tagged(add, remove)

        return self._run(lambda db: transactions.relabel(db, self.path, session, change)).tags

    def index(self, session: str) -> FileIndex | MemoryIndex:
        self._check_usable()
        if self._is_writable:
            return FileIndex(index_file(self.path, session))
        return self._memory_indexes.setdefault(session, MemoryIndex())

    def index_of_all(self) -> FileIndex | MemoryIndex:
        return self.index(INDEX_OF_ALL)

    def scope(self, name: str) -> "SqliteScope":
        self._check_usable()
        check_scope(name)
        return SqliteScope(
            name, self.path, tables=self._tables, run=self._run, index=lambda: self.index(scope_key(name))
        )

    def delete(
        self, sessions: Sequence[str], *, takeover: bool = False, seen: Mapping[str, int] | None = None
    ) -> list[Tombstone]:
        """Delete the sessions; when this returns, nothing of them is left in the file, its WAL and its folder of indexes."""
        scopes = {card.scope for session in sessions for card in self.cards(session) if card.scope is not None}
        gone = self._run(
            lambda db: transactions.delete(db, self.path, sessions, _now_ms(), takeover=takeover, seen=seen)
        )
        left = remove_indexes(self.path, (*sessions, *map(scope_key, sorted(scopes)), INDEX_OF_ALL))
        remains = IndexLeft(left, str(self.path), gone) if left else None
        try:
            self._write_anew(is_deletion=True)
        except (StoreBusy, StoreFull) as error:
            if remains is None:
                raise
            raise type(error)(f"{error} And {remains}") from error
        if remains is not None:
            raise remains
        return gone

    def copy_to(self, target: Database) -> None:
        """Copy the file as it is now into another database, while others go on writing."""
        with self._reader() as db, target.backup("main", db, "main") as backup:
            backup.step()

    def adopt(self, tombstones: Sequence[Tombstone]) -> None:
        if tombstones:
            self._run(lambda db: transactions.adopt(db, self.path, tombstones))

    def backdate(self, session: str, *, created_ms: int, updated_ms: int) -> None:
        self._run(lambda db: transactions.backdate(db, self.path, session, (created_ms, updated_ms), _now_ms()))

    def stats(self) -> StoreStats:
        cards = self.cards()
        names = {"log": self.path, "wal": Path(f"{self.path}-wal")}
        sizes = {name: file.stat().st_size if file.exists() else 0 for name, file in names.items()}
        for name, suffix in (("artifacts", ARTIFACTS), ("indexes", INDEXES)):
            sizes[name] = size_of_folder(self.path.with_name(self.path.name + suffix))
        held = sum(card.holder is not None for card in cards)
        return StoreStats(len(cards), held, sum(card.entries for card in cards), len(self.tombstones()), sizes)

    def vacuum(self) -> None:
        """Write the file anew, without the space of deleted rows, and remove what dead writers and deletions left beside it:
        indexes of sessions that are not there, and those of scopes and of all, which may have words of such sessions."""
        self._write_anew(is_deletion=False)
        self.artifacts.sweep()
        try:
            found = list_index_files(self.path)
        except OSError as error:
            raise IndexLeft({f"those in {self.path}{INDEXES}": error}, str(self.path)) from error
        with self._tables() as tables:
            is_clean = not tables.tombstones()
            records = tables.records()
        scopes = {record.scope for record in records if record.scope is not None}
        shared = [*map(scope_key, sorted(scopes)), INDEX_OF_ALL] if is_clean else []
        orphans = index_files(self.path, found, [*(record.id for record in records), *shared]).orphans
        if left := remove_index_files(map(Path, orphans)):
            raise IndexLeft(left, str(self.path))

    def tombstones(self) -> list[Tombstone]:
        with self._tables() as tables:
            return tables.tombstones()

    def tombstones_of(self, sessions: Sequence[str]) -> dict[str, list[Tombstone]]:
        return by_name(self.tombstones(), sessions) if sessions else {}

    def close(self) -> None:
        """Release every session acquired through this handle, finish the work under way and close the file."""
        if self._is_closed or os.getpid() != self._pid:
            return
        self._is_closed = True
        while self._readers:
            self._readers.popleft().close()
        self._commits.close()

    def __enter__(self) -> "SqliteStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write_anew(self, *, is_deletion: bool) -> None:
        """Write the file anew, without the remains of what was deleted; the error of a deletion says that it is done itself."""
        try:
            self._commits.run_alone(self._scrub)
            self._commits.run(lambda db: transactions.touch(db, self.path, _now_ms()))
        except (StoreBusy, StoreFull) as error:
            reason = "other processes use it" if isinstance(error, StoreBusy) else "there is no space for that"
            said = (
                "what was deleted cannot be read any more, but bytes of it"
                if is_deletion
                else "bytes of deleted sessions"
            )
            again = ", as does the next deletion" if is_deletion else " when it is run again"
            raise type(error)(
                f"{self.path}: {said} may be in the file and its -wal, which could "
                f"not be written anew: {reason}. `foveal store vacuum {self.path}` removes them{again}."
            ) from error

    def _scrub(self, db: Database) -> None:
        """Write the file anew, without the remains of deleted rows in it, and empty the WAL."""
        db.execute("VACUUM")
        deadline = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.002)
            else:
                return

    def _run(self, job: Callable[[Database], T]) -> T:
        self._check_usable()
        return self._commits.run(job)

    def _append(self, held: Record, drafts: Sequence[Draft], snapshot: bytes | None, acknowledged: int) -> list[int]:
        check_drafts(drafts)
        batch = transactions.Batch(drafts, snapshot, _now_ms(), acknowledged)
        return self._run(lambda db: transactions.append(db, self.path, held, batch))

    def _release(self, held: Record) -> None:
        if os.getpid() == self._pid and not self._commits.is_over:
            self._commits.run(lambda db: self._lease.release(db, held))

    def _walk(self, record: Record, after: int, last: int) -> Iterator[Row]:
        while after < last:
            # A batch is read whole, so that a slow consumer does not keep the WAL from being checkpointed.
            with self._tables() as tables:
                raws = tables.batch(record, after, last)
            try:
                for row in tables.verified(record, raws, after, last):
                    yield row
                    after = row.seq
            except StoreCorrupt:
                self._check_there(record)
                raise

    def _check_there(self, record: Record) -> None:
        """Raise `NotFound` if a session was deleted since its record was read."""
        with self._tables() as tables:
            now = tables.record(record.id)
        if now is None or now.key != record.key:
            raise NotFound(f"session {record.id!r} was deleted while it was read")

    @contextmanager
    def _tables(self) -> Generator[Tables]:
        """Give the tables as they are at one moment: what several statements say of them is compared, while others write."""
        with self._reader() as db, reading(db):
            yield Tables(db, self.path)

    @contextmanager
    def _reader(self) -> Generator[Database]:
        self._check_usable()
        started = time.monotonic()
        db = None
        try:
            db = self._take_reader()
            yield db
        except StoreCorrupt:
            if db is not None:
                check_version(self.path, db)  # what a newer Foveal has upgraded since is not damaged
            raise
        except BROKEN as error:
            problem = translated(error, db, self.path, waited_s=time.monotonic() - started)
            if db is not None:
                db.close()
                db = None
            raise problem from error
        finally:
            if db is not None:
                self._put_back(db)

    def _take_reader(self) -> Database:
        try:
            return self._readers.pop()
        except IndexError:
            return open_reader(self.path, self._busy_timeout_s, is_writable=self._is_writable)

    def _put_back(self, db: Database) -> None:
        if self._is_closed or len(self._readers) >= IDLE_READERS:
            db.close()
        else:
            self._readers.append(db)

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self.path} was opened in process {self._pid} and is used in {os.getpid()} after a fork. "
                "Open the store again in the child process."
            )
        if self._is_closed:
            raise StoreError(f"{self.path} is closed; open the store again.")


class SqliteWriter:
    """The right to append to one session of a `SqliteStore`. It keeps the store alive."""

    def __init__(
        self,
        held: Record,
        *,
        append: Callable[[Record, Sequence[Draft], bytes | None, int], list[int]],
        release: Callable[[Record], None],
    ) -> None:
        self.epoch = held.epoch
        self._held = held
        self._append = append
        self._release = release
        self._is_released = False
        self._acknowledged = held.entries

    def append(self, drafts: Sequence[Draft], *, snapshot: bytes | None = None) -> list[int]:
        """Write the drafts together; they are committed and synced when this returns."""
        if self._is_released:
            raise LeaseLost(f"session {self._held.id} was released by this writer; hold it again to append.")
        try:
            seqs = self._append(self._held, drafts, snapshot, self._acknowledged)
        except TailLost:
            self.release()
            raise
        self._acknowledged = max(self._acknowledged, *seqs, 0)
        return seqs

    def release(self) -> None:
        """Stop being the writer, so that another process need not wait for this one to end."""
        if not self._is_released:
            self._release(self._held)
            self._is_released = True


class SqliteScope:
    """One scope of a `SqliteStore`."""

    def __init__(
        self,
        name: str,
        path: Path,
        *,
        tables: Callable[[], AbstractContextManager[Tables]],
        run: Callable[[Callable[[Database], Any]], Any],
        index: Callable[[], SearchIndex],
    ) -> None:
        self._name, self._path, self._tables, self._run, self._index = name, path, tables, run, index

    def sessions(self, *, since_ms: int | None = None) -> list[SessionCard]:
        with self._tables() as tables:
            return _labelled(tables, tables.scoped_records(self._name, since_ms))

    def index(self) -> SearchIndex:
        return self._index()

    def notes(self) -> list[KeptNote]:
        with self._tables() as tables:
            return tables.notes(self._name)

    def keep(self, note: KeptNote) -> None:
        self._run(lambda db: transactions.keep_note(db, self._path, self._name, note))

    def forget(self, key: str) -> bool:
        return self._run(lambda db: transactions.forget_note(db, self._path, self._name, key))

    def changes(self) -> int:
        with self._tables() as tables:
            return tables.scope_state(self._name)[0]


def _labelled(
    tables: Tables, records: Sequence[Record], known: Mapping[int, Labels] | None = None
) -> list[SessionCard]:
    """Return the cards of these records, with the labels that are `known`; without them, those of these sessions are read."""
    labels = tables.labels_among(records) if known is None else known
    return [card(record, labels.get(record.key, NO_LABELS)) for record in tables.held(records, _now_ms())]


_open_stores: "weakref.WeakSet[SqliteStore]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close the stores that a program did not close, at its end."""
    for store in tuple(_open_stores):
        store.close()


def _end(readers: deque[Database], commits: GroupCommit) -> None:
    """Close a store that nobody refers to any more, without waiting for it."""
    while readers:
        readers.popleft().close()
    commits.stop()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
