"""How large a part is in a prompt. One measure for all dialects, so that a plan does not depend on the wire format.

A call is measured as OpenAI's chat format writes it, JSON escapes and ids included: no provider's own framing was found to be
larger. A result is its content, its id and its framing. Texts are measured as they are sent (`codec.sendable`).
"""

from collections.abc import Callable
from typing import TypeAlias, assert_never

import msgspec

from foveal.core.codec import sendable
from foveal.core.entry import (
    File,
    Image,
    Opaque,
    Part,
    RedactedThinking,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from foveal.core.view import MESSAGE_TOKENS, Size, total

Count: TypeAlias = Callable[[str], int]

_BLOB_CHARS_PER_TOKEN = 3
"""Encrypted and base64 text: measured 1.9 to 3.1 characters an o200k token, and providers do not bill more."""

_SHORT_CHARS = 4_000
_REMEMBERED = 1_024
"""A stand-in is counted when it is proposed, when it is tried and when it is recorded. So many fit a batch of folds."""

DEFAULT_IMAGE_TOKENS = 1_600
"""The most that Anthropic's formula gives for one image; OpenAI's high detail and Gemini's tiles stay below it at 1568 px."""


class Measure:
    """Sizes of parts under one counter. `image_tokens` is the provider's formula."""

    def __init__(self, count: Count, image_tokens: Callable[[Image], int] | None = None) -> None:
        self.count = _remembering(count)
        self._image_tokens = image_tokens or (lambda _image: DEFAULT_IMAGE_TOKENS)

    def text(self, text: str) -> Size:
        safe = sendable(text)
        return Size(self.count(safe), len(msgspec.json.encode(safe)))

    def part(self, part: Part) -> Size:
        match part:
            case Text(text):
                return self.text(text)
            case Thinking(text, signature):
                return self.text(text) + _blob(signature or "")
            case RedactedThinking(data):
                return _blob(data)
            case ToolCall():
                return self.text(call_json(part, part.id)) + _blob(part.signature or "")
            case ToolResult(call, content):
                frame = Size(MESSAGE_TOKENS, 48) + self.text(call)
                return total((frame, *(self.part(item) for item in content)))
            case Image(_, data, url):
                # Twelve more: where a result cannot hold an image, a label and a message of its own go with it.
                return Size(self._image_tokens(part) + 12, len(data or b"") * 4 // 3 + len(url or "") + 64, 1)
            case File(_, name, data, url):
                encoded = len(data or b"") * 4 // 3
                return Size(encoded // _BLOB_CHARS_PER_TOKEN, encoded + len(url or "") + 64) + self.text(name)
            case Opaque(_, json):
                return _blob(json)
            case Stored(_, size_bytes):
                # Only stand-ins of it are ever shown; this is the raw size that a report compares with.
                return Size(size_bytes // _BLOB_CHARS_PER_TOKEN, size_bytes)
        assert_never(part)


def _remembering(count: Count) -> Count:
    """The counter with the counts of the last short texts at hand."""
    known: dict[str, int] = {}

    def remembered(text: str) -> int:
        if len(text) > _SHORT_CHARS:
            return count(text)
        tokens = known.get(text)
        if tokens is None:
            tokens = count(text)
            if len(known) >= _REMEMBERED:
                known.clear()
            known[text] = tokens
        return tokens

    return remembered


def call_json(call: ToolCall, wire_id: str) -> str:
    """The call in OpenAI's chat format."""
    name, arguments = sendable(call.name), sendable(call.arguments)
    wire = {"id": sendable(wire_id), "type": "function", "function": {"name": name, "arguments": arguments}}
    return msgspec.json.encode(wire).decode()


def _blob(text: str) -> Size:
    return Size(len(text) // _BLOB_CHARS_PER_TOKEN, len(text.encode("utf-8", "replace")))
