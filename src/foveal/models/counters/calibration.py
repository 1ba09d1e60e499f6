"""The calibration of a model: its true factor, learned from the usage that the provider reports."""

from functools import lru_cache
from math import ceil
from typing import Self

import msgspec

_WINDOW = 16  # recent calls kept: enough to leave out one outlier, few enough to follow a change of content
_NEEDED = 3  # fewer samples say more about one prompt than about the model
_PLAUSIBLE = (0.5, 3.5)  # outside this a sample is a mistake: another model answered, or cached tokens counted twice
_QUANTILE = 0.9  # upper-leaning: the highest ratio of up to nine samples, the second highest of ten to sixteen


class Calibration(msgspec.Struct, frozen=True):
    """The last ratios of provider-reported input tokens (cached ones included) to our count of the same prompt."""

    ratios: tuple[float, ...] = ()

    def observe(self, estimated: int, actual: int) -> Self:
        """Return the calibration after one more call; an implausible sample changes nothing."""
        if estimated <= 0 or not _PLAUSIBLE[0] <= actual / estimated <= _PLAUSIBLE[1]:
            return self
        return type(self)((*self.ratios, actual / estimated)[-_WINDOW:])

    def factor(self, default: float) -> float:
        """Return the factor to multiply counts by: a high quantile of the recent ratios, or `default` before there are enough."""
        if len(self.ratios) < _NEEDED:
            return default
        ordered = sorted(self.ratios)
        return ordered[ceil(_QUANTILE * len(ordered)) - 1]


@lru_cache(256)
def factor_of(usage: tuple[tuple[int, int], ...], default: float) -> float:
    """Return the factor after calls of which our count and the provider's are given. A prompt asks for it several times."""
    calibration = Calibration()
    for estimated, actual in usage:
        calibration = calibration.observe(estimated, actual)
    return calibration.factor(default)
