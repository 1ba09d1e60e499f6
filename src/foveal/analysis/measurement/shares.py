"""Shares over many sessions, and how far they depend on which sessions these are."""

import random
from collections.abc import Callable, Iterable, Sequence

import msgspec

RESAMPLED = 1_000
"""Times that the sessions are drawn anew."""
_INTERVAL = 0.95


class Interval(msgspec.Struct, frozen=True):
    """The range from `low` to `high`."""

    low: float
    high: float


def share(pairs: Iterable[tuple[float, float]]) -> float:
    """Return the sum of the parts as a share of the sum of the wholes; 1 if the wholes are empty."""
    parts, wholes = 0.0, 0.0
    for part, whole in pairs:
        parts, wholes = parts + part, wholes + whole
    return parts / wholes if wholes else 1.0


def interval(
    pairs: Sequence[tuple[float, float]], figure: Callable[[Iterable[tuple[float, float]]], float] = share
) -> Interval:
    """Return the interval of 95 % of the figures when sessions are drawn anew. Seeded: the same sessions, the same interval."""
    draw = random.Random(len(pairs))  # noqa: S311 - it draws sessions, not secrets
    return middle(sorted(figure(draw.choices(pairs, k=len(pairs))) for _ in range(RESAMPLED)))


def middle(figures: Sequence[float]) -> Interval:
    """Return the interval of the middle 95 % of sorted figures."""
    cut = round(len(figures) * (1 - _INTERVAL) / 2)
    return Interval(figures[cut], figures[-cut - 1])
