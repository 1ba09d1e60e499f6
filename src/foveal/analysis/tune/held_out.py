"""What a choice is worth on sessions that it was not made by.

Whoever picks the best of many policies by some sessions has picked by their chance as well, and those sessions will flatter
the pick. So the sessions are dealt into folds: for each fold the pick is made by the others and measured on the fold.

Folds are not independent: a pick that is lucky in one of them is made for the others. So how much of a gain may be chance is
not read from its interval. The whole procedure, picks and all, is gone through again in worlds in which no policy differs from
the default but by chance: by what each session differs from the mean, turned round where a coin says so. In so many of these
worlds, as much of a gain is found.
"""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from foveal.analysis.replay.pooling import RESAMPLED, Interval, share
from foveal.analysis.tune.grid import Variant
from foveal.analysis.tune.measuring import Cell, TunePoint, point_of
from foveal.analysis.tune.picking import PickRule, pick

_OUTSIDE = 0.025
"""Of the draws, on each side of an interval."""
_WORLDS = 400
"""Times that coins are thrown."""

Cells: TypeAlias = Mapping[Variant, Sequence[Cell]]


class HeldOutGap(msgspec.Struct, frozen=True):
    """What a choice costs and grounds more than the default on the same sessions, and where 95 % of it lie."""

    cost: float
    grounding: float
    cost_interval: Interval
    grounding_interval: Interval


class HeldOut(msgspec.Struct, frozen=True):
    """What was chosen without each fold, measured on it, over all folds."""

    picks: tuple[Variant, ...]
    """One a fold."""
    point: TunePoint
    gap: HeldOutGap
    cost_chance: float
    """How often so much is saved by chance."""
    grounding_chance: float


def deal(ids: Sequence[str], is_long: Sequence[bool], folds: int) -> list[list[int]]:
    """The places of the sessions, in so many folds: by the hash of their ids, the long ones and the others each evenly."""
    order = sorted(range(len(ids)), key=lambda at: (not is_long[at], _hash(ids[at]), at))
    return [sorted(order[fold::folds]) for fold in range(folds)]


def hold_out(cells: Cells, rule: PickRule, folds: Sequence[Sequence[int]]) -> HeldOut:
    """Choose without each fold, measure on it."""
    default = cells[Variant()]
    picks, chosen = _validated(cells, rule, folds)
    point = point_of(chosen)
    noise = {variant: _noise(found, default) for variant, found in cells.items()}
    coins, cheaper, better = random.Random(len(default)), 1, 1  # noqa: S311 - no secrets; the world as it is counts as one
    for _ in range(_WORLDS):
        signs = [coins.choice((-1, 1)) for _ in default]
        world = {variant: list(map(_moved, default, found, signs)) for variant, found in noise.items()}
        other = point_of(_validated(world, rule, folds)[1])
        cheaper += other.cost <= point.cost
        better += other.grounding >= point.grounding
    worlds = _WORLDS + 1
    return HeldOut(tuple(picks), point, gap_of(chosen, default), cheaper / worlds, better / worlds)


def _validated(cells: Cells, rule: PickRule, folds: Sequence[Sequence[int]]) -> tuple[list[Variant], list[Cell]]:
    """What is picked without each fold, and the cells of these picks in it, in the order of the sessions."""
    picks, held = list[Variant](), dict[int, Cell]()
    for fold in folds:
        others = [at for other in folds if other is not fold for at in other]
        known = {variant: point_of([found[at] for at in others]) for variant, found in cells.items()}
        picks.append(pick(known, rule))
        held.update((at, cells[picks[-1]][at]) for at in fold)
    return picks, [held[at] for at in sorted(held)]


def _noise(cells: Sequence[Cell], beside: Sequence[Cell]) -> list[tuple[float, float]]:
    """By how much each session's cost and grounding differ from the default's more than those of all sessions do."""
    point, default = point_of(cells), point_of(beside)
    fewer = (
        len(cells) / (len(cells) - 1)
    ) ** 0.5  # the mean is taken from the same sessions, and lies too near to them
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
    """Session by session: a hard one is hard for both, and says nothing about which is better."""
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
    drawn = sorted(gap(draw.choices(everyone, k=len(mine))) for _ in range(RESAMPLED))
    cut = round(RESAMPLED * _OUTSIDE)
    return gap(everyone), Interval(drawn[cut], drawn[-cut - 1])


def _hash(session: str) -> bytes:
    return hashlib.sha256(session.encode("utf-8", "surrogatepass")).digest()
