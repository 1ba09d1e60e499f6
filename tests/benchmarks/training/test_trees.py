"""Boosted trees: what can be told is told, and what comes of it can be read as weights."""

import random
from math import exp, log

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.summary.relevance.weights import LINE_FEATURES, Weights
from foveal_bench.training import trees as module
from foveal_bench.training.trees import BINS, LEAVES, TREES, boosted

from .made import row


def drawn(told, count=4_000, seed=1):
    """Rows of three features; whether each was needed is told by them."""
    draw = random.Random(seed)
    found = [(draw.randrange(40), draw.randrange(5), draw.random() * 500) for _ in range(count)]
    return [row(*one, needed=told(*one)) for one in found]


def leaf(tree, features):
    place = 0 if tree.nodes else -1
    while place >= 0:
        feature, threshold, low, high = tree.nodes[place]
        place = low if features[feature] <= threshold else high
    return tree.leaves[-1 - place]


def chances(trees, rows):
    return [1 / (1 + exp(-sum(leaf(tree, one.features) for tree in trees))) for one in rows]


@pytest.mark.parametrize(
    "told",
    [
        lambda a, b, c: a > 20,
        lambda a, b, c: b == 2,
        lambda a, b, c: c <= 250,
        lambda a, b, c: (a > 20) != (c <= 250),
    ],
    ids=["a threshold", "a value among others", "a fraction", "two at once"],
)
def test_what_the_features_tell_is_learned(told):
    """On rows that the trees have not seen."""
    trees, fresh = boosted(drawn(told)), drawn(told, seed=2)
    right = sum((chance > 0.5) == one.needed for chance, one in zip(chances(trees, fresh), fresh, strict=True))
    assert right / len(fresh) > 0.95


def test_what_nothing_tells_is_left_at_its_share():
    """All that is known of a row is how many are needed."""
    rows = [row(0.0, 1.0, needed=i % 10 == 0) for i in range(1_000)]
    assert chances(boosted(rows), rows[:1])[0] == pytest.approx(0.1, abs=0.005)


def test_a_row_counts_as_much_as_it_weighs():
    """One that stands for four is four."""
    rows = [row(0.0, needed=True)] * 100 + [row(0.0, needed=False, weight=4.0)] * 100
    assert sum(tree.leaves[0] for tree in boosted(rows)) == pytest.approx(log(101 / 401), abs=0.01)


def test_trees_are_few_and_small():
    """They are evaluated for every line of every fold."""
    found = boosted(drawn(lambda a, b, c: (a * 7 + b * 3 + int(c)) % 5 == 0))
    assert len(found) == TREES
    assert max(len(tree.leaves) for tree in found) <= LEAVES


def test_of_many_rows_a_part_is_drawn(monkeypatch):
    """The same one every time."""
    monkeypatch.setattr(module, "MOST_ROWS", 500)
    rows = drawn(lambda a, b, c: a > 20)
    assert boosted(rows) == boosted(rows)
    assert boosted(rows) != boosted(rows[:1_000])


def test_a_value_is_in_the_bin_that_its_thresholds_say():
    """Also where there are more values than bins."""
    for values in (list(range(1_000)), [0.5] * 900 + list(range(100)), [3.0]):
        bins, thresholds = module._column(values)
        assert len(thresholds) < BINS + 1
        assert thresholds == sorted(set(thresholds))
        assert [sum(value > edge for edge in thresholds) for value in values] == list(bins)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 200))
def test_whatever_the_rows_the_trees_can_be_read_as_weights(seed, count):
    """One class only, few rows, constant features."""
    draw = random.Random(seed)
    width = len(LINE_FEATURES)
    rows = [
        row(*(draw.choice((0, 1, 999, draw.random())) for _ in range(width)), needed=draw.random() < 0.3, weight=20.0)
        for _ in range(count)
    ]
    assert len(Weights((), boosted(rows)).lines) == TREES
