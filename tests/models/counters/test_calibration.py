"""Learning the factor from reported usage."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from foveal.models.counters import Calibration

SAMPLE = st.tuples(st.integers(-10, 10**7), st.integers(-10, 10**7))


def observed(*samples: tuple[int, int]) -> Calibration:
    calibration = Calibration()
    for estimated, actual in samples:
        calibration = calibration.observe(estimated, actual)
    return calibration


def test_before_three_samples_the_default_stands() -> None:
    """Two calls do not make a calibration."""
    assert observed((1_000, 1_300), (1_000, 1_300)).factor(1.45) == 1.45


def test_three_samples_give_the_highest_of_them() -> None:
    """With little evidence the upper side is the maximum."""
    assert observed((1_000, 1_200), (1_000, 1_300), (1_000, 1_250)).factor(1.45) == 1.3


def test_one_outlier_among_many_is_left_out() -> None:
    """A single odd call among sixteen does not move the factor."""
    assert observed(*[(1_000, 1_200)] * 14, (1_000, 3_000), (1_000, 1_200)).factor(1.0) == 1.2


def test_absurd_samples_change_nothing() -> None:
    """A ratio below a half or above four, or an empty estimate, is a mistake and not a measurement."""
    calibration = observed((1_000, 1_200))
    for estimated, actual in ((1_000, 499), (1_000, 4_001), (0, 5), (-5, -6), (1_000, 0)):
        assert calibration.observe(estimated, actual) == calibration


def test_old_samples_are_forgotten() -> None:
    """The window is bounded, so a change of content is followed."""
    assert observed(*[(1_000, 2_000)] * 50, *[(1_000, 1_100)] * 16).factor(1.0) == 1.1


@given(st.lists(SAMPLE, max_size=60), st.floats(0.5, 4))
def test_the_factor_is_plausible_upper_leaning_and_reproducible(samples: list[tuple[int, int]], default: float) -> None:
    """Whatever is observed: bounded memory, same input same factor, at least the median of what is kept."""
    calibration = observed(*samples)
    factor = calibration.factor(default)
    assert len(calibration.ratios) <= 16
    assert observed(*samples) == calibration
    assert 0.5 <= factor <= 4
    if len(calibration.ratios) >= 3:
        assert sum(ratio <= factor for ratio in calibration.ratios) >= 0.9 * len(calibration.ratios) - 1e-9
        assert factor in calibration.ratios


def test_a_calibration_survives_storage() -> None:
    """It is plain data: written and read back it is the same."""
    calibration = observed((1_000, 1_200), (3, 4))
    assert msgspec.json.decode(msgspec.json.encode(calibration), type=Calibration) == calibration
