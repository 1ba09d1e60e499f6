"""Fingerprints of messages: equal for two forms of one message, whatever a client does to it on its way through.

A client sends its whole conversation with every call. What it sends back of a reply is not what the provider sent: thinking and
signatures are gone, arguments have defaults added or another order, calls have got ids, texts have lost white space. So a
fingerprint is made of what is left. The id of an entry that a client told is made of its fingerprint and of the id before it, and
thereby names the whole list up to its message.
"""

from base64 import b32encode
from collections.abc import Iterable, Iterator
from hashlib import sha256

import msgspec

from foveal.values.entry import Content, File, Image, Message, Opaque, Part, Stored, Text, ToolCall, ToolResult

FIRST = "the client's list begins here"
"""Takes the place of the id before the first message of a list."""

_ID_CHARS = 26

_canonical = msgspec.json.Encoder(order="sorted")


def fingerprint(message: Message, *, has_ids: bool = True, hidden: frozenset[str] = frozenset()) -> bytes:
    """Return the fingerprint of a message.

    `has_ids` tells whether calls of this format are named by the provider: then their arguments do not count, which some
    clients complete. Calls of the tools in `hidden` do not count: no client ever sees them.
    """
    said = [message.role, *_told(message, has_ids, hidden)]
    return sha256(b"\0".join(part.encode("utf-8", "surrogatepass") for part in said)).digest()


def is_told(message: Message, hidden: frozenset[str]) -> bool:
    """Return whether a client sees anything of a message, and will send it back."""
    return message.role != "assistant" or any(_told(message, has_ids=True, hidden=hidden))


def next_id(before: str, mark: bytes) -> str:
    """Return the id of the entry with this fingerprint that follows the entry with the id `before`."""
    return b32encode(sha256(before.encode("utf-8", "surrogatepass") + mark).digest())[:_ID_CHARS].decode().lower()


def list_ids(before: str, marks: Iterable[bytes]) -> Iterator[str]:
    """Yield the ids of entries that follow one another."""
    for mark in marks:
        before = next_id(before, mark)
        yield before


def _told(message: Message, has_ids: bool, hidden: frozenset[str]) -> Iterator[str]:
    if message.role == "assistant":
        words = "".join("".join(part.text.split()) for part in message.parts if isinstance(part, Text))
        if words:
            yield words
    for part in message.parts:
        match part:
            case ToolCall(call, name, arguments) if name not in hidden:
                yield f"call {name} {call if has_ids and call else _sorted(arguments)}"
            case _ if message.role != "assistant":
                yield from _sent(part, has_ids)
            case _:
                pass


def _sent(part: Part, has_ids: bool) -> Iterator[str]:
    """Yield what counts of a part that no model wrote."""
    match part:
        case ToolResult(call, content):
            yield f"result {call if has_ids else ''}"
            for item in content:
                yield from _content(item)
        case Text() | Image() | File() | Stored() | Opaque():
            yield from _content(part)
        case _:
            pass


def _content(item: Content | Opaque) -> Iterator[str]:
    match item:
        case Text(text):
            if words := text.strip():
                yield words
        case Stored(digest):
            yield digest
        case Opaque(_, json):
            yield json
        case Image() | File():
            yield f"{item.media_type} {item.url or sha256(item.data or b'').hexdigest()}"


def _sorted(arguments: str) -> str:
    try:
        return _canonical.encode(msgspec.json.decode(arguments or "{}")).decode()
    except msgspec.DecodeError:
        return arguments
