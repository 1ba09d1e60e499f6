"""Who counts as a rival, and how much of the way to the limit is gone."""

import pytest

from foveal.bench.measure import Figures
from foveal.bench.pooling import PRICE_MODELS, Interval, Row
from foveal.bench.standing import standing_table, standings


def row(policy, cost, grounding, over=0):
    point = Interval(grounding, grounding)
    return Row(
        policy=policy,
        budget=32_000,
        group="all",
        sessions=2,
        figures=Figures(calls=100, over=over),
        cost=dict.fromkeys(PRICE_MODELS, cost),
        grounding=grounding,
        on_offer=1.0,
        complete=1.0,
        short_range=1.0,
        cached=1.0,
        listed=0.0,
        cpu_ms=1.0,
        by_age=(1.0,) * 4,
        grounding_interval=point,
        cost_interval=point,
    )


def test_the_way_is_measured_from_the_best_that_costs_no_more():
    """From 0.6, which costs less, to the limit of 1.0: 0.8 is half of the way; what costs more does not count."""
    rows = [row("foveal", 0.4, 0.8), row("oracle", 0.3, 1.0), row("window", 0.4, 0.6), row("dear", 0.5, 0.9)]
    (found,) = standings(rows)
    assert found.best is not None
    assert found.best.policy == "window"
    assert found.way == pytest.approx(0.5)


def test_who_breaks_the_budget_is_no_rival():
    """Two calls of a hundred over the budget are too many."""
    (found,) = standings([row("foveal", 0.4, 0.8), row("clear", 0.3, 0.9, over=2)])
    assert (found.best, found.cheaper) == (None, None)


def test_a_policy_that_is_cheaper_and_as_good_is_named_in_bold():
    """Where we lose, the table says so."""
    assert "**0.30 / 0.85 mask**" in standing_table([row("foveal", 0.4, 0.8), row("mask", 0.3, 0.85)])


def test_our_own_parts_the_whole_history_and_the_limit_are_no_rivals():
    """Foveal is not compared with itself, nor with what nobody could send."""
    rows = [
        row("foveal", 1.0, 0.8),
        row("foveal, no digest", 0.3, 0.9),
        row("full history", 1.0, 1.0),
        row("oracle", 0.3, 1.0),
    ]
    (found,) = standings(rows)
    assert (found.best, found.cheaper) == (None, None)
