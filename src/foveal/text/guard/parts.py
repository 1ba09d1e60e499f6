"""Parts with all texts neutralised that somebody other than the host wrote."""

import codecs
from collections.abc import Callable, Iterator
from typing import Any, assert_never, cast

import msgspec

from foveal.text.guard.neutral_text import Forms, neutralise, neutralise_joined, neutralise_live
from foveal.text.guard.patterns import forms
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

_TEXT_TYPES = ("json", "xml", "yaml", "toml", "javascript", "x-sh", "x-ndjson", "sql", "csv")
"""Types of files beside `text/…` that providers read as text; also as the suffix of a type (`image/svg+xml`)."""

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def neutralise_part(part: Part, find: Forms = forms) -> Part:
    """Return the part with all its texts neutralised; the very same object if none of them had to be.

    Parts that providers accept only unchanged stay as they are. Thinking and signed text carry signatures over their words.
    An opaque part is the provider's own structure, sent as JSON and never as text of a prompt: quotations in it are inside
    fields that the provider itself has framed.
    """
    match part:
        case Text(text, signature):
            return part if signature or (safe := neutralise(text, find)) is text else Text(safe)
        case ToolCall(call_id, name, arguments, signature):
            # A mark inside a JSON string is one more character of it, and forms occur nowhere else in JSON.
            safe_name, safe = neutralise(name, find), neutralise(arguments, find)
            is_same = safe_name is name and safe is arguments
            return part if is_same else ToolCall(call_id, safe_name, safe, signature)
        case ToolResult(_, content, _, _, summary):
            shown, told = _contents(content, find), neutralise(summary, find)
            is_same = shown is content and told is summary
            return part if is_same else msgspec.structs.replace(part, content=shown, summary=told)
        case Image() | File() | Stored():
            return _contents((part,), find)[0]
        case Thinking() | RedactedThinking() | Opaque():
            return part
        case _:
            assert_never(part)


def neutralise_message_parts(
    parts: tuple[Part, ...], find: Forms, find_in_text: Forms, keeps_signature: Callable[[Part], bool]
) -> tuple[Part, ...]:
    """Return the parts of one message neutralised, its texts together: a format may send them as one.

    Forms of texts are found by `find_in_text`, those of all other parts by `find`.
    """
    texts = tuple(part.text for part in parts if isinstance(part, Text))
    safe = iter(neutralise_joined(texts, find_in_text))
    made: list[Part] = []
    for part in parts:
        if not isinstance(part, Text):
            made.append(neutralise_part(part, find))
            continue
        text = next(safe)
        is_kept = text is part.text or (part.signature and keeps_signature(part))
        made.append(part if is_kept else Text(text))
    return tuple(made)


def neutralise_definition(definition: Any, find: Forms = forms, *, describes: bool = False) -> Any:
    """Return a tool's definition, as plain JSON, with the texts neutralised that describe it.

    Names, types, patterns and listed values stay: a call must repeat them to the letter.
    """
    match definition:
        case str():
            return neutralise(definition, find) if describes else definition
        case list():
            items = cast("list[Any]", definition)
            return [neutralise_definition(item, find, describes=describes) for item in items]
        case dict():
            fields = cast("dict[str, Any]", definition).items()
            return {
                key: neutralise_definition(value, find, describes=describes or key in _DESCRIBING)
                for key, value in fields
            }
        case _:
            return definition


_DESCRIBING = frozenset(("description", "title", "$comment", "server_description", "examples", "example", "default"))


_TEXTS: dict[type, tuple[str, ...]] = {
    Text: ("text",),
    Image: ("media_type",),
    File: ("name", "media_type"),
}


def _contents(content: tuple[Content, ...], find: Forms) -> tuple[Content, ...]:
    """Return the contents neutralised together. A result may be sent as one text, in which two harmless parts can join to a
    form."""
    texts = tuple(text for item in content for text in _texts_of(item))
    safe = neutralise_joined(texts, find)
    if safe is texts and not any(isinstance(item, Stored) and item.shown for item in content):
        return content
    words = iter(safe)
    made = tuple(_with_texts(item, words, find) for item in content)
    return content if all(new is old for new, old in zip(made, content, strict=True)) else made


def _texts_of(item: Content) -> Iterator[str]:
    """Yield the texts of a content that a model may read, in the order in which `_with_texts` takes them back."""
    if isinstance(item, Stored):
        yield from (item.head, *(line.text for line in item.between), item.tail)
        return
    yield from (getattr(item, name) for name in _TEXTS[type(item)])
    if isinstance(item, File) and (encoding := _encoding(item)):
        yield (item.data or b"").decode(encoding, "replace")


def _with_texts(item: Content, words: Iterator[str], find: Forms) -> Content:
    if isinstance(item, Stored):
        head, *between = (next(words) for _ in range(1 + len(item.between)))
        lines = tuple(
            line if line.text is text else msgspec.structs.replace(line, text=text)
            for line, text in zip(item.between, between, strict=True)
        )
        # `shown` was put together from neutralised text; the engine's own lines in it are no forms.
        changes: dict[str, Any] = {
            "head": head,
            "between": lines,
            "tail": next(words),
            "shown": neutralise_live(item.shown, find),
        }
    else:
        changes = {name: next(words) for name in _TEXTS[type(item)]}
        if isinstance(item, File) and (encoding := _encoding(item)):
            text = next(words)
            if text != (item.data or b"").decode(encoding, "replace"):
                changes["data"] = text.encode(encoding, "surrogatepass")
    is_same = all(getattr(item, name) == value for name, value in changes.items())
    return item if is_same else msgspec.structs.replace(item, **changes)


def _encoding(file: File) -> str:
    """Return the encoding of a file that providers read as text; empty for other files."""
    kind = file.media_type.partition(";")[0].strip().lower()
    is_text = kind.startswith("text/") or kind.rpartition("/")[2].rpartition("+")[2] in _TEXT_TYPES
    if not file.data or not is_text:
        return ""
    return next((encoding for bom, encoding in _BOMS if file.data.startswith(bom)), "utf-8")
