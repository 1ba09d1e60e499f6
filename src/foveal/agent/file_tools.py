"""Tools for the files below one folder: read, write, edit, list, search. No path leads out of it, and no link is followed.

A file that is there must have been read, as it is now, before it is written or edited: a model that works from memory
destroys the work of others. After a restart the model reads it once more.
"""

import os
import re
import stat
from codecs import BOM_UTF8
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from io import StringIO
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import Annotated

import msgspec

from foveal.agent.tools import Tool, ToolContext, tool
from foveal.context.safe_paths import (
    decode_utf8,
    inside,
    list_folder,
    new_file,
    open_folder,
    parts_of,
    plain_errors,
    read_file,
    write_all,
)
from foveal.recall.pattern import LinePattern
from foveal.values.errors import BadInput, NotFound

MOST_BYTES = 4 << 20
"""Largest file that is read or written at once: about a million tokens."""
MOST_FOUND = 500
"""Files that are listed, and lines that a search returns."""
MOST_LINE = 500
"""Characters of a line that a search returns: a longer one is generated, and 500 of it would fill the prompt."""
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv"})
_SUMMARY = {"mode": "summary", "limit_tokens": 2_000}

_CHANGING = Lock()
"""Held while a file is changed: sub-agents side by side, each with tools of its own, would write over each other's changes."""

FilePath = Annotated[str, msgspec.Meta(description="below the workspace, with '/' between its parts")]


class Files:
    """The files below a folder, as the tools of one agent see them."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = Path(root)
        self._seen: dict[tuple[str, str], str] = {}
        """Hashes of the files that each session has read or written."""

    def read(self, path: str, session: str) -> str:
        """Return the text of a file, and note that the session has read it."""
        data, _ = read_file(self._root, parts_of(path), most_bytes=MOST_BYTES)
        text = decode_utf8(data, path)
        self._note(session, path, data)
        return text

    def write(self, path: str, text: str, session: str) -> str:
        """Write a file as a whole. One that is there must have been read, and keeps its line ends and its byte order mark."""
        with _CHANGING:
            is_new = self._current(path) is None
            before = b"" if is_new else self._as_read(path, session)
            mark = BOM_UTF8 if before.startswith(BOM_UTF8) and not text.startswith("\ufeff") else b""
            self._change(path, mark + _with_line_ends(text, before), session)
        return f"{'written' if is_new else 'replaced'}: {path}, {len(text.splitlines()):,} lines"

    def edit(self, path: str, old: str, new: str, session: str) -> str:
        """Replace a text that occurs once in a file. Everything else in it stays as it is, byte for byte."""
        with _CHANGING:
            before = self._as_read(path, session)
            wanted = re.compile(re.escape(old.replace("\r\n", "\n").encode()).replace(b"\\\n", b"\r?\n"))
            times = sum(1 for _ in wanted.finditer(before)) if old else 0
            if times != 1 or (found := wanted.search(before)) is None:
                hint = "give more of the lines around it" if times else "read the file again and copy it exactly"
                raise BadInput(f"{path}: the text to replace occurs {times} times; {hint}")
            start, end = found.span()
            self._change(path, before[:start] + _with_line_ends(new, before) + before[end:], session)
        line = before.count(b"\n", 0, start) + 1
        return f"edited: {path}, line {line}"

    def listed(self, folder: str) -> list[str]:
        """Return the paths below a folder, folders with a '/' at the end."""
        return [f"{'/'.join(one)}{'/' if is_folder else ''}" for one, is_folder in self._walk(_parts(folder))]

    def search(self, pattern: str, folder: str) -> Iterator[str]:
        """Yield the lines that match a pattern, each with its file and its number."""
        wanted = LinePattern(pattern)
        for parts, is_folder in self._walk(_parts(folder)):
            if is_folder:
                continue
            with suppress(BadInput):  # too large, or no text
                data, _ = read_file(self._root, parts, most_bytes=MOST_BYTES)
                text = decode_utf8(data, "/".join(parts))
                lines = text.split("\n")
                for number in sorted(wanted.lines_in(text)):
                    line = lines[number]
                    shown = line if len(line) <= MOST_LINE else _around(line, wanted.end_in(line) or 0)
                    yield f"{'/'.join(parts)}:{number + 1}:{shown}"

    def _walk(self, parts: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bool]]:
        with open_folder(self._root, parts) as folder:
            found = list(list_folder(folder, parts))
        for one in found:
            if one.is_file:
                yield one.parts, False
            elif one.is_folder and one.parts[-1] not in _SKIPPED:
                yield one.parts, True
                with suppress(BadInput):  # may not be opened, or is gone: no reason to show nothing of the others
                    yield from self._walk(one.parts)

    def _current(self, path: str) -> bytes | None:
        try:
            return read_file(self._root, parts_of(path), most_bytes=MOST_BYTES)[0]
        except BadInput:
            if self._exists(path):
                raise
            return None

    def _exists(self, path: str) -> bool:
        parts = parts_of(path)
        try:
            with open_folder(self._root, parts[:-1]) as folder:
                return any(one.parts[-1] == parts[-1] for one in list_folder(folder))
        except (BadInput, NotFound):
            return False

    def _as_read(self, path: str, session: str) -> bytes:
        """Return the bytes of a file that the session has read as it is now."""
        data, known = self._current(path), self._seen.get((session, path))
        if data is None:
            raise BadInput(f"{path}: there is no such file; write it, or list the files")
        if known is None:
            raise BadInput(f"{path}: read it first; nothing was changed")
        if known != sha256(data).hexdigest():
            raise BadInput(f"{path}: somebody has changed it since you read it; read it again. Nothing was changed")
        return data

    def _change(self, path: str, data: bytes, session: str) -> None:
        if len(data) > MOST_BYTES:
            raise BadInput(f"{path}: {len(data):,} bytes; {MOST_BYTES:,} are the most that are written at once")
        self._replace(path, data)
        self._note(session, path, data)

    def _note(self, session: str, path: str, data: bytes) -> None:
        self._seen[session, path] = sha256(data).hexdigest()

    def _replace(self, path: str, data: bytes) -> None:
        """Write a file beside its place and move it there, so that nobody reads half of it. Its folders are made; one that is
        replaced keeps its permissions."""
        *folders, name = parts_of(path)
        with open_folder(self._root) as top, plain_errors(path):
            self._replace_in(top, folders, name, data)

    def _replace_in(self, folder: int, folders: list[str], name: str, data: bytes) -> None:
        if folders:
            with inside(folder, folders[0], make=True, mode=0o755) as below:  # as open as the files in it
                self._replace_in(below, folders[1:], name, data)
            return
        beside = f".{name[:40]}.{token_hex(6)}"
        handle = new_file(folder, beside, 0o644)
        try:
            with suppress(FileNotFoundError):
                known = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
                os.fchmod(handle, stat.S_IMODE(known))
            write_all(handle, data)
        finally:
            os.close(handle)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)


def _with_line_ends(text: str, before: bytes) -> bytes:
    """Return a text with the line ends that a file has, by its first line: a reader is shown plain ones."""
    data = text.encode()
    if not before.partition(b"\n")[0].endswith(b"\r"):
        return data
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def _parts(folder: str) -> tuple[str, ...]:
    return () if folder in ("", ".") else parts_of(folder.rstrip("/"))


def _around(line: str, end: int) -> str:
    """Return the part of a long line around a match that ends there, and how much of the line is left out."""
    start = max(0, min(end - MOST_LINE // 2, len(line) - MOST_LINE))
    rest = len(line) - start - MOST_LINE
    before = f"[{start:,} characters before] " if start else ""
    return f"{before}{line[start : start + MOST_LINE]}" + (f" [{rest:,} characters after]" if rest else "")


def _bounded(lines: Iterator[str] | list[str], what: str) -> str:
    """Return the first lines, and whether there are more."""
    found: list[str] = []
    for line in lines:
        if len(found) == MOST_FOUND:
            return "\n".join([*found, f"[more than {MOST_FOUND} {what}; narrow it down]"])
        found.append(line)
    return "\n".join(found) or f"[no {what}]"


def file_tools(root: str | os.PathLike[str]) -> tuple[Tool, ...]:
    """Return the tools for the files below a folder."""
    files = Files(root)

    @tool(name="read_file")
    def read(ctx: ToolContext, path: FilePath, first_line: int = 1, lines: int = 2_000) -> str:
        """Read a text file, or some lines of it."""
        text = files.read(path, ctx.session)
        listed = StringIO(text, newline="\n").readlines()  # the same lines as a search numbers
        start = max(1, first_line) - 1
        rest = len(listed) - start - lines
        return "".join(listed[start : start + lines]) + (f"[{rest:,} more lines]" if rest > 0 else "")

    @tool(name="write_file", serial=True)
    def write(ctx: ToolContext, path: FilePath, content: str) -> str:
        """Write a text file as a whole. Read it before, if it is there already."""
        return files.write(path, content, ctx.session)

    @tool(name="edit_file", serial=True)
    def edit(
        ctx: ToolContext,
        path: FilePath,
        old: Annotated[str, msgspec.Meta(description="text that occurs once in the file, with its line breaks")],
        new: str,
    ) -> str:
        """Replace a text in a file that you have read."""
        return files.edit(path, old, new, ctx.session)

    @tool(name="list_files", retain=_SUMMARY)
    def listing(folder: FilePath = "") -> str:
        """List the files below a folder, at any depth."""
        return _bounded(files.listed(folder), "files")

    @tool(name="search_files", retain=_SUMMARY)
    def search(pattern: Annotated[str, msgspec.Meta(description="regular expression")], folder: FilePath = "") -> str:
        """Search the text files below a folder for lines that match."""
        return _bounded(files.search(pattern, folder), "lines")

    return (read, write, edit, listing, search)
