"""Opening, making and removing below a folder that is held open, so that the kernel and not a comparison says where we are.

Every call names one step from a descriptor, and no step follows a link. A folder that is swapped for a link between two steps
makes the second one fail; it never leads elsewhere.
"""

import errno
import os
import secrets
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from foveal.values.errors import BadInput, FovealError, NotFound, StoreFailed, StoreFull

REMOVING = "removing-"
"""How a folder is called while it is taken apart; what an interrupted removal leaves can be told by it."""

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_NOT_A_FOLDER = frozenset({errno.ELOOP, errno.ENOTDIR})
_CLOSED = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0) | _CLOSED
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _CLOSED
_IS_POSSIBLE = os.open in os.supports_dir_fd and hasattr(os, "O_NOFOLLOW")
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # a pipe that nobody writes to must not hold us up


@contextmanager
def root_folder(root: Path, *, make: bool = False) -> Generator[int]:
    """The root, which the user named and may well be a link. Everything below is opened step by step."""
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
def inside(parent: int, name: str, *, make: bool = False) -> Generator[int]:
    """The folder `name` of an open folder: a real one, not a link to one."""
    if make:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
    handle = os.open(name, _FOLDER | _NOFOLLOW, dir_fd=parent)
    try:
        yield handle
    finally:
        os.close(handle)


def new_file(parent: int, name: str, mode: int = 0o600) -> int:
    """A file that was not there before, open for writing."""
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NOFOLLOW, mode, dir_fd=parent)


def regular_file(name: str, parent: int | None = None, *, follow: bool = False) -> int:
    """An existing file, open for reading. What is no regular file is refused by what was opened, not by its name."""
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
    """The names in an open folder and what each is, links as links. What vanishes meanwhile is left out."""
    with os.scandir(folder) as listed:
        names = sorted(entry.name for entry in listed)
    for name in names:
        with suppress(FileNotFoundError):
            yield name, os.stat(name, dir_fd=folder, follow_symlinks=False)


def remove_tree(parent: int, name: str) -> None:
    """Remove a folder and all in it. Links are removed, never followed, and no depth is too deep.

    A folder within is first moved to the top, so that two descriptors are enough for any tree.
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
    """What the system says, as an error of ours that says what to do."""
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
