"""Learning the factor from reported usage."""

from hypothesis import given
from hypothesis import strategies as st

from foveal.models.counters import factor_of
from foveal.models.counters.calibration import usage_ratios

SAMPLE = st.tuples(st.integers(-10, 10**7), st.integers(-10, 10**7))


def test_before_three_samples_the_default_stands() -> None:
    """Two calls do not make a calibration."""
    assert factor_of([(1_000, 1_300), (1_000, 1_300)], 1.45) == 1.45


def test_three_samples_give_the_highest_of_them() -> None:
    """With little evidence the upper side is the maximum."""
    assert factor_of([(1_000, 1_200), (1_000, 1_300), (1_000, 1_250)], 1.45) == 1.3


def test_one_outlier_among_many_is_left_out() -> None:
    """A single odd call among sixteen does not move the factor."""
    assert factor_of([*[(1_000, 1_200)] * 14, (1_000, 3_000), (1_000, 1_200)], 1.0) == 1.2


def test_absurd_samples_change_nothing() -> None:
    """A ratio below a half or above three and a half, or an empty estimate, is a mistake and not a measurement."""
    for absurd in ((1_000, 499), (1_000, 3_501), (0, 5), (-5, -6), (1_000, 0)):
        assert usage_ratios([(1_000, 1_200), absurd]) == [1.2]


def test_old_samples_are_forgotten() -> None:
    """The window is bounded, so a change of content is followed."""
    assert factor_of([*[(1_000, 2_000)] * 50, *[(1_000, 1_100)] * 16], 1.0) == 1.1


@given(st.lists(SAMPLE, max_size=60), st.floats(0.5, 4))
def test_the_factor_is_plausible_and_upper_leaning(samples: list[tuple[int, int]], default: float) -> None:
    """Whatever is reported: bounded memory, and nearly all of the ratios kept lie at or below the factor."""
    ratios, factor = usage_ratios(samples), factor_of(samples, default)
    assert len(ratios) <= 16
    assert 0.5 <= factor <= 4
    if len(ratios) >= 3:
        assert sum(ratio <= factor for ratio in ratios) >= 0.9 * len(ratios) - 1e-9
        assert factor in ratios
