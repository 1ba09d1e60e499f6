"""Loops of a model: the same call with the same result, two calls taking turns, the same error again.

A `Trail` is kept with the session and updated by each message, in time that does not depend on the number of messages before. It
holds digests, so that it is small, the same in another process, and free of content. A message of the user ends any loop:
repetitions after it were asked for.
"""

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Literal, TypeAlias, cast

import msgspec

from foveal.values.entry import Content, File, Image, Message, Stored, Text, ToolCall, ToolResult

Circle: TypeAlias = Literal["same", "alternating", "error"]

_LARGE_CHARS = 100_000
"""Longer arguments are compared as they were written: no model repeats as much with other white space."""

_OPEN_CALLS = 256
"""Calls that wait for a result; the oldest are forgotten. No reply was seen to hold more."""


class Repeated(msgspec.Struct, frozen=True):
    """A loop, and how many times it was repeated by now (2 or more)."""

    circle: Circle
    times: int
    tool: str
    """The tool's name; both names if two tools take turns."""


class AnsweredCall(msgspec.Struct, frozen=True):
    """One answered call."""

    tool: str
    call: str
    result: str
    is_error: bool


class Trail(msgspec.Struct, frozen=True, omit_defaults=True):
    """The facts about the past by which the next repetition is recognised."""

    waiting: tuple[tuple[str, str, str], ...] = ()
    """Id, tool and digest of the calls without a result."""
    last: AnsweredCall | None = None
    before: AnsweredCall | None = None
    same: int = 0
    """Calls in a row that equal the last one, itself included."""
    errors: int = 0
    """Failures of one tool in a row with the same text, whatever the arguments."""
    swaps: int = 0
    """Calls in a row that equal the last but one and not the last."""


FRESH = Trail()


def update(trail: Trail, message: Message, *, polling: frozenset[str] = frozenset()) -> Trail:
    """Return the trail after this message. Tools in `polling` are meant to be called again until something arrives."""
    if message.role == "user":
        return FRESH
    for part in message.parts:
        match part:
            case ToolCall(call_id, name, arguments) if name not in polling:
                waiting = (*trail.waiting, (call_id, name, _digest([name, _canonical(arguments)])))
                trail = msgspec.structs.replace(trail, waiting=waiting[-_OPEN_CALLS:])
            case ToolResult():
                trail = _answered(trail, part)
            case _:
                pass
    return trail


def current_loop(trail: Trail) -> Repeated | None:
    """Return the loop that the newest call is part of, if it closed one."""
    last, before = trail.last, trail.before
    if last is None:
        return None
    if trail.same >= 2 and trail.same >= trail.errors:
        return Repeated("same", trail.same, last.tool)
    if trail.errors >= 2:
        return Repeated("error", trail.errors, last.tool)
    if trail.swaps >= 2 and before is not None:
        tools = dict.fromkeys((before.tool, last.tool))
        return Repeated("alternating", trail.swaps // 2 + 1, ", ".join(tools))
    return None


def _answered(trail: Trail, result: ToolResult) -> Trail:
    at = next((i for i, (call_id, _, _) in enumerate(trail.waiting) if call_id == result.call), None)
    if at is None:
        return trail
    _, tool, call = trail.waiting[at]
    is_error = result.status != "ok"
    step = AnsweredCall(tool, call, _digest([result.status, *_contents(result.content)]), is_error)
    last = trail.last
    failed_alike = last is not None and last.is_error and (last.tool, last.result) == (tool, step.result)
    return Trail(
        waiting=trail.waiting[:at] + trail.waiting[at + 1 :],
        last=step,
        before=last,
        same=trail.same + 1 if step == last else 1,
        errors=(trail.errors + 1 if failed_alike else 1) if is_error else 0,
        swaps=trail.swaps + 1 if step == trail.before and step != last else 0,
    )


def _canonical(arguments: str) -> str:
    """Return the arguments in one canonical form of their JSON."""
    if len(arguments) > _LARGE_CHARS:
        return arguments
    try:
        value = cast("object", msgspec.json.decode(arguments))
        return msgspec.json.encode(value, order="sorted").decode()
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return arguments


def _contents(content: Iterable[Content]) -> Iterator[str | bytes]:
    for item in content:
        match item:
            case Text(text):
                yield text
            case Stored(sha256):
                yield sha256
            case Image(_, data, url) | File(_, _, data, url):
                yield data or url or ""


def _digest(pieces: Iterable[str | bytes]) -> str:
    digest = blake2b(digest_size=12)
    for piece in pieces:
        data = piece.encode("utf-8", "surrogatepass") if isinstance(piece, str) else piece
        digest.update(b"%d:" % len(data))
        digest.update(data)
    return digest.hexdigest()
