"""The access of a tool call to a file: path, kind and lines."""

import posixpath
import re
from typing import Literal, NamedTuple, TypeAlias

AccessKind: TypeAlias = Literal["read", "write", "edit", "list", "search"]

_MOST_CHARS = 1_024
"""Longer paths are refused by every common file system (4,096 bytes with multi-byte names at most)."""

_DRIVE = re.compile(r"[A-Za-z]:(?=/|\Z)")
_FOREIGN = re.compile(r"[A-Za-z]:\\|\\\\")
_CUT = re.compile(r"\[… |; ref [\w.-]+\]")


class Access(NamedTuple):
    """One access of a call to a file. `read` shows lines unchanged; `search` shows a selection that the call does not name
    exactly."""

    path: str
    kind: AccessKind
    first: int | None = None
    last: int | None = None
    """First and last line, counted from 1. None: from the beginning, to the end of the file."""


def is_whole(text: str) -> bool:
    """Return whether the text is the model's own, and not a stand-in that leaves some of it out."""
    return _CUT.search(text) is None


def clean_path(path: str, directory: str | None = None) -> str | None:
    """Return the path normalised, below the directory if it is relative; None if it cannot be a path. The file system is
    not asked."""
    path = path.strip()
    if not path or len(path) > _MOST_CHARS or not path.isprintable() or not is_whole(path):
        return None
    if _FOREIGN.match(path) or ("\\" in path and "/" not in path):
        path = path.replace("\\", "/")
    if directory and not is_absolute(path):
        path = f"{directory}/{path}"
    path = posixpath.normpath(path)
    path = path[1:] if path.startswith("//") else path
    return path[0].lower() + path[1:] if _DRIVE.match(path) else path


def is_absolute(path: str) -> bool:
    return path.startswith(("/", "~")) or _DRIVE.match(path) is not None


def line_access(path: str, first: int | None, count: int | None) -> Access:
    """Return a read of `count` lines from `first` on."""
    if first is None and count is None:
        return Access(path, "read")
    start = max(1, first or 1)
    return Access(path, "read", start, start + count - 1 if count is not None else None)
