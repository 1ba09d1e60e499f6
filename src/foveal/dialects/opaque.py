"""What a provider sends that we do not model: kept as it came, sent back as it came."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from foveal.values.entry import Opaque


def opaque(provider: str, said: Mapping[str, Any]) -> Opaque:
    """The provider's own part. SDKs dump fields that were never sent as None; a provider would refuse those."""
    return Opaque(provider, msgspec.json.encode(sent(said)).decode())


def verbatim(part: Opaque) -> dict[str, Any]:
    return msgspec.json.decode(part.json, type=dict[str, Any])


def sent(value: Any) -> Any:
    """The value without the fields that the provider did not send."""
    match value:
        case Mapping():
            items = cast("Mapping[str, Any]", value).items()
            return {key: sent(item) for key, item in items if item is not None}
        case list():
            return [sent(item) for item in cast("list[Any]", value)]
        case _:
            return value
