"""Server-sent events: the bytes of a stream as events, and events as bytes.

The codec keeps the bytes of every event, so that an event that is handed on unchanged is the same to the byte: comments, ids,
unknown fields, the kind of line ends and a byte order mark included. Bytes come in any pieces, as the network cuts them.
"""

import re
from typing import NamedTuple

_LINE_END = re.compile(rb"\r\n|\r|\n")
# Atomic, or a single CRLF could be taken for two line ends.
_BLANK_LINE = re.compile(rb"(?>\r\n|\r|\n)(?>\r\n|\r|\n)")
_LONGEST_END = len(b"\r\n\r\n")
_BOM = b"\xef\xbb\xbf"

KEEP_ALIVE = b"\n\n"
"""Bytes that say nothing, for a client that waits. Not a comment: Google's SDK takes a comment for a reply that is no JSON."""


class SseEvent(NamedTuple):
    """One event of a stream, with the bytes that it came in."""

    raw: bytes
    """The event on the wire, the blank line that ends it included."""
    name: str = ""
    """Field `event`; empty where there is none."""
    data: bytes | None = None
    """Field `data`, lines joined; None for comments and other blocks that no client is told of."""

    @property
    def is_whole(self) -> bool:
        """Whether the blank line has come. Only the last event of a stream that broke off may be without."""
        return self.raw.endswith((b"\n\n", b"\r\r", b"\n\r\n"))

    def with_data(self, data: bytes) -> "SseEvent":
        """Return the event with other data in one line; its other lines are kept as they are."""
        lines: list[bytes] = []
        has_data = False
        for line in _lines(self.raw):
            is_data = _field(line)[0] == b"data"
            if not is_data:
                lines.append(line)
            elif not has_data:
                has_data = True
                end = _LINE_END.search(line)
                lines.append(b"data: " + data + (end[0] if end else b""))
        return SseEvent(b"".join(lines), self.name, data)


def sse_event(data: bytes, name: str = "") -> SseEvent:
    """Return a new event with these data, which must be one line."""
    head = f"event: {name}\n".encode() if name else b""
    return SseEvent(b"%bdata: %b\n\n" % (head, data), name, data)


class SseDecoder:
    """Cuts the bytes of one stream into events."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0
        self._has_cr = False

    def feed(self, piece: bytes) -> list[SseEvent]:
        """Take the next bytes and return the events that they complete."""
        self._buffer += piece
        self._has_cr = self._has_cr or b"\r" in piece
        events: list[SseEvent] = []
        while end := self._next_end():
            events.append(_event(bytes(self._buffer[:end])))
            del self._buffer[:end]
            self._searched = 0
        self._searched = max(0, len(self._buffer) - _LONGEST_END)
        return events

    def _next_end(self) -> int:
        """Return the end of the next event; 0 if it has not come."""
        if not self._has_cr:  # nearly all streams, and much faster
            found = self._buffer.find(b"\n\n", self._searched)
            return found + 2 if found >= 0 else 0
        blank = _BLANK_LINE.search(self._buffer, self._searched)
        if blank is None or (blank.end() == len(self._buffer) and self._buffer.endswith(b"\r")):
            return 0  # the second half of a CRLF may follow
        return blank.end()

    def end(self) -> list[SseEvent]:
        """Return the rest of a stream that ended without a blank line."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        self._searched = 0
        return [_event(rest)] if rest else []


def _event(raw: bytes) -> SseEvent:
    name = ""
    data: bytes | None = None
    for line in _LINE_END.split(raw) if b"\r" in raw else raw.split(b"\n"):
        field, value = _field(line)
        if field == b"data":
            data = value if data is None else b"%b\n%b" % (data, value)
        elif field == b"event":
            name = value.decode("utf-8", "replace")
    return SseEvent(raw, name, data)


def _lines(raw: bytes) -> list[bytes]:
    """Return the lines with their ends. Not `splitlines`, which knows more line ends than the format."""
    ends = [match.end() for match in _LINE_END.finditer(raw)]
    if not ends or ends[-1] != len(raw):
        ends.append(len(raw))
    return [raw[start:end] for start, end in zip([0, *ends], ends, strict=False)]


def _field(line: bytes) -> tuple[bytes, bytes]:
    """Return name and value of a line; an empty name for comments and blank lines. The order mark opens a stream at most."""
    name, _, value = line.rstrip(b"\r\n").removeprefix(_BOM).partition(b":")
    return name, value.removeprefix(b" ")
