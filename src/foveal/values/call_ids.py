"""Ids of the calls in one reply. Gemini names none, and other endpoints name one id twice; a host answers calls by their ids."""

from collections.abc import Iterable

import msgspec

from foveal.values.entry import Part, ToolCall

_MARK = "#"
"""Ends the provider's id in the id of a further call. No provider takes it, so that requests have a derived id there."""


def with_own_ids(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return the parts of a reply with an id of its own for each call. The first call of an id keeps it."""
    taken: set[str] = set()
    found: list[Part] = []
    for place, part in enumerate(parts):
        if isinstance(part, ToolCall):
            own = msgspec.structs.replace(part, id=f"{part.id}{_MARK}{place}") if part.id in taken else part
            taken.add(own.id)
            found.append(own)
        else:
            found.append(part)
    return tuple(found)


def provider_id(call_id: str) -> str:
    """Return the id that the provider gave to a call which was recorded under an id of its own."""
    stem, mark, place = call_id.rpartition(_MARK)
    return stem if mark and place.isdecimal() else call_id
