"""The codec of entry bodies: to bytes and back, without loss.

A body is written as JSON. JSON text is UTF-8, and a Python string may hold lone surrogates, which UTF-8 cannot; such a body
is written with every string turned into its surrogate-carrying UTF-8 bytes, read as Latin-1. The first byte tells which of
the two encodings it is, so that there is one codec and no guessing: `=` plain, `~` escaped.
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec

from foveal.values.entry import Body
from foveal.values.errors import BadEntry

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(cast("type[Body]", Body))


def encode(body: Body) -> bytes:
    """Return the bytes of a body, the same for equal bodies."""
    try:
        return b"=" + _encoder.encode(body)
    except UnicodeEncodeError:
        return b"~" + _encoder.encode(map_strings(msgspec.to_builtins(body), _to_latin))


def decode(data: bytes) -> Body:
    """Return the body that was encoded. `BadEntry` if these bytes are not one."""
    try:
        if data[:1] == b"=":
            return _decoder.decode(memoryview(data)[1:])
        if data[:1] == b"~":
            plain = map_strings(msgspec.json.decode(memoryview(data)[1:]), _from_latin)
            return cast("Body", msgspec.convert(plain, Body))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadEntry(f"these bytes are not an entry: {error}") from error
    raise BadEntry(f"these bytes are not an entry: they start with {data[:1]!r}, not with '=' or '~'")


def sendable(text: str) -> str:
    """Return the text with lone surrogates, which no provider accepts, shown as U+FFFD, and NULs as U+2400."""
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text.replace("\0", "\u2400") if "\0" in text else text


def _to_latin(text: str) -> str:
    return text.encode("utf-8", "surrogatepass").decode("latin-1")


def _from_latin(text: str) -> str:
    return text.encode("latin-1").decode("utf-8", "surrogatepass")


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Return decoded JSON with every string changed, keys excepted."""
    match value:
        case str():
            return change(value)
        case list() | tuple():
            return [map_strings(item, change) for item in cast("Sequence[Any]", value)]
        case dict():
            return {key: map_strings(item, change) for key, item in cast("dict[str, Any]", value).items()}
        case _:
            return value
