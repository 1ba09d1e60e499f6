"""Preview of decoded JSON within limits."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeAlias, cast

import msgspec

from foveal.text.guard.seals import sealable, sealed
from foveal.text.lazy_pattern import lazy_pattern
from foveal.text.shorten.columns import column_outliers
from foveal.text.shorten.cut import boundary
from foveal.text.shorten.json_sample import DecimalText, SampledDict, SampledList

_ONE_LINE = 120
_COLUMNS = 24
_FOCUS_ITEMS = 2_000
_TELLING = lazy_pattern(
    r"(?i)(?:^|_)(?:id|ids|uuid|key|name|path|file|status|state|error|errors|message|code|type|title|url|reason|body|text"
    r"|content|output|result|summary|description|value)$|Id$|Error"
)
_LINK = re.compile(r"_url$|^_links$|^node_id$|Url$|[hH]ref$")
"""Links that interfaces add to every object. They are left out first when not all keys can be shown."""
_ALL_KEYS = 100
"""A limit of fewer keys than this is a narrow allowance, in which links and empty values are left out."""
_FIRST = (10.0, 5.0, 3.5)
_LAST = 6.0
_OTHER_SHAPE = 4.0
_ASKED = 20.0

_EMPTY: tuple[Any, ...] = (None, "", [], {})
_encode = msgspec.json.Encoder(enc_hook=str).encode


class PreviewLimits(msgspec.Struct, frozen=True):
    """Most items of an array, characters of a string, levels below the top and keys of an object that are shown."""

    items: int
    chars: int
    depth: int
    keys: int


ItemScores: TypeAlias = dict[tuple[int, int], dict[int, float]]
"""Scores of items, by the identity of their container and their number: the same in every try."""


class _TooLong(Exception):
    pass


class JsonPreview:
    """One preview, with counts of the items and texts that it leaves out."""

    def __init__(self, limits: PreviewLimits, focus: frozenset[str], *, most: int, memory: ItemScores) -> None:
        self._limits, self._focus, self._room, self._memory = limits, sorted(focus), most, memory
        self.left_out = 0
        self.cut = 0

    def render(self, value: Any) -> str | None:
        """Return the text, or None if it is longer than `most`."""
        try:
            return self._value(value, 0)
        except _TooLong:
            return None

    def _value(self, value: Any, depth: int) -> str:
        if isinstance(value, list):
            return self._array(cast("list[Any]", value), depth)
        if isinstance(value, dict):
            return self._object(cast("dict[str, Any]", value), depth)
        if isinstance(value, DecimalText):
            return self._spend(str(value))
        return self._spend(self._string(value) if isinstance(value, str) else _json(value))

    def _spend(self, shown: str) -> str:
        self._room -= len(shown)
        if self._room < 0:
            raise _TooLong
        return shown

    def _string(self, text: str) -> str:
        most = self._limits.chars
        if len(text) <= most + 24:
            return _json(text)
        self.cut += 1
        head = boundary(text, max(1, most * 2 // 3))
        tail = boundary(text, len(text) - most // 3)
        start, end = (_json(part)[1:-1] for part in (text[:head], text[tail:]))
        note = sealed(f"[… {tail - head:,} characters]")
        return f'"{start}{note}{end}"'

    def _array(self, items: list[Any], depth: int) -> str:
        places: Sequence[int] = items.places if isinstance(items, SampledList) else range(len(items))
        total = items.total if isinstance(items, SampledList) else len(items)
        if depth >= self._limits.depth and items:
            return self._deep(total, sealed(f"[… {total:,} items]"))
        kept = self._sample(items)
        parts: list[str] = []
        after = 0
        for at in (*kept, None):
            place = total if at is None else places[at]
            if place > after:
                parts.append(self._deep(place - after, sealed(f"[… {place - after:,} items]")))
            if at is not None:
                parts.append(self._value(items[at], depth + 1))
            after = place + 1
        return self._joined("[]", parts, depth)

    def _object(self, pairs: dict[str, Any], depth: int) -> str:
        total = pairs.total if isinstance(pairs, SampledDict) else len(pairs)
        if depth >= self._limits.depth and pairs:
            names = sealable(", ".join(key for key in islice(pairs, 4) if len(key) <= 40))
            return self._deep(total, f"{sealed(f'[… {total:,} keys:')} {names}]")
        kept = self._keys(pairs)
        parts = [f"{self._spend(self._key(key))}:{self._value(pairs[key], depth + 1)}" for key in kept]
        if len(kept) < total:
            parts.append(self._deep(total - len(kept), sealed(f"[… {total - len(kept):,} keys]")))
        return self._joined("{}", parts, depth)

    def _key(self, key: str) -> str:
        return self._string(key) if len(key) > 200 else _json(key)

    def _deep(self, count: int, mark: str) -> str:
        self.left_out += count
        return self._spend(mark)

    def _joined(self, signs: str, parts: list[str], depth: int) -> str:
        """Return the parts joined, several on a line where that reads well; a part of several lines has lines of its own."""
        lines: list[str] = []
        for part in parts:
            if lines and len(lines[-1]) + len(part) <= _ONE_LINE and "\n" not in part and "\n" not in lines[-1]:
                lines[-1] = f"{lines[-1]},{part}"
            else:
                lines.append(part)
        if len(lines) <= 1 and "\n" not in "".join(lines):
            return f"{signs[0]}{''.join(lines)}{signs[1]}"
        pad = " " * (depth + 1)
        self._spend(pad * len(lines))
        drawn = f",\n{pad}".join(lines)
        return f"{signs[0]}\n{pad}{drawn}\n{' ' * depth}{signs[1]}"

    def _keys(self, pairs: dict[str, Any]) -> list[str]:
        most = self._limits.keys
        names = list(pairs)
        if most < _ALL_KEYS:
            names = [name for name in names if not _LINK.search(name[-40:]) and pairs[name] not in _EMPTY] or names
        if len(names) <= most:
            return names
        scores = self._scores(pairs, [pairs[name] for name in names])
        for at, key in enumerate(names[:_FOCUS_ITEMS]):
            if key in self._focus or _TELLING().search(key[-40:]):
                scores[at] = scores.get(at, 0.0) + _LAST
        return [names[at] for at in _best(scores, len(names), most)]

    def _sample(self, items: list[Any]) -> list[int]:
        most = self._limits.items
        if len(items) <= most:
            return list(range(len(items)))
        return _best(self._scores(items, items), len(items), most)

    def _scores(self, holder: list[Any] | dict[str, Any], items: Sequence[Any]) -> dict[int, float]:
        known = self._memory.get((id(holder), len(items)))
        if known is None:
            known = self._memory[id(holder), len(items)] = {}
            for at, worth in self._worth(items):
                known[at] = known.get(at, 0.0) + worth
        return dict(known)

    def _worth(self, items: Sequence[Any]) -> Iterator[tuple[int, float]]:
        """Yield the scores of the first, the last, the outstanding and the asked-for items."""
        yield from enumerate(_FIRST[: len(items)])
        yield len(items) - 1, _LAST
        yield from outstanding(items)
        if self._focus:
            for at, item in enumerate(items[:_FOCUS_ITEMS]):
                text = _json(item)
                hits = sum(term in text for term in self._focus)
                if hits:
                    yield at, _ASKED * hits


def outstanding(items: Sequence[Any]) -> Iterator[tuple[int, float]]:
    """Yield items of another shape than the ones before, extreme numbers and rare values of a category, with their scores."""
    shapes: dict[Any, int] = {}
    for at, item in enumerate(items):
        shape: Any = tuple(cast("dict[str, Any]", item)) if isinstance(item, dict) else cast("Any", type(item))
        if shape not in shapes:
            shapes[shape] = at
    if len(shapes) <= max(3, len(items) // 10):
        yield from ((at, _OTHER_SHAPE) for at in shapes.values())
    records = [(at, cast("dict[str, Any]", item)) for at, item in enumerate(items) if isinstance(item, dict)]
    names = dict.fromkeys(key for _, record in records[:50] for key in record)
    for name in islice(names, _COLUMNS):
        present = [(at, record[name]) for at, record in records if name in record]
        for place, worth in column_outliers([value for _, value in present]).items():
            yield present[place][0], worth
    if not records:
        yield from column_outliers(items).items()


def _best(scores: dict[int, float], count: int, most: int) -> list[int]:
    """Return the places with the highest scores; if those are too few, the first places as well."""
    ranked = sorted(scores, key=lambda at: (-scores[at], at))[:most]
    chosen = set(ranked)
    for at in range(min(count, most * 2)):
        if len(chosen) >= most:
            break
        chosen.add(at)
    return sorted(chosen)


def _json(value: Any) -> str:
    return sealable(_encode(value).decode())  # a code may stand for a character of seals
