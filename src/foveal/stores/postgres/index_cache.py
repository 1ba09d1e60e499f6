"""Search indexes of a store in PostgreSQL: FTS5 files in a folder of this machine, made from the log and thrown away at will.

A file is named by the key of its session, which is never given out again, or by its scope and how many of its sessions were
deleted: so no machine searches an index of something that was deleted elsewhere, and files of deleted sessions are removed when
the folder is next used.
"""

import os
from collections.abc import Callable, Iterable
from hashlib import sha256
from pathlib import Path

from foveal.stores.sqlite.index import FileIndex

SUFFIXES = ("", "-journal", "-wal", "-shm")


def default_cache() -> Path:
    """Return the folder for caches of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "foveal"


class IndexCache:
    """The index files of one store on this machine."""

    def __init__(self, folder: Path, deleted: Callable[[Iterable[int]], set[int]]) -> None:
        self.folder = folder
        self._deleted = deleted
        """Returns those of some keys that are of no session any more."""
        self._is_swept = False

    def of_session(self, session: str, key: int | None) -> FileIndex:
        """Return the place of a session's index."""
        self._sweep()
        return FileIndex(self.folder / (f"unknown-{_hash(session)}.db" if key is None else f"{key}.db"))

    def of_scope(self, scope: str, deletions: int) -> FileIndex:
        """Return the place of a scope's index."""
        stem = f"scope-{_hash(scope)}-"
        for old in self.folder.glob(f"{stem}*.db"):
            if old.name != f"{stem}{deletions}.db":
                _remove(old)
        return FileIndex(self.folder / f"{stem}{deletions}.db")

    def drop(self, keys: Iterable[int]) -> None:
        """Remove the indexes of sessions that are deleted."""
        for key in keys:
            _remove(self.folder / f"{key}.db")

    def size_bytes(self) -> int:
        """Return the bytes of all files."""
        return sum(file.stat().st_size for file in self.folder.glob("*") if file.is_file())

    def _sweep(self) -> None:
        """Remove the indexes of sessions that were deleted elsewhere, once for each handle."""
        if not self._is_swept:
            self._is_swept = True
            keys = [int(file.stem) for file in self.folder.glob("*.db") if file.stem.isdigit()]
            self.drop(self._deleted(keys) if keys else ())


def _hash(name: str) -> str:
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _remove(place: Path) -> None:
    for suffix in SUFFIXES:
        place.with_name(place.name + suffix).unlink(missing_ok=True)
