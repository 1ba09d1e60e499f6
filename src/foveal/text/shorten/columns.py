"""Outliers of a column: the extremes of numbers, the rare values of categories."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

_COLUMNS = 24
_RARE_SHARE = 0.1
_KINDS_SHARE = 0.2
"""A column is a category, whose rare values are informative, if at most this share of its values are different."""
_RARE_ROWS = 3
_LONG = 24
"""A number written longer than this is an identifier."""


def outliers(rows: Sequence[Sequence[str]]) -> dict[int, float]:
    """Return row numbers with their scores as outliers. Rows of another width than the first ones are skipped."""
    found: dict[int, float] = {}
    width = max((len(row) for row in rows[:50]), default=0)
    usable = [at for at, row in enumerate(rows) if len(row) == width]
    for column in range(min(width, _COLUMNS)):
        for at, worth in column_outliers([rows[at][column] for at in usable]).items():
            place = usable[at]
            found[place] = found.get(place, 0.0) + worth
    return found


def column_outliers(values: Sequence[Any]) -> dict[int, float]:
    """Return the places of the smallest and the largest number, or of the first few of each rare value."""
    numbers = _numbers(values)
    if numbers:
        low, high = min(numbers), max(numbers)
        return {} if low == high else {numbers.index(low): 1.5, numbers.index(high): 2.0}
    # Other categories than texts: true and false by themselves, containers by their type.
    named = (repr(value) if isinstance(value, bool) else value for value in values)
    return _rare([value if isinstance(value, str) else type(value).__name__ for value in named])


def _numbers(values: Sequence[Any]) -> list[float]:
    """Return all values as numbers, or nothing if one of them is no number. One pass in C: this runs over every cell."""
    if not values or bool in set(map(type, values)) or (isinstance(values[0], str) and len(values[0]) > _LONG):
        return []
    try:
        numbers = list(map(float, values))
    except (TypeError, ValueError, OverflowError):
        return []
    return numbers if math.isfinite(sum(numbers)) else []


def _rare(values: Sequence[str]) -> dict[int, float]:
    counts = Counter(values)
    if len(counts) > max(2, len(values) * _KINDS_SHARE):
        return {}
    found: dict[int, float] = {}
    for value, count in counts.items():
        if count <= max(1, len(values) * _RARE_SHARE):
            at = -1
            for _ in range(min(count, _RARE_ROWS)):
                at = values.index(value, at + 1)
                found[at] = 3.0 / count**0.5
    return found
