"""Opening, listing, making and removing below a folder, and nowhere else.

Every step is one call of the kernel from the descriptor of the folder before, and follows no link (POSIX). No path is compared
as text. A name that leads out finds nothing to open, and a folder that is swapped for a link between two steps makes the second
step fail.

Two layers: the steps (`root_folder`, `inside`, `below`, `new_file`, `regular_file`, `entries`, `remove_tree`) raise `OSError`,
which `plain_errors` translates for workspaces; the readers of other people's folders (`open_folder`, `read_file`, `list_folder`)
raise `BadInput` with the path below the root.
"""

import errno
import os
import secrets
import stat
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from foveal.text.display import printable
from foveal.values.errors import BadInput, FovealError, NotFound, StoreFailed, StoreFull

REMOVING = "removing-"
"""Prefix of the name of a folder while it is removed, by which the rest of an interrupted removal is recognised."""

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NOT_A_FOLDER = frozenset({errno.ELOOP, errno.ENOTDIR})
_CLOSED = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | _CLOSED
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOSED
_IS_POSSIBLE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_NOCTTY = getattr(os, "O_NOCTTY", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # a pipe without a writer would block the open for ever


@contextmanager
def root_folder(root: Path, *, make: bool = False) -> Generator[int]:
    """Open the root, which the user named and which may be a link. Everything below it is opened step by step."""
    if not _IS_POSSIBLE:
        raise BadInput("workspaces need a system that opens files relative to a folder (Linux, macOS, BSD)")
    with plain_errors(root):
        if make:
            root.mkdir(parents=True, exist_ok=True)
        handle = os.open(root, _FOLDER)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def inside(parent: int, name: str, *, make: bool = False, mode: int = 0o700) -> Generator[int]:
    """Open the folder `name` of an open folder: a real folder, not a link to one. One that is made gets this mode."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, mode, dir_fd=parent)
    handle = os.open(name, _FOLDER | _NOFOLLOW, dir_fd=parent)
    try:
        yield handle
    finally:
        os.close(handle)


@contextmanager
def below(folder: int, steps: Iterable[str]) -> Generator[int]:
    """Open the folder that these steps lead to from an open folder; no step may be a link."""
    with ExitStack() as opened:
        for step in steps:
            folder = opened.enter_context(inside(folder, step))
        yield folder


def new_file(parent: int, name: str, mode: int = 0o600) -> int:
    """Make a file that did not exist before, open for writing."""
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW, mode, dir_fd=parent)


def regular_file(name: str, parent: int | None = None, *, follow: bool = False) -> int:
    """Open an existing file for reading. `BadInput` if the opened file is not a regular one."""
    handle = os.open(name, os.O_RDONLY | _NONBLOCK | (_CLOSED if follow else _NOFOLLOW), dir_fd=parent)
    found = stat.S_IFMT(os.fstat(handle).st_mode)
    if found != stat.S_IFREG:
        os.close(handle)
        raise BadInput(f"{name!r:.120} is {_KINDS.get(found, 'no file')}; only regular files can be taken")
    return handle


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def write_all(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]


def entries(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the names in an open folder, sorted, with their status; links as links. Names that vanish meanwhile are left out."""
    with os.scandir(folder) as listed:
        names = sorted(entry.name for entry in listed)
    for name in names:
        with suppress(FileNotFoundError):
            yield name, os.stat(name, dir_fd=folder, follow_symlinks=False)


def remove_tree(parent: int, name: str) -> None:
    """Remove a folder and everything in it, at any depth. Links are removed, never followed.

    An inner folder is first moved to the top, so that two descriptors are enough for any tree.
    """
    waiting = [name]
    while waiting:
        top = waiting.pop()
        try:
            waiting.extend(_emptied(parent, top))
        except OSError as error:
            if error.errno not in _NOT_A_FOLDER:
                raise
            os.unlink(top, dir_fd=parent)  # swapped for a link since it was looked at
        else:
            os.rmdir(top, dir_fd=parent)


def _emptied(parent: int, name: str) -> list[str]:
    """Remove the files of a folder; return the new names of the folders that were in it."""
    moved: list[str] = []
    with inside(parent, name) as folder:
        os.fchmod(folder, 0o700)
        for child, found in entries(folder):
            if not stat.S_ISDIR(found.st_mode):
                os.unlink(child, dir_fd=folder)
                continue
            if not found.st_mode & stat.S_IWUSR:  # a folder that may not be written cannot be moved
                with inside(folder, child) as locked:
                    os.fchmod(locked, 0o700)
            moved.append(f"{REMOVING}{secrets.token_hex(12)}")
            os.rename(child, moved[-1], src_dir_fd=folder, dst_dir_fd=parent)
    return moved


@contextmanager
def plain_errors(place: object) -> Generator[None]:
    """Translate an `OSError` into an error of this package that says what to do."""
    try:
        yield
    except OSError as error:
        raise _translated(error, place) from error


def _translated(error: OSError, place: object) -> FovealError:
    if error.errno in _NO_SPACE:
        return StoreFull(f"{place}: no space is left; nothing of the file was kept. Free space and try again.")
    if error.errno in _NOT_A_FOLDER:
        return BadInput(f"{place}: a link or a file stands where a folder of the workspace belongs; remove it")
    if error.errno == errno.ENOENT:
        return NotFound(
            f"{place}: it, or a file in it, is not there any more; if it was cleaned, open the workspace again"
        )
    return StoreFailed(f"{place}: {error.strerror or error}; nothing was changed. Look at the folder and its rights.")


class FoundFile(NamedTuple):
    """An entry of a folder: its parts below the root, and its status."""

    parts: tuple[str, ...]
    stat: os.stat_result

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.stat.st_mode)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.stat.st_mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.stat.st_mode)


def parts_of(path: str) -> tuple[str, ...]:
    """Return the parts of a relative path; `BadInput` if one of them is no name of something below a folder."""
    parts = tuple(path.split("/"))
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise BadInput(
            f"{printable(path)!r} is not a path below a folder: write its parts with '/' between, none of them '..'"
        )
    return parts


@contextmanager
def open_folder(root: str | Path, parts: Sequence[str] = ()) -> Generator[int, None, None]:
    """Open a folder below a root. The root is the caller's word and may be a link; nothing below it may."""
    with ExitStack() as opened:
        with _readable(printable(root)):
            handle = os.open(str(root), _FOLDER)
        opened.callback(os.close, handle)
        for i, part in enumerate(parts):
            with _readable(printable("/".join(parts[: i + 1])), is_below=True):
                handle = opened.enter_context(inside(handle, part))
        yield handle


def read_file(root: str | Path, parts: Sequence[str], *, most_bytes: int) -> tuple[bytes, os.stat_result]:
    """Return the bytes of a regular file below a root, and its status when it was read."""
    where = printable("/".join(parts))
    with open_folder(root, parts[:-1]) as folder, _readable(where, is_below=True):
        handle = os.open(parts[-1], os.O_RDONLY | _NOFOLLOW | _NONBLOCK | _NOCTTY, dir_fd=folder)
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode):
        os.close(handle)
        raise BadInput(f"{where}: is not a regular file; it was not read")
    with os.fdopen(handle, "rb") as stream:
        data = stream.read(most_bytes + 1)
    if len(data) > most_bytes:
        size = max(status.st_size, len(data))
        raise BadInput(f"{where}: holds {size:,} bytes; {most_bytes:,} is the most. Shorten it or split it.")
    return data, status


def list_folder(folder: int, parts: tuple[str, ...] = ()) -> Iterator[FoundFile]:
    """Yield the entries of a folder, by name; links are named and not followed."""
    try:
        for name, status in entries(folder):
            yield FoundFile((*parts, name), status)
    except OSError as error:
        raise BadInput(
            f"{printable('/'.join((*parts, str(error.filename))))}: cannot be looked at ({error.strerror})"
        ) from None


def decode_utf8(data: bytes, where: str) -> str:
    """Return the bytes as text with plain line ends; `BadInput` names the place of the first byte that is not UTF-8."""
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"the byte 0x{data[error.start]:02x} in line {line}"
        raise BadInput(f"{printable(where)}: is not UTF-8 text ({found}); save it as UTF-8") from None


@contextmanager
def _readable(where: str, *, is_below: bool = False) -> Generator[None]:
    """Translate errors of opening one step into `BadInput`."""
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name, or a lone surrogate
        code = error.errno if isinstance(error, OSError) else None
        if is_below and code in _NOT_A_FOLDER:
            raise BadInput(f"{where}: is a link or not a folder; links are not followed") from None
        raise BadInput(f"{where}: cannot be opened ({os.strerror(code) if code else 'not a name'})") from None
