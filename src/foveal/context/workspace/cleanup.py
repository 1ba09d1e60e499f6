"""The removal of session folders that have not been used for long, in two steps: a plan to look at, and its application.

A folder belongs to a workspace if its name is the hash of the session that its card names. Nothing else below the root is
touched.
"""

import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import msgspec

from foveal.context.safe_paths import (
    REMOVING,
    entries,
    inside,
    plain_errors,
    regular_file,
    remove_tree,
    root_folder,
)
from foveal.context.workspace.stored_file import from_json
from foveal.context.workspace.workspace import CARD, folder_name
from foveal.values.errors import BadInput, FovealError

_OURS = re.compile(r"s-[0-9a-f]{40}\Z")
_LEFT_BEHIND = re.compile(re.escape(REMOVING) + r"[0-9a-f]{24}\Z")
_MOST_CARD_BYTES = 1 << 20
_LOOKED_DEEP = 32
"""Files below this depth are removed with the rest, but not counted."""


class SessionFolder(msgspec.Struct, frozen=True):
    session: str | None
    """Its name; None for the remains of an interrupted removal."""
    folder: str
    files: int
    size_bytes: int
    used_s: float
    """Time of the last access or write inside it, in seconds since 1970."""


class Cleaned(msgspec.Struct, frozen=True):
    removed: tuple[SessionFolder, ...]
    kept: tuple[tuple[SessionFolder, str], ...]
    """Folders that were not removed after all, each with the reason."""


class CleaningPlan(msgspec.Struct, frozen=True):
    """The folders that a cleaning would remove. Nothing has happened yet."""

    root: Path
    older_than: timedelta
    now_s: float
    remove: tuple[SessionFolder, ...]
    keep: tuple[SessionFolder, ...]

    @property
    def size_bytes(self) -> int:
        return sum(folder.size_bytes for folder in self.remove)

    def apply(self) -> Cleaned:
        """Remove the planned folders, except those that have been used since."""
        removed: list[SessionFolder] = []
        kept: list[tuple[SessionFolder, str]] = []
        with root_folder(self.root) as top:
            for planned in self.remove:
                try:
                    with plain_errors(self.root / planned.folder):
                        why = _remove(top, planned)
                except FovealError as error:
                    why = str(error)
                if why:
                    kept.append((planned, why))
                else:
                    removed.append(planned)
        return Cleaned(tuple(removed), tuple(kept))


def clean(root: str | os.PathLike[str], older_than: timedelta, *, now_s: float | None = None) -> CleaningPlan:
    """Return the plan to remove the folders of sessions that were not used for longer than `older_than`."""
    if older_than < timedelta(0):
        raise BadInput(f"an age of {older_than} cannot be used; it is not negative")
    now = time.time() if now_s is None else now_s
    remove: list[SessionFolder] = []
    keep: list[SessionFolder] = []
    for found in folders(root):
        is_old = found.session is None or now - found.used_s > older_than.total_seconds()
        (remove if is_old else keep).append(found)
    return CleaningPlan(Path(root).absolute(), older_than, now, tuple(remove), tuple(keep))


def folders(root: str | os.PathLike[str]) -> tuple[SessionFolder, ...]:
    """Return the workspaces below a root, the longest unused first; none if there is no such root."""
    path = Path(root)
    if not path.is_dir():
        return ()
    with plain_errors(path), root_folder(path) as top:
        found = [_measured(top, name) for name, what in entries(top) if stat.S_ISDIR(what.st_mode)]
    return tuple(sorted((one for one in found if one), key=lambda one: (one.used_s, one.folder)))


def _measured(top: int, name: str) -> SessionFolder | None:
    """Return the folder if it belongs to a workspace; None if it does not, or if it vanishes or cannot be read."""
    if not _OURS.match(name) and not _LEFT_BEHIND.match(name):
        return None
    with suppress(OSError), inside(top, name) as folder:
        session = _session_of(folder)
        if _LEFT_BEHIND.match(name):
            session = None
        elif session is None or folder_name(session) != name:
            return None
        files = [what for what in _files(folder) if stat.S_ISREG(what.st_mode)]
        used_s = max((what.st_mtime for what in files), default=os.fstat(folder).st_mtime)
        return SessionFolder(session, name, len(files), sum(what.st_size for what in files), used_s)
    return None


def _session_of(folder: int) -> str | None:
    try:
        with os.fdopen(regular_file(CARD, folder), "rb") as card:
            return str(from_json(card.read(_MOST_CARD_BYTES))["session"])
    except (OSError, BadInput, ValueError, LookupError, TypeError, RecursionError):
        return None


def _files(folder: int, depth: int = 0) -> Iterator[os.stat_result]:
    for name, found in entries(folder):
        if not stat.S_ISDIR(found.st_mode):
            yield found
        elif depth < _LOOKED_DEEP:
            with suppress(OSError), inside(folder, name) as below:
                yield from _files(below, depth + 1)


def _remove(top: int, planned: SessionFolder) -> str:
    """Remove a planned folder; return the reason if it is not removed, else an empty text."""
    found = _measured(top, planned.folder)
    if found is None:
        return "it is not there any more, or closed to us"
    if found.used_s > planned.used_s:
        return "it has been used since"
    # Moved away first: a process that opens the session meanwhile gets a new folder, not half of the old one.
    moved = f"{REMOVING}{secrets.token_hex(12)}"
    os.rename(planned.folder, moved, src_dir_fd=top, dst_dir_fd=top)
    remove_tree(top, moved)
    return ""
