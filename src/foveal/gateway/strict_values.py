"""Values from plain data, where a field that is not known is an error: a misspelled option must not pass for its default."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar, cast

import msgspec

from foveal.values.errors import BadInput

T = TypeVar("T")


def read_value(given: Mapping[str, Any], kind: type[T], what: str, *, place: str = "", strict: bool = True) -> T:
    """Return the value of a kind that the fields describe. Unless `strict`, numbers may be given as text.

    `place` leads to the value in the request, for errors; empty for the whole of it.
    """
    try:
        value = msgspec.convert(given, kind, strict=strict)
    except (
        msgspec.ValidationError,
        UnicodeEncodeError,
    ) as error:  # the latter for half a character where no text belongs
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):  # pyright: ignore[reportUnnecessaryIsInstance] - a union is none
            _check_names(given, kind, place)  # a misspelled field is also one that is missing
        raise BadInput(f"this {what} cannot be used: {error}") from None
    _check(given, value, place)
    return value


def _check(given: object, value: object, place: str) -> None:
    """Raise `BadInput` for a field of a value that its kind does not have; `place` leads to the value."""
    if isinstance(value, msgspec.Struct) and isinstance(given, Mapping):
        named = cast("Mapping[str, object]", given)
        _check_names(named, type(value), place)
        for field in msgspec.structs.fields(value):
            if field.encode_name in named:
                inner = f"{place}.{field.encode_name}".lstrip(".")
                _check(named[field.encode_name], getattr(value, field.name), inner)
    elif isinstance(value, list | tuple) and isinstance(given, Sequence):
        for number, (one, other) in enumerate(
            zip(cast("Sequence[object]", given), cast("Sequence[object]", value), strict=False)
        ):
            _check(one, other, f"{place}[{number}]")


def _check_names(given: Mapping[str, object], kind: type[msgspec.Struct], place: str) -> None:
    fields = [field.encode_name for field in msgspec.structs.fields(kind)]
    for name in given:
        if name not in fields and name != kind.__struct_config__.tag_field:
            near = get_close_matches(name.lower(), fields, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(fields) or 'none'}"
            raise BadInput(f"unknown field {name:.80}{f' in {place}' if place else ''}; {hint}")
