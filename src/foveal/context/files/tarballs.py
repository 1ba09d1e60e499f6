"""The headers of a tar archive, one after another. Their contents are skipped and never kept."""

from collections.abc import Iterator
from typing import NamedTuple

_BLOCK = 512
_MOST_EXTRA = 1 << 16
"""Size limit of the records before a member: a path has 4 096 bytes, and nothing else in them matters here."""
_MOST_SIZE = 1 << 62


class Member(NamedTuple):
    """A file in an archive."""

    name: str
    size_bytes: int
    """The unpacked size that the archive declares."""


class _Chunks:
    """A stream of chunks, read by numbers of bytes."""

    def __init__(self, chunks: Iterator[bytes], most: int | None) -> None:
        self._chunks, self._left, self._held = chunks, most, b""
        self.is_over = False
        """Whether there was more than may be read."""

    def read(self, size: int) -> bytes:
        while len(self._held) < size and (chunk := self._next()):
            self._held += chunk
        given, self._held = self._held[:size], self._held[size:]
        return given

    def skip(self, size: int) -> None:
        while size > len(self._held):
            size -= len(self._held)
            self._held = self._next()
            if not self._held:
                return
        self._held = self._held[size:]

    def _next(self) -> bytes:
        if self._left is not None and self._left <= 0:
            self.is_over = True
            return b""
        chunk = next((chunk for chunk in self._chunks if chunk), b"")
        if self._left is not None:
            self._left -= len(chunk)
        return chunk


def tar_members(chunks: Iterator[bytes], most: int | None) -> Iterator[Member | str]:
    """Yield names and sizes; at the end, if there is more or something is wrong, a text with the reason.

    ValueError if the first block is no header: then this is no tar archive.
    """
    source, name, is_first = _Chunks(chunks, most), "", True
    while len(block := source.read(_BLOCK)) == _BLOCK and block.strip(b"\0"):
        if not _is_header(block):
            if is_first:
                raise ValueError("not a tar archive")
            yield "the archive is damaged after the last member listed"
            return
        size, kind, is_first = _number(block[124:136]), block[156:157], False
        if kind in (b"L", b"x", b"g", b"K"):
            name = _long_name(kind, source.read(min(size, _MOST_EXTRA))) or name
            source.skip(max(0, size - _MOST_EXTRA) + -size % _BLOCK)
            continue
        size = size if kind in (b"0", b"\0", b"7") else 0
        yield Member(name or _short_name(block), size)
        name = ""
        source.skip(size + -size % _BLOCK)
    if is_first:
        raise ValueError("not a tar archive")
    if source.is_over:
        yield f"the archive was read as far as {most:,} bytes of its content"


def _is_header(block: bytes) -> bool:
    """Return whether the checksum of a block is right: the sum of all bytes, with its own field taken for spaces."""
    try:
        said = int(block[148:156].strip(b" \0") or b"0", 8)
    except ValueError:
        return False
    return said == sum(block[:148]) + 8 * 0x20 + sum(block[156:]) and 0 <= _number(block[124:136]) < _MOST_SIZE


def _number(field: bytes) -> int:
    if field[0] & 0x80:  # too large for octal digits
        return int.from_bytes(field[1:], "big") if field[0] == 0x80 else -1
    try:
        return int(field.strip(b" \0") or b"0", 8)
    except ValueError:
        return -1


def _short_name(block: bytes) -> str:
    prefix = block[345:500].split(b"\0", 1)[0] if block[257:262] == b"ustar" else b""
    name = block[:100].split(b"\0", 1)[0]
    return (prefix + b"/" + name if prefix else name).decode("utf-8", "replace")


def _long_name(kind: bytes, data: bytes) -> str:
    """Return the name of the next member, if this record holds one."""
    if kind == b"L":
        return data.split(b"\0", 1)[0].decode("utf-8", "replace")
    if kind == b"x":
        for record in data.split(b"\n"):
            if b" path=" in record[:16]:
                return record.split(b" path=", 1)[1].decode("utf-8", "replace")
    return ""
