"""Repairs that make recorded parts acceptable to every provider. They change the view, never the log.

`repair_part` repairs one part on arrival. `settle` turns an atom into messages in which every call has exactly one result,
in the order of the calls, directly after them. Rules of a single provider are its dialect's affair.
"""

import re
from base64 import b64decode
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, TypeVar

import msgspec

from foveal.text.tool_names import is_usable, sent_name
from foveal.values.codec import sendable
from foveal.values.entry import Content, File, Image, Message, Part, Stored, Text, ToolCall, ToolResult
from foveal.values.shown import SYNTHETIC_RESULT, Atom, Item

_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_QUOTED = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
"""A string, also one that does not end: looking for each of its quotes again would take minutes in a reply that was cut off."""
_BRACKET = re.compile(r"[][{}]")
_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,(.+)\Z", re.DOTALL)
_DEEPEST = 64
"""Deepest JSON that is accepted: far deeper than tools use, and less deep than any parser refuses (protobuf 100, Python's
own about 1 000)."""

NO_OUTPUT = "(no output)"
P = TypeVar("P", bound=Part)


def repair_part(part: Part) -> tuple[Part, str]:
    """Return the part in a form that every provider accepts, and the reason for a change (empty if there was none)."""
    match part:
        case ToolCall():
            return _repair_call(part)
        case ToolResult(_, content) if not any(_has_content(item) for item in content):
            return msgspec.structs.replace(part, content=(Text(NO_OUTPUT),)), "the result was empty"
        case ToolResult(_, content):
            kept = tuple(_unpacked(item) for item in content if _has_content(item))
            return msgspec.structs.replace(part, content=kept), ""
        case Image() | File():
            return _unpacked(part), ""
        case _:
            return part, ""


def quotable_part(part: Part) -> Part:
    """Return the part repaired and with texts that can be encoded, for use inside a quotation."""
    return sendable_part(repair_part(part)[0])


def settle(atom: Atom) -> tuple[Message, ...]:
    """Return the messages that show this atom; none if the atom shows nothing."""
    if atom.kind == "hidden":
        return ()
    if atom.gap:
        return (Message("user", (_safe(Text(atom.gap.text)),)),) if atom.gap.text.strip() else ()
    if atom.kind == "tools":
        return _settle_tools(atom)
    item = atom.items[0]  # results after it are hidden: they answer calls of a reply that was cut off
    parts = _late_note(item) if item.role == "tool" else _visible(item)
    role = "user" if item.role == "tool" else item.role
    return (Message(role, parts, item.model),) if parts else ()


def _settle_tools(atom: Atom) -> tuple[Message, Message]:
    wire_ids = iter(atom.wire_ids)
    said: list[Part] = []
    for item in atom.items:
        if item.role == "assistant":
            for part in _visible(item):
                said.append(_called(part, next(wire_ids)) if isinstance(part, ToolCall) else part)
    return Message("assistant", tuple(said), atom.items[0].model), Message("tool", tuple(_answers(atom)))


def _called(call: ToolCall, wire_id: str) -> ToolCall:
    """Return a call under the id and the name that are sent."""
    return msgspec.structs.replace(call, id=wire_id, name=sent_name(call.name))


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
    """Return results that belong to no open call as text of a user message."""
    parts: list[Part] = []
    for shown in item.shown:
        if isinstance(shown.part, ToolResult):
            ended = {"ok": "", "error": ", which failed", "interrupted": ", which was interrupted"}[shown.part.status]
            parts.append(Text(f"[late result for call {_NOT_IN_ID.sub('_', shown.part.call)[:64]}{ended}]"))
            parts.extend(_safe(content) for content in shown.part.content)
    return tuple(parts)


_TEXTS_OF: dict[type, tuple[str, ...]] = {
    Text: ("text",),
    ToolCall: ("name", "arguments"),
    Image: ("media_type", "url"),
    File: ("media_type", "name", "url"),
    Stored: ("head", "tail", "shown"),
}


def _safe(part: P) -> P:
    """Return the part with its texts made sendable. Signed thinking is not changed: dialects send it whole or not at all."""
    given = {name: getattr(part, name) for name in _TEXTS_OF.get(type(part), ())}
    changes: dict[str, Any] = {
        name: safe for name, text in given.items() if text is not None and (safe := sendable(text)) is not text
    }
    return msgspec.structs.replace(part, **changes) if changes else part


def sendable_part(part: Part) -> Part:
    """Return the part as its texts are sent. Text that could not be encoded is readable only in this form, so the guard
    reads this one."""
    if not isinstance(part, ToolResult):
        return _safe(part)
    content = tuple(_safe(item) for item in part.content)
    is_same = all(a is b for a, b in zip(content, part.content, strict=True))
    return part if is_same else msgspec.structs.replace(part, content=content)


def _unpacked(item: P) -> P:
    """Return an image or a file with a data URL by its bytes: two of the four formats want bytes."""
    if not isinstance(item, Image | File) or item.data or not (found := _DATA_URL.match(item.url or "")):
        return item
    media_type, encoded = found.groups()
    try:
        data = b64decode(encoded, validate=True)
    except ValueError:
        return item  # no bytes after all; the dialect reports it
    return msgspec.structs.replace(item, media_type=media_type.lower(), data=data, url=None)


_INVALID = "invalid_json"
"""Argument of a call under which a request holds arguments that are no JSON object."""


def _repair_call(call: ToolCall) -> tuple[ToolCall, str]:
    wrong: list[str] = []
    arguments = call.arguments
    if not is_usable(call.name):  # the view keeps the name that the host knows
        wrong.append(f"providers refuse the tool's name; it is sent as {sent_name(call.name)}")
    if json_object(arguments) is None:
        arguments = _wrapped(arguments)
        wrong.append("the arguments were not a JSON object" if call.arguments.strip() else "the arguments were empty")
    signature = call.signature
    if signature and sendable(signature) != signature:
        signature = None
        wrong.append("its signature held what cannot be sent")
    return (ToolCall(call.id, call.name, arguments, signature), "; ".join(wrong)) if wrong else (call, "")


def _wrapped(arguments: str) -> str:
    """Return a JSON object that holds the text that the model wrote instead of JSON."""
    return msgspec.json.encode({_INVALID: sendable(arguments)}).decode() if arguments.strip() else "{}"


def unwrapped(arguments: str) -> str:
    """Return the text that the model wrote instead of JSON; any other arguments as they are. Only requests need the object: a
    tool that takes no such argument might be run without any."""
    found = json_object(arguments) if _INVALID in arguments else None
    held = found.get(_INVALID) if found and len(found) == 1 else None
    return held if isinstance(held, str) and json_object(held) is None else arguments


def json_object(text: str) -> dict[str, Any] | None:
    """Return the JSON object that this text encodes; None if it encodes none, or one that parsers may refuse."""
    # The depth is checked first: how deep the decoder can go depends on the caller's stack.
    if _is_deep(text):
        return None
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError):
        return None


def _is_deep(text: str) -> bool:
    steps = (1 if bracket in "{[" else -1 for bracket in _BRACKET.findall(_QUOTED.sub("", text)))
    return any(depth > _DEEPEST for depth in accumulate(steps))


def _has_content(content: Content) -> bool:
    return not isinstance(content, Text) or bool(content.text.strip())
