"""Who counts as a rival, and how much of the way to the limit is gone."""

import pytest

from foveal.analysis.measurement.outcome import Figures
from foveal.analysis.measurement.shares import Interval
from foveal_bench.pooling import PRICE_MODELS, Row
from foveal_bench.ranking import as_data, ranking_table, rankings, verdicts


def row(policy, cost: float | dict[str, float], grounding, *, over=0, far=10, refused=0, group="all"):
    point = Interval(grounding, grounding)
    return Row(
        policy=policy,
        budget=32_000,
        group=group,
        sessions=2,
        figures=Figures(calls=100, over=over, far=far, refused=refused),
        cost=cost if isinstance(cost, dict) else dict.fromkeys(PRICE_MODELS, cost),
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
    (found,) = rankings(rows)
    assert found.best is not None
    assert found.best.policy == "window"
    assert found.way == pytest.approx(0.5)


def test_who_breaks_the_budget_is_no_rival():
    """Six calls of a hundred over the budget are too many; then nobody is left."""
    (found,) = rankings([row("foveal", 0.4, 0.8), row("clear", 0.3, 0.9, over=6)])
    assert (found.best, found.as_good, found.verdict) == (None, None, "alone")


@pytest.mark.parametrize(
    ("other", "verdict"),
    [
        (row("mask", 0.3, 0.8), "behind"),
        (row("mask", 0.4, 0.8), "level"),
        (row("mask", 0.5, 0.8), "ahead"),
        (row("mask", 0.3, 0.79), "ahead"),
        (row("full history", 1.0, 1.0), "ahead"),
    ],
)
def test_the_verdict_is_about_the_cheapest_that_keeps_as_much(other, verdict):
    """Who keeps as much and costs less is ahead of us; who keeps less is not, however cheap."""
    (found,) = rankings([row("foveal", 0.4, 0.8), other])
    assert found.verdict == verdict


def test_of_those_that_keep_as_much_the_cheapest_is_compared():
    """Not the best of them."""
    (found,) = rankings([row("foveal", 0.4, 0.8), row("dear", 0.6, 0.9), row("cheap", 0.5, 0.8)])
    assert found.as_good is not None
    assert found.as_good.policy == "cheap"


def test_a_set_without_far_clues_proves_nothing():
    """Where nobody can miss anything, keeping as much is no merit."""
    (found,) = rankings([row("foveal", 0.4, 1.0, far=0), row("mask", 0.3, 1.0, far=0)])
    assert found.verdict == "no far clues"


def test_where_foveal_refuses_nothing_is_claimed():
    """A budget below what must stay is refused; that is neither ahead nor behind."""
    (found,) = rankings([row("foveal", 0.4, 0.2, refused=60), row("mask", 0.5, 0.1)])
    assert found.verdict == "refused"


def test_our_own_parts_and_the_limit_are_no_rivals():
    """Foveal is not compared with itself, nor with what nobody could send."""
    (found,) = rankings([row("foveal", 1.0, 0.8), row("foveal, no digest", 0.3, 0.9), row("oracle", 0.3, 1.0)])
    assert (found.best, found.as_good) == (None, None)


def test_the_whole_history_is_a_rival_where_it_fits():
    """Who folds what fits, and loses by it, is told so."""
    (found,) = rankings([row("foveal", 1.1, 1.0), row("full history", 1.0, 1.0)])
    assert found.verdict == "behind"


def test_every_loss_is_listed_under_its_prices():
    """One price list may turn the order: the loss is named where it is one."""
    cheap_at_one = {name: 0.3 if name == "openai" else 0.5 for name in PRICE_MODELS}
    rows = [row("foveal", 0.4, 0.8), row("mask", cheap_at_one, 0.85)]
    losses = [line for line in verdicts(rows) if "**Behind**" in line]
    assert losses == ["- **Behind** at 32,000, all (2), openai: 0.400 / 0.800 against 0.300 / 0.850 mask."]
    assert "**behind**" in ranking_table(rows, "openai")
    assert "behind" not in ranking_table(rows)
    assert [one["verdict"] for one in as_data(rows)] == ["ahead", "behind", "ahead"]


def test_sets_are_counted_one_by_one_and_not_together_again():
    """Two sets and all of them: two comparisons are counted, three are shown."""
    rows = [row(policy, cost, 0.8, group=group) for policy, cost in (("foveal", 0.4), ("mask", 0.5)) for group in "ab"]
    rows += [row("foveal", 0.4, 0.8), row("mask", 0.5, 0.8)]
    assert next(verdicts(rows)) == "- anthropic: ahead in 2."
    assert len(rankings(rows)) == 3
