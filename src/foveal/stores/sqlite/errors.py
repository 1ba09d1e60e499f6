"""SQLite's errors as errors of Foveal."""

from pathlib import Path

import apsw

from foveal.stores.database import Database
from foveal.stores.disk import NO_SPACE
from foveal.stores.format import SCHEMA_VERSION
from foveal.values.errors import SchemaTooNew, StoreBusy, StoreCorrupt, StoreError, StoreFailed, StoreFull

BROKEN = (apsw.Error, UnicodeDecodeError)
"""The errors of reading a damaged file."""

_SYNCS = frozenset({apsw.SQLITE_IOERR_FSYNC, apsw.SQLITE_IOERR_DIR_FSYNC})


def translated(
    error: apsw.Error | UnicodeDecodeError, db: Database | None, path: Path | str, *, waited_s: float = 0.0
) -> StoreError:
    """Return the error of Foveal for an error of SQLite in the store at `path`, with advice."""
    if is_full(error, db):
        return StoreFull(f"{path}: no space is left; nothing that was acknowledged is lost. Free space and try again.")
    match error:
        case apsw.BusyError() | apsw.LockedError():
            return StoreBusy(
                f"{path}: another process held the store for longer than {waited_s:.1f} s; nothing was written. "
                "Try again, or give a longer busy_timeout_s."
            )
        case apsw.IOError():
            return StoreFailed(f"{path}: {error}. What is on the disk is unknown; open the store again.")
        case UnicodeDecodeError():
            return StoreCorrupt(str(path), f"a text column holds other bytes ({error})", str(path))
        case apsw.CorruptError() | apsw.NotADBError():
            return StoreCorrupt(str(path), f"SQLite found damage ({error})", str(path))
        case apsw.SQLError() | apsw.ConstraintError():
            return StoreCorrupt(str(path), f"its tables are not those of a store ({error})", str(path))
        case apsw.ReadOnlyError() | apsw.CantOpenError() | apsw.PermissionsError():
            return StoreError(
                f"{path} cannot be opened or written ({error}). Check the file, its folder and its owner."
            )
        case _:
            return StoreError(f"{path}: SQLite refused: {type(error).__name__}: {error}")


def check_version(path: Path, db: Database) -> None:
    """Raise `SchemaTooNew` if a newer Foveal has made or upgraded the store at `path`."""
    version = db.pragma("user_version")
    if version > SCHEMA_VERSION:
        raise SchemaTooNew(
            f"{path} has schema version {version}; this Foveal knows versions up to {SCHEMA_VERSION}. Upgrade Foveal."
        )


def is_full(error: BaseException, db: Database | None) -> bool:
    """Return whether an error comes of a full disk. SQLite says Full for ENOSPC alone; a quota and a file-size limit come as I/O
    errors.

    An fsync that failed is never taken for a full disk: the pages may be gone, and a second try would seem to succeed.
    """
    if isinstance(error, apsw.FullError):
        return True
    if not isinstance(error, apsw.IOError) or getattr(error, "extendedresult", 0) in _SYNCS or db is None:
        return False
    try:
        return db.system_errno in NO_SPACE
    except apsw.Error:  # the connection is closed
        return False
