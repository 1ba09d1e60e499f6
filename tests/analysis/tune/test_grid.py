"""The policies that are tried."""

import pytest

from foveal.analysis.tune import GRIDS, Variant
from foveal.session.policy import DEFAULT_STAGES, BudgetTable, Policy, Summarise, Superseded
from foveal.values.budget import sent_limit


def test_the_variant_that_changes_nothing_is_the_default_policy():
    """Sending as much, with its target and the room for the reply written out."""
    policy = Variant().policy(10_000)
    assert policy == Policy(budget=BudgetTable(limit=11_000, target=0.6, reserve=1_000), economy="whole")
    assert policy.economy_tokens is None
    assert policy.budget_for(400_000) == sent_limit(10_000, 1_000)


@pytest.mark.parametrize("size", GRIDS)
def test_the_default_is_tried_first_and_nothing_twice(size):
    """Names are what outcomes are told apart by."""
    names = [variant.name for variant in GRIDS[size]]
    assert names[0] == "default"
    assert len(set(names)) == len(names)


def test_the_grids_are_small_enough_to_wait_for():
    """Ten, and no more than two dozen; the small one is part of the full one."""
    assert len(GRIDS["small"]) == 10
    assert 12 <= len(GRIDS["full"]) <= 24
    assert set(GRIDS["small"]) < set(GRIDS["full"])


@pytest.mark.parametrize(("budget", "economies"), [(32_000, 1), (60_000, 2), (200_000, 3)])
def test_an_economy_is_tried_where_it_makes_a_difference(budget, economies):
    """Under a budget below its tokens it would be the default once more."""
    tried = {variant.economy for variant in GRIDS["small"] if variant.differs_at(budget)}
    assert len(tried) == economies


@pytest.mark.parametrize("variant", GRIDS["full"], ids=lambda variant: variant.name)
def test_every_variant_is_a_policy_at_any_budget(variant):
    """Its budget holds together, and a summary leaves room for something else within the target."""
    for budget in (1, 50, 32_000, 1_000_000):
        assert variant.policy(budget).budget_for(400_000).sendable == budget
    assert variant.share < variant.target


def test_only_the_summary_that_is_no_last_resort_takes_another_size():
    """What is done when nothing else helps stays as it is; both choose lines alike."""
    stages = Variant(share=0.3, keep=0.2, score="recency").policy(10_000).stages
    first, last = [stage for stage in stages if isinstance(stage, Summarise)]
    assert (first.share, first.keep, first.score) == (0.3, 0.2, "recency")
    before = [stage for stage in DEFAULT_STAGES if isinstance(stage, Summarise)][-1]
    assert (last.share, last.keep, last.score) == (before.share, before.keep, "recency")


def test_edited_reads_go_first():
    """With what was read again; no stage is added or lost."""
    stages = Variant(edited=True).policy(10_000).stages
    assert len(stages) == len(DEFAULT_STAGES)
    assert isinstance(stages[0], Superseded)
    assert stages[0].edited
    assert isinstance(DEFAULT_STAGES[0], Superseded)
    assert not DEFAULT_STAGES[0].edited


def test_a_name_says_all_that_differs():
    """And nothing else."""
    assert Variant(target=0.4, share=0.3, arrival=0.05).name == "target 0.4, summary 0.3, arrival 0.05"
    assert Variant(keep=0.2, edited=True, score="recency").name == "keep 0.2, edited reads first, lines by recency"
