"""Sums, prices and intervals."""

import pytest

from foveal.analysis.measurement.outcome import Figures, PolicyOutcome
from foveal.analysis.measurement.shares import interval, share
from foveal_bench.pooling import PRICE_MODELS, added, cost_of, row_of


def outcome(tokens=((10_000, 0, 10_000, 0),), **figures):
    return PolicyOutcome("mine", 32_000, "set", "session", Figures(**{"calls": len(tokens), **figures}), tuple(tokens))


def test_the_same_tokens_cost_the_same():
    """A policy that sends the whole history has a ratio of one under every price list."""
    row = row_of([outcome(((10_000, 0, 10_000, 0), (20_000, 9_984, 20_000, 9_984)))], "set")
    assert row.cost == dict.fromkeys(PRICE_MODELS, 1.0)


def test_reading_a_cache_costs_a_tenth_and_writing_it_a_quarter_more():
    """Anthropic's prices: 10,000 tokens read and 10,000 written against 20,000 written."""
    cost = cost_of(outcome(((20_000, 10_000, 20_000, 0),)), "anthropic")
    assert cost.ratio == pytest.approx((0.1 + 1.25) / 2.5)


def test_a_prefix_below_the_minimum_is_not_cached():
    """1,000 shared tokens are written anew."""
    cost = cost_of(outcome(((2_000, 1_000, 2_000, 0),)), "anthropic")
    assert cost.ratio == 1.0


def test_figures_add_up_and_the_largest_stays_the_largest():
    """Counts are summed, also by age; the largest prompt is a maximum."""
    total = added([Figures(calls=2, largest=5, ages=[1, 0, 0, 0]), Figures(calls=3, largest=4, ages=[1, 2, 0, 0])])
    assert (total.calls, total.largest, total.ages) == (5, 5, [2, 2, 0, 0])


def test_a_share_of_nothing_is_whole():
    """A session without far clues has missed none."""
    assert share([]) == 1.0


def test_an_interval_holds_the_figure_and_is_the_same_each_time():
    """Sessions are drawn anew with a seed."""
    pairs = [(n % 7, 7) for n in range(40)]
    found = interval(pairs)
    assert found.low < share(pairs) < found.high
    assert interval(pairs) == found


def test_sessions_that_agree_leave_no_doubt():
    """The interval of equal sessions is a point."""
    found = interval([(1, 2)] * 10)
    assert (found.low, found.high) == (0.5, 0.5)
