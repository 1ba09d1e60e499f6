"""The way back: what is not shown, and what is too large for the log, read again from where it is kept."""

from collections.abc import Iterable, Iterator

import msgspec

from foveal import log
from foveal.core.entry import (
    Content,
    File,
    Image,
    Message,
    Opaque,
    Part,
    RedactedThinking,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from foveal.core.errors import NotFound
from foveal.levels.reference import as_text
from foveal.stores.port import Row, Store

ARTIFACT_BYTES = 256 * 1024
"""Results above this live beside the log: no prompt shows so much of one result, and the log stays quick to read."""

_CHUNK = 1 << 20


def offload(store: Store, message: Message) -> Message:
    """The message with its large result texts replaced by artifacts."""
    if message.role != "tool" or not any(_is_large(c) for part in message.parts for c in _content(part)):
        return message
    parts = tuple(
        msgspec.structs.replace(part, content=tuple(_offloaded(store, c) for c in part.content))
        if isinstance(part, ToolResult)
        else part
        for part in message.parts
    )
    return msgspec.structs.replace(message, parts=parts)


def keep_stream(store: Store, chunks: Iterable[bytes]) -> Stored:
    """A result of any length, kept as an artifact while holding one chunk at a time."""
    card = store.artifacts.put(chunks)
    return Stored(card.sha256, card.size_bytes, card.lines, card.head, card.tail)


def read(store: Store, session: str, ref: str) -> str:
    """The original behind a reference: one part of an entry, or a range of entries as a transcript."""
    for first, last in _range_ends(ref):
        ends = _find(store, session, first), _find(store, session, last)
        if ends[0] and ends[1]:
            rows = store.rows(session, after=ends[0].seq - 1, upto=ends[1].seq)
            return "\n\n".join(_transcript(store, session, _chain(rows)))
    for entry_ref, index in _part_places(ref):
        row = _find(store, session, entry_ref)
        body = log.to_entry(row, session).body if row else None
        if isinstance(body, Message) and index < len(body.parts):
            return _text(store, body.parts[index])
    raise NotFound(f"session {session!r} has nothing under the reference {ref!r}")


def _range_ends(ref: str) -> Iterator[tuple[str, str]]:
    """The pairs of ids that `first..last` may mean; an id of a caller's own making may hold dots itself."""
    at = ref.find("..")
    while at >= 0:
        yield ref[:at], ref[at + 2 :]
        at = ref.find("..", at + 1)


def _part_places(ref: str) -> Iterator[tuple[str, int]]:
    """The entry and part that `entry.part` may mean; the first part, if none is named."""
    entry_ref, dot, part = ref.rpartition(".")
    if dot and part.isascii() and part.isdecimal() and len(part) < 9:
        yield entry_ref, int(part)
    yield ref, 0


def _chain(rows: Iterable[Row]) -> list[Row]:
    """Of these rows, the last one with its ancestors: what lies between may belong to a branch that was left."""
    chain: list[Row] = []
    for row in reversed(list(rows)):
        if not chain or chain[-1].parent == row.id:
            chain.append(row)
    return chain[::-1]


def _transcript(store: Store, session: str, rows: Iterable[Row]) -> Iterator[str]:
    for row in rows:
        body = log.to_entry(row, session).body
        if isinstance(body, Message):
            yield f"[{body.role} {row.id[:10]}]\n" + "\n".join(_text(store, part) for part in body.parts)


def _text(store: Store, part: Part) -> str:
    match part:
        case Text(text) | Thinking(text):
            return text
        case ToolCall(_, name, arguments):
            return f"{name}({arguments})"
        case ToolResult(_, content):
            return "\n".join(_whole(store, item) for item in content)
        case Stored() | Image() | File():
            return _whole(store, part)
        case Opaque(_, json):
            return json
        case RedactedThinking(data):
            return data


def _whole(store: Store, item: Content) -> str:
    if isinstance(item, Stored):
        data = b"".join(store.artifacts.read(item.sha256))
        try:
            return data.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # a stream of bytes that never was text
            return data.decode("utf-8", "replace")
    return as_text((item,))


def _find(store: Store, session: str, prefix: str) -> Row | None:
    found = store.find(session, prefix) if prefix else []
    return found[0] if len(found) == 1 else None


def _content(part: Part) -> tuple[Content, ...]:
    return part.content if isinstance(part, ToolResult) else ()


def _is_large(item: Content) -> bool:
    # A character takes at least one byte, so most texts need no encoding to be told small.
    return isinstance(item, Text) and len(item.text) > ARTIFACT_BYTES // 4 and _size(item.text) > ARTIFACT_BYTES


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _offloaded(store: Store, item: Content) -> Content:
    if not isinstance(item, Text) or not _is_large(item):
        return item
    data = item.text.encode("utf-8", "surrogatepass")
    return keep_stream(store, (data[i : i + _CHUNK] for i in range(0, len(data), _CHUNK)))
