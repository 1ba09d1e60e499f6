"""What is too large for the log goes to an artifact, and the log keeps its reference."""

from collections.abc import Iterable

import msgspec

from foveal.stores.port import Store
from foveal.values.entry import Content, Message, Part, Stored, Text, ToolResult

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
