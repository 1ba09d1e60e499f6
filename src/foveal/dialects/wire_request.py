"""A client's request, read: the value that the four readers return, and the steps that they share."""

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby, takewhile
from typing import Any, NamedTuple, TypeVar

import msgspec

from foveal.dialects.json_values import (
    JsonObject,
    NotUnderstood,
    elements,
    expect_mapping,
    expect_string,
    json_text,
    mapping,
)
from foveal.values.entry import Image, Message, Opaque, Part, Role, Text, ToolResult
from foveal.values.errors import BadInput

P = TypeVar("P", bound=Part)


class WireRequest(msgspec.Struct, frozen=True):
    """The conversation of a request body.

    Lossless for everything that our writers write, up to the form that a format has no other words for; `read.py` of each
    dialect lists these. Cache marks are no part of a conversation and are left out.
    """

    model: str
    """Empty where the format names the model elsewhere (Gemini: in the URL)."""
    system: tuple[Message, ...]
    """The system messages before the conversation."""
    messages: tuple[Message, ...]
    """The conversation. Replies carry the request's model: the wire does not say which model wrote them."""
    tools: tuple[Mapping[str, Any], ...]
    """The tool definitions in the client's own form and order."""
    rest: Mapping[str, Any]
    """All other fields of the body, as they came."""
    spans: tuple[tuple[int, int], ...] = ()
    """Of each message of the conversation, the number of the first wire message that it was read from, and of the next one."""

    @property
    def instructions(self) -> str:
        """The texts of the system messages, with a blank line between them."""
        return "\n\n".join(part.text for message in self.system for part in message.parts if isinstance(part, Text))


@contextmanager
def reading_request(dialect: str) -> Generator[None]:
    """Raise `BadInput` in place of any error about the body's shape."""
    try:
        yield
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise BadInput(f"this is not a request of the {dialect} dialect ({type(error).__name__}: {error})") from error


def read_each(values: Iterable[object], what: str, read: Callable[[JsonObject], None]) -> None:
    """Read the objects of a list in order; `what` is "a message" or the like. An error names the one that is not understood."""
    for index, value in enumerate(values):
        try:
            read(expect_mapping(value, what))
        except NotUnderstood as problem:
            raise NotUnderstood(f"{what.partition(' ')[2]} {index}: {problem}") from None


def read_role(name: object, roles: Mapping[str, Role]) -> Role:
    """Return the role that a format gives this name."""
    known = roles.get(expect_string(name, "`role` of a message"))
    if known is None:
        raise NotUnderstood(f"role {name!r} is not known; expected {', '.join(roles)}")
    return known


def with_known_types(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages with media types that our writers take.

    The type of an image at an address is guessed by its suffix. Where that fails the image counts as PNG: providers look at the
    bytes, and three of the formats do not send the type at all.
    """
    for message in messages:
        parts = tuple(
            msgspec.structs.replace(part, content=tuple(map(_with_known_type, part.content)))
            if isinstance(part, ToolResult)
            else _with_known_type(part)
            for part in message.parts
        )
        yield msgspec.structs.replace(message, parts=parts) if parts != message.parts else message


def _with_known_type(part: P) -> P:
    if isinstance(part, Image) and part.media_type == "image/*" and not part.data:
        return msgspec.structs.replace(part, media_type="image/png")
    return part


def read_list(values: Iterable[object], what: str, read: Callable[[JsonObject], Iterable[Message]]) -> "ReadMessages":
    """Read the wire messages of a list in order, each of which becomes any number of messages."""
    found = ReadMessages([], [])

    def add(value: JsonObject) -> None:
        messages = list(read(value))
        found.messages.extend(messages)
        found.spans.extend([(at[0], at[0] + 1)] * len(messages))
        at[0] += 1

    at = [0]
    read_each(values, what, add)
    return found


class ReadMessages(NamedTuple):
    """The messages of a list, and for each the wire messages that it was read from."""

    messages: list[Message]
    spans: list[tuple[int, int]]


def split_system(messages: Iterable[Message]) -> tuple[tuple[Message, ...], tuple[Message, ...]]:
    """Return the system messages before the conversation, and the conversation."""
    every = tuple(messages)
    lead = tuple(takewhile(lambda message: message.role == "system", every))
    return lead, every[len(lead) :]


def request_message(role: Role, parts: Iterable[Part], model: str) -> Message:
    """Return a message of a request. One with a provider's own part names the model, since no other provider takes the part."""
    held = tuple(parts)
    named = role == "assistant" or any(isinstance(part, Opaque) for part in held)
    return Message(role, held, model if named and model else None)


def turn_messages(role: Role, parts: Iterable[Part], model: str) -> Iterator[Message]:
    """Yield the messages of one turn of the user: one for each tool result, and one for the other parts between them."""
    for is_result, run in groupby(parts, key=lambda part: isinstance(part, ToolResult)):
        if is_result:
            yield from (Message("tool", (part,)) for part in run)
        else:
            yield request_message(role, run, model)


def tool_definitions(value: object) -> tuple[Mapping[str, Any], ...]:
    """Return the tool definitions of a body without their cache marks."""
    tools = [tool for item in elements(value) if (tool := mapping(item)) is not None]
    return tuple(drop_fields(tool, "cache_control") for tool in tools)


def unmarked_json(block: JsonObject) -> str:
    """Return a block of a request as JSON text, without its cache mark: prompts place marks of their own."""
    return json_text(drop_fields(block, "cache_control"))


def drop_fields(body: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return the body without these fields."""
    return {key: value for key, value in body.items() if key not in keys}
