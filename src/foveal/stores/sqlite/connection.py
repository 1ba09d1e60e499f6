"""Connections to SQLite, with types."""

from pathlib import Path
from typing import cast

import apsw

from foveal.stores.database import Database

CREATE = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
"""Flags of a connection that writes, and makes the file if there is none."""


def connect(path: Path | str, *, flags: int = CREATE) -> Database:
    """Open the database at `path`."""
    return cast("Database", apsw.Connection(str(path), flags=flags))


def connect_memory() -> Database:
    """Make an empty database that ends with its connection."""
    return connect(":memory:")


def extended_code(error: apsw.Error) -> int:
    """Return the detailed result code, for example which kind of I/O failed."""
    return int(getattr(error, "extendedresult", 0))
