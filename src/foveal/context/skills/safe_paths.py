"""Opening what lies below a folder, and nothing else.

Each step is made by the kernel, from the folder before, and follows no link (POSIX). No path is compared as text. A name that
leads out, or a link that is swapped in after a look, finds nothing to open.
"""

import errno
import os
import stat
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from foveal.text.display import printable
from foveal.values.errors import BadInput

READ_BYTES = 1 << 16


class FoundFile(NamedTuple):
    """Something in a folder: its parts below the root, and what it is."""

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
    """The parts of a relative path. They are names of things below a folder; others are refused."""
    parts = tuple(path.split("/"))
    if any(part in ("", ".", "..") or "\0" in part for part in parts):
        raise BadInput(
            f"{printable(path)!r} is not a path below a folder: write its parts with '/' between, none of them '..'"
        )
    return parts


@contextmanager
def opened_folder(root: str | Path, parts: Sequence[str] = ()) -> Generator[int, None, None]:
    """A folder below a root, by its descriptor. The root is the caller's word and may be a link; nothing below it may."""
    handle = _open(str(root), os.O_DIRECTORY, None, printable(root))
    try:
        for i, part in enumerate(parts):
            inner = _open(part, os.O_DIRECTORY | os.O_NOFOLLOW, handle, printable("/".join(parts[: i + 1])))
            os.close(handle)
            handle = inner
        yield handle
    finally:
        os.close(handle)


def read_file(root: str | Path, parts: Sequence[str], *, most_bytes: int) -> tuple[bytes, os.stat_result]:
    """The bytes of a regular file below a root, and what it was when it was read."""
    where = printable("/".join(parts))
    with opened_folder(root, parts[:-1]) as folder:
        # Not blocking: a pipe that nobody writes to would hold the reader for ever.
        handle = _open(parts[-1], os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, folder, where)
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


def listed(folder: int, parts: tuple[str, ...] = ()) -> Iterator[FoundFile]:
    """What is in a folder, by name; links are named and not followed."""
    for name in sorted(os.listdir(folder)):
        try:
            yield FoundFile((*parts, name), os.stat(name, dir_fd=folder, follow_symlinks=False))
        except FileNotFoundError:
            continue  # gone since it was listed
        except OSError as error:
            raise BadInput(f"{printable('/'.join((*parts, name)))}: cannot be looked at ({error.strerror})") from None


def decode_utf8(data: bytes, where: str) -> str:
    """The bytes as text with plain line ends; `BadInput` names the place of the first that is not UTF-8."""
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        found = f"the byte 0x{data[error.start]:02x} in line {line}"
        raise BadInput(f"{printable(where)}: is not UTF-8 text ({found}); save it as UTF-8") from None


def _open(name: str, flags: int, folder: int | None, where: str) -> int:
    try:
        return os.open(name, os.O_RDONLY | os.O_CLOEXEC | flags, dir_fd=folder)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name, or a lone surrogate
        code = error.errno if isinstance(error, OSError) else None
        if folder is not None and code in (errno.ELOOP, errno.ENOTDIR):
            raise BadInput(f"{where}: is a link or not a folder; links are not followed") from None
        raise BadInput(f"{where}: cannot be opened ({os.strerror(code) if code else 'not a name'})") from None
