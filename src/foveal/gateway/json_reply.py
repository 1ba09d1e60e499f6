"""JSON of requests and replies, with all that a text can hold: JavaScript and Python have texts that UTF-8 has not."""

import json
from typing import Any, NoReturn, cast

import msgspec

from foveal.values.errors import BadInput


def encoded_json(value: object) -> bytes:
    """Return a value as JSON. Half a character, of a text that was cut in the middle of one, is written as its code."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value)).encode()


def decoded_object(raw: bytes) -> dict[str, Any]:
    """Return the object that a body holds; `BadInput` if it is none."""
    try:
        found = _decoded(raw)
    except (ValueError, RecursionError) as error:
        raise BadInput(f"the body is no JSON ({type(error).__name__}: {error})") from None
    if not isinstance(found, dict):
        raise BadInput(f"the body is a JSON {type(found).__name__}; it must be an object with the parameters as fields")
    return cast("dict[str, Any]", found)


def _decoded(raw: bytes) -> object:
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return json.loads(raw, parse_constant=_no_number)  # with halves of characters


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")
