"""Parsed JSON is `object` until somebody looks: these functions look, and say what they expected."""

import json
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from typing import TypeAlias, cast

from foveal.values.errors import BadRecording

Object: TypeAlias = dict[str, object]


class NotUnderstood(Exception):
    """A value is not what the format promises. The reader of the line adds file and line (`at`)."""


@contextmanager
def at(file: str, line: int | None) -> Generator[None]:
    """What is not understood in here stands in this line of this file."""
    try:
        yield
    except NotUnderstood as problem:
        raise BadRecording(file, line, str(problem)) from None


def object_or_none(value: object) -> Object | None:
    """JSON objects only have string keys, so a dict that came from a decoder is an `Object`."""
    return cast("Object", value) if isinstance(value, dict) else None


def list_or_none(value: object) -> list[object] | None:
    return cast("list[object]", value) if isinstance(value, list) else None


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def expect_object(value: object, what: str) -> Object:
    found = object_or_none(value)
    if found is None:
        raise NotUnderstood(f"{what} must be an object, not {kind_of(value)}")
    return found


def expect_list(value: object, what: str) -> list[object]:
    found = list_or_none(value)
    if found is None:
        raise NotUnderstood(f"{what} must be a list, not {kind_of(value)}")
    return found


def expect_text(value: object, what: str) -> str:
    if not isinstance(value, str):
        raise NotUnderstood(f"{what} must be a string, not {kind_of(value)}")
    return value


def count_or_zero(value: object) -> int:
    """A token count. Providers leave out or null what they did not count."""
    if isinstance(value, int) and not isinstance(value, bool):
        return max(value, 0)
    return 0


def expect_count(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise NotUnderstood(f"{what} must be a count, not {kind_of(value)}")
    return value


def kind_of(value: object) -> str:
    """How to call a value in an error message."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case _:
            return "an object"


def dump(value: object) -> str:
    """Compact JSON in the order of the recording. Lone surrogates stay what they are."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def arguments_text(value: object) -> str:
    """Tool arguments: verbatim where the format has text, dumped where it has an object, `{}` where it has nothing."""
    if isinstance(value, str):
        return value
    return "{}" if value is None else dump(value)


def tally(counts: Counter[str], what: str) -> list[str]:
    """A note that says how many, and of which kind; none if there is nothing to say."""
    if not counts:
        return []
    kinds = ", ".join(f"{kind} {number}" for kind, number in counts.most_common())
    return [f"{counts.total()} {what}: {kinds}"]
