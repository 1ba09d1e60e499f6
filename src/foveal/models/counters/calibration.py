"""The calibration of a model: its true factor, learned from the usage that the provider reports."""

from collections.abc import Iterable
from math import ceil

_WINDOW = 16  # recent calls kept: enough to leave out one outlier, few enough to follow a change of content
_NEEDED = 3  # fewer samples say more about one prompt than about the model
_PLAUSIBLE = (0.5, 3.5)  # outside this a sample is a mistake: another model answered, or cached tokens counted twice
_QUANTILE = 0.9  # upper-leaning: the highest ratio of up to nine samples, the second highest of ten to sixteen


def usage_ratios(usage: Iterable[tuple[int, int]]) -> list[float]:
    """Return the last ratios of the provider's count (cached tokens included) to ours, without implausible ones."""
    least, most = _PLAUSIBLE
    ratios = [actual / estimated for estimated, actual in usage if estimated > 0]
    return [ratio for ratio in ratios if least <= ratio <= most][-_WINDOW:]


def factor_of(usage: Iterable[tuple[int, int]], default: float) -> float:
    """Return the factor to multiply counts by: a high quantile of the recent ratios, or `default` before there are enough."""
    ratios = sorted(usage_ratios(usage))
    return default if len(ratios) < _NEEDED else ratios[ceil(_QUANTILE * len(ratios)) - 1]
