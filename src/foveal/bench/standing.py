"""Where Foveal stands: against the best that can be had for no more money, and against the cheapest that keeps as much.

Only policies that keep to the budget and the rules in nearly all calls are rivals: who sends more, shows more. The whole history
is none, and the oracle is the limit.
"""

from collections.abc import Sequence

import msgspec

from foveal.bench.pooling import MAIN_PRICES, Row
from foveal.bench.tables import ALL, markdown

OWN, LIMIT, WHOLE = "foveal", "oracle", "full history"
_BROKEN = 0.01
"""Of its calls: as many may be over the budget, refused or invalid."""


class Standing(msgspec.Struct, frozen=True):
    """One budget, one set."""

    budget: int
    group: str
    own: Row
    best: Row | None
    """The rival with the highest far grounding at no higher cost."""
    cheaper: Row | None
    """The cheapest rival with no less far grounding, if it costs less."""
    way: float | None
    """How much of the way from the best rival to the limit is gone; None where there is none."""


def standings(rows: Sequence[Row], prices: str = MAIN_PRICES) -> list[Standing]:
    """For every budget and set in which Foveal was measured."""
    found = list[Standing]()
    for own in (row for row in rows if row.policy == OWN):
        others = [row for row in rows if (row.budget, row.group) == (own.budget, own.group)]
        rivals = [row for row in others if _is_rival(row)]
        limit = next((row.grounding for row in others if row.policy == LIMIT), 1.0)
        best = max((row for row in rivals if row.cost[prices] <= own.cost[prices]), key=_grounding, default=None)
        way = (
            None
            if best is None or limit <= best.grounding
            else (own.grounding - best.grounding) / (limit - best.grounding)
        )
        as_good = [row for row in rivals if row.grounding >= own.grounding and row.cost[prices] < own.cost[prices]]
        cheaper = min(as_good, key=lambda row: row.cost[prices], default=None)
        found.append(Standing(own.budget, own.group, own, best, cheaper, way))
    return found


def _is_rival(row: Row) -> bool:
    figures = row.figures
    broken = figures.over + figures.refused + figures.invalid
    return not row.policy.startswith(OWN) and row.policy not in (LIMIT, WHOLE) and broken <= _BROKEN * figures.calls


def _grounding(row: Row) -> float:
    return row.grounding


def standing_table(rows: Sequence[Row]) -> str:
    """One line a budget and set."""
    head = (
        "tokens a call",
        "set",
        "foveal",
        "best other for no more",
        "share of the way to the limit",
        "cheaper and as good",
    )
    lines = [
        (
            f"{one.budget:,}",
            one.group,
            _said(one.own),
            f"{_said(one.best)} {one.best.policy}" if one.best else "–",
            "–" if one.way is None else f"{one.way:.2f}",
            f"**{_said(one.cheaper)} {one.cheaper.policy}**" if one.cheaper else "none",
        )
        for one in sorted(standings(rows), key=lambda one: (one.budget, one.group != ALL, one.group))
    ]
    return markdown(head, lines)


def _said(row: Row) -> str:
    return f"{row.cost[MAIN_PRICES]:.2f} / {row.grounding:.2f}"
