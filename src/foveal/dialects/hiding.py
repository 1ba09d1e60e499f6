"""Parts of the filters that hide calls to our own tools: JSON of events, numbers without gaps, usage of several rounds."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from foveal.dialects.json_values import count, elements, fields, mapping, sequence
from foveal.dialects.port import Wire
from foveal.dialects.sse import SseEvent

_DECODE = msgspec.json.Decoder().decode
_ENCODE = msgspec.json.Encoder().encode


def event_json(event: SseEvent) -> Wire | None:
    """Return the JSON object of an event; None for data that are none, such as `[DONE]`."""
    if not event.data or event.data == b"[DONE]":
        return None
    try:
        value: object = _DECODE(event.data)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        value = _odd_json(event.data)
    return cast("Wire", value) if isinstance(value, dict) else None


def reply_json(raw: bytes) -> Wire | None:
    """Return the JSON object of a whole reply; None for any other text, and for one that could not be written again."""
    try:
        value: object = _DECODE(raw)
    except msgspec.MsgspecError:
        return None
    return cast("Wire", value) if isinstance(value, dict) else None


def _odd_json(data: bytes) -> object:
    """Return JSON with values that only the standard library reads: half a surrogate pair, numbers out of range."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def with_json(event: SseEvent, was: Mapping[str, Any], now: Mapping[str, Any]) -> SseEvent:
    """Return the event with the JSON that it has `now`; the very same event if nothing changed."""
    return event if now == was else event.with_data(_json(now))


def _json(value: object) -> bytes:
    try:
        return _ENCODE(value)
    except UnicodeError:
        return json.dumps(value, separators=(",", ":")).encode()


class Places:
    """Renumbers the blocks of a reply: without gaps where one is hidden, and on from round to round.

    Numbers that need no change stay as they are, gaps of the provider's own included.
    """

    def __init__(self) -> None:
        self._base = 0
        self._next = 0
        self._hidden: set[int] = set()
        self._places: dict[int, int] = {}

    def begin_round(self) -> None:
        """Count on after the blocks of the rounds before."""
        self._base = self._next
        self._hidden.clear()
        self._places.clear()

    def hide(self, index: int) -> None:
        """Leave out a block that nobody has seen."""
        self._hidden.add(index)

    def place(self, index: int) -> int | None:
        """Return the client's number of a block; None for a hidden one."""
        if index in self._hidden:
            return None
        if index not in self._places:
            place = self._base + index - sum(hidden < index for hidden in self._hidden)
            self._places[index] = place
            self._next = max(self._next, place + 1)
        return self._places[index]


def gap_between(before: str, after: str) -> str:
    """Return the blank line between texts of two rounds, which would run into each other; empty where none is missing."""
    return "\n\n" if before and after and before[-1] != "\n" and after[0] != "\n" else ""


def join_usage(
    earlier: object, later: object, *, made: Sequence[str], counted: Sequence[str], total: str = ""
) -> Wire | None:
    """Return the usage of an exchange: the input of its last round that was counted, the output of all rounds.

    Clients compute the room that is left in the window from the input, and compact their history by it. That is the input of the
    newest prompt; the sum over rounds would make them compact too early. `made` are the fields that are added up, `counted` those
    of them that the field `total` includes.
    """
    now, before = mapping(later), fields(earlier)
    if now is None:
        return {**before} or None
    joined: Wire = {**now, **{key: _sum(before.get(key), now.get(key)) for key in made if before.get(key) is not None}}
    if total in now:
        joined[total] = count(now[total]) + sum(count(before.get(key)) for key in counted)
    return joined


def _sum(one: object, other: object) -> object:
    """Return the sum of two counts, of the counts of two objects, or of two lists of counts by modality."""
    if other is None:
        return one
    if (ours := mapping(one)) is not None and (theirs := mapping(other)) is not None:
        return {**ours, **{key: _sum(ours.get(key), value) for key, value in theirs.items()}}
    if sequence(one) is not None:
        return _sum_by_modality((*elements(one), *elements(other)))
    return count(one) + count(other)


def _sum_by_modality(counts: Sequence[object]) -> list[Wire]:
    sums: dict[object, Wire] = {}
    for each in map(fields, counts):
        kind = each.get("modality")
        held = sums.setdefault(kind, {**each, "tokenCount": 0})
        held["tokenCount"] += count(each.get("tokenCount"))
    return list(sums.values())
