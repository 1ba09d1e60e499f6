"""The opening of store files: made if they are new, upgraded if they are old, refused if they are damaged or something else."""

import os
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import quote

import apsw

from foveal.stores.artifacts import SUFFIX as ARTIFACTS
from foveal.stores.artifacts import artifacts_folder
from foveal.stores.database import Database
from foveal.stores.disk import OWNER_ONLY, sync_folder
from foveal.stores.format import APPLICATION_ID, SCHEMA_VERSION
from foveal.stores.lease import unpack
from foveal.stores.sqlite import version_1, version_2, version_3
from foveal.stores.sqlite.connection import CREATE, connect, transaction
from foveal.stores.sqlite.errors import BROKEN, check_version, translated
from foveal.stores.sqlite.index import SUFFIX as INDEXES
from foveal.stores.sqlite.records import first_record, insert_record
from foveal.stores.sqlite.schema import TABLES
from foveal.stores.sqlite.tables import LEASE_COLUMNS, is_sealed
from foveal.stores.sqlite.wal import OpenFile, RestState, opening
from foveal.values.errors import BadInput, StoreBusy, StoreCorrupt, StoreError, StoreFailed

OLDEST_SQLITE = (3, 51, 3)

COMPANIONS = ("-wal", "-shm", "-journal", ARTIFACTS, INDEXES)
"""Endings of the files and folders that belong to a store file."""

SETTINGS = (
    *("foreign_keys = ON", "synchronous = FULL", "trusted_schema = OFF", "cell_size_check = ON"),
    *("fullfsync = ON", "checkpoint_fullfsync = ON"),  # for macOS, where a plain fsync stops at the disk's own cache
)


def require_sqlite(version: str) -> None:
    """Refuse libraries that can corrupt a WAL that several connections write."""
    if tuple(int(part) for part in version.split(".")[:3]) < OLDEST_SQLITE:
        oldest = ".".join(str(part) for part in OLDEST_SQLITE)
        raise StoreError(
            f"SQLite {version} can corrupt a database that several connections write (the WAL-reset bug); "
            f"{oldest} or newer is needed. Upgrade with: pip install -U apsw"
        )


def open_store(path: Path, busy_timeout_s: float) -> tuple[Database, OpenFile]:
    """Open a store file for writing. It is made if there is none, and refused if it is damaged or another kind of file."""
    require_sqlite(apsw.sqlite_lib_version())
    deadline = time.monotonic() + busy_timeout_s
    while True:
        try:
            with opening(path) as (state, held):
                _check_place(path)
                if state.problem:
                    raise StoreCorrupt(str(path), state.problem, str(path))
                return _open_once(path, busy_timeout_s, state), held
        except StoreBusy:
            # Making a new file a WAL one takes a lock for which SQLite does not wait.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def connect_configured(path: Path | str, busy_timeout_s: float, *, flags: int) -> Database:
    """Open a connection with Foveal's settings, without looking at the kind of the file.

    When it is closed, the WAL stays where it is: it goes with the last lease.
    """
    db = connect(path, flags=flags)
    db.set_busy_handler(_patience(busy_timeout_s))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    try:
        for setting in SETTINGS:
            db.execute("PRAGMA " + setting)
    except BaseException:
        db.close()
        raise
    return db


def connect_new(path: Path) -> Database:
    """Open a connection to a new and empty file."""
    _make_file(path)
    return connect_configured(path, 0.0, flags=CREATE)


def check_free(path: Path) -> None:
    """Raise `BadInput` if there is a file at `path`, or a companion of an earlier one: SQLite takes a `-wal` or a `-journal` that
    lies beside a new file for a part of it."""
    if path.exists():
        raise BadInput(f"{path} exists already; name a new file to copy to.")
    if left := [name for ending in COMPANIONS if os.path.lexists(name := f"{path}{ending}")]:
        raise BadInput(
            f"an earlier store at {path} has left {' and '.join(left)}, to be taken for a part of the new one. "
            "Move that away if the earlier store is to come back, remove it if not, or name a new file to copy to."
        )
    if not path.parent.is_dir():
        raise BadInput(f"{path} cannot be made: the folder {path.parent} does not exist.")


def can_be_written(path: Path) -> bool:
    """Return whether this process has the right to write a store file, which takes files beside it, or to make it."""
    return all(os.access(place, os.W_OK) for place in (path, path.parent) if place.exists())


def open_to_read(path: Path, busy_timeout_s: float) -> OpenFile:
    """Look at a store file that cannot be written as `open_store` does: is it whole, and of the present schema?"""
    require_sqlite(apsw.sqlite_lib_version())
    with opening(path) as (state, held):
        _check_place(path)
        if state.problem:
            raise StoreCorrupt(str(path), state.problem, str(path))
        try:
            db = open_reader(path, busy_timeout_s, is_writable=False)
            try:
                _check_kind(db, path)
                version = db.pragma("user_version")
                if version < SCHEMA_VERSION:
                    raise StoreError(
                        f"{path} has schema version {version}, and cannot be written, which upgrades it to {SCHEMA_VERSION}. "
                        "Open it once where it can be."
                    )
                if problem := missing_wal(db, path, state):
                    raise StoreCorrupt(str(path), problem, str(path))
            finally:
                db.close()
        except BROKEN as error:
            raise translated(error, None, path) from error
        return held


def open_reader(path: Path, busy_timeout_s: float, *, is_writable: bool = True) -> Database:
    """Open a store file for reading: with its companions, which are made if they are not there and the file can be written."""
    flags = apsw.SQLITE_OPEN_READWRITE if is_writable else apsw.SQLITE_OPEN_READONLY
    try:
        db = connect_configured(path, busy_timeout_s, flags=flags)
    except (apsw.ReadOnlyError, apsw.CantOpenError):
        if is_writable:
            raise
        db = _open_alone(path, busy_timeout_s)  # the settings read it already
    db.execute("PRAGMA query_only = ON")
    return db


def _open_alone(path: Path, busy_timeout_s: float) -> Database:
    """Open a store file that has no WAL, in a folder in which none can be made: so nobody writes it."""
    if _holds_something(Path(f"{path}-wal")):
        raise StoreError(
            f"{path.name}-wal has entries that can only be read where {path.parent} can be written, since {path.name}-shm is "
            "not beside it. Copy the store with its companions to another folder, and read it there."
        )
    place = f"file:{quote(str(path))}?immutable=1"
    return connect_configured(place, busy_timeout_s, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)


def identity(db: Database) -> tuple[int, int, int]:
    """Return application id, schema version and number of tables."""
    tables = db.execute("SELECT count(*) FROM sqlite_schema").fetchall()[0][0]
    return db.pragma("application_id"), db.pragma("user_version"), tables


def _check_place(path: Path) -> None:
    try:
        if path.is_dir():
            raise StoreError(f"{path} is a folder; a store is a file. Name a file in it.")
        if not path.parent.is_dir():
            raise StoreError(f"{path} cannot be made: the folder {path.parent} does not exist.")
        # A store is never empty once it has a WAL or artifacts: SQLite would take an emptied file for a new one and delete
        # the WAL. The companions are looked at first, because another process may be making the store at this moment.
        companions = [name for name in (f"{path}-wal", str(artifacts_folder(path))) if _holds_something(Path(name))]
        if companions and (not path.exists() or path.stat().st_size == 0):
            state = "empty" if path.exists() else "gone"
            raise StoreCorrupt(
                str(path),
                f"the file is {state} although {companions[0]} is not; put it back, or remove both",
                str(path),
            )
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be used as a store: {error}.") from error


def _holds_something(path: Path) -> bool:
    """Return whether a file or folder is not empty; True of a folder that cannot be read: it was made for something."""
    try:
        return any(path.iterdir()) if path.is_dir() else path.exists() and path.stat().st_size > 0
    except PermissionError:
        return True


def _open_once(path: Path, busy_timeout_s: float, state: RestState) -> Database:
    started = time.monotonic()
    with ExitStack() as undo:
        try:
            _make_file(path)
        except OSError as error:
            raise _not_made(path, error) from error
        try:
            db = connect_configured(path, busy_timeout_s, flags=CREATE)
            undo.callback(db.close)
            if db.readonly("main"):
                if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK):
                    raise StoreCorrupt(
                        str(path), "its header forbids SQLite to write it, though its mode does not", str(path)
                    )
                raise StoreError(f"{path} cannot be written. Check the permissions of the file and of its folder.")
            _make_or_check(db, path, state)
        except apsw.NotADBError as error:
            raise StoreError(
                f"{path} is not a Foveal store: it is not an SQLite database. If it was a store once, its first page is "
                f"damaged; `foveal doctor {path}` reads the others."
            ) from error
        except BROKEN as error:
            raise translated(error, None, path, waited_s=time.monotonic() - started) from error
        except ValueError as error:
            raise StoreError(f"{path!r} is not a path that can be opened: {error}.") from error
        except PermissionError as error:
            raise _not_made(path, error) from error
        except OSError as error:
            raise StoreFailed(f"{path}: its folder could not be synced ({error}). Open the store again.") from error
        undo.pop_all()
    return db


def _not_made(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path} cannot be made ({error}). Check the folder, its owner and its space.")


def _make_file(path: Path) -> None:
    """Make an empty file that only its owner can read. SQLite gives its companions the same mode."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY))


def _make_or_check(db: Database, path: Path, state: RestState) -> None:
    application, version, tables = identity(db)
    is_new = (application, version, tables) == (0, 0, 0)
    if not is_new:
        _check_kind(db, path)
    mode = db.pragma("journal_mode", "wal")
    if mode != "wal":
        raise StoreError(f"{path} cannot be kept safely: its file system does not support SQLite's WAL mode ({mode}).")
    if is_new:
        _make(db, path)
    elif version == 1:
        version_1.upgrade(db, path)
    elif problem := missing_wal(db, path, state):
        raise StoreCorrupt(str(path), problem, str(path))
    elif version == 2:
        version_2.upgrade(db, path)
    elif version == 3:
        version_3.upgrade(db)


def _check_kind(db: Database, path: Path) -> None:
    """Raise `StoreError` unless a database is a store, of a schema that is known."""
    application, _, tables = identity(db)
    if application != APPLICATION_ID:
        if tables and _has_our_tables(db):
            raise StoreCorrupt(str(path), f"its application id is {application:#x}", str(path))
        raise StoreError(f"{path} is an SQLite database, but not a Foveal store. Name another file.")
    check_version(path, db)


def _has_our_tables(db: Database) -> bool:
    found = {raw[0] for raw in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return {"sessions", "entries", "snapshots"} <= found


def missing_wal(db: Database, path: Path, state: RestState) -> str:
    """Return the problem of a file that has no WAL although its last writer did not close it; empty if there is none."""
    if state.lone_ms is None:
        return ""
    leases = [unpack(raw[1]) for raw in db.execute(LEASE_COLUMNS).fetchall() if is_sealed(raw)]
    if not any(
        lease.since_ms < state.lone_ms for lease in leases
    ):  # later ones are of processes that opened it just now
        return ""
    return (
        f"it was in use when its writer ended or when it was copied, and {path.name}-wal is not beside it: its newest "
        "entries may be missing. Put that file back; if there is none, salvage what is here"
    )


def _make(db: Database, path: Path) -> None:
    with transaction(db):
        if identity(db) == (0, 0, 0):  # another process may have been faster
            for statement in TABLES:
                db.execute(statement)
            insert_record(db, first_record(None, 0))
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
