"""Samples of large JSON: only the items that have a chance to be shown are decoded.

An array of 150 000 objects takes half a second to decode, and most of that time makes objects that are never shown. Its
items can be separated 15 times as fast without decoding them. So only some items of a large container are decoded: the
first, the last, evenly spaced ones, the shortest and longest, and those that mention trouble.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from foveal.text.shorten.signals import line_starts, lines_with

WHOLE_BYTES = 200_000
"""Up to this size everything is decoded, which takes 4 ms."""
_ITEMS = 2_000
_FIRST, _LAST, _EXTREME, _TROUBLED = 200, 50, 20, 20
_DEPTH = 12
_STEMS = (b"rror", b"RROR", b"ail", b"FAIL", b"xception", b"enied", b"anic", b"ritical")
_COMMON, _COMMON_ITEMS = 0.05, 1_000
"""A stem in more than this share or number of the items is a key or an ordinary value."""


class DecimalText(str):
    """A number with a fraction, as it was written: 1.10 stays 1.10."""

    __slots__ = ()


class SampledList(list[Any]):
    """Some items of an array, with their places in it and the number of all its items."""

    places: list[int]
    total: int


class SampledDict(dict[str, Any]):
    """Some keys of an object, and the number of all its keys."""

    total: int


_anything = msgspec.json.Decoder(float_hook=DecimalText)
_array = msgspec.json.Decoder(list[msgspec.Raw])
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_lines = msgspec.json.Decoder(msgspec.Raw)


def decode_sampled(text: str) -> Any:
    """Return the value, or the list of the values of each line, or None if the text is neither."""
    try:
        data = text.encode()
        return decode_value(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        pass
    try:
        items = _lines.decode_lines(text)
        return _sampled_list(items, 0) if len(items) > 1 else None
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def decode_value(data: bytes, depth: int = 0) -> Any:
    """Return the value without most items of its large containers."""
    start = data[:200].lstrip()[:1]
    if len(data) <= WHOLE_BYTES or start not in (b"[", b"{") or depth == _DEPTH:
        return _anything.decode(data)
    if start == b"[":
        return _sampled_list(_array.decode(data), depth)
    pairs = _object.decode(data)
    names, items = list(pairs), list(pairs.values())
    shown = SampledDict({names[at]: decode_value(bytes(items[at]), depth + 1) for at in _places(items)})
    shown.total = len(pairs)
    return shown


def _sampled_list(items: Sequence[msgspec.Raw], depth: int) -> SampledList:
    places = _places(items)
    shown = SampledList(decode_value(bytes(items[at]), depth + 1) for at in places)
    shown.places, shown.total = places, len(items)
    return shown


def _places(items: Sequence[msgspec.Raw]) -> list[int]:
    count = len(items)
    if count <= _ITEMS:
        return list(range(count))
    sizes = list(map(len, items))
    by_size = sorted(range(count), key=sizes.__getitem__)
    chosen = {*range(_FIRST), *range(count - _LAST, count), *range(0, count, count // (_ITEMS // 2) + 1)}
    chosen.update(by_size[:_EXTREME], by_size[-_EXTREME:])
    texts = list(map(bytes, items))
    joined, starts = b"\n".join(texts), line_starts(texts)
    most = min(_COMMON_ITEMS, int(count * _COMMON))
    for stem in _STEMS:
        hits = list(lines_with(joined, stem, starts, most + 1))
        if len(hits) <= most:
            chosen.update(hits[:_TROUBLED])
    return sorted(chosen)
