"""The schema of a store file, and the opening of such files.

A row's `place` is its session's key and its seq in one integer, so that the table itself is the index: the rows of a session
lie together and in order, and appending touches one tree less. `hash` comes before `payload` so that reading a
predecessor's hash never walks the overflow pages of a large payload.
"""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import apsw

from foveal.stores.artifacts import artifacts_folder
from foveal.stores.database import Database
from foveal.stores.disk import sync_folder
from foveal.stores.format import APPLICATION_ID, SCHEMA_VERSION
from foveal.stores.sqlite.connection import CREATE, connect, transaction
from foveal.stores.sqlite.errors import translated
from foveal.values.errors import SchemaTooNew, StoreBusy, StoreCorrupt, StoreError, StoreFailed

SEQ_BITS = 32
OLDEST_SQLITE = (3, 51, 3)

TABLES = (
    """CREATE TABLE sessions (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        entries INTEGER NOT NULL,
        head TEXT,
        chain BLOB NOT NULL,
        epoch INTEGER NOT NULL,
        holder TEXT,
        seal BLOB NOT NULL
    ) STRICT""",
    """CREATE TABLE entries (
        place INTEGER PRIMARY KEY,
        session INTEGER NOT NULL GENERATED ALWAYS AS (place >> 32) VIRTUAL REFERENCES sessions (key),
        seq INTEGER NOT NULL GENERATED ALWAYS AS (place & 4294967295) VIRTUAL,
        id TEXT NOT NULL,
        parent TEXT,
        time_ms INTEGER NOT NULL,
        author TEXT NOT NULL,
        hash BLOB NOT NULL,
        payload BLOB NOT NULL
    ) STRICT""",
    "CREATE UNIQUE INDEX entry_ids ON entries (session, id)",
    """CREATE TABLE snapshots (
        session INTEGER PRIMARY KEY REFERENCES sessions (key),
        seq INTEGER NOT NULL,
        seal BLOB NOT NULL,
        payload BLOB NOT NULL
    ) STRICT""",
    """CREATE TRIGGER entries_never_change BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END""",
    """CREATE TRIGGER entries_never_go BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END""",
)


def require_sqlite(version: str) -> None:
    """Refuse libraries that can corrupt a WAL that several connections write."""
    if tuple(int(part) for part in version.split(".")[:3]) < OLDEST_SQLITE:
        oldest = ".".join(str(part) for part in OLDEST_SQLITE)
        raise StoreError(
            f"SQLite {version} can corrupt a database that several connections write (the WAL-reset bug); "
            f"{oldest} or newer is needed. Upgrade with: pip install -U apsw"
        )


def open_store(path: Path, busy_timeout_s: float) -> Database:
    """Open a store file for writing. It is made if there is none, and refused if it is another kind of file."""
    require_sqlite(apsw.sqlite_lib_version())
    _check_place(path)
    deadline = time.monotonic() + busy_timeout_s
    while True:
        try:
            return _open_once(path, busy_timeout_s)
        except StoreBusy:
            # Making a new file a WAL one takes a lock for which SQLite does not wait.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def connect_configured(path: Path, busy_timeout_s: float, *, flags: int) -> Database:
    """Open a connection with Foveal's settings, without looking at the kind of the file."""
    db = connect(path, flags=flags)
    db.set_busy_handler(_patience(busy_timeout_s))
    for setting in ("foreign_keys = ON", "synchronous = FULL", "trusted_schema = OFF", "cell_size_check = ON"):
        db.execute("PRAGMA " + setting)
    return db


def open_reader(path: Path, busy_timeout_s: float) -> Database:
    """Open a store file for reading."""
    db = connect_configured(path, busy_timeout_s, flags=apsw.SQLITE_OPEN_READWRITE)
    db.execute("PRAGMA query_only = ON")
    return db


def identity(db: Database) -> tuple[int, int, int]:
    """Return application id, schema version and number of tables."""
    tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchall()[0][0]
    return db.pragma("application_id"), db.pragma("user_version"), tables


def check_version(path: Path, version: int) -> None:
    if version > SCHEMA_VERSION:
        raise SchemaTooNew(
            f"{path} has schema version {version}; this Foveal knows versions up to {SCHEMA_VERSION}. Upgrade Foveal."
        )


def _check_place(path: Path) -> None:
    try:
        if path.is_dir():
            raise StoreError(f"{path} is a folder; a store is a file. Name a file in it.")
        if not path.parent.is_dir():
            raise StoreError(f"{path} cannot be made: the folder {path.parent} does not exist.")
        # A store is never empty once it has a WAL or artifacts: SQLite would take an emptied file for a new one and delete
        # the WAL. The companions are looked at first, because another process may be making the store at this moment.
        companions = [name for name in (f"{path}-wal", str(artifacts_folder(path))) if _holds_something(Path(name))]
        if companions and path.exists() and path.stat().st_size == 0:
            raise StoreCorrupt(str(path), f"the file is empty although {companions[0]} is not", str(path))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be used as a store: {error}.") from error


def _holds_something(path: Path) -> bool:
    return any(path.iterdir()) if path.is_dir() else path.exists() and path.stat().st_size > 0


def _open_once(path: Path, busy_timeout_s: float) -> Database:
    started = time.monotonic()
    with ExitStack() as undo:
        try:
            db = connect_configured(path, busy_timeout_s, flags=CREATE)
            undo.callback(db.close)
            if db.readonly("main"):
                raise StoreError(f"{path} cannot be written. Check the permissions of the file and of its folder.")
            _make_or_check(db, path)
        except apsw.NotADBError as error:
            raise StoreError(f"{path} is not a Foveal store: it is not an SQLite database.") from error
        except apsw.Error as error:
            raise translated(error, None, path, waited_s=time.monotonic() - started) from error
        except ValueError as error:
            raise StoreError(f"{path!r} is not a path that can be opened: {error}.") from error
        except OSError as error:
            raise StoreFailed(f"{path}: its folder could not be synced ({error}). Open the store again.") from error
        undo.pop_all()
    return db


def _make_or_check(db: Database, path: Path) -> None:
    application, version, tables = identity(db)
    is_new = (application, version, tables) == (0, 0, 0)
    if not is_new:
        if application != APPLICATION_ID:
            raise StoreError(f"{path} is an SQLite database, but not a Foveal store. Name another file.")
        check_version(path, version)
    mode = db.pragma("journal_mode", "wal")
    if mode != "wal":
        raise StoreError(f"{path} cannot be kept safely: its file system does not support SQLite's WAL mode ({mode}).")
    if is_new:
        _make(db, path)


def _make(db: Database, path: Path) -> None:
    with transaction(db):
        if identity(db) == (0, 0, 0):  # another process may have been faster
            for statement in TABLES:
                db.execute(statement)
            db.pragma("application_id", APPLICATION_ID)
            db.pragma("user_version", SCHEMA_VERSION)
    sync_folder(path.parent)


def _patience(timeout_s: float) -> Callable[[int], bool]:
    """Return a busy handler that asks often. SQLite's own sleeps up to 100 ms, and starves beside a writer that never rests."""
    since = 0.0

    def wait(tries: int) -> bool:
        nonlocal since
        now = time.monotonic()
        if tries == 0:
            since = now
        if now - since >= timeout_s:
            return False
        time.sleep(0.0002 * (1 + (tries * 7 + os.getpid()) % 11))
        return True

    return wait
