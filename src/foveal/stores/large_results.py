"""Large results: they are kept as artifacts, and the log keeps references to them."""

from collections.abc import Iterable

import msgspec

from foveal.stores.port import Store
from foveal.values.entry import Content, Message, Stored, Text, ToolResult

ARTIFACT_BYTES = 256 * 1024
"""Size above which a result is kept beside the log: no prompt shows more of one result, and the log stays quick to read."""

_CHUNK = 1 << 20


def offload(store: Store, message: Message) -> Message:
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
        msgspec.structs.replace(part, content=tuple(_offloaded(store, c) for c in part.content))
        if isinstance(part, ToolResult)
        else part
        for part in message.parts
    )
    return msgspec.structs.replace(message, parts=parts)


def keep_stream(store: Store, chunks: Iterable[bytes]) -> Stored:
    """Keep a result of any length as an artifact, holding one chunk at a time in memory."""
    card = store.artifacts.put(chunks)
    return Stored(card.sha256, card.size_bytes, card.lines, card.head, card.tail)


def _is_large(item: Content) -> bool:
    if not isinstance(item, Text) or type(item.text) is not str:
        return False
    # A character takes one to four bytes, so nearly every text is seen to be small or large without encoding it.
    length = len(item.text)
    if length <= ARTIFACT_BYTES // 4 or length > ARTIFACT_BYTES:
        return length > ARTIFACT_BYTES
    return len(item.text.encode("utf-8", "surrogatepass")) > ARTIFACT_BYTES


def _offloaded(store: Store, item: Content) -> Content:
    if not isinstance(item, Text) or not _is_large(item):
        return item
    data = item.text.encode("utf-8", "surrogatepass")
    return keep_stream(store, (data[i : i + _CHUNK] for i in range(0, len(data), _CHUNK)))
