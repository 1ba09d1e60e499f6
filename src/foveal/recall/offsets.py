"""The offsets of the blocks of a large artifact, in lines and in characters: with them a window is read alone.

    first fetch    reads the whole artifact, proves its hash at the end, and keeps the offsets of its blocks beside it
    later ones     read the blocks that the window lies in, each proven by a check of its own

Offsets are a shortcut: if they are absent, damaged or wrong, the whole artifact is read, which also raises the right error.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256

import msgspec

from foveal.recall.text_blocks import BLOCK_BYTES, blocks_of, decoded, whole_text
from foveal.recall.windows import TextWindow, character_window, line_window
from foveal.stores.port import Artifacts
from foveal.values.entry import Part, Stored, ToolResult
from foveal.values.errors import BadInput, StoreError

LEAST_BYTES = 4 << 20
"""A smaller artifact is read whole in a hundredth of a second."""
CHECK_BYTES = 16


class _Changed(Exception):
    """A block has changed since the offsets were made."""


class Offsets(msgspec.Struct, frozen=True):
    """The offsets and checks of the blocks of one artifact."""

    sha256: str
    characters: tuple[int, ...]
    """Characters before each block, and in all."""
    breaks: tuple[int, ...]
    """Line breaks before each block, and in all."""
    is_open: bool
    """Whether the last line has no break."""
    carried: bytes
    """For each block, how many bytes of the block before belong to its first character."""
    checks: tuple[bytes, ...]

    @property
    def lines(self) -> int:
        return self.breaks[-1] + self.is_open


def line_range(artifacts: Artifacts, part: Part, offset: int, *, limit: int, most: int) -> TextWindow | None:
    """Return the window of lines, as `line_window` gives it of the whole text; None if that has to be read."""

    def window(offsets: Offsets, texts: Callable[[int, int], Iterator[str]]) -> TextWindow:
        breaks, characters = offsets.breaks, offsets.characters
        first = min(bisect_left(breaks, offset, 1), len(breaks) - 1) - 1
        # Enough is either all the lines, or one character more than may be shown after a start somewhere in the first block.
        end = min(
            bisect_left(breaks, offset + limit, first + 1),
            bisect_right(characters, characters[first + 1] + most, first + 1),
        )
        found = line_window(texts(first, end), offset - breaks[first], limit, most)
        cut_at = None if found.cut_at is None else found.cut_at + characters[first]
        return TextWindow(found.text, found.count, offsets.lines, cut_at)

    return _ranged(artifacts, part, window)


def character_range(artifacts: Artifacts, part: Part, offset: int, *, limit: int) -> TextWindow | None:
    """Return the window of characters, as `character_window` gives it of the whole text; None if that has to be read."""

    def window(offsets: Offsets, texts: Callable[[int, int], Iterator[str]]) -> TextWindow:
        characters = offsets.characters
        first = min(bisect_right(characters, offset), len(characters) - 1) - 1
        end = bisect_left(characters, offset + limit, first + 1)
        found = character_window(texts(first, end), offset - characters[first], limit)
        return TextWindow(found.text, found.count, characters[-1])

    return _ranged(artifacts, part, window)


def artifact_texts(artifacts: Artifacts, item: Stored, chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield the text of an artifact that is being read whole; its offsets are kept once its hash is proven."""
    if item.size_bytes < LEAST_BYTES or _known(artifacts, item):
        yield from decoded(chunks)
        return
    characters, breaks, carried, checks = [0], [0], bytearray(), list[bytes]()
    last = ""
    for block in blocks_of(chunks):
        characters.append(characters[-1] + len(block.text))
        breaks.append(breaks[-1] + block.text.count("\n"))
        carried.append(block.carried)
        checks.append(_check(block.data))
        last = block.text[-1:] or last
        yield block.text
    made = Offsets(item.sha256, tuple(characters), tuple(breaks), last != "\n", bytes(carried), tuple(checks))
    data = msgspec.msgpack.encode(made)
    artifacts.write_sidecar(item.sha256, _check(data) + data)


def _ranged(
    artifacts: Artifacts, part: Part, window: Callable[[Offsets, Callable[[int, int], Iterator[str]]], TextWindow]
) -> TextWindow | None:
    item = _sole(part)
    if item is None or item.size_bytes < LEAST_BYTES:
        return None
    try:
        offsets = _known(artifacts, item)
        return offsets and window(offsets, lambda first, end: _texts(artifacts, offsets, first, end))
    except (_Changed, StoreError, BadInput):
        return None  # reading the whole artifact raises the right error


def _sole(part: Part) -> Stored | None:
    """Return the artifact, if it is the whole content of the part."""
    content = part.content if isinstance(part, ToolResult) else (part,)
    return content[0] if len(content) == 1 and isinstance(content[0], Stored) else None


def _texts(artifacts: Artifacts, offsets: Offsets, first: int, end: int) -> Iterator[str]:
    count = len(offsets.checks)
    for number in range(first, min(end, count)):
        carried = offsets.carried[number]
        data = artifacts.span(offsets.sha256, number * BLOCK_BYTES - carried, BLOCK_BYTES + carried)
        if _check(data) != offsets.checks[number]:
            raise _Changed
        yield whole_text(data, is_last=number == count - 1)


def _known(artifacts: Artifacts, item: Stored) -> Offsets | None:
    kept = artifacts.sidecar(item.sha256)
    if kept is None or _check(kept[CHECK_BYTES:]) != kept[:CHECK_BYTES]:
        return None
    try:
        offsets = msgspec.msgpack.decode(kept[CHECK_BYTES:], type=Offsets)
    except msgspec.MsgspecError:
        return None  # of another version
    blocks = -(-item.size_bytes // BLOCK_BYTES)
    is_whole = len(offsets.checks) == len(offsets.carried) == blocks and len(offsets.breaks) == blocks + 1
    return offsets if is_whole and offsets.sha256 == item.sha256 else None


def _check(data: bytes) -> bytes:
    return sha256(data).digest()[:CHECK_BYTES]
