"""Where indexes are: beside the file of an SQLite store, one file a session; for other stores in memory.

Several processes may use one index. SQLite's locks let one of them write at a time; who waits too long is told `StoreBusy`.
"""

import re
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TypeVar
from weakref import WeakKeyDictionary

import apsw
import msgspec

from foveal.recall.search.index import DAMAGE, make
from foveal.stores.database import Database, connect
from foveal.stores.port import Store
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite_errors import translated
from foveal.values.errors import StoreCorrupt, StoreFailed

T = TypeVar("T")

SUFFIX = ".index"
BUSY_S = 10.0
"""A batch takes a second; whoever waits for this long waits for a process that is stuck."""

ATTEMPTS = 3
"""One for an index that is sound, one for a damaged one, one more if another process mended it at the same moment."""


_FILE = re.compile(r"[0-9a-f]{32}\.db(-journal|-wal|-shm)?")


class _Shelf:
    """The indexes of a store that has no file."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.indexes: dict[str, Database] = {}


_shelves: "WeakKeyDictionary[Store, _Shelf]" = WeakKeyDictionary()
_shelves_lock = threading.Lock()


def index_file(path: Path, session: str) -> Path:
    """The index of a session of the store at `path`: named by a hash, since session names may hold anything."""
    name = sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return path.with_name(path.name + SUFFIX) / f"{name}.db"


class Indexes(msgspec.Struct, frozen=True):
    """What lies in a store's folder of indexes."""

    files: int = 0
    size_bytes: int = 0
    orphans: tuple[str, ...] = ()
    """Files of sessions that are not there."""
    orphan_bytes: int = 0


def indexes(path: Path, sessions: Iterable[str]) -> Indexes:
    """The indexes of the store at `path`, which has these sessions. Files that are not ours are not looked at."""
    folder = path.with_name(path.name + SUFFIX)
    known = {index_file(path, session).name for session in sessions}
    found = [file for file in sorted(folder.glob("*.db*")) if _FILE.fullmatch(file.name)] if folder.is_dir() else []
    sizes = {file: file.stat().st_size for file in found}
    orphans = [file for file in found if file.name.partition("-")[0] not in known]
    return Indexes(len(found), sum(sizes.values()), tuple(map(str, orphans)), sum(sizes[orphan] for orphan in orphans))


def with_index(store: Store, session: str, job: Callable[[Database], T]) -> T:
    """Do the job on the session's index. If that is damaged, it is emptied and the job is done once more."""
    if isinstance(store, SqliteStore):
        path = index_file(store.path, session)
        with _plain_errors(path):
            return _on_file(path, job)
    with _shelves_lock:
        shelf = _shelves.setdefault(store, _Shelf())
    with shelf.lock:
        return _in_memory(shelf, session, job)


def _in_memory(shelf: _Shelf, session: str, job: Callable[[Database], T]) -> T:
    try:
        if session in shelf.indexes:
            return job(shelf.indexes[session])
    except DAMAGE:
        pass  # its log is another one now
    shelf.indexes[session] = db = in_memory()
    make(db)
    return job(db)


def _on_file(path: Path, job: Callable[[Database], T]) -> T:
    path.parent.mkdir(exist_ok=True)
    for _ in range(ATTEMPTS - 1):
        try:
            return _attempt(path, job)
        except DAMAGE:
            _empty(path)
    return _attempt(path, job)


def _attempt(path: Path, job: Callable[[Database], T]) -> T:
    db = _opened(path)
    try:
        make(db)
        return job(db)
    finally:
        db.close(True)


def _opened(path: Path) -> Database:
    db = connect(path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    db.set_busy_timeout(round(BUSY_S * 1000))
    try:
        # A killed process leaves a sound file, and so does a power cut with nearly every disk; the rest is found and mended.
        for setting in ("synchronous = NORMAL", "trusted_schema = OFF", "cell_size_check = ON", "cache_size = -32000"):
            db.execute("PRAGMA " + setting)
    except BaseException:
        db.close(True)
        raise
    return db


def _empty(path: Path) -> None:
    """Start again with a file in any state: SQLite's own way, under its own locks."""
    db = connect(path, flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
    db.set_busy_timeout(round(BUSY_S * 1000))
    try:
        if _is_empty(db):
            return  # another process has just done it
        db.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
        db.execute("VACUUM")
    finally:
        db.close(True)


def _is_empty(db: Database) -> bool:
    try:
        return db.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(0,)] and not db.pragma("application_id")
    except DAMAGE:
        return False


def in_memory() -> Database:
    return connect(Path(":memory:"), flags=apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)


@contextmanager
def _plain_errors(path: Path) -> Generator[None]:
    started = time.monotonic()
    try:
        yield
    except apsw.Error as error:
        raise translated(error, None, path, waited_s=time.monotonic() - started) from error
    except DAMAGE as error:
        raise StoreCorrupt(str(path), f"the index was made anew and is damaged again ({error})", str(path)) from error
    except OSError as error:
        raise StoreFailed(f"{path}: the index could not be made ({error}).") from error
