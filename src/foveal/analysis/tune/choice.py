"""The choice of a policy: the default, unless another beats it on sessions that it was not chosen by."""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from foveal.analysis.tune.cross_validation import Cells, HeldOut, deal, hold_out
from foveal.analysis.tune.grid import Variant
from foveal.analysis.tune.pick_rule import WITHIN, PickRule, pick
from foveal.analysis.tune.points import TunePoint, point_of

LEAST_SESSIONS = 6
"""With fewer, all of them may agree by chance: five coins show heads once in thirty-two times, six once in sixty-four."""

_AS_WELL = 0.005
"""Far grounding that is lower by less than this is as good: one clue in two hundred."""
_CHANCE = 0.025
"""A gain that chance finds more often is none."""

ChoiceReason: TypeAlias = Literal["best", "few", "same", "better", "asked"]
"""Why a policy is recommended: the default is best, there are too few sessions, they show no difference, it is better, the
default does not meet the condition."""


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
