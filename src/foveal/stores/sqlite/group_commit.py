"""The writer thread of a store: the callers that wait while it syncs the disk are committed together next time.

A job is a function of the connection. Jobs that are queued at the same moment run in one transaction, each within a savepoint
of its own, so that a refused job takes no other with it; then one commit, one sync, and only then are all callers answered.

A single caller never waits for others. Only after a group of several does the thread linger for a moment,
far shorter than a sync, for the same callers to come back: otherwise the first of them to wake up would be committed alone,
and the groups would be half as large as they could be.

Checkpoints are made here as well, after the answers, and not by SQLite within a commit: SQLite ignores an fsync that fails
there, and a second one would seem to succeed.
"""

import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

import apsw

from foveal.stores.database import Database
from foveal.stores.sqlite.errors import BROKEN, is_full, translated
from foveal.values.errors import StoreError, StoreFailed

T = TypeVar("T")

GROUP_LIMIT = 256
"""Jobs in one transaction: more would only make the first of them wait."""
LINGER_S = 0.0005
"""An fsync takes 0.1 ms (NVMe) to 10 ms (network disk); a thread that was just answered is back within a fraction."""
CHECKPOINT_PAGES = 1000
"""SQLite's own default for automatic checkpoints."""


class _Ticket:
    __slots__ = ("_done", "error", "job", "result")

    def __init__(self, job: Callable[[Database], object]) -> None:
        self.job = job
        self.result: object = None
        self.error: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def answer(self) -> None:
        self._done.release()

    def wait(self) -> object:
        self._done.acquire()
        if self.error is not None:
            raise self.error
        return self.result


class GroupCommit:
    """The writer thread and its queue. It owns the connection and closes it."""

    def __init__(self, db: Database, path: Path) -> None:
        self._db = db
        self._path = path
        self._queue: queue.SimpleQueue[_Ticket | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._failure: str | None = None
        self._wal_pages = 0
        self._company = 1
        db.wal_autocheckpoint(0)
        db.set_wal_hook(self._note_wal)

    def run(self, job: Callable[[Database], T]) -> T:
        """Run the job in a transaction and return its result once that is durable."""
        ticket = _Ticket(job)
        with self._gate:
            if self._failure is not None:
                raise StoreFailed(self._failure)
            if self._stopped:
                raise StoreError(f"{self._path} is closed; open the store again.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"foveal {self._path.name}", daemon=True)
                self._thread.start()
            self._queue.put(ticket)
        return cast("T", ticket.wait())

    @property
    def is_over(self) -> bool:
        """Whether nothing can be written any more: the store is closed, or failed."""
        return self._stopped or self._failure is not None

    def stop(self) -> None:
        """Let the thread finish the queued jobs and close the connection, without waiting for it."""
        with self._gate:
            if self._stopped:
                return
            self._stopped = True
            if self._thread is None:
                self._db.close()
            else:
                self._queue.put(None)

    def close(self) -> None:
        """Stop, and wait until everything is finished."""
        self.stop()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def _work(self) -> None:
        is_open = True
        while is_open:
            tickets, is_open = self._gather()
            if tickets:
                self._company = len(tickets)
                try:
                    self._commit(tickets)
                except BaseException as error:  # a waiting caller must be told, whatever happened
                    self._fail(f"{self._path}: the writer broke ({error!r}). Open the store again.")
                    for ticket in tickets:
                        ticket.error = ticket.error or StoreFailed(str(self._failure))
                for ticket in tickets:
                    ticket.answer()
                self._checkpoint()
        self._db.close()

    def _gather(self) -> tuple[list[_Ticket], bool]:
        tickets: list[_Ticket] = []
        ticket = self._queue.get()
        deadline = None
        while ticket is not None:
            tickets.append(ticket)
            if len(tickets) >= GROUP_LIMIT:
                return tickets, True
            try:
                ticket = self._queue.get_nowait()
            except queue.Empty:
                if len(tickets) >= self._company:
                    return tickets, True
                deadline = deadline or time.monotonic() + LINGER_S
                try:
                    ticket = self._queue.get(timeout=max(0.0, deadline - time.monotonic()))
                except queue.Empty:
                    return tickets, True
        return tickets, False

    def _commit(self, tickets: list[_Ticket]) -> None:
        if self._failure is not None:
            for ticket in tickets:
                ticket.error = StoreFailed(self._failure)
            return
        started = time.monotonic()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for ticket in tickets:
                self._attempt(ticket)
            self._db.execute("COMMIT")
        except apsw.Error as error:
            self._roll_back()
            waited_s = time.monotonic() - started
            for ticket in tickets:
                ticket.error = ticket.error or translated(error, self._db, self._path, waited_s=waited_s)
            if isinstance(error, apsw.IOError) and not is_full(error, self._db):
                self._fail(str(translated(error, self._db, self._path)))

    def _attempt(self, ticket: _Ticket) -> None:
        """Run one job; if it is refused, undo the changes of this job alone."""
        self._db.execute("SAVEPOINT job")
        try:
            ticket.result = ticket.job(self._db)
        except Exception as error:
            if isinstance(error, (apsw.FullError, apsw.IOError)) or not self._db.in_transaction:
                raise  # SQLite may have undone the whole transaction: nobody in it can be answered
            self._db.execute("ROLLBACK TO job")
            ticket.error = translated(error, self._db, self._path) if isinstance(error, BROKEN) else error
        self._db.execute("RELEASE job")

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            try:
                self._db.execute("ROLLBACK")
            except apsw.Error as error:
                self._fail(f"{self._path}: a failed transaction could not be undone ({error}). Open the store again.")

    def _checkpoint(self) -> None:
        if self._wal_pages < CHECKPOINT_PAGES or self._failure is not None:
            return
        try:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.IOError as error:
            if not is_full(error, self._db):
                self._fail(str(translated(error, self._db, self._path)))
        except apsw.Error:
            pass  # busy, or no space: the WAL keeps everything, and the next commit tries again

    def _note_wal(self, _db: object, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _fail(self, what: str) -> None:
        with self._gate:
            self._failure = self._failure or what
