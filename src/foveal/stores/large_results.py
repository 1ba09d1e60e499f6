"""Large results: they are kept as artifacts, and the log keeps references to them."""

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from foveal.stores.port import Artifacts, Store
from foveal.values.entry import Content, Entry, Message, Stored, StoredLine, Text, ToolResult
from foveal.values.errors import NotFound, StoreCorrupt

ARTIFACT_BYTES = 256 * 1024
"""Size above which a result is kept beside the log, so that the log stays quick to read."""

WHOLE_BYTES = 4 << 20
"""Largest artifact that is read whole for a view: about a million tokens, the largest window of any model."""

_CHUNK = 1 << 20

_STEMS = (b"rror", b"RROR", b"ail", b"AIL", b"xception", b"anic", b"atal", b"enied", b"refused")
"""Pieces of words that tell of trouble, with a capital at the beginning or without. A plain search for each takes 0.6 s a
gigabyte, as hashing it does; one pattern for all takes half a minute."""
_FIRST_LINES, _LAST_LINES, _LINE_BYTES = 48, 16, 300
_LOOKS = 64
"""Places of a chunk that are looked at: a chunk in which every line tells of trouble would take a second otherwise."""
_VARYING = b"0123456789abcdefABCDEF"


def offload(artifacts: Artifacts, message: Message) -> Message:
    """Return the message with its large result texts replaced by artifacts.

    This comes before any check, so that a large text is encoded once. A malformed message is returned unchanged, for the
    check to refuse.
    """
    try:
        contents = (item for part in message.parts if isinstance(part, ToolResult) for item in part.content)
        if message.role != "tool" or not any(map(_is_large, contents)):
            return message
    except (AttributeError, TypeError):
        return message
    parts = tuple(
        msgspec.structs.replace(part, content=tuple(_offloaded(artifacts, c) for c in part.content))
        if isinstance(part, ToolResult)
        else part
        for part in message.parts
    )
    return msgspec.structs.replace(message, parts=parts)


def keep_stream(store: Store, chunks: Iterable[bytes]) -> Stored:
    """Keep a result of any length as an artifact, holding one chunk at a time in memory."""
    return _kept(store.artifacts, chunks)


def _kept(artifacts: Artifacts, chunks: Iterable[bytes]) -> Stored:
    scan = _TroubleScan()
    card = artifacts.put(scan.over(chunks))
    return Stored(card.sha256, card.size_bytes, card.lines, card.head, card.tail, between=scan.lines())


def read_artifacts(artifacts: Artifacts, entry: Entry) -> Entry:
    """Return the entry with the artifacts of its results as texts, as far as they can be shown whole at all.

    One that is missing or damaged stays by its head and tail: recall and `foveal doctor` tell of it.
    """
    message = entry.body
    if not isinstance(message, Message) or message.role != "tool":
        return entry
    contents = [item for part in message.parts if isinstance(part, ToolResult) for item in part.content]
    if not any(_is_readable(item) for item in contents):
        return entry
    parts = tuple(
        msgspec.structs.replace(part, content=tuple(_read(artifacts, item) for item in part.content))
        if isinstance(part, ToolResult)
        else part
        for part in message.parts
    )
    return msgspec.structs.replace(entry, body=msgspec.structs.replace(message, parts=parts))


def _is_readable(item: Content) -> bool:
    return isinstance(item, Stored) and not item.shown and item.size_bytes <= WHOLE_BYTES


def _read(artifacts: Artifacts, item: Content) -> Content:
    if not isinstance(item, Stored) or not _is_readable(item):
        return item
    try:
        data = b"".join(artifacts.read(item.sha256))
    except (NotFound, StoreCorrupt):
        return item
    try:
        return Text(data.decode("utf-8", "surrogatepass"))
    except UnicodeDecodeError:
        return Text(data.decode("utf-8", "replace"))


def _is_large(item: Content) -> bool:
    if not isinstance(item, Text) or type(item.text) is not str:
        return False
    # A character takes one to four bytes, so nearly every text is seen to be small or large without encoding it.
    length = len(item.text)
    if length <= ARTIFACT_BYTES // 4 or length > ARTIFACT_BYTES:
        return length > ARTIFACT_BYTES
    return len(item.text.encode("utf-8", "surrogatepass")) > ARTIFACT_BYTES


def _offloaded(artifacts: Artifacts, item: Content) -> Content:
    if not isinstance(item, Text) or not _is_large(item):
        return item
    data = item.text.encode("utf-8", "surrogatepass")
    return _kept(artifacts, (data[i : i + _CHUNK] for i in range(0, len(data), _CHUNK)))


class _TroubleScan:
    """Collects lines that tell of trouble while the bytes of an artifact pass by: the first of each shape, and the last."""

    def __init__(self) -> None:
        self._line = 0
        self._shapes: set[bytes] = set()
        self._first: list[StoredLine] = []
        self._last: deque[StoredLine] = deque(maxlen=_LAST_LINES)

    def over(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Yield the chunks as they are, each after it was looked at."""
        for chunk in chunks:
            if isinstance(chunk, bytes):  # pyright: ignore[reportUnnecessaryIsInstance] - the store refuses others
                for start in range(0, len(chunk), _CHUNK):
                    self._look(chunk[start : start + _CHUNK] if len(chunk) > _CHUNK else chunk)
            yield chunk

    def lines(self) -> tuple[StoredLine, ...]:
        """Return the lines in their order."""
        found = {line.number: line for line in (*self._first, *self._last)}
        return tuple(found[number] for number in sorted(found))

    def _look(self, chunk: bytes) -> None:
        places = sorted(place for stem in _STEMS for place in _places(chunk, stem))
        number, counted, end = self._line, 0, 0
        for place in places:
            if place < end:
                continue  # on the line before
            start, end = chunk.rfind(b"\n", 0, place) + 1, chunk.find(b"\n", place)
            end = len(chunk) if end < 0 else end
            number += chunk.count(b"\n", counted, start)
            counted = start
            # Of a line that is longer, the text around the word.
            start = max(start, place - _LINE_BYTES // 2)
            self._add(number, chunk[start : min(end, start + _LINE_BYTES)])
        self._line = number + chunk.count(b"\n", counted)

    def _add(self, number: int, data: bytes) -> None:
        line = StoredLine(number, data.decode("utf-8", "replace"))
        shape = data.translate(None, _VARYING)
        if len(self._first) < _FIRST_LINES and shape not in self._shapes:
            self._shapes.add(shape)
            self._first.append(line)
        else:
            self._last.append(line)


def _places(chunk: bytes, stem: bytes) -> Iterator[int]:
    """Yield the first places of a stem, one a line, and its last."""
    place = chunk.find(stem)
    for _ in range(_LOOKS):
        if place < 0:
            return
        yield place
        end = chunk.find(b"\n", place)
        place = chunk.find(stem, end) if end >= 0 else -1
    yield chunk.rfind(stem)
