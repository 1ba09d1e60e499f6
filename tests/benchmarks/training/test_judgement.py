"""Weights are judged by what prompts show of what the agent needs from far back."""

import pytest

from foveal.analysis.measurement.outcome import Job, measure
from foveal.summary.relevance.score import shipped_weights
from foveal_bench.ablations import PARTS
from foveal_bench.training.judgement import OWN, PACKAGE, RECENCY, figure, gap, replayed

from .made import case

BUDGET = 3_000


@pytest.fixture(scope="module")
def cases():
    return [case("alpha"), case("beta", steps=26)]


def test_the_package_and_recency_are_measured_as_the_benchmark_measures_them(cases):
    """The same replay, the same figures."""
    found = replayed(cases, shipped_weights(), budget=BUDGET, jobs=1, tick=lambda calls: None)
    for name, policy in ((PACKAGE, "foveal"), (RECENCY, "foveal, digest by recency")):
        figures = [measure(one, Job(policy, BUDGET), PARTS[policy]).figures for one in reversed(cases)]
        assert found[name] == [(one.far_shown, one.far) for one in figures]
        assert all(one.far for one in figures)


def test_weights_are_judged_by_themselves(cases):
    """The package's weights given as one's own show what the package's show."""
    found = replayed(cases, shipped_weights(), budget=BUDGET, jobs=1, tick=lambda calls: None)
    assert found[OWN] == found[PACKAGE]


def test_progress_counts_every_call_of_every_score(cases):
    """Three of them."""
    done = list[int]()
    replayed(cases[:1], shipped_weights(), budget=BUDGET, jobs=1, tick=done.append)
    assert done == [24, 24, 24]


def test_a_gap_is_taken_session_by_session():
    """Sessions differ much and both scores alike: the interval of the difference is narrow."""
    mine, other = [(90.0, 100.0), (20.0, 100.0)] * 10, [(80.0, 100.0), (10.0, 100.0)] * 10
    between = gap(mine, other)
    assert between.value == pytest.approx(0.1)
    assert between.interval.high - between.interval.low < 0.001
    assert figure(mine).interval.high - figure(mine).interval.low > 0.2
