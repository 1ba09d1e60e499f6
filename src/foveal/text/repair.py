"""Making what was recorded acceptable to any provider, in the view only.

`normal` mends one part on arrival. `settle` turns an atom into messages in which every call has exactly one result, in the
order of the calls, directly after them. What only one provider objects to is that dialect's affair.
"""

import re
from base64 import b64decode
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from foveal.values.codec import sendable
from foveal.values.entry import Content, File, Image, Message, Part, Stored, Text, ToolCall, ToolResult
from foveal.values.shown import SYNTHETIC_RESULT, Atom, Item

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_NOT_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,(.+)\Z", re.DOTALL)
_DEEPEST = 64
"""Levels of JSON: far more than tools use, and fewer than any parser refuses (protobuf 100, Python's own about 1 000)."""

NO_OUTPUT = "(no output)"
P = TypeVar("P", bound=Part)


def repair_part(part: Part) -> tuple[Part, str]:
    """The part as every provider takes it, and what was wrong with it (empty if nothing was)."""
    match part:
        case ToolCall():
            return _normal_call(part)
        case ToolResult(_, content) if not any(_speaks(item) for item in content):
            return msgspec.structs.replace(part, content=(Text(NO_OUTPUT),)), "the result was empty"
        case ToolResult(_, content):
            kept = tuple(_unpacked(item) for item in content if _speaks(item))
            return msgspec.structs.replace(part, content=kept), ""
        case Image() | File():
            return _unpacked(part), ""
        case _:
            return part, ""


def quotable_part(part: Part) -> Part:
    """The part mended, with texts that can be written anywhere: for whoever quotes it."""
    mended, _ = repair_part(part)
    if isinstance(mended, ToolResult):
        return msgspec.structs.replace(mended, content=tuple(_safe(item) for item in mended.content))
    return _safe(mended)


def settle(atom: Atom) -> tuple[Message, ...]:
    """The messages that show this atom; none, if nothing of it is shown."""
    if atom.kind == "hidden":
        return ()
    if atom.gap:
        return (Message("user", (_safe(Text(atom.gap.text)),)),) if atom.gap.text.strip() else ()
    if atom.kind == "tools":
        return _settle_tools(atom)
    (item,) = atom.items
    parts = _late_note(item) if item.role == "tool" else _visible(item)
    role = "user" if item.role == "tool" else item.role
    return (Message(role, parts, item.model),) if parts else ()


def _settle_tools(atom: Atom) -> tuple[Message, Message]:
    wire_ids = iter(atom.wire_ids)
    said: list[Part] = []
    for item in atom.items:
        if item.role == "assistant":
            for part in _visible(item):
                said.append(msgspec.structs.replace(part, id=next(wire_ids)) if isinstance(part, ToolCall) else part)
    return Message("assistant", tuple(said), atom.items[0].model), Message("tool", tuple(_answers(atom)))


def _answers(atom: Atom) -> Iterator[ToolResult]:
    for wire_id, answer in zip(atom.wire_ids, atom.answers, strict=True):
        part = atom.items[answer.item].shown[answer.part].part if answer else None
        if isinstance(part, ToolResult):
            yield msgspec.structs.replace(part, call=wire_id, content=tuple(_safe(item) for item in part.content))
        else:
            yield ToolResult(wire_id, (Text(SYNTHETIC_RESULT),), "interrupted")


def _visible(item: Item) -> tuple[Part, ...]:
    return tuple(_safe(shown.part) for shown in item.shown if shown.part is not None)


def _late_note(item: Item) -> tuple[Part, ...]:
    """Results that belong to no open call, as something that the user says."""
    parts: list[Part] = []
    for shown in item.shown:
        if isinstance(shown.part, ToolResult):
            parts.append(Text(f"[late result for call {_NOT_IN_NAME.sub('_', shown.part.call)[:64]}]"))
            parts.extend(_safe(content) for content in shown.part.content)
    return tuple(parts)


_TEXTS_OF: dict[type, tuple[str, ...]] = {
    Text: ("text",),
    ToolCall: ("arguments",),
    Image: ("media_type", "url"),
    File: ("media_type", "name", "url"),
    Stored: ("head", "tail", "shown"),
}


def _safe(part: P) -> P:
    """The part with its texts made sendable. Signed thinking is not touched: dialects send it whole or not at all."""
    given = {name: getattr(part, name) for name in _TEXTS_OF.get(type(part), ())}
    changes: dict[str, Any] = {
        name: safe for name, text in given.items() if text is not None and (safe := sendable(text)) is not text
    }
    return msgspec.structs.replace(part, **changes) if changes else part


def sendable_part(part: Part) -> Part:
    """The part with the texts that are sent of it: what has to be read in them can be read only now."""
    if not isinstance(part, ToolResult):
        return _safe(part)
    content = tuple(_safe(item) for item in part.content)
    is_same = all(a is b for a, b in zip(content, part.content, strict=True))
    return part if is_same else msgspec.structs.replace(part, content=content)


def _unpacked(item: P) -> P:
    """An image or a file whose address is its bytes, by its bytes: two of the four formats want them so."""
    if not isinstance(item, Image | File) or item.data or not (found := _DATA_URL.match(item.url or "")):
        return item
    media_type, encoded = found.groups()
    try:
        data = b64decode(encoded, validate=True)
    except ValueError:
        return item  # no bytes after all; the dialect says so
    return msgspec.structs.replace(item, media_type=media_type.lower(), data=data, url=None)


def _normal_call(call: ToolCall) -> tuple[ToolCall, str]:
    wrong: list[str] = []
    name, arguments = call.name, call.arguments
    if not _TOOL_NAME.match(name):
        name = _NOT_IN_NAME.sub("_", name)[:64] or "unknown_tool"
        wrong.append("the tool's name has characters that providers refuse")
    if json_object(arguments) is None:
        arguments = _wrapped(arguments)
        wrong.append("the arguments were not a JSON object" if call.arguments.strip() else "the arguments were empty")
    return (ToolCall(call.id, name, arguments, call.signature), "; ".join(wrong)) if wrong else (call, "")


def _wrapped(arguments: str) -> str:
    """What the model wrote instead of JSON, in JSON."""
    return msgspec.json.encode({"invalid_json": sendable(arguments)}).decode() if arguments.strip() else "{}"


def json_object(text: str) -> dict[str, Any] | None:
    """The JSON object that this text spells; None if it spells none, or one that parsers may refuse."""
    # The depth is looked at first: how deep the decoder can go depends on who calls it.
    if _is_deep(text):
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError):
        return None


def _is_deep(text: str) -> bool:
    if text.count("{") + text.count("[") <= _DEEPEST:
        return False
    depth = 0
    for mark in _QUOTED.sub("", text):
        depth += (mark in "{[") - (mark in "}]")
        if depth > _DEEPEST:
            return True
    return False


def _speaks(content: Content) -> bool:
    return not isinstance(content, Text) or bool(content.text.strip())
