"""Which point is taken, and when the default stands."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.analysis.tune import PickRule, Variant
from foveal.analysis.tune.choice import LEAST_SESSIONS, choose, deal, frontier, gap_of, hold_out, pick, sound
from foveal.analysis.tune.points import TunePoint

from .traffic import cell, within

DEFAULT, CHEAP, GOOD, RICH = Variant(), Variant(arrival=0.05), Variant(arrival=0.1), Variant(target=0.8)


def point(cost, grounding, *, short_range=1.0, broken=0):
    return TunePoint(cost, grounding, grounding, short_range, broken)


POINTS = {DEFAULT: point(0.5, 0.8), CHEAP: point(0.40, 0.75), GOOD: point(0.45, 0.81), RICH: point(0.6, 0.9)}


def chosen(cells, rule=PickRule(), *, folds=3):  # noqa: B008 - frozen
    count = len(cells[DEFAULT])
    return choose(cells, rule, ids=[str(i) for i in range(count)], is_long=[True] * count, folds=folds)


def test_the_best_grounding_near_the_cheapest_that_is_as_good_as_the_default():
    """What is cheaper and worse does not count, nor what is better and dear."""
    assert pick(POINTS, PickRule()) == GOOD


def test_a_little_more_may_be_paid_for_better_grounding():
    """Within 5 % of the cheapest, the best is taken; beyond, it is not."""
    assert pick({**POINTS, RICH: point(0.472, 0.9)}, PickRule()) == RICH
    assert pick({**POINTS, RICH: point(0.473, 0.9)}, PickRule()) == GOOD


def test_equal_figures_leave_the_default():
    """Nobody changes a policy for nothing."""
    assert pick(dict.fromkeys(POINTS, point(0.5, 0.8)), PickRule()) == DEFAULT


def test_at_most_takes_the_best_that_is_cheap_enough():
    """And the cheapest of all where none is."""
    assert pick(POINTS, PickRule(at_most=0.44)) == CHEAP
    assert pick(POINTS, PickRule(at_most=1.0)) == RICH
    assert pick(POINTS, PickRule(at_most=0.1)) == CHEAP


def test_at_least_takes_the_cheapest_that_is_good_enough():
    """And the best of all where none is."""
    assert pick(POINTS, PickRule(at_least=0.8)) == GOOD
    assert pick(POINTS, PickRule(at_least=0.7)) == CHEAP
    assert pick(POINTS, PickRule(at_least=0.99)) == RICH


@pytest.mark.parametrize("wrong", [{"broken": 1}, {"short_range": 0.98}])
def test_what_breaks_calls_or_hides_what_was_just_seen_is_not_chosen(wrong):
    """However cheap it is."""
    points = {**POINTS, GOOD: point(0.2, 0.99, **wrong)}
    assert pick(points, PickRule()) == DEFAULT
    assert GOOD not in sound(points)


@given(st.dictionaries(st.sampled_from([*POINTS]), st.tuples(st.floats(0.1, 1.5), st.floats(0, 1)), min_size=1))
def test_the_frontier_is_what_nothing_beats(found):
    """Each of it is dearer and better than the one before; everything else is beaten or equalled by one of it."""
    points = {variant: point(*figures) for variant, figures in found.items()}
    best = [points[variant] for variant in frontier(points)]
    assert all(a.cost < b.cost and a.grounding < b.grounding for a, b in pairwise(best))
    for one in points.values():
        assert any(other.cost <= one.cost and other.grounding >= one.grounding for other in best)


@given(st.lists(st.booleans(), min_size=2, max_size=40), st.integers(2, 5))
def test_every_session_is_in_one_fold_and_long_ones_are_in_all(is_long, folds):
    """A fold without a long session would have nothing to measure."""
    dealt = deal([str(i) for i in range(len(is_long))], is_long, folds)
    assert sorted(at for fold in dealt for at in fold) == list(range(len(is_long)))
    counts = [sum(is_long[at] for at in fold) for fold in dealt]
    assert max(counts) - min(counts) <= 1


def test_a_fold_is_measured_by_what_the_others_chose():
    """A policy that shines on one session alone is not chosen for that session."""
    cells = {DEFAULT: [cell()] * 3, GOOD: [cell(0.1, 1.0), cell(0.9, 0.9), cell(0.9, 0.9)]}
    held = hold_out(cells, PickRule(), [[0], [1], [2]])
    assert held.picks[0] == DEFAULT
    assert held.picks[1:] == (GOOD, GOOD) or held.picks[1:] == (DEFAULT, DEFAULT)
    assert held.point.cost >= 0.5


def test_the_gap_is_taken_session_by_session():
    """Sessions differ widely and the gap does not: the interval is as narrow as the gap is sure."""
    gap = gap_of([cell(i / 10 - 0.05) for i in range(1, 10)], [cell(i / 10) for i in range(1, 10)])
    assert gap.cost == pytest.approx(-0.05)
    assert within(gap.cost_interval, -0.0501, -0.0499)
    assert within(gap.grounding_interval, -1e-9, 1e-9)


def test_what_holds_on_sessions_that_it_was_not_chosen_by_is_recommended():
    """Every session agrees, and there are enough of them."""
    choice = chosen({DEFAULT: [cell()] * LEAST_SESSIONS, GOOD: [cell(0.4, 0.85)] * LEAST_SESSIONS})
    assert (choice.recommended, choice.reason) == (GOOD, "better")
    assert choice.held_out is not None
    assert choice.held_out.picks == (GOOD,) * 3


def test_too_few_sessions_leave_the_default():
    """One fewer than it takes, however well they agree; what would have been chosen is told."""
    choice = chosen({DEFAULT: [cell()] * (LEAST_SESSIONS - 1), GOOD: [cell(0.4, 0.85)] * (LEAST_SESSIONS - 1)})
    assert (choice.recommended, choice.best, choice.reason) == (DEFAULT, GOOD, "few")


def test_what_may_be_chance_leaves_the_default():
    """A few sessions gain much and the others lose: drawn anew, it may be either."""
    some = [cell(0.1, 0.85), cell(0.1, 0.85), *[cell(0.55, 0.85)] * 6]
    choice = chosen({DEFAULT: [cell(0.5, 0.85)] * 8, CHEAP: some})
    assert (choice.recommended, choice.best, choice.reason) == (DEFAULT, CHEAP, "same")


def test_a_gain_that_all_share_is_no_chance_and_one_that_few_have_may_be():
    """The mean is the same."""
    folds = [[0, 1], [2, 3], [4, 5]]
    all_gain, few_gain = [cell(0.4)] * 6, [cell(0.1), cell(0.3), *[cell(0.5)] * 4]
    sure, unsure = (hold_out({DEFAULT: [cell()] * 6, GOOD: gain}, PickRule(), folds) for gain in (all_gain, few_gain))
    assert sure.cost_chance < 0.01
    assert unsure.cost_chance > 0.1


def test_luck_is_seldom_taken_for_a_gain():
    """Of twenty sets of sessions in which no policy is better than another, hardly any yields a recommendation."""
    draw, taken = random.Random(7), 0
    for _ in range(20):
        tried = (DEFAULT, CHEAP, GOOD, RICH)
        noise = {one: [cell(0.5 + draw.gauss(0, 0.03), 0.8 + draw.gauss(0, 0.03)) for _ in range(8)] for one in tried}
        taken += chosen({**noise, DEFAULT: [cell()] * 8}).recommended != DEFAULT
    assert taken <= 2


def test_one_session_is_not_held_out_from_itself():
    """There is nothing to cross-validate by."""
    choice = chosen({DEFAULT: [cell()], GOOD: [cell(0.4, 0.85)]})
    assert choice.held_out is None
    assert (choice.recommended, choice.reason) == (DEFAULT, "few")


def test_what_was_asked_for_is_given_where_the_default_is_not_it():
    """Even by one session: the default would be the wrong answer for sure."""
    choice = chosen({DEFAULT: [cell()], CHEAP: [cell(0.3, 0.7)]}, PickRule(at_most=0.4))
    assert (choice.recommended, choice.reason) == (CHEAP, "asked")


def test_the_default_can_be_best():
    """Then nothing else is recommended, and nothing is said of doubt."""
    choice = chosen({DEFAULT: [cell()] * 8, CHEAP: [cell(0.4, 0.6)] * 8})
    assert (choice.recommended, choice.reason) == (DEFAULT, "best")


def test_the_same_sessions_give_the_same_choice():
    """Drawing is seeded."""
    cells = {DEFAULT: [cell(0.5 + i / 50) for i in range(7)], GOOD: [cell(0.4 + i / 40, 0.82) for i in range(7)]}
    assert chosen(cells) == chosen(cells)
