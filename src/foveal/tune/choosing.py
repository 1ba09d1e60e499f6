"""Which point to take, and whether it can be told from the default.

Whoever picks the best of many policies by some sessions has picked by their chance as well, and those sessions will flatter
the pick. So the sessions are dealt into folds: for each fold the pick is made by the others and measured on the fold. What is
told about the choice comes from there, and the default stands unless it is beaten there.

Folds are not independent: a pick that is lucky in one of them is made for the others. So how much of a gain may be chance is
not read from its interval. The whole procedure, picks and all, is gone through again with the difference to the default turned
round in sessions that a coin picks: in so many of these worlds without any gain, as much of it is found.
"""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from foveal.bench.pooling import RESAMPLED, Interval, share
from foveal.tune.grid import Variant
from foveal.tune.measuring import Cell, Point, point_of

WITHIN = 0.05
"""Of cost: so much more than the cheapest may be paid for better grounding."""

LEAST_SESSIONS = 6
"""With fewer, all of them may agree by chance: five coins show heads once in thirty-two times, six once in sixty-four."""

SHORT_RANGE = 0.01
"""So much less of what was seen last may be shown than by the default: an agent that forgets its last steps is lost."""
_AS_WELL = 0.005
"""Far grounding that is lower by less than this is as good: one clue in two hundred."""
_TAIL = 0.025
_WORLDS = 400
"""Times that coins are thrown."""

Reason: TypeAlias = Literal["best", "few", "same", "better", "asked"]
"""Why it is recommended: the default is best, there are too few sessions, they show no difference, it is better, the default
is not what was asked for."""
Cells: TypeAlias = Mapping[Variant, Sequence[Cell]]


class Rule(msgspec.Struct, frozen=True):
    """What is asked for; of the two at most one."""

    at_most: float | None = None
    """The best grounding at no more than this cost."""
    at_least: float | None = None
    """The cheapest that grounds so well."""

    def holds(self, point: Point) -> bool:
        is_cheap = self.at_most is None or point.cost <= self.at_most
        return is_cheap and (self.at_least is None or point.grounding >= self.at_least)


class Gap(msgspec.Struct, frozen=True):
    """What a choice costs and grounds more than the default on the same sessions, and where 95 % of it lie."""

    cost: float
    grounding: float
    cost_interval: Interval
    grounding_interval: Interval


class HeldOut(msgspec.Struct, frozen=True):
    """What was chosen without each fold, measured on it, over all folds."""

    picks: tuple[Variant, ...]
    """One a fold."""
    point: Point
    gap: Gap
    cost_chance: float
    """How often so much is saved by chance."""
    grounding_chance: float


class Choice(msgspec.Struct, frozen=True):
    recommended: Variant
    best: Variant
    """What the rule picks by all sessions, whether or not it can be told from the default."""
    reason: Reason
    held_out: HeldOut | None
    """None where there are too few sessions to hold any out."""


def sound(points: Mapping[Variant, Point]) -> dict[Variant, Point]:
    """Those that may be chosen: they break nothing that the default does not, and show what was seen last."""
    default = points[Variant()]
    least = default.short_range - SHORT_RANGE
    return {
        one: point for one, point in points.items() if point.broken <= default.broken and point.short_range >= least
    }


def pick(points: Mapping[Variant, Point], rule: Rule) -> Variant:
    """What the rule says. Where nothing is what it asks for, what comes nearest; of equals, the first."""
    able, default = sound(points), points[Variant()]
    if rule.at_least is not None:
        enough = [one for one in able if rule.holds(able[one])]
        return min(enough, key=lambda one: able[one].cost) if enough else _best_grounding(able)
    if rule.at_most is None:
        as_good = (point.cost for point in able.values() if point.grounding >= default.grounding)
        most = min(as_good) * (1 + WITHIN)
    else:
        most = rule.at_most
    cheap = {one: point for one, point in able.items() if point.cost <= most}
    return _best_grounding(cheap) if cheap else min(able, key=lambda one: able[one].cost)


def _best_grounding(points: Mapping[Variant, Point]) -> Variant:
    return max(points, key=lambda one: (points[one].grounding, -points[one].cost))


def frontier(points: Mapping[Variant, Point]) -> list[Variant]:
    """Those that no other beats in both, the cheapest first."""
    found, best = list[Variant](), -1.0
    for variant in sorted(points, key=lambda one: (points[one].cost, -points[one].grounding)):
        if points[variant].grounding > best:
            found.append(variant)
            best = points[variant].grounding
    return found


def choose(cells: Cells, rule: Rule, *, ids: Sequence[str], is_long: Sequence[bool], folds: int) -> Choice:
    """The recommendation for these sessions, of which the long ones are larger than the budget."""
    default, points = Variant(), {variant: point_of(found) for variant, found in cells.items()}
    best, long = pick(points, rule), sum(is_long)
    held = hold_out(cells, rule, deal(ids, is_long, min(folds, long))) if min(folds, long) > 1 else None
    if best == default:
        return Choice(default, best, "best", held)
    if held and long >= LEAST_SESSIONS and _is_better(held, point_of(cells[default]), rule):
        return Choice(best, best, "better", held)
    if not rule.holds(points[default]):
        return Choice(best, best, "asked", held)
    return Choice(default, best, "few" if held is None or long < LEAST_SESSIONS else "same", held)


def _is_better(held: HeldOut, default: Point, rule: Rule) -> bool:
    """Whether the sessions that were not chosen by agree that it gains something, and it loses nothing to speak of."""
    gap = held.gap
    is_cheaper, grounds_better = held.cost_chance <= _TAIL, held.grounding_chance <= _TAIL
    if rule.at_most is not None:
        return grounds_better
    if rule.at_least is not None:
        return is_cheaper
    return (is_cheaper and gap.grounding >= -_AS_WELL) or (grounds_better and gap.cost <= WITHIN * default.cost)


def deal(ids: Sequence[str], is_long: Sequence[bool], folds: int) -> list[list[int]]:
    """The places of the sessions, in so many folds: by the hash of their ids, the long ones and the others each evenly."""
    order = sorted(range(len(ids)), key=lambda at: (not is_long[at], _hash(ids[at]), at))
    return [sorted(order[fold::folds]) for fold in range(folds)]


def hold_out(cells: Cells, rule: Rule, folds: Sequence[Sequence[int]]) -> HeldOut:
    """Choose without each fold, measure on it."""
    default = cells[Variant()]
    picks, chosen = _validated(cells, rule, folds)
    point, beside = point_of(chosen), point_of(default)
    coins, cheaper, better = random.Random(len(default)), 1, 1  # noqa: S311 - no secrets; the world as it is counts as one
    for _ in range(_WORLDS):
        turned = [coins.random() < 0.5 for _ in default]
        other = point_of(_validated(_turned(cells, turned), rule, folds)[1])
        cheaper += other.cost <= point.cost
        better += other.grounding >= point.grounding
    worlds = _WORLDS + 1
    return HeldOut(tuple(picks), point, gap_of(chosen, default), cheaper / worlds, better / worlds)


def _validated(cells: Cells, rule: Rule, folds: Sequence[Sequence[int]]) -> tuple[list[Variant], list[Cell]]:
    """What is picked without each fold, and the cells of these picks in it, in the order of the sessions."""
    picks, held = list[Variant](), dict[int, Cell]()
    for fold in folds:
        others = [at for other in folds if other is not fold for at in other]
        known = {variant: point_of([found[at] for at in others]) for variant, found in cells.items()}
        picks.append(pick(known, rule))
        held.update((at, cells[picks[-1]][at]) for at in fold)
    return picks, [held[at] for at in sorted(held)]


def _turned(cells: Cells, turned: Sequence[bool]) -> Cells:
    """As if each variant differed from the default by as much, but the other way, in some sessions."""
    default = cells[Variant()]
    return {
        variant: [
            _mirrored(cell, beside) if is_turned else cell
            for cell, beside, is_turned in zip(found, default, turned, strict=True)
        ]
        for variant, found in cells.items()
    }


def _mirrored(cell: Cell, beside: Cell) -> Cell:
    cost, grounding = (
        (2 * other[0] - mine[0], mine[1])
        for mine, other in ((cell.cost, beside.cost), (cell.grounding, beside.grounding))
    )
    return msgspec.structs.replace(cell, cost=cost, grounding=grounding)


def gap_of(cells: Sequence[Cell], beside: Sequence[Cell]) -> Gap:
    """Session by session: a hard one is hard for both, and says nothing about which is better."""
    cost, cost_interval = _gap(cells, beside, lambda cell: cell.cost)
    grounding, grounding_interval = _gap(cells, beside, lambda cell: cell.grounding)
    return Gap(cost, grounding, cost_interval, grounding_interval)


def _gap(
    cells: Sequence[Cell], beside: Sequence[Cell], figure: Callable[[Cell], tuple[float, float]]
) -> tuple[float, Interval]:
    mine, other = [figure(cell) for cell in cells], [figure(cell) for cell in beside]

    def gap(places: Sequence[int]) -> float:
        return share(mine[at] for at in places) - share(other[at] for at in places)

    everyone, draw = range(len(mine)), random.Random(len(mine))  # noqa: S311 - it draws sessions, not secrets
    drawn = sorted(gap(draw.choices(everyone, k=len(mine))) for _ in range(RESAMPLED))
    cut = round(RESAMPLED * _TAIL)
    return gap(everyone), Interval(drawn[cut], drawn[-cut - 1])


def _hash(session: str) -> bytes:
    return hashlib.sha256(session.encode("utf-8", "surrogatepass")).digest()
