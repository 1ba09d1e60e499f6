"""Cross-validation: the worth of a choice on sessions that it was not made by.

The best of many policies on some sessions owes part of its lead to chance, and those sessions flatter it. So the sessions are
dealt into folds: for each fold the pick is made by the other folds and measured on this one.

Folds are not independent: a pick that is lucky in one fold is made for the others. So the interval of a gain does not tell how
much of it may be chance. Instead the whole procedure, with all picks, is repeated in simulated worlds in which policies differ
from the default by chance only: each session's difference from the mean keeps its size, and a coin decides its sign. The
chance is the share of worlds in which a gain of the same size is found.
"""

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from foveal.analysis.measurement.shares import RESAMPLED, Interval, middle, share
from foveal.analysis.tune.grid import Variant
from foveal.analysis.tune.pick_rule import PickRule, pick
from foveal.analysis.tune.points import Cell, TunePoint, point_of

_WORLDS = 400
"""How many worlds are simulated."""

Cells: TypeAlias = Mapping[Variant, Sequence[Cell]]


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
    order = sorted(range(len(ids)), key=lambda at: (not is_long[at], _hash(ids[at]), at))
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


def _hash(session: str) -> bytes:
    return hashlib.sha256(session.encode("utf-8", "surrogatepass")).digest()
