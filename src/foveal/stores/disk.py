"""Durable files: names that survive a power cut, and telling a full disk from a broken one."""

import errno
import os
import sys
from pathlib import Path

NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers of a full disk: a write that failed with one of them works again once there is space."""


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable; a file that was synced can still be lost together with its name."""
    if sys.platform == "win32":
        return  # folders cannot be opened there, and names are kept without being asked
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
