"""The places of search indexes: for an SQLite store a file a session, beside the store's file; for others in memory.

Several processes may use one index file. SQLite's locks let one of them write at a time; a process that waits too long gets
SQLite's busy error.
"""

import os
import re
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

import apsw
import msgspec

from foveal.stores.database import Database
from foveal.stores.disk import OWNER_FOLDER, OWNER_ONLY
from foveal.stores.sqlite.connection import connect, connect_memory

SUFFIX = ".index"
SUFFIXES = ("", "-journal", "-wal", "-shm")
"""Endings of the files that SQLite keeps for one database."""
BUSY_S = 10.0
"""Longest wait for another process: a batch takes a second, so a longer wait is for a process that is stuck."""

UNREADABLE = (
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.SQLError,
    apsw.ConstraintError,
    UnicodeDecodeError,
    TypeError,
)
"""Errors of reading a damaged database. Damage can give a column any type, so even comparing fails."""


class IndexRemoved(Exception):
    """The file of an index was removed while it was open, as by a deletion of a session whose words are in it."""


_FILE = re.compile(r"[0-9a-f]{32}\.db(-journal|-wal|-shm)?")


def index_file(path: Path, session: str) -> Path:
    """Return the index file of a session of the store at `path`: named by a hash, since session names may hold anything."""
    name = sha256(session.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return path.with_name(path.name + SUFFIX) / f"{name}.db"


def scope_key(scope: str) -> str:
    """Return the name under which the index of a scope is kept: one that no session can have."""
    return f"scope\0{scope}"


INDEX_OF_ALL = "all\0"
"""The name under which the index over all sessions is kept: one that no session can have."""


def remove_indexes(path: Path, sessions: Iterable[str]) -> dict[str, OSError]:
    """Remove the indexes of these sessions of the store at `path`, and return those that are left, each with the reason."""
    return remove_index_files(index_file(path, session) for session in sessions)


def remove_index_files(places: Iterable[Path]) -> dict[str, OSError]:
    """Remove index files with what SQLite keeps beside them, and return those that are left, each with the reason. Where a folder
    cannot be changed, its files are emptied: whoever has one open makes it anew."""
    left = dict[str, OSError]()
    for place in places:
        for file in [place.with_name(place.name + suffix) for suffix in SUFFIXES]:
            try:
                _remove(file)
            except OSError as error:
                left[str(file)] = error
    return left


def _remove(file: Path) -> None:
    try:
        file.unlink(missing_ok=True)
    except NotADirectoryError:
        pass  # a file in the place of the folder: it has no index in it
    except OSError as refused:
        try:
            with file.open("r+b") as emptied:
                emptied.truncate()
        except FileNotFoundError:
            pass
        except OSError:
            raise refused from None


def list_index_files(path: Path) -> list[Path]:
    """Return the index files of the store at `path`; other files in their folder are left out."""
    folder = path.with_name(path.name + SUFFIX)
    try:
        found = sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [file for file in found if _FILE.fullmatch(file.name)]


class IndexFiles(msgspec.Struct, frozen=True):
    """The contents of a store's folder of indexes."""

    files: int = 0
    size_bytes: int = 0
    orphans: tuple[str, ...] = ()
    """Files of sessions that are not in the store."""
    orphan_bytes: int = 0


def index_files(path: Path, found: Iterable[Path], sessions: Iterable[str]) -> IndexFiles:
    """Return the facts about index files of the store at `path` that were found there before it was asked for its sessions: so
    none is of a session that was made since."""
    known = {index_file(path, session).name for session in sessions}
    sizes = dict[Path, int]()
    for file in found:
        with suppress(FileNotFoundError):  # a journal comes and goes
            sizes[file] = file.stat().st_size
    orphans = [file for file in sizes if file.name.partition("-")[0] not in known]
    return IndexFiles(
        len(sizes), sum(sizes.values()), tuple(map(str, orphans)), sum(sizes[orphan] for orphan in orphans)
    )


class FileIndex:
    """The index in one file, which is made with its folder when it is first opened."""

    def __init__(self, path: Path) -> None:
        self.place = str(path)
        self._path = path

    @contextmanager
    def opened(self) -> Generator[Database]:
        self._path.parent.mkdir(OWNER_FOLDER, parents=True, exist_ok=True)
        with suppress(FileExistsError):
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY))
        with self._connected() as db:
            # A killed process leaves a sound file, as does a power cut with nearly every disk; damage is found and mended.
            for setting in (
                "synchronous = NORMAL",
                "trusted_schema = OFF",
                "cell_size_check = ON",
                "cache_size = -32000",
            ):
                db.execute("PRAGMA " + setting)
            yield db

    def clear(self) -> None:
        """Reset the file in SQLite's own way, under its own locks, so that other processes may have it open."""
        with self._connected() as db:
            if not _is_empty(db):  # else another process has just done it
                db.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
                db.execute("VACUUM")

    @contextmanager
    def _connected(self) -> Generator[Database]:
        known = self._inode()
        try:
            db = connect(self._path)
            try:
                db.set_busy_timeout(round(BUSY_S * 1000))
                yield db
            finally:
                db.close(True)
        except (apsw.IOError, apsw.ReadOnlyError, apsw.CantOpenError) as error:
            # The number says nothing if a new file has got that of the removed one; then SQLite has said that it was moved.
            is_moved = getattr(error, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED
            if self._inode() == known and not is_moved:
                raise
            raise IndexRemoved(self.place) from error

    def _inode(self) -> int | None:
        try:
            return self._path.stat().st_ino
        except FileNotFoundError:
            return None


class MemoryIndex:
    """An index in memory. One job uses it at a time."""

    place = "an index in memory"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._db = connect_memory()

    @contextmanager
    def opened(self) -> Generator[Database]:
        with self._lock:
            yield self._db

    def clear(self) -> None:
        with self._lock:
            self._db = connect_memory()


def _is_empty(db: Database) -> bool:
    try:
        return db.execute("SELECT count(*) FROM sqlite_schema").fetchall() == [(0,)] and not db.pragma("application_id")
    except UNREADABLE:
        return False
