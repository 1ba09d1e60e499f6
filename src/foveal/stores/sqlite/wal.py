"""The files of a store at rest: whether its WAL is whole, and the newest state of the database that can be put together.

SQLite reads a WAL up to the first frame whose checksum is wrong, and takes the rest for a transaction that was never committed.
That is right after a power cut, and wrong after damage: acknowledged entries would be gone without a word. Two things tell damage
from a torn end. Every commit is synced before the next one begins, so that at most one of them can be torn: a wrong frame that is
followed by two commits, one continuing the other, was whole once. And the wal-index (`-shm`), which outlives a killed process,
counts the frames that were committed.

These files are looked at before SQLite opens them, since it rewrites the wal-index, and only if no other process has them open.
Reading them drops the locks of every connection that this process has to them (a law of POSIX): that is why openings are counted.
"""

import errno
import os
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

if sys.platform == "win32":

    def _locked(handle: int) -> bool:
        return False  # a file that is open cannot be removed or cut there

else:
    import fcntl

    def _locked(handle: int) -> bool:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _SHM_LOCK)
        except OSError:
            return False
        return True


_HEADER, _FRAME = 32, 24
_MAGIC = 0x377F0682
_GENERATIONS = 1 << 20
"""Times that a WAL is begun anew at the most while a store is open: the first number is drawn at random."""
_SHM_LOCK = 128
"""The byte of the wal-index that every connection holds a lock on."""

_opening = threading.RLock()
_open_files: Counter[tuple[int, int]] = Counter()


class _Frame(NamedTuple):
    page: int
    size_pages: int
    """The size of the database after a commit; 0 in a frame that ends none."""
    data: bytes
    is_linked: bool
    """Whether its checksum continues that of the frame before it."""


class WalIndexMark(NamedTuple):
    """The state that a wal-index says was committed."""

    salt: bytes
    frames: int
    copied: int
    """Frames that are in the database file as well."""


class Wal(NamedTuple):
    """A WAL, as far as it can be read."""

    salt: bytes
    page_bytes: int
    frames: tuple[_Frame, ...]
    """The frames of the newest generation, whole or not, up to the last commit."""
    committed: int
    """Frames that SQLite will take: up to the last commit before the first frame that is not whole."""
    problem: str = ""


class RestState(NamedTuple):
    """The files of a store as they were found before they were opened."""

    problem: str = ""
    """The damage of its WAL, described."""
    lone_ms: int | None = None
    """The time at which there was no WAL, or an empty one, and nobody had the store open; else None."""


class OpenFile:
    """A store's file that this process has open, as long as `close` is not called."""

    def __init__(self) -> None:
        self._identity: tuple[int, int] | None = None

    def note(self, path: Path) -> None:
        """Count the file as open from now on."""
        self._identity = _identity(path)
        if self._identity is not None:
            _open_files[self._identity] += 1

    def close(self) -> None:
        with _opening:
            if self._identity is not None:
                _open_files[self._identity] -= 1
            self._identity = None


@contextmanager
def opening(path: Path) -> Generator[tuple[RestState, OpenFile]]:
    """Yield the state of a store's files before they are opened in the block. One thread opens at a time."""
    with _opening:
        identity = _identity(path)
        is_open = identity is not None and _open_files[identity] > 0
        state, held = RestState() if is_open else state_at_rest(path), OpenFile()
        yield state, held
        held.note(path)


def state_at_rest(path: Path) -> RestState:
    """Return the state of the WAL of a store that nobody has open; an empty one if somebody has."""
    with _at_rest(path) as is_at_rest:
        if not is_at_rest:
            return RestState()
        mark = _read_mark(Path(f"{path}-shm"))
        wal_path = Path(f"{path}-wal")
        if wal_path.exists() and wal_path.stat().st_size:
            return RestState(read_wal(wal_path, mark).problem)
        is_missed = mark is not None and mark.frames > mark.copied
        problem = f"{wal_path.name} is missing, with commits that are nowhere else" if is_missed else ""
        return RestState(problem, time.time_ns() // 1_000_000)


def read_wal(path: Path, mark: WalIndexMark | None = None) -> Wal:
    """Read a WAL, and compare it with the count of a wal-index."""
    data = path.read_bytes()
    counted = mark.frames if mark else 0
    if len(data) < _HEADER or not _is_header(data[:_HEADER]):
        # The header is synced before the first frame is written. That of a WAL that is begun anew stands before frames of the
        # last one, all of which are in the database: a wal-index that counts none says so.
        is_torn = not counted and (mark is not None or not any(data[_HEADER:]))
        return Wal(b"", 0, (), 0, "" if is_torn else "the header of the -wal file is damaged or gone")
    page_bytes = int.from_bytes(data[8:12], "big")
    salt = data[16:24]
    frames = tuple(_frames(data, page_bytes, salt))
    first_bad = next((i for i, frame in enumerate(frames) if not frame.is_linked), len(frames))
    commits = [i + 1 for i, frame in enumerate(frames) if frame.size_pages]
    committed = max((end for end in commits if end <= first_bad), default=0)
    lost = [end for end in commits if end > first_bad]
    is_followed = any(all(frame.is_linked for frame in frames[one:other]) for one, other in pairwise(lost))
    frames = frames[: commits[-1]] if commits else ()
    problem = ""
    if is_followed:
        problem = f"frame {first_bad + 1} of the -wal file is damaged, and {len(lost)} commits stand behind it"
    elif mark is not None and _is_short(mark, salt, committed):
        problem = f"{counted} frames of the -wal file were committed, {committed} of them can be read"
    return Wal(salt, page_bytes, frames, committed, problem)


def _is_short(mark: WalIndexMark, salt: bytes, committed: int) -> bool:
    """Return whether a WAL lacks commits that its wal-index counts.

    Even if all of them are in the database, those that are left would hide them: SQLite takes a page from the WAL first.
    """
    if mark.salt != salt:
        return mark.frames > mark.copied and not _follows(salt, mark.salt)
    return mark.frames > committed and (committed > 0 or mark.frames > mark.copied)


def newest_image(path: Path) -> bytes:
    """Return the database with all frames of its WAL put in place, whole or not, as a file that needs no WAL.

    A file that lost its end gets it back as empty pages, so that SQLite opens it; damage to rows is found by their hashes.
    """
    image = bytearray(path.read_bytes())
    wal_path = Path(f"{path}-wal")
    wal = read_wal(wal_path) if wal_path.exists() else None
    mark = _read_mark(Path(f"{path}-shm"))
    if wal and mark and mark.salt == wal.salt and mark.copied >= mark.frames > wal.committed:
        wal = None  # the database has all that it ever held, and more than it holds now
    page_bytes = _page_bytes(image) or (wal.page_bytes if wal else 0) or 4096
    size_pages = int.from_bytes(image[28:32], "big")
    most_pages = len(image) // page_bytes + 2 * (len(wal.frames) if wal else 0) + 65_536
    for frame in wal.frames if wal else ():
        if not 0 < frame.page <= most_pages:
            continue
        end = frame.page * page_bytes
        image.extend(bytes(max(0, end - len(image))))
        image[end - page_bytes : end] = frame.data
        size_pages = frame.size_pages if 0 < frame.size_pages <= most_pages else size_pages
    if size_pages <= most_pages:
        image.extend(bytes(max(0, size_pages * page_bytes - len(image))))
        image[28:32] = (len(image) // page_bytes).to_bytes(4, "big")
    image[18:20] = b"\1\1"  # no WAL
    image[92:96] = image[24:28]  # the size of the header is valid
    return bytes(image)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _at_rest(path: Path) -> Generator[bool]:
    """Yield whether no process has the database open, and keep others from opening it in the meantime."""
    try:
        handle = os.open(f"{path}-shm", os.O_RDWR)
    except OSError as error:
        # Nobody has it open: the wal-index is there as long as somebody has. Where it cannot be written it cannot be told.
        yield error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS)
        return
    try:
        yield _locked(handle)
    finally:
        os.close(handle)


def _read_mark(path: Path) -> WalIndexMark | None:
    """Return the newest of the two copies of a wal-index's header that are whole."""
    try:
        with path.open("rb") as file:
            data = file.read(136)
    except OSError:
        return None
    for start in (48, 0):
        header = data[start : start + 48]
        if len(header) == 48 and header[12] == 1 and struct.pack("=2I", *_checksum(header[:40], "=")) == header[40:]:
            (frames,) = struct.unpack("=I", header[16:20])
            copied = struct.unpack("=I", data[96:100])[0] if len(data) >= 100 else 0
            return WalIndexMark(header[32:40], frames, copied)
    return None


def _follows(salt: bytes, earlier: bytes) -> bool:
    """Return whether a salt was given out after another in the same WAL: the first half counts the generations."""
    ahead = (int.from_bytes(salt[:4], "big") - int.from_bytes(earlier[:4], "big")) % (1 << 32)
    return 0 < ahead < _GENERATIONS


def _is_header(header: bytes) -> bool:
    magic, _, page_bytes = struct.unpack(">3I", header[:12])
    if magic | 1 != _MAGIC | 1 or page_bytes & (page_bytes - 1) or not 512 <= page_bytes <= 65_536:
        return False
    return struct.pack(">2I", *_checksum(header[:24], _order(header))) == header[24:32]


def _order(header: bytes) -> str:
    return ">" if header[3] & 1 else "<"


def _frames(data: bytes, page_bytes: int, salt: bytes) -> Iterator[_Frame]:
    """Yield the frames; those of an earlier generation, or of none, count as frames of no page."""
    order, sums = _order(data[:_HEADER]), data[24:32]
    for start in range(_HEADER, len(data) - _FRAME - page_bytes + 1, _FRAME + page_bytes):
        header, page = data[start : start + _FRAME], data[start + _FRAME : start + _FRAME + page_bytes]
        is_ours = header[8:16] == salt
        if is_ours:
            before = struct.unpack(">2I", sums)
            expected = _checksum(page, order, _checksum(header[:8], order, (before[0], before[1])))
            number, size_pages = struct.unpack(">2I", header[:8])
            yield _Frame(number, size_pages, page, struct.pack(">2I", *expected) == header[16:24])
        else:
            yield _Frame(0, 0, page, is_linked=False)
        sums = header[16:24]


def _checksum(data: bytes, order: str, sums: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """Return SQLite's checksum of a WAL, continued from the sums before."""
    one, two = sums
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        one = (one + even + two) & 0xFFFFFFFF
        two = (two + odd + one) & 0xFFFFFFFF
    return one, two


def _page_bytes(image: bytes | bytearray) -> int:
    size = int.from_bytes(image[16:18], "big")
    return 65_536 if size == 1 else size if size >= 512 and not size & (size - 1) else 0
