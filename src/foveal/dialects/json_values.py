"""Foreign JSON: a value is `object` until it is narrowed here, and an error says which kind of value was expected."""

import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

JsonObject: TypeAlias = Mapping[str, object]


class NotUnderstood(ValueError):
    """A value is not of the kind that its format promises. The caller adds the place: file and line, or the request."""


def mapping(value: object) -> JsonObject | None:
    """Return the value as a JSON object, or None for any other kind."""
    # Nearly all are plain dicts, and asking an abstract class is ten times as slow.
    is_object = type(value) is dict or isinstance(value, Mapping)
    return cast("JsonObject", value) if is_object else None


def fields(value: object) -> JsonObject:
    """Return the value as a JSON object; any other kind has no fields."""
    return mapping(value) or {}


def sequence(value: object) -> Sequence[object] | None:
    """Return the value as a JSON array, or None for any other kind."""
    return cast("Sequence[object]", value) if isinstance(value, list | tuple) else None


def elements(value: object) -> Sequence[object]:
    """Return the value as a JSON array; any other kind has no elements."""
    return sequence(value) or ()


def string(value: object) -> str | None:
    """Return the value as a string, or None for any other kind."""
    return value if isinstance(value, str) else None


def count(value: object) -> int:
    """Return a token count; 0 where a provider left it out or sent null."""
    return max(value, 0) if isinstance(value, int) and not isinstance(value, bool) else 0


def expect_mapping(value: object, what: str) -> JsonObject:
    """Return the value as a JSON object, or raise `NotUnderstood`."""
    found = mapping(value)
    if found is None:
        raise NotUnderstood(f"{what} must be an object, not {kind_of(value)}")
    return found


def expect_sequence(value: object, what: str) -> Sequence[object]:
    """Return the value as a JSON array, or raise `NotUnderstood`."""
    found = sequence(value)
    if found is None:
        raise NotUnderstood(f"{what} must be a list, not {kind_of(value)}")
    return found


def expect_string(value: object, what: str) -> str:
    """Return the value as a string, or raise `NotUnderstood`."""
    if not isinstance(value, str):
        raise NotUnderstood(f"{what} must be a string, not {kind_of(value)}")
    return value


def expect_count(value: object, what: str) -> int:
    """Return the value as a count, or raise `NotUnderstood`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise NotUnderstood(f"{what} must be a count, not {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    """Return the kind of a value in the words of an error message."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list() | tuple():
            return "a list"
        case _:
            return "an object"


def json_text(value: object) -> str:
    """Return compact JSON in the given order of keys. Lone surrogates stay in the text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def arguments_text(value: object) -> str:
    """Return tool arguments as text: verbatim where the format has text, JSON where it has an object, `{}` for null."""
    if isinstance(value, str):
        return value
    return "{}" if value is None else json_text(value)
