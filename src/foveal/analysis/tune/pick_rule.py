"""The rule that picks one of several policies by their cost and far grounding over some sessions."""

from collections.abc import Mapping

import msgspec

from foveal.analysis.tune.grid import Variant
from foveal.analysis.tune.points import TunePoint

WITHIN = 0.05
"""The share of the cheapest policy's cost that may be paid on top for better grounding."""

SHORT_RANGE = 0.01
"""How much less of the recent clues than the default a policy may show: an agent that forgets its last steps is lost."""


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
