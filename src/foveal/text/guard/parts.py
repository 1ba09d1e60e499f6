"""Parts with all texts neutralised that somebody other than the host wrote."""

from typing import assert_never

import msgspec

from foveal.text.guard.neutral_text import neutralise, neutralise_joined
from foveal.values.entry import (
    Content,
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


def neutralise_part(part: Part) -> Part:
    """Return the part with all its texts neutralised; the very same object if none of them had to be.

    Parts that providers accept only unchanged stay as they are. Thinking and signed text carry signatures over their words.
    An opaque part is the provider's own structure, sent as JSON and never as text of a prompt: quotations in it are inside
    fields that the provider itself has framed.
    """
    match part:
        case Text(text, signature):
            return part if signature or (safe := neutralise(text)) is text else Text(safe)
        case ToolCall(call_id, name, arguments, signature):
            # A mark inside a JSON string is one more character of it, and forms occur nowhere else in JSON.
            safe_name, safe = neutralise(name), neutralise(arguments)
            is_same = safe_name is name and safe is arguments
            return part if is_same else ToolCall(call_id, safe_name, safe, signature)
        case ToolResult(_, content, _, _, summary):
            shown, told = _contents(content), neutralise(summary)
            is_same = shown is content and told is summary
            return part if is_same else msgspec.structs.replace(part, content=shown, summary=told)
        case Image() | File() | Stored():
            return _contents((part,))[0]
        case Thinking() | RedactedThinking() | Opaque():
            return part
        case _:
            assert_never(part)


_TEXTS: dict[type, tuple[str, ...]] = {
    Text: ("text",),
    Image: ("media_type",),
    File: ("name", "media_type"),
    Stored: ("head", "tail", "shown"),
}


def _contents(content: tuple[Content, ...]) -> tuple[Content, ...]:
    """Return the contents neutralised together. A result may be sent as one text, in which two harmless parts can join to a
    form."""
    texts = tuple(getattr(item, name) for item in content for name in _TEXTS[type(item)])
    if (safe := neutralise_joined(texts)) is texts:
        return content
    words = iter(safe)
    return tuple(
        msgspec.structs.replace(item, **{name: next(words) for name in _TEXTS[type(item)]}) for item in content
    )
