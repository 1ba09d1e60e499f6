"""Search indexes of a store in PostgreSQL: FTS5 files in a folder of this machine, made from the log and thrown away at will.

A file is named by the key of its session, which is never given out again, or by its scope and how many of its sessions were
deleted: so no machine searches an index of something that was deleted elsewhere. Files that hold words of deleted sessions are
removed by the deletion on its own machine, and on the others when the folder is used, some minutes later at most.
"""

import logging
import math
import os
import re
import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import msgspec

from foveal.stores.disk import size_of_folder
from foveal.stores.sqlite.index import FileIndex, remove_index_files

logger = logging.getLogger("foveal.search")

SWEEP_S = 300.0
"""Time between two looks for sessions that were deleted elsewhere: one round trip in it is nothing beside its searches."""
_SCOPE = re.compile(r"scope-([0-9a-f]{32})-([0-9]+)")


def default_cache() -> Path:
    """Return the folder for caches of this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "foveal"


class CacheState(msgspec.Struct, frozen=True):
    """The parts of a store whose indexes are worth keeping."""

    keys: frozenset[int]
    """Those of the keys asked for that are of a session."""
    deletions: dict[str, int]
    """How many sessions were deleted, by the hash of their scope; 0 for one that is not here."""


class IndexCache:
    """The index files of one store on this machine."""

    def __init__(self, folder: Path, look: Callable[[Sequence[int], Sequence[str]], CacheState]) -> None:
        self.folder = folder
        self._look = look
        """Returns the state of the store for some keys of sessions and hashes of scopes."""
        self._swept_s = -math.inf

    def of_session(self, session: str, key: int | None) -> FileIndex:
        """Return the place of a session's index."""
        self._sweep_at_times()
        return FileIndex(self.folder / (f"unknown-{scope_hash(session)}.db" if key is None else f"{key}.db"))

    def of_scope(self, scope: str, deletions: int) -> FileIndex:
        """Return the place of a scope's index."""
        self._sweep_at_times()
        return FileIndex(self.folder / f"scope-{scope_hash(scope)}-{deletions}.db")

    def sweep(self) -> dict[str, OSError]:
        """Remove the indexes with words of sessions that were deleted, here or elsewhere. Return those that are left, each with
        the reason, or the folder if it cannot be read."""
        self._swept_s = time.monotonic()
        try:
            files = [file for file in self.folder.iterdir() if file.suffix == ".db"]
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except OSError as error:
            return {str(self.folder): error}
        found = [(file, _SCOPE.fullmatch(file.stem)) for file in files]
        keys = [int(file.stem) for file in files if file.stem.isdigit()]
        state = self._look(keys, [scope[1] for _, scope in found if scope]) if files else CacheState(frozenset(), {})
        return remove_index_files(file for file, scope in found if not _is_kept(file, scope, state))

    def size_bytes(self) -> int:
        """Return the bytes of all files."""
        return size_of_folder(self.folder)

    def _sweep_at_times(self) -> None:
        if time.monotonic() - self._swept_s >= SWEEP_S:
            for file, error in self.sweep().items():
                logger.warning("%s may hold words of deleted sessions and cannot be removed: %s", file, error)


def scope_hash(name: str) -> str:
    """Return the hash by which the file of a scope, or of all sessions, is named."""
    return sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _is_kept(file: Path, scope: re.Match[str] | None, state: CacheState) -> bool:
    """Return whether an index, of a session or of a scope, is of something that is there."""
    if scope is not None:
        return state.deletions.get(scope[1], 0) == int(scope[2])
    return file.stem.isdigit() and int(file.stem) in state.keys
