"""Durable files: names that survive a power cut, and telling a full disk from a broken one."""

import errno
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

if sys.platform == "win32":
    fcntl: Any = None
else:
    import fcntl

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers of a full disk: a write that failed with one of them works again once there is space."""


OWNER_ONLY = 0o600
"""The mode of every file that a store makes: logs hold whatever an agent has seen."""
OWNER_FOLDER = 0o700


def size_of_folder(folder: Path) -> int:
    """Return the bytes of all files below a folder, but for those that others remove while it is read."""
    size = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):
            found = path.stat()
            size += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return size


def sync_file(handle: int) -> None:
    """Make the content of an open file durable. `fsync` of macOS leaves it in the disk's own cache; a full one does not."""
    full_sync: int | None = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is not None:
        try:
            fcntl.fcntl(handle, full_sync)
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                raise
        else:
            return
    os.fsync(handle)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; a file that was synced can still be lost together with its name."""
    if sys.platform == "win32":
        return  # folders cannot be opened there, and names are kept without being asked
    handle = os.open(folder, os.O_RDONLY)
    try:
        sync_file(handle)
    finally:
        os.close(handle)
