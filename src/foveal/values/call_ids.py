"""Ids of the calls in one reply. Gemini names none, and other endpoints name one id twice; a host answers calls by their ids."""

from collections.abc import Iterable
from typing import cast

import msgspec

from foveal.values.entry import Part, ToolCall

_MARK = "#"
"""Ends the provider's id in the id of a further call. No provider takes it, so that requests have a derived id there."""


def with_own_ids(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return the parts of a reply with an id of its own for each call. The first call of an id keeps it."""
    found, taken = list(parts), set[str]()
    for place, part in enumerate(found):
        if isinstance(part, ToolCall) and isinstance(cast("object", part.id), str):  # any other id is refused later
            own = f"{part.id}{_MARK}{place}" if part.id in taken else part.id
            found[place] = msgspec.structs.replace(part, id=own) if own != part.id else part
            taken.add(own)
    return tuple(found)


def provider_id(call_id: str) -> str:
    """Return the id that the provider gave to a call which was recorded under an id of its own."""
    stem, mark, place = call_id.rpartition(_MARK)
    return stem if mark and place.isdecimal() else call_id
