"""The choice of a policy: the default, unless another beats it on sessions that it was not chosen by.

A rule picks one of several policies by their cost and far grounding over some sessions. Cross-validation finds the worth of
such a pick on other sessions.

The best of many policies on some sessions owes part of its lead to chance, and those sessions flatter it. So the sessions are
dealt into folds: for each fold the pick is made by the other folds and measured on this one.

Folds are not independent: a pick that is lucky in one fold is made for the others. So the interval of a gain does not tell how
much of it may be chance. Instead the whole procedure, with all picks, is repeated in simulated worlds in which policies differ
from the default by chance only: each session's difference from the mean keeps its size, and a coin decides its sign. The
chance is the share of worlds in which a gain of the same size is found.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from foveal.analysis.measurement.shares import RESAMPLED, Interval, middle, share
from foveal.analysis.measurement.suite import session_hash
from foveal.analysis.tune.grid import Variant
from foveal.analysis.tune.points import Cell, TunePoint, point_of

WITHIN = 0.05
"""The share of the cheapest policy's cost that may be paid on top for better grounding."""

SHORT_RANGE = 0.01
"""How much less of the recent clues than the default a policy may show: an agent that forgets its last steps is lost."""

LEAST_SESSIONS = 6
"""With fewer, all of them may agree by chance: five coins show heads once in thirty-two times, six once in sixty-four."""

_AS_WELL = 0.005
"""Far grounding that is lower by less than this is as good: one clue in two hundred."""
_CHANCE = 0.025
"""A gain that chance finds more often is none."""

ChoiceReason: TypeAlias = Literal["best", "few", "same", "better", "asked"]
"""Why a policy is recommended: the default is best, there are too few sessions, they show no difference, it is better, the
default does not meet the condition."""

_WORLDS = 400
"""How many worlds are simulated."""

Cells: TypeAlias = Mapping[Variant, Sequence[Cell]]


class PickRule(msgspec.Struct, frozen=True):
    """The user's condition: none, or one of the two."""

    at_most: float | None = None
    """Take the best grounding at no more than this cost."""
    at_least: float | None = None
    """Take the cheapest policy with at least this grounding."""

    def holds(self, point: TunePoint) -> bool:
        """Return whether a point meets the condition."""
        is_cheap = self.at_most is None or point.cost <= self.at_most
        return is_cheap and (self.at_least is None or point.grounding >= self.at_least)


def sound(points: Mapping[Variant, TunePoint]) -> dict[Variant, TunePoint]:
    """Return the variants that may be chosen: no more broken calls than the default, and recent clues are shown."""
    default = points[Variant()]
    least = default.short_range - SHORT_RANGE
    return {
        one: point for one, point in points.items() if point.broken <= default.broken and point.short_range >= least
    }


def pick(points: Mapping[Variant, TunePoint], rule: PickRule) -> Variant:
    """Return the variant that the rule picks; the nearest one, if none meets its condition. Of equals, the first."""
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


def _best_grounding(points: Mapping[Variant, TunePoint]) -> Variant:
    return max(points, key=lambda one: (points[one].grounding, -points[one].cost))


def frontier(points: Mapping[Variant, TunePoint]) -> list[Variant]:
    """Return the variants that no other beats in both cost and grounding, the cheapest first."""
    found, best = list[Variant](), -1.0
    for variant in sorted(points, key=lambda one: (points[one].cost, -points[one].grounding)):
        if points[variant].grounding > best:
            found.append(variant)
            best = points[variant].grounding
    return found


class HeldOutGap(msgspec.Struct, frozen=True):
    """The differences of a choice to the default in cost and grounding on the same sessions, with their 95 % intervals."""

    cost: float
    grounding: float
    cost_interval: Interval
    grounding_interval: Interval


class HeldOut(msgspec.Struct, frozen=True):
    """The picks made without each fold, measured on that fold, over all folds."""

    picks: tuple[Variant, ...]
    """One a fold."""
    point: TunePoint
    gap: HeldOutGap
    cost_chance: float
    """The share of worlds in which chance alone saves as much."""
    grounding_chance: float


def deal(ids: Sequence[str], is_long: Sequence[bool], folds: int) -> list[list[int]]:
    """Deal the positions of the sessions into folds: by the hash of their ids, the long ones and the others each evenly."""
    order = sorted(range(len(ids)), key=lambda at: (not is_long[at], session_hash(ids[at]), at))
    return [sorted(order[fold::folds]) for fold in range(folds)]


def hold_out(cells: Cells, rule: PickRule, folds: Sequence[Sequence[int]]) -> HeldOut:
    """Return the result of picking without each fold and measuring on it."""
    default = cells[Variant()]
    picks, chosen = _validated(cells, rule, folds)
    point = point_of(chosen)
    noise = {variant: _noise(found, default) for variant, found in cells.items()}
    coins, cheaper, better = random.Random(len(default)), 1, 1  # noqa: S311 - no secrets; the real world counts as one
    for _ in range(_WORLDS):
        signs = [coins.choice((-1, 1)) for _ in default]
        world = {variant: list(map(_moved, default, found, signs)) for variant, found in noise.items()}
        other = point_of(_validated(world, rule, folds)[1])
        cheaper += other.cost <= point.cost
        better += other.grounding >= point.grounding
    worlds = _WORLDS + 1
    return HeldOut(tuple(picks), point, gap_of(chosen, default), cheaper / worlds, better / worlds)


def _validated(cells: Cells, rule: PickRule, folds: Sequence[Sequence[int]]) -> tuple[list[Variant], list[Cell]]:
    """Return the pick made without each fold, and the picks' cells in their folds, in the order of the sessions."""
    picks, held = list[Variant](), dict[int, Cell]()
    for fold in folds:
        others = [at for other in folds if other is not fold for at in other]
        known = {variant: point_of([found[at] for at in others]) for variant, found in cells.items()}
        picks.append(pick(known, rule))
        held.update((at, cells[picks[-1]][at]) for at in fold)
    return picks, [held[at] for at in sorted(held)]


def _noise(cells: Sequence[Cell], beside: Sequence[Cell]) -> list[tuple[float, float]]:
    """Return, for each session, how far its difference to the default is from the difference over all sessions."""
    point, default = point_of(cells), point_of(beside)
    # The mean is taken from the same sessions, and lies too near to them.
    fewer = (len(cells) / (len(cells) - 1)) ** 0.5
    return [
        (
            fewer * (cell.cost[0] - other.cost[0] - (point.cost - default.cost) * cell.cost[1]),
            fewer
            * (cell.grounding[0] - other.grounding[0] - (point.grounding - default.grounding) * cell.grounding[1]),
        )
        for cell, other in zip(cells, beside, strict=True)
    ]


def _moved(cell: Cell, noise: tuple[float, float], sign: int) -> Cell:
    cost, grounding = cell.cost[0] + sign * noise[0], cell.grounding[0] + sign * noise[1]
    return msgspec.structs.replace(cell, cost=(cost, cell.cost[1]), grounding=(grounding, cell.grounding[1]))


def gap_of(cells: Sequence[Cell], beside: Sequence[Cell]) -> HeldOutGap:
    """Return the gap, session by session: a hard session is hard for both sides and favours neither."""
    cost, cost_interval = _gap(cells, beside, lambda cell: cell.cost)
    grounding, grounding_interval = _gap(cells, beside, lambda cell: cell.grounding)
    return HeldOutGap(cost, grounding, cost_interval, grounding_interval)


def _gap(
    cells: Sequence[Cell], beside: Sequence[Cell], figure: Callable[[Cell], tuple[float, float]]
) -> tuple[float, Interval]:
    mine, other = [figure(cell) for cell in cells], [figure(cell) for cell in beside]

    def gap(places: Sequence[int]) -> float:
        return share(mine[at] for at in places) - share(other[at] for at in places)

    everyone, draw = range(len(mine)), random.Random(len(mine))  # noqa: S311 - it draws sessions, not secrets
    return gap(everyone), middle(sorted(gap(draw.choices(everyone, k=len(mine))) for _ in range(RESAMPLED)))


class TunedChoice(msgspec.Struct, frozen=True):
    """The recommended policy, and why."""

    recommended: Variant
    best: Variant
    """The pick of the rule by all sessions, whether or not it can be told from the default."""
    reason: ChoiceReason
    held_out: HeldOut | None
    """None where there are too few sessions to hold any out."""


def choose(cells: Cells, rule: PickRule, *, ids: Sequence[str], is_long: Sequence[bool], folds: int) -> TunedChoice:
    """Return the recommendation for these sessions, of which the long ones are larger than the budget."""
    default, points = Variant(), {variant: point_of(found) for variant, found in cells.items()}
    best, long = pick(points, rule), sum(is_long)
    held = hold_out(cells, rule, deal(ids, is_long, min(folds, long))) if min(folds, long) > 1 else None
    if best == default:
        return TunedChoice(default, best, "best", held)
    if held and long >= LEAST_SESSIONS and _is_better(held, point_of(cells[default]), rule):
        return TunedChoice(best, best, "better", held)
    if not rule.holds(points[default]):
        return TunedChoice(best, best, "asked", held)
    return TunedChoice(default, best, "few" if held is None or long < LEAST_SESSIONS else "same", held)


def _is_better(held: HeldOut, default: TunePoint, rule: PickRule) -> bool:
    """Return whether the held-out sessions agree on a gain in one figure, without a real loss in the other."""
    gap = held.gap
    is_cheaper, grounds_better = held.cost_chance <= _CHANCE, held.grounding_chance <= _CHANCE
    if rule.at_most is not None:
        return grounds_better
    if rule.at_least is not None:
        return is_cheaper
    return (is_cheaper and gap.grounding >= -_AS_WELL) or (grounds_better and gap.cost <= WITHIN * default.cost)
