"""Foreign JSON: a value is `object` until it is narrowed here, and an error says which kind of value was expected."""

import json
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import TypeAlias, TypeVar, cast

JsonObject: TypeAlias = Mapping[str, object]

T = TypeVar("T")

_KINDS = (
    (NoneType, "null"),
    (bool, "a boolean"),  # before numbers: for Python it is one
    (str, "a string"),
    ((int, float), "a number"),
    ((list, tuple), "a list"),
)


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


def told_count(value: object) -> int | None:
    """Return a token count; None where a provider left it out or sent null."""
    return count(value) if isinstance(value, int) and not isinstance(value, bool) else None


def expect_mapping(value: object, what: str) -> JsonObject:
    """Return the value as a JSON object, or raise `NotUnderstood`."""
    return _expected(mapping(value), value, f"{what} must be an object")


def expect_sequence(value: object, what: str) -> Sequence[object]:
    """Return the value as a JSON array, or raise `NotUnderstood`."""
    return _expected(sequence(value), value, f"{what} must be a list")


def expect_string(value: object, what: str) -> str:
    """Return the value as a string, or raise `NotUnderstood`."""
    return _expected(string(value), value, f"{what} must be a string")


def expect_count(value: object, what: str) -> int:
    """Return the value as a count, or raise `NotUnderstood`."""
    found = value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
    return _expected(found, value, f"{what} must be a count")


def _expected(found: T | None, value: object, claim: str) -> T:
    if found is None:
        raise NotUnderstood(f"{claim}, not {kind_of(value)}")
    return found


def kind_of(value: object) -> str:
    """Return the kind of a value in the words of an error message."""
    return next((words for kind, words in _KINDS if isinstance(value, kind)), "an object")


def json_text(value: object) -> str:
    """Return compact JSON in the given order of keys. Lone surrogates stay in the text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def arguments_text(value: object) -> str:
    """Return tool arguments as text: verbatim where the format has text, JSON where it has an object, `{}` for null."""
    if isinstance(value, str):
        return value
    return "{}" if value is None else json_text(value)
