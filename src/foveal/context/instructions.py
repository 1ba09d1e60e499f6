"""Instructions from disk: AGENTS.md and similar files, from a root down to the working directory; the nearest last.

They are pinned and never summarised, so each is read whole or not at all, and read again when it has changed.
"""

import os
import stat
import warnings
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

import msgspec

from foveal.context.safe_paths import parts_of, read_file, shown_path, text_of
from foveal.context.source import ContextSource, SourceFence
from foveal.project.view import View
from foveal.values.errors import BadInput

NAMES = ("AGENTS.md", "CLAUDE.md", "GEMINI.md")
MOST_BYTES = 128 << 10
"""Size limit of one file, which is sent with every call."""
MOST_DEPTH = 64
FENCE = "instructions"
"""The built-in kind of their fence."""
Stamp: TypeAlias = tuple[int, int, int, int]
"""Inode, size and the two times of a file: if they are the same, nobody has written to the file."""


class InstructionFile(msgspec.Struct, frozen=True):
    """One file: its path below the root, and its text."""

    path: str
    text: str
    sha256: str
    stamp: Stamp

    @property
    def name(self) -> str:
        """The path in a form that is safe to show."""
        return shown_path(self.path)


class Instructions(msgspec.Struct, frozen=True):
    """The texts of the files, outermost first and without duplicates, and where they were looked for."""

    directory: str
    root: str
    names: tuple[str, ...] = NAMES
    files: tuple[InstructionFile, ...] = ()
    seen: tuple[tuple[str, Stamp], ...] = ()
    """Every file that was found, also duplicates of other files."""

    @classmethod
    def load(
        cls, directory: str | Path, *, names: Sequence[str] = NAMES, root: str | Path | None = None
    ) -> "Instructions":
        """Read the instructions from `root` down to `directory`.

        Without a root it is the nearest folder upwards that holds `.git`, or else the directory alone: files above a project are
        not by its authors.
        """
        for name in names:
            if len(parts_of(name)) != 1:
                raise BadInput(f"{shown_path(name)!r} is not the name of a file; instructions are looked for by name")
        inner = Path(directory).resolve()
        outer = Path(root).resolve() if root is not None else _project(inner)
        if not inner.is_dir() or not inner.is_relative_to(outer):
            raise BadInput(
                f"{shown_path(inner)} is not a folder below {shown_path(outer)}; give a root that holds the directory"
            )
        return _read(cls(str(inner), str(outer), tuple(names)), {})

    def changed(self) -> "Instructions | None":
        """Return the instructions as they are now, or None if no text has changed. Files with equal stamps are not read again."""
        if tuple(_stamps(self)) == self.seen:
            return None
        now = _read(self, {(file.path, file.stamp): file for file in self.files})
        told = [[(file.path, file.sha256) for file in one.files] for one in (self, now)]
        return now if told[0] != told[1] else None

    def render(self) -> str:
        """Return all texts as one, each under the name of its file; empty if there are none."""
        return "\n\n".join(f"Instructions from {file.name}:\n\n{file.text.strip()}" for file in self.files)

    def source(self) -> "InstructionSource":
        """Return the state of these instructions for one session."""
        return InstructionSource(self)


class InstructionSource(ContextSource):
    """Instructions in one session, read again before each prompt."""

    def __init__(self, instructions: Instructions) -> None:
        self._instructions = instructions

    def news(self, view: View) -> Mapping[str, tuple[str, ...]]:
        """Read changed files; return the names of those that are new since the session was last shown them."""
        try:
            self._instructions = self._instructions.changed() or self._instructions
        except BadInput as error:  # half saved, or gone for a moment: the texts read before still hold
            warnings.warn(f"instructions were not read again: {error}", UserWarning, stacklevel=2)
        told = next((fence.text for fence in view.fences if fence.kind == FENCE), "")
        files = self._instructions.files if told else ()
        names = tuple(file.name for file in files if file.text.strip() not in told)
        return {"new_instructions": names} if names else {}

    def fences(self, view: View) -> Iterator[SourceFence]:
        yield SourceFence(FENCE, self._instructions.render())


def _project(directory: Path) -> Path:
    return next((folder for folder in (directory, *directory.parents) if (folder / ".git").exists()), directory)


def _read(where: Instructions, kept: dict[tuple[str, Stamp], InstructionFile]) -> Instructions:
    files: dict[str, InstructionFile] = {}
    seen: list[tuple[str, Stamp]] = []
    for path, stamp in _stamps(where):
        file = kept.get((path, stamp)) or _file(where.root, path)
        seen.append((path, file.stamp))
        if file.text.strip():
            files.setdefault(file.sha256, file)
    return msgspec.structs.replace(where, files=tuple(files.values()), seen=tuple(seen))


def _stamps(where: Instructions) -> Iterator[tuple[str, Stamp]]:
    """Yield each file of these names with its current stamp, from the root inwards."""
    parts = Path(where.directory).relative_to(where.root).parts
    if len(parts) > MOST_DEPTH:
        raise BadInput(
            f"{shown_path(where.directory)} is {len(parts)} folders below the root; {MOST_DEPTH} is the most"
        )
    for depth in range(len(parts) + 1):
        for name in where.names:
            path = "/".join((*parts[:depth], name))
            try:
                status = Path(where.root, path).stat()
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise BadInput(f"{shown_path(path)}: cannot be read ({error.strerror})") from None
            if not stat.S_ISDIR(status.st_mode):
                yield path, _stamp(status)


def _file(root: str, path: str) -> InstructionFile:
    """Read one file. A link to another file of the project is common and fine; a link that leads out of the root is refused."""
    try:
        real = Path(root, path).resolve(strict=True).relative_to(root)
    except (OSError, ValueError, RuntimeError):
        raise BadInput(
            f"{shown_path(path)}: is a link that leads out of {shown_path(root)}; put the file itself there"
        ) from None
    data, status = read_file(root, real.parts, most_bytes=MOST_BYTES)
    return InstructionFile(path, text_of(data, path), sha256(data).hexdigest(), _stamp(status))


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns
