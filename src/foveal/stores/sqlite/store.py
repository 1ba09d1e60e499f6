"""The default store: one SQLite file, and a folder of artifacts beside it.

When `append` returns, the transaction is committed and synced (WAL, synchronous=FULL). All writing goes through one thread
that commits waiting callers together (`group_commit`); reading has connections of its own and never waits for a writer.
Several processes may use one file; each session has one writer at a time, and a writer that lost its session is refused by
the epoch it carries, inside the transaction, however late it wakes up.
"""

import os
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from foveal.stores.artifacts import FileArtifacts, artifacts_folder
from foveal.stores.checks import check_drafts, check_session
from foveal.stores.database import Database
from foveal.stores.lease import this_process
from foveal.stores.port import Draft, Row, SessionCard, Snapshot
from foveal.stores.sqlite import transactions
from foveal.stores.sqlite.errors import BROKEN, translated
from foveal.stores.sqlite.group_commit import GroupCommit
from foveal.stores.sqlite.index import FileIndex, index_file
from foveal.stores.sqlite.schema import open_reader, open_store
from foveal.stores.sqlite.tables import Record, Tables, card
from foveal.values.errors import LeaseLost, StoreError

T = TypeVar("T")

IDLE_READERS = 8
"""Reading connections kept open between uses; more threads than this open and close their own."""


class SqliteStore:
    """Logs in the SQLite file at `path`, which is made if it does not exist. Safe to use from many threads."""

    def __init__(self, path: str | os.PathLike[str], *, busy_timeout_s: float = 5.0) -> None:
        self.path = Path(path).absolute()
        """The absolute path of the store's file."""
        self.artifacts = FileArtifacts(artifacts_folder(self.path))
        self._busy_timeout_s = busy_timeout_s
        self._pid = os.getpid()
        self._is_closed = False
        self._readers: deque[Database] = deque()
        self._held: dict[tuple[str, int], Record] = {}
        self._commits = GroupCommit(open_store(self.path, busy_timeout_s), self.path)
        weakref.finalize(self, self._commits.stop)

    def acquire(self, session: str, *, takeover: bool = False) -> "SqliteWriter":
        """Become the session's writer. A dead process on this host is succeeded silently; `takeover` succeeds a live one."""
        check_session(session)
        lease = this_process(_now_ms())
        held = self._run(lambda db: transactions.acquire(db, self.path, session, lease, takeover=takeover))
        self._held[held.id, held.epoch] = held
        return SqliteWriter(held, append=self._append, release=self._release)

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
            return tables.find(tables.known_record(session), prefix)

    def snapshot(self, session: str) -> Snapshot | None:
        with self._tables() as tables:
            return tables.snapshot(tables.known_record(session))

    def cards(self, session: str | None = None) -> list[SessionCard]:
        with self._tables() as tables:
            if session is None:
                return [card(record) for record in tables.records()]
            record = tables.record(session)
            return [] if record is None else [card(record)]

    def index(self, session: str) -> FileIndex:
        self._check_usable()
        return FileIndex(index_file(self.path, session))

    def close(self) -> None:
        """Release every session acquired through this handle, finish the work under way and close the file."""
        if self._is_closed or os.getpid() != self._pid:
            return
        self._is_closed = True
        for held in tuple(self._held.values()):
            with suppress(StoreError):  # the next writer finds this process dead, or takes over
                self._release(held)
        self._commits.close()
        while self._readers:
            self._readers.popleft().close()

    def _run(self, job: Callable[[Database], T]) -> T:
        self._check_usable()
        return self._commits.run(job)

    def _append(self, held: Record, drafts: Sequence[Draft], snapshot: bytes | None) -> list[int]:
        check_drafts(drafts)
        batch = transactions.Batch(drafts, snapshot, _now_ms())
        return self._run(lambda db: transactions.append(db, self.path, held, batch))

    def _release(self, held: Record) -> None:
        if os.getpid() == self._pid and not self._commits.is_over:
            self._commits.run(lambda db: transactions.release(db, self.path, held))
            self._held.pop((held.id, held.epoch), None)

    def _walk(self, record: Record, after: int, last: int) -> Iterator[Row]:
        while after < last:
            # A batch is read whole, so that a slow consumer does not keep the WAL from being checkpointed.
            with self._tables() as tables:
                raws = tables.batch(record, after, last)
            for row in tables.verified(record, raws, after, last):
                yield row
                after = row.seq

    @contextmanager
    def _tables(self) -> Generator[Tables]:
        self._check_usable()
        started = time.monotonic()
        db = None
        try:
            db = self._take_reader()
            yield Tables(db, self.path)
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
            return open_reader(self.path, self._busy_timeout_s)

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
        append: Callable[[Record, Sequence[Draft], bytes | None], list[int]],
        release: Callable[[Record], None],
    ) -> None:
        self.epoch = held.epoch
        self._held = held
        self._append = append
        self._release = release
        self._is_released = False

    def append(self, drafts: Sequence[Draft], *, snapshot: bytes | None = None) -> list[int]:
        """Write the drafts together; they are committed and synced when this returns."""
        if self._is_released:
            raise LeaseLost(f"session {self._held.id} was released by this writer; hold it again to append.")
        return self._append(self._held, drafts, snapshot)

    def release(self) -> None:
        """Stop being the writer, so that another process need not wait for this one to end."""
        if not self._is_released:
            self._release(self._held)
            self._is_released = True


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
