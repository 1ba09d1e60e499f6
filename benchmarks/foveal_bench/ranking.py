"""The ranking of Foveal: against the cheapest rival that keeps as much, and against the best for no more money.

Rivals keep to the budget and the rules in nearly all calls: who sends more, shows more. The whole history is one where it fits.
Foveal's own variants are none, and the oracle is the limit.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

import msgspec

from foveal_bench.pooling import MAIN_PRICES, PRICE_MODELS, Row
from foveal_bench.tables import ALL, markdown

OWN, LIMIT = "foveal", "oracle"
BROKEN = 0.05
"""Largest share of over-budget, refused or invalid calls for an engine to count as a rival. Being lenient here favours rivals."""

_SAME = 0.0005
"""Costs that the tables print alike."""

Verdict: TypeAlias = Literal["ahead", "level", "behind", "alone", "refused", "no far clues"]
"""Behind: another policy costs less and keeps as much. Alone: no other policy keeps to the budget. Refused: the mandatory
content is larger than the budget in too many calls for a comparison, and Foveal sends nothing there."""


class Ranking(msgspec.Struct, frozen=True):
    """The ranking at one budget, in one set, under one price list."""

    budget: int
    group: str
    prices: str
    own: Row
    as_good: Row | None
    """The cheapest rival with no less far grounding."""
    best: Row | None
    """The rival with the highest far grounding at no higher cost."""
    way: float | None
    """The share of the way from the best rival to the limit that Foveal has gone; None where there is no way left."""
    verdict: Verdict


def rankings(rows: Sequence[Row], prices: str = MAIN_PRICES) -> list[Ranking]:
    """Return the ranking for every budget and set with Foveal, by budget, the pooled sets first. A single set is not pooled."""
    is_one = len({row.group for row in rows} - {ALL}) == 1
    owns = sorted(
        (row for row in rows if row.policy == OWN and (row.group == ALL or not is_one)),
        key=lambda row: (row.budget, row.group != ALL, row.group),
    )
    return [
        _ranking(own, [row for row in rows if (row.budget, row.group) == (own.budget, own.group)], prices)
        for own in owns
    ]


def _ranking(own: Row, others: Sequence[Row], prices: str) -> Ranking:
    def cost(row: Row) -> float:
        return row.cost[prices]

    rivals = [row for row in others if _is_rival(row)]
    limit = next((row.grounding for row in others if row.policy == LIMIT), 1.0)
    best = max((row for row in rivals if cost(row) <= cost(own)), key=lambda row: row.grounding, default=None)
    as_good = min((row for row in rivals if row.grounding >= own.grounding), key=cost, default=None)
    return Ranking(
        budget=own.budget,
        group=own.group,
        prices=prices,
        own=own,
        as_good=as_good,
        best=best,
        way=_way(own, best, limit),
        verdict=_verdict(own, as_good, prices, has_rivals=bool(rivals)),
    )


def _is_rival(row: Row) -> bool:
    return not row.policy.startswith(OWN) and row.policy != LIMIT and _keeps_to_it(row)


def _keeps_to_it(row: Row) -> bool:
    figures = row.figures
    return figures.over + figures.refused + figures.invalid <= BROKEN * figures.calls


def _way(own: Row, best: Row | None, limit: float) -> float | None:
    if best is None or limit <= best.grounding:
        return None
    return (own.grounding - best.grounding) / (limit - best.grounding)


def _verdict(own: Row, as_good: Row | None, prices: str, *, has_rivals: bool) -> Verdict:
    if not _keeps_to_it(own):
        return "refused"
    if not own.figures.far:
        return "no far clues"
    saved = own.cost[prices] - as_good.cost[prices] if as_good else -1.0
    if saved < -_SAME:
        return "ahead" if has_rivals else "alone"
    return "behind" if saved > _SAME else "level"


def ranking_table(rows: Sequence[Row], prices: str = MAIN_PRICES) -> str:
    """Return one line for each budget and set, with cost / far grounding."""
    head = (
        "tokens a call",
        "set (sessions)",
        "foveal",
        "cheapest other that keeps as much",
        "best other for no more",
        "share of the way to the limit",
        "verdict",
    )
    lines = [
        (
            f"{one.budget:,}",
            f"{one.group} ({one.own.sessions})",
            _pair(one.own, prices),
            _named(one.as_good, prices),
            _named(one.best, prices),
            "–" if one.way is None else f"{one.way:.2f}",
            f"**{one.verdict}**" if one.verdict == "behind" else one.verdict,
        )
        for one in rankings(rows, prices)
    ]
    return markdown(head, lines)


def verdicts(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the count of verdicts under each price list, and every loss."""
    found = [one for prices in PRICE_MODELS for one in rankings(rows, prices)]
    has_sets = any(one.group != ALL for one in found)
    for prices in PRICE_MODELS:
        ends = Counter(one.verdict for one in found if one.prices == prices and (one.group != ALL or not has_sets))
        yield f"- {prices}: {', '.join(f'{verdict} in {times}' for verdict, times in ends.most_common())}."
    for one in found:
        if one.verdict == "behind" and one.as_good:
            yield (
                f"- **Behind** at {one.budget:,}, {one.group} ({one.own.sessions}), {one.prices}: "
                f"{_pair(one.own, one.prices)} against {_named(one.as_good, one.prices)}."
            )


def as_data(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Return every comparison, for programs."""
    return [
        {
            "budget": one.budget,
            "set": one.group,
            "prices": prices,
            "cheapest that keeps as much": one.as_good.policy if one.as_good else None,
            "best for no more": one.best.policy if one.best else None,
            "share of the way": one.way,
            "verdict": one.verdict,
        }
        for prices in PRICE_MODELS
        for one in rankings(rows, prices)
    ]


def _named(row: Row | None, prices: str) -> str:
    return f"{_pair(row, prices)} {row.policy}" if row else "–"


def _pair(row: Row, prices: str) -> str:
    return f"{row.cost[prices]:.3f} / {row.grounding:.3f}"
