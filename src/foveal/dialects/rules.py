"""The shape of a finding, and the checks that every provider makes: shared by the four request validators.

A validator reads the keyword arguments that would be handed to a provider's SDK and lists the reasons for which the provider
would answer with a 4xx. It knows nothing of how the request was built, so that a mistake in a renderer cannot hide in its own
check.

`where` names the place at which the list goes wrong, as a parser would: a call without a result is reported at the
message in the place of the result. A problem that only the end of the list decides is reported at `[-1]`. That makes a check of
the tail (`since=k`) the same as the tail of a full check.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, cast

import msgspec

from foveal.dialects.json_values import elements, mapping, sequence, string


class RequestProblem(msgspec.Struct, frozen=True):
    """One reason for which a provider would refuse the request."""

    rule: str
    """Key of `RULES`."""
    where: str
    """Path in the request, such as `messages[12].content[0]`."""
    what: str
    """One sentence for the person who has to repair it."""


RULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "G0": "the request has the shape of the SDK's own types",
        "G1": "a tool result answers exactly one call of the turn before it",
        "G3": "call ids and item ids are unique",
        "G5": "strings hold no lone surrogates, numbers are finite, tool arguments are a JSON object",
        "G6": "no text is empty or blank, no message is without content",
        "G11": "a call id is a string of 1 to 64 characters",
        "G12": "a tool name fits the provider's pattern",
        "G13": "tool names are unique",
        "G14": "the parameters of a tool are the schema of an object",
        "G15": "an image has a known media type and data",
        "A1": "messages start with the user, and roles alternate",
        "A2": "tool results stand first in the user message right after their calls",
        "A3": "tool uses and tool results pair one to one",
        "A4": "a tool use id is 1 to 64 letters, digits, underscores or dashes",
        "A5": "thinking goes back with its signature, and opens the tool loop it belongs to",
        "A7": "the last message is not the assistant's",
        "A8": "the result of a failed tool is text only",
        "A9": "the final assistant text has no trailing white space",
        "A10": "at most four cache marks, one hour before five minutes, none on thinking or empty text",
        "A11": "a system message in the list follows a user message, precedes the assistant, and is text",
        "A12": "a compaction block stands in an assistant message and is not empty",
        "A13": "at most 100 000 messages and 32 MB",
        "C1": "tool messages for each call follow the assistant message directly",
        "C2": "a tool message follows an assistant message with calls",
        "C3": "each role has the content it may have",
        "C4": "the arguments of a call are a string",
        "C7": "an assistant message that calls makes 1 to 128 calls",
        "R1": "a function call output has its function call",
        "R2": "a function call has its output",
        "R3": "a reasoning item is followed by the item it led to",
        "R4": "an item id has the prefix of its type, 64 characters at most",
        "R6": "calls of the other client-side tools pair with their outputs",
        "R8": "an output is a string or a list of text, images and files",
        "M1": "contents start with the user",
        "M2": "contents end with the user",
        "M3": "roles alternate",
        "M4": "the next turn answers every function call, with the same names and ids",
        "M5": "function responses stand first, in the order of the calls",
        "M6": "the first function call of a model turn carries a thought signature",
        "M8": "a content has parts, and a part holds exactly one thing",
        "M10": "a function response is an object",
        "M11": "media inside a function response need Gemini 3",
    }
)
"""Every rule a validator can report. Numbers missing from a family ask for a normalisation and not for a refusal,
cannot be seen in a request, or go by the provider's own number: an unanswered call (G2) is A3, C1, R2, R6 or M4."""

ID_LENGTH: Final = 64
NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_SHOWN: Final = 40  # enough of a foreign value to find it, not enough to flood an error message


def quote(value: object) -> str:
    """Return the value for use in a sentence: short, quoted, printable."""
    if value is None:
        return "nothing"
    if not isinstance(value, str):
        return "an empty list" if sequence(value) == [] else f"a value of type {type(value).__name__}"
    return ascii(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")


def shape(where: str, expected: str, value: object) -> RequestProblem:
    """Return the finding about a value that is not of the kind the SDK's types ask for."""
    return RequestProblem("G0", where, f"Expected {expected}, found {quote(value)}.")


def numbered(values: object, where: str) -> Iterator[tuple[object, str]]:
    """Yield the elements of a list, each with its place."""
    for index, value in enumerate(elements(values)):
        yield value, f"{where}[{index}]"


# Checks that every provider makes.


def text_problems(value: object, where: str) -> Iterator[RequestProblem]:
    """Yield the problem of a text that is no string, or that is empty or blank."""
    text = string(value)
    if text is None:
        yield shape(where, "a string", value)
    elif not text or text.isspace():
        yield RequestProblem("G6", where, "The text is empty or blank; leave the block out.")


def id_problems(value: object, where: str) -> Iterator[RequestProblem]:
    """Yield the problem of an id that ties a call to its result."""
    if not isinstance(value, str) or not 0 < len(value) <= ID_LENGTH:
        size = f"{len(value)} characters" if isinstance(value, str) else quote(value)
        yield RequestProblem("G11", where, f"A call id is a string of 1 to {ID_LENGTH} characters, found {size}.")


def name_problems(value: object, where: str, pattern: re.Pattern[str] = NAME) -> Iterator[RequestProblem]:
    """Yield the problem of a tool's name, in a definition or in a call."""
    if not isinstance(value, str) or pattern.fullmatch(value) is None:
        yield RequestProblem("G12", where, f"The tool name {quote(value)} does not match {pattern.pattern}.")


def unique_name_problems(named: Sequence[tuple[object, str]]) -> Iterator[RequestProblem]:
    """Yield a problem for each tool name that an earlier tool has. `named` are names with their places."""
    first: dict[str, str] = {}
    for name, where in named:
        if isinstance(name, str) and first.setdefault(name, where) != where:
            yield RequestProblem("G13", where, f"The tool name {quote(name)} is already taken by {first[name]}.")


def repeated_id_problems(
    turns: Iterable[Iterable[tuple[object, str]]], name: str, turn: str
) -> Iterator[RequestProblem]:
    """Yield a problem for each id that an earlier turn has. A repetition inside one turn is reported with that turn."""
    seen: dict[str, int] = {}
    for index, ids in enumerate(turns):
        for call_id, where in ids:
            if isinstance(call_id, str) and seen.setdefault(call_id, index) != index:
                what = f"The {name} {quote(call_id)} is used in an earlier {turn}."
                yield RequestProblem("G3", where, what)


def schema_problems(value: object, where: str, *, required: bool = False) -> Iterator[RequestProblem]:
    """Yield the problem of a tool's parameters. Where they are optional, None and the empty schema mean that there are none."""
    if not value and not required and (value is None or mapping(value) is not None):
        return
    schema = mapping(value)
    if schema is None:
        yield RequestProblem("G14", where, f"Tool parameters are a JSON schema, found {quote(value)}.")
        return
    kind = schema.get("type")
    if not isinstance(kind, str) or kind.lower() != "object":  # Gemini spells its types in capitals
        yield RequestProblem("G14", where, f'Tool parameters have the type "object", found {quote(kind)}.')


def argument_problems(value: object, where: str, rule: str = "G5") -> Iterator[RequestProblem]:
    """Yield the problem of arguments that travel as a string of JSON. `rule` is the provider's, for any other kind of value."""
    if not isinstance(value, str):
        yield RequestProblem(rule, where, f"Arguments are a string of JSON, found {quote(value)}.")
        return
    if has_surrogate(value):
        return  # reported with its place by value_problems
    try:
        decoded: object = msgspec.json.decode(value)
    except RecursionError:
        yield RequestProblem("G5", where, "The arguments are nested too deeply to be read.")
    except msgspec.DecodeError as error:
        yield RequestProblem("G5", where, f"The arguments are not valid JSON: {error}.")
    else:
        if mapping(decoded) is None:
            yield RequestProblem("G5", where, f"The arguments are a JSON object, found {quote(decoded)}.")


def image_problems(
    media_type: object, data: object, where: str, known: frozenset[str] = IMAGE_TYPES
) -> Iterator[RequestProblem]:
    """Yield the problems of an image that travels inside the request."""
    if string(media_type) not in known:
        yield RequestProblem(
            "G15", where, f"The media type {quote(media_type)} is not one of {', '.join(sorted(known))}."
        )
    yield from data_problems(data, where)


def data_problems(data: object, where: str) -> Iterator[RequestProblem]:
    """Yield the problem of media data: base64 text, or bytes where an SDK encodes them itself."""
    if not isinstance(data, str | bytes) or not data:
        yield RequestProblem("G15", where, "The media data is missing or empty.")
    elif isinstance(data, str) and data.startswith("data:"):
        yield RequestProblem("G15", where, "The media data is a data URL; this field takes the base64 text alone.")


def image_url_problems(value: object, where: str) -> Iterator[RequestProblem]:
    """Yield the problems of an image given by its address, or inside a data URL."""
    url = string(value)
    if not url:
        yield RequestProblem("G15", where, f"An image URL is a string, found {quote(value)}.")
    elif url.startswith("data:"):
        # Only the head is split off, so that the megabytes after the comma are not copied.
        comma = url.find(",", 0, 256)
        head = url[5:comma] if comma >= 0 else ""
        if not head.endswith(";base64"):
            yield RequestProblem("G15", where, "An image in a data URL is written as data:<media type>;base64,<data>.")
            return
        yield from image_problems(head.split(";", 1)[0].lower(), url[comma + 1 : comma + 2], where)
    elif not url.startswith(("http://", "https://")):
        yield RequestProblem("G15", where, f"An image URL starts with https: or data:, found {quote(url)}.")


# Values that no JSON body can carry.


def has_surrogate(text: str) -> bool:
    """Return whether the text holds a code point that UTF-8 cannot encode."""
    if text.isascii():
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def _unsendable(value: object) -> str | None:
    if isinstance(value, str):
        return "The string holds a lone UTF-16 surrogate." if has_surrogate(value) else None
    if isinstance(value, float) and not math.isfinite(value):
        return "The number is not finite, which JSON cannot express."
    return None


def _sendable(value: object) -> bool:
    if type(value) is dict and all(
        type(text) is str and text.isascii() for pair in cast("dict[object, object]", value).items() for text in pair
    ):
        return True  # most messages are a role and a text
    waiting: list[object] = [value]
    while waiting:
        here = waiting.pop()
        if type(here) is str and here.isascii():
            continue
        if _unsendable(here) is not None:
            return False
        if (node := mapping(here)) is not None:
            waiting.extend(node)
            waiting.extend(node.values())
        elif (array := sequence(here)) is not None:
            waiting.extend(array)
    return True


def value_problems(value: object, where: str) -> Iterator[RequestProblem]:
    """Yield a problem for every string, key and number inside the value that cannot be sent. Does not recurse."""
    if _sendable(value):
        return  # the common case, without building a path for every leaf
    waiting: list[tuple[object, str]] = [(value, where)]
    while waiting:
        here, place = waiting.pop()
        if (node := mapping(here)) is not None:
            for key in node:
                if _unsendable(key) is not None:
                    yield RequestProblem(
                        "G5", _printable(place), f"The key {quote(key)} holds a lone UTF-16 surrogate."
                    )
            waiting.extend((node[key], f"{place}.{key}") for key in reversed(list(node)))
        elif (array := sequence(here)) is not None:
            waiting.extend((array[i], f"{place}[{i}]") for i in range(len(array) - 1, -1, -1))
        elif (reason := _unsendable(here)) is not None:
            yield RequestProblem("G5", _printable(place), reason)


def _printable(place: str) -> str:
    """Return the path with unencodable characters spelled out, so that the finding itself can be printed and stored."""
    return place.encode(errors="backslashreplace").decode()


def least_bytes(value: object) -> int:
    """Return a lower bound of the size of the value as JSON: the characters of its strings."""
    total = 0
    waiting: list[object] = [value]
    while waiting:
        here = waiting.pop()
        if isinstance(here, str):
            total += len(here)
        elif (node := mapping(here)) is not None:
            waiting.extend(node.values())
        elif (array := sequence(here)) is not None:
            waiting.extend(array)
    return total
