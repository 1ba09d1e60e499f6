"""Values from plain data, where a field that is not known is an error: a misspelled option must not pass for its default."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from foveal.values.errors import BadInput

T = TypeVar("T")


def read_value(given: Mapping[str, Any], kind: type[T], what: str, *, strict: bool = True) -> T:
    """Return the value of a kind that the fields describe. Unless `strict`, numbers may be given as text."""
    try:
        value = msgspec.convert(given, kind, strict=strict)
    except (
        msgspec.ValidationError,
        UnicodeEncodeError,
    ) as error:  # the latter for half a character where no text belongs
        raise BadInput(f"this {what} cannot be used: {error}") from None
    _check(given, value, what)
    return value


def _check(given: object, value: object, place: str) -> None:
    """Raise `BadInput` for a field of a value that its kind does not have."""
    if isinstance(value, msgspec.Struct) and isinstance(given, Mapping):
        fields = {field.encode_name: field.name for field in msgspec.structs.fields(value)}
        tag = value.__struct_config__.tag_field
        for name, one in cast("Mapping[str, object]", given).items():
            if name in fields:
                _check(one, getattr(value, fields[name]), f"{place}.{name}")
            elif name != tag:
                known = ", ".join(fields) or "no fields"
                raise BadInput(f"the field {name!r:.80} of {place} is not known; it has {known}")
    elif isinstance(value, list | tuple) and isinstance(given, Sequence):
        for number, (one, other) in enumerate(
            zip(cast("Sequence[object]", given), cast("Sequence[object]", value), strict=False)
        ):
            _check(one, other, f"{place}[{number}]")
