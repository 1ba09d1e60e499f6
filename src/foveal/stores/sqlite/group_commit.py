"""The writer thread of a store: the callers that wait while it syncs the disk are committed together next time.

A job is a function of the connection. Jobs that are queued at the same moment run in one transaction, each within a savepoint
of its own, so that a refused job takes no other with it; then one commit, one sync, and only then are all callers answered.

A single caller never waits for others. Only after a group of several does the thread linger for a moment,
far shorter than a sync, for the same callers to come back: otherwise the first of them to wake up would be committed alone,
and the groups would be half as large as they could be.

Checkpoints are made here as well, after the answers, and not by SQLite within a commit: SQLite ignores an fsync that fails
there, and a second one would seem to succeed. While nobody writes, the thread carries the WAL over into the file and keeps the
lease of the handle alive. A renewal that fails, as on a full disk, is tried again after a pause, and told in the log.

Each transaction looks whether a newer Foveal has upgraded the file since it was opened: then this handle writes nothing any more,
not even that it is closed.

After each commit, the names of the files must still lead to the files that are open: else everything would be written to files
that nobody will find.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

import apsw

from foveal.stores.database import Database
from foveal.stores.sqlite.errors import BROKEN, check_version, is_full, translated
from foveal.values.errors import SchemaTooNew, StoreError, StoreFailed

T = TypeVar("T")

logger = logging.getLogger("foveal.store")

GROUP_LIMIT = 256
"""Jobs in one transaction: more would only make the first of them wait."""
LINGER_S = 0.0005
"""An fsync takes 0.1 ms (NVMe) to 10 ms (network disk); a thread that was just answered is back within a fraction."""
CHECKPOINT_PAGES = 1000
"""SQLite's own default for automatic checkpoints."""
IDLE_S = 3.0
"""Rest after which the WAL is carried over: longer than the steps of an agent follow each other, so that they share one."""
RETRY_S = 1.0
"""Pause after a renewal of the lease that failed: half of the lease is left then, which is time for many tries."""


class Upkeep(Protocol):
    """The lease of the handle, as the writer thread keeps it."""

    def tend(self, db: Database) -> bool:
        """Renew the lease within the transaction under way if that is due. Return True if the file itself must say so
        before anybody is answered."""
        ...

    def settle(self, *, is_kept: bool) -> None:
        """Take note of the end of the transaction: it was committed, or undone."""
        ...

    def rest_s(self) -> float | None:
        """Return the time until the next renewal is due; None if there is nothing to renew."""
        ...

    def is_needed(self, db: Database) -> bool:
        """Return whether a handle has a lease, and with it a need for the WAL."""
        ...

    def end(self, db: Database) -> bool:
        """Give everything up within the transaction under way; return whether no other handle has a lease."""
        ...


class _Ticket:
    __slots__ = ("_done", "error", "is_alone", "job", "result")

    def __init__(self, job: Callable[[Database], object], *, is_alone: bool = False) -> None:
        self.job = job
        self.is_alone = is_alone
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

    def __init__(self, db: Database, path: Path, upkeep: Upkeep, on_close: Callable[[], None]) -> None:
        self._db = db
        self._path = path
        self._upkeep = upkeep
        self._on_close = on_close
        self._files = {str(path): _inode(str(path))}
        self._queue: queue.SimpleQueue[_Ticket | None] = queue.SimpleQueue()
        self._gate = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._failure: StoreFailed | SchemaTooNew | None = None
        self._wal_pages = 0
        self._is_carried_over = True
        self._company = 1
        self._retry_s: float | None = None
        """The time before which the lease is not renewed again; None if its last renewal succeeded."""
        db.wal_autocheckpoint(0)
        db.set_wal_hook(self._note_wal)

    def run(self, job: Callable[[Database], T]) -> T:
        """Run the job in a transaction and return its result once that is durable."""
        return self._wait(_Ticket(job))

    def run_alone(self, job: Callable[[Database], T]) -> T:
        """Run the job outside of any transaction, between two groups."""
        return self._wait(_Ticket(job, is_alone=True))

    def _wait(self, ticket: _Ticket) -> Any:
        with self._gate:
            if self._failure is not None:
                raise self._told()
            if self._stopped:
                raise StoreError(f"{self._path} is closed; open the store again.")
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=f"foveal {self._path.name}", daemon=True)
                self._thread.start()
            self._queue.put(ticket)
        return ticket.wait()

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
                self._close_unused()
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
            if not tickets:
                self._rest()
                continue
            self._company = len(tickets)
            try:
                self._commit([ticket for ticket in tickets if not ticket.is_alone])
                for ticket in tickets:
                    if ticket.is_alone:
                        self._run_alone(ticket)
            except BaseException as error:  # a waiting caller must be told, whatever happened
                self._fail(StoreFailed(f"{self._path}: the writer broke ({error!r}). Open the store again."))
                for ticket in tickets:
                    ticket.error = ticket.error or self._told()
            for ticket in tickets:
                ticket.answer()
            if self._wal_pages >= CHECKPOINT_PAGES:
                self._checkpoint()
        self._end()

    def _close_unused(self) -> None:
        """Close a connection that wrote nothing; it leaves no WAL behind if no writer needs one."""
        try:
            if not self._upkeep.is_needed(self._db):
                self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        except BROKEN:
            pass  # a damaged file is left as it is
        finally:
            self._close_connection()

    def _close_connection(self) -> None:
        """Close the connection. A disk that fails meanwhile costs nothing: the WAL keeps what is not carried over."""
        try:
            self._db.close()
        except BROKEN:
            pass
        finally:
            self._on_close()

    def _rest(self) -> None:
        """Do what is due while nobody writes."""
        if self._due_s() == 0.0:
            self._renew()
        if not self._is_carried_over:
            self._checkpoint()

    def _renew(self) -> None:
        """Renew the lease while nobody writes. The first of several failures is logged: no caller is there to be told."""
        error = self._commit([])
        if error is not None and self._retry_s is None and self._failure is None:
            problem = translated(error, self._db, self._path) if isinstance(error, BROKEN) else error
            logger.warning(
                "the lease of an open store could not be renewed, and is tried again each second: %s", problem
            )
        self._retry_s = None if error is None else time.monotonic() + RETRY_S

    def _due_s(self) -> float | None:
        """Return how long it is until the lease is to be renewed; None if there is none."""
        due_s = self._upkeep.rest_s()
        if due_s is None or self._retry_s is None:
            return due_s
        return max(due_s, self._retry_s - time.monotonic(), 0.0)

    def _rest_s(self) -> float | None:
        """Return how long the thread may wait for a job."""
        if self._failure is not None:
            return None
        due_s = self._due_s()
        if self._is_carried_over:
            return due_s
        return IDLE_S if due_s is None else min(IDLE_S, due_s)

    def _end(self) -> None:
        """Release everything, carry the WAL over, and close; the WAL is removed with the last connection of all processes."""
        try:
            if self._failure is None and self._give_up():
                self._check_files()
                self._db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        except StoreFailed:
            pass  # nobody is left to be told; the file is closed, and says so, or is not the one that was opened
        finally:
            self._close_connection()

    def _gather(self) -> tuple[list[_Ticket], bool]:
        tickets: list[_Ticket] = []
        try:
            ticket = self._queue.get(timeout=self._rest_s())
        except queue.Empty:
            return tickets, True
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

    def _commit(self, tickets: list[_Ticket]) -> BaseException | None:
        """Commit the jobs together and note the outcome of each. Return the error of the transaction; None if it succeeded."""
        if self._failure is not None:
            for ticket in tickets:
                ticket.error = self._told()
            return self._failure
        started = time.monotonic()
        try:
            self._db.execute("BEGIN IMMEDIATE")
            check_version(self._path, self._db)
            if len(tickets) == 1:
                self._attempt_single(tickets[0])
            else:
                for ticket in tickets:
                    self._attempt(ticket)
            is_first = self._upkeep.tend(self._db)
            self._db.execute("COMMIT")
            self._upkeep.settle(is_kept=True)
            self._check_files()
            if is_first:
                self._checkpoint()
        except (StoreFailed, SchemaTooNew) as error:
            self._roll_back()
            self._upkeep.settle(is_kept=False)
            self._fail(error)
            for ticket in tickets:
                ticket.error = ticket.error or self._told()
            return error
        except BROKEN as error:
            self._roll_back()
            self._upkeep.settle(is_kept=False)
            waited_s = time.monotonic() - started
            for ticket in tickets:
                ticket.error = ticket.error or translated(error, self._db, self._path, waited_s=waited_s)
            if isinstance(error, apsw.IOError) and not is_full(error, self._db):
                self._fail(StoreFailed(str(translated(error, self._db, self._path))))
            return error
        return None

    def _run_alone(self, ticket: _Ticket) -> None:
        try:
            if self._failure is not None:
                raise self._told()
            ticket.result = ticket.job(self._db)
        except BROKEN as error:
            ticket.error = translated(error, self._db, self._path)
        except StoreError as error:
            ticket.error = error

    def _check_files(self) -> None:
        """Raise `StoreFailed` if a file of the store has lost its name, or another one has taken it."""
        for path, known in self._files.items():
            if _inode(path) != known:
                outcome = (
                    "it held everything that was written since then"
                    if path == str(self._path)
                    else "everything in it was carried over into the store, and its sessions are released"
                    if self._give_up()
                    else "what was written last may be lost"
                )
                raise StoreFailed(
                    f"{path} was removed, renamed or replaced while the store was open; {outcome}. Put it back if you can, "
                    "and open the store again."
                )
        if len(self._files) == 1:
            wal = f"{self._path}-wal"
            self._files[wal] = _inode(wal)

    def _give_up(self) -> bool:
        """Release everything and carry the WAL over; return whether that is done."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            check_version(self._path, self._db)
            is_last = self._upkeep.end(self._db)
            self._db.execute("COMMIT")
        except (*BROKEN, SchemaTooNew):
            self._roll_back()
            return False
        self._checkpoint()
        return is_last and self._failure is None

    def _attempt(self, ticket: _Ticket) -> None:
        """Run one job; if it is refused, undo the changes of this job alone."""
        self._db.execute("SAVEPOINT job")
        self._attempt_single(ticket, undo="ROLLBACK TO job")
        self._db.execute("RELEASE job")

    def _attempt_single(self, ticket: _Ticket, undo: str = "ROLLBACK; BEGIN IMMEDIATE") -> None:
        """Run the only job of a transaction, which needs no savepoint; if it is refused, undo everything."""
        try:
            ticket.result = ticket.job(self._db)
        except Exception as error:
            if isinstance(error, (apsw.FullError, apsw.IOError)) or not self._db.in_transaction:
                raise  # SQLite may have undone the whole transaction: nobody in it can be answered
            self._db.execute(undo)
            ticket.error = translated(error, self._db, self._path) if isinstance(error, BROKEN) else error

    def _roll_back(self) -> None:
        if self._db.in_transaction:
            try:
                self._db.execute("ROLLBACK")
            except apsw.Error as error:
                what = f"{self._path}: a failed transaction could not be undone ({error}). Open the store again."
                self._fail(StoreFailed(what))

    def _checkpoint(self) -> None:
        """Carry the WAL over into the file, as far as no reader of an older state is in the way."""
        if self._failure is not None:
            return
        self._is_carried_over = True
        try:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.IOError as error:
            if not is_full(error, self._db):
                self._fail(StoreFailed(str(translated(error, self._db, self._path))))
        except apsw.Error:
            pass  # busy, or no space: the WAL keeps everything, and the next commit tries again

    def _note_wal(self, _db: object, _name: str, pages: int) -> int:
        self._wal_pages = pages
        self._is_carried_over = False
        return apsw.SQLITE_OK

    def _fail(self, error: StoreFailed | SchemaTooNew) -> None:
        with self._gate:
            self._failure = self._failure or error

    def _told(self) -> StoreError:
        """Return the failure as an error of its own for each caller: one that is raised gets a trace."""
        failure = self._failure or StoreFailed(f"{self._path} failed; open the store again.")
        return type(failure)(str(failure))


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - once for each commit
    except OSError:
        return None
    return found.st_dev, found.st_ino
