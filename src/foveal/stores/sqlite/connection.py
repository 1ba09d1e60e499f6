"""Connections to SQLite, with types."""

import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path
from typing import cast

import apsw

from foveal.stores.database import Database
from foveal.values.errors import StoreError

CREATE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
"""Flags of a connection that writes, and makes the file if there is none."""


def resolved(path: str | PathLike[str]) -> Path:
    """Return the place of a store's file, whichever symbolic links lead to it."""
    try:
        place = Path(path).resolve()
        with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
            os.lstat(f"{place}-journal")  # the longest name that SQLite gives to a file beside it
    except (OSError, RuntimeError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise StoreError(f"{path!r:.200} is not a path that can be opened: {reason}.") from error
    if not place.name:
        raise StoreError(f"{place} is a folder; a store is a file. Name a file in it.")
    return place


def connect(path: Path | str, *, flags: int = CREATE) -> Database:
    """Open the database at `path`."""
    return cast("Database", apsw.Connection(str(path), flags=flags))


def connect_memory() -> Database:
    """Make an empty database that ends with its connection."""
    return connect(":memory:")


def upgrade_from(version: int, db: Database, job: Callable[[], None]) -> None:
    """Do the job that upgrades a store of this schema, in one transaction; nothing if another process was faster."""
    db.execute("PRAGMA foreign_keys = OFF")  # the table of sessions is made anew under the rows that refer to it
    try:
        with transaction(db):
            if db.pragma("user_version") == version:
                job()
    finally:
        db.execute("PRAGMA foreign_keys = ON")


@contextmanager
def transaction(db: Database) -> Generator[None]:
    """Write at once or not at all: the changes within are committed together, or undone by an error."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def reading(db: Database) -> Generator[None]:
    """Read all within as of one moment: that of the first statement. The WAL is not begun anew until the end."""
    db.execute("BEGIN")
    try:
        yield
    finally:
        if db.in_transaction:  # some errors have ended it
            db.execute("ROLLBACK")
