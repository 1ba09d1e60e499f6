"""The size of parts in a prompt. One measure for all dialects, so that a fold does not depend on the wire format.

A call is measured as OpenAI's chat format writes it, JSON escapes and ids included: no provider's own framing was found to be
larger. A result is its content, its id and its framing. Texts are measured as they are sent (`codec.sendable`).

The sum is an upper bound for each format: framing that a dialect adds around a part is counted with the part.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TypeAlias, assert_never

import msgspec

from foveal.text.tool_names import sent_name
from foveal.values.codec import sendable
from foveal.values.entry import (
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
from foveal.values.shown import JOINT, MESSAGE_TOKENS, NOTHING, Size, total

Count: TypeAlias = Callable[[str], int]

_BLOB_CHARS_PER_TOKEN = 3
"""Encrypted and base64 text: measured 1.9 to 3.1 characters an o200k token, and providers do not bill more."""

_BLOB = re.compile(r"[A-Za-z0-9+/=_-]{64,}")
"""No word and no address is that long without a break."""

_SIGNED = Size(12, 64)
"""Framing of a call's signature, which the chat format nests three keys deep."""

_ASIDE = Size(16, 64)
"""Labels and a message of its own for an image or file, in formats whose results cannot hold one."""

_ENDED = Size(8, 32)
"""The line that says that a call did not succeed, in formats that have no field for it."""

_SHORT_CHARS = 4_000
_REMEMBERED = 1_024
"""A stand-in is counted when it is proposed, when it is tried and when it is recorded. A batch of folds has fewer than this."""


class Measure:
    """Sizes of parts under one counter. `image_tokens` is the provider's formula."""

    def __init__(self, count: Count, image_tokens: Callable[[Image], int]) -> None:
        remembered = lru_cache(_REMEMBERED)(count)
        self.count: Count = lambda text: remembered(text) if len(text) <= _SHORT_CHARS else count(text)
        self._image_tokens = image_tokens

    def text(self, text: str) -> Size:
        """Return the size of a text as it is sent."""
        safe = sendable(text)
        return Size(self.count(safe), len(msgspec.json.encode(safe)))

    def message(self, message: Message) -> int:
        """Return the tokens of a message in full."""
        return MESSAGE_TOKENS * (message.role != "tool") + sum(self.part(part).tokens for part in message.parts)

    def part(self, part: Part) -> Size:
        """Return the size of a part in full."""
        match part:
            case Text(text):
                return self.text(text)
            case Thinking(text, signature):
                return self.text(text) + _blob(signature or "")
            case RedactedThinking(data):
                return _blob(data)
            case ToolCall(_, name):
                # The name once more, because one provider wants it with the result as well, and a comma.
                again = Size(self.count(sent_name(name)) + 1, len(name))
                signature = _SIGNED + _blob(part.signature) if part.signature else Size()
                return self.text(call_json(part, part.id)) + again + signature
            case ToolResult(call, content, status):
                frame = Size(MESSAGE_TOKENS, 48) + self.text(call) + (NOTHING if status == "ok" else _ENDED)
                return total((frame, *[JOINT] * (len(content) - 1), *(self.part(item) for item in content)))
            case Image(_, data, url):
                encoded = len(data or b"") * 4 // 3
                return Size(self._image_tokens(part), encoded + len(url or "") + 64, 1) + _ASIDE
            case File(_, name):
                return self._file(part) + self.text(name) + _ASIDE
            case Opaque(_, json):
                blobs = "".join(_BLOB.findall(json))
                return _blob(blobs) + self.text(_BLOB.sub(" ", json))
            case Stored(_, size_bytes):
                # Only stand-ins of an artifact are ever shown; this is the raw size that a report compares with.
                return Size(size_bytes // _BLOB_CHARS_PER_TOKEN, size_bytes)
        assert_never(part)

    def _file(self, file: File) -> Size:
        data = file.data or b""
        encoded = Size(len(data) * 4 // 3 // _BLOB_CHARS_PER_TOKEN, len(data) * 4 // 3 + len(file.url or "") + 64)
        if not file.media_type.startswith("text/"):
            return encoded
        plain = self.text(data.decode("utf-8", "replace"))
        return Size(max(plain.tokens, encoded.tokens), max(plain.bytes, encoded.bytes))


def call_json(call: ToolCall, wire_id: str) -> str:
    """Return the call in OpenAI's chat format."""
    name, arguments = sent_name(call.name), sendable(call.arguments)
    wire = {"id": sendable(wire_id), "type": "function", "function": {"name": name, "arguments": arguments}}
    return msgspec.json.encode(wire).decode()


def _blob(text: str) -> Size:
    return Size(len(text) // _BLOB_CHARS_PER_TOKEN, len(text.encode("utf-8", "replace")))
