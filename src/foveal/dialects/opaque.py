"""Parts that only their provider understands: kept as JSON text, sent back as they came."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, cast

import msgspec

from foveal.dialects.json_values import JsonObject
from foveal.values.entry import Opaque

KeepVerbatim: TypeAlias = Callable[[JsonObject], str]
"""Returns the JSON text under which a block is kept: of a reply without unset fields, of a recording byte for byte."""


def verbatim(part: Opaque) -> dict[str, Any]:
    """Return the provider's own value."""
    return msgspec.json.decode(part.json, type=dict[str, Any])


def sent_json(value: JsonObject) -> str:
    """Return the JSON text of the fields that a provider sent. SDKs dump the others as None, and a provider refuses None."""
    return msgspec.json.encode(drop_unset(value)).decode()


def drop_unset(value: Any) -> Any:
    """Return the value without its None fields, at any depth."""
    match value:
        case Mapping():
            items = cast("Mapping[str, Any]", value).items()
            return {key: drop_unset(item) for key, item in items if item is not None}
        case list():
            return [drop_unset(item) for item in cast("list[Any]", value)]
        case _:
            return value
