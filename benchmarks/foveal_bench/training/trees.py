"""Boosted trees for yes and no, in plain Python: each tree is grown on the errors of those before it.

The usual method. A row's gradient is the error of the guess, its hessian how far it can still be moved. Values are put into
bins, so that the best split of a node is found by adding up its rows once for each feature. The leaf whose split gains most is
split next. Each tree sees a part of the features only, which keeps trees from all saying the same.

No library is used, because the trees are few and small: they are grown in seconds, and nobody has to install two hundred
megabytes for it.
"""

import random
from collections import Counter
from collections.abc import Iterable, Sequence
from math import exp, log
from typing import NamedTuple, TypeAlias

from foveal.summary.relevance.weights import Tree
from foveal_bench.training.rows import Row

TREES = 16
LEAVES = 10
RATE = 0.25
"""The share of a tree's value that is added: the next trees can correct it."""
LEAST_HESSIAN = 10.0
"""The least hessian of a leaf: about two hundred rows of which one in fifty was needed."""
STIFFNESS = 5.0
"""Added to the hessian of every leaf, so that small leaves say little."""
PART = 0.7
"""The share of the features that each tree sees."""
BINS = 64
MOST_ROWS = 100_000
"""The most needed rows, and the most others: of more rows, which hundreds of sessions have, a part is drawn. All rows would
take longer and teach such small trees little: with a fifth of them, far grounding on sessions held aside was 0.005 less."""
_SEED = 7

Sums: TypeAlias = list[complex]
"""Sums of each bin: gradients as the real part, hessians as the imaginary one, so that one addition adds both."""


class _Column(NamedTuple):
    """One feature: the bin of each row, and the threshold above each bin but the last."""

    bins: bytes
    thresholds: list[float]


class _Split(NamedTuple):
    gain: float
    feature: int
    bin: int
    """The last bin on the low side."""


class _Leaf(NamedTuple):
    rows: Sequence[int]
    sums: dict[int, Sums]
    total: complex
    split: _Split
    """The best split of this leaf."""
    parent: int = -1
    side: int = 0
    """The position of its number in its parent's node."""


def boosted(rows: Sequence[Row]) -> tuple[Tree, ...]:
    """Return trees that tell the needed rows from the others. The same rows give the same trees."""
    draw = random.Random(_SEED)
    rows = [
        row for is_needed in (True, False) for row in _drawn([one for one in rows if one.needed == is_needed], draw)
    ]
    columns = [_column(values) for values in zip(*(row.features for row in rows), strict=True)]
    start = _log_odds(rows)
    scores, trees = [start] * len(rows), list[Tree]()
    for number in range(TREES):
        slopes = [_slope(score, row) for score, row in zip(scores, rows, strict=True)]
        features = sorted(draw.sample(range(len(columns)), round(len(columns) * PART)))
        growth = _Growth({feature: columns[feature] for feature in features}, slopes)
        growth.grow()
        for leaf in growth.leaves:
            value = _value(leaf.total)
            for i in leaf.rows:
                scores[i] += value
        trees.append(growth.tree(0.0 if number else start))
    return tuple(trees)


class _Growth:
    """A tree that is being grown."""

    def __init__(self, columns: dict[int, _Column], slopes: Sequence[complex]) -> None:
        self._columns, self._slopes = columns, slopes
        self._nodes: list[list[int]] = []
        rows = range(len(slopes))
        self.leaves = [self._leaf(rows, self._sums(rows), sum(slopes))]

    def grow(self) -> None:
        """Split the leaf that gains most, until there are enough or nothing is gained."""
        while len(self.leaves) < LEAVES:
            at = max(range(len(self.leaves)), key=lambda i: self.leaves[i].split.gain)
            leaf = self.leaves[at]
            if leaf.split.gain <= 0:
                return
            self.leaves[at : at + 1] = self._children(leaf)

    def tree(self, plus: float) -> Tree:
        """Return the tree in the package's form. `plus` is added to every leaf."""
        nodes = [list(node) for node in self._nodes]
        for number, leaf in enumerate(self.leaves):
            if leaf.parent >= 0:
                nodes[leaf.parent][leaf.side] = -1 - number
        return Tree(
            tuple((feature, self._columns[feature].thresholds[bin_], low, high) for feature, bin_, low, high in nodes),
            tuple(round(_value(leaf.total) + plus, 4) for leaf in self.leaves),
        )

    def _children(self, leaf: _Leaf) -> tuple[_Leaf, _Leaf]:
        at, (_, feature, bin_) = len(self._nodes), leaf.split
        self._nodes.append([feature, bin_, 0, 0])
        if leaf.parent >= 0:
            self._nodes[leaf.parent][leaf.side] = at
        bins = self._columns[feature].bins
        low = [i for i in leaf.rows if bins[i] <= bin_]
        high = [i for i in leaf.rows if bins[i] > bin_]
        total = sum(leaf.sums[feature][: bin_ + 1])
        # The sums of the larger part are the rest: only the smaller part is added up.
        small = self._sums(min(low, high, key=len))
        large = {one: [a - b for a, b in zip(leaf.sums[one], small[one], strict=True)] for one in small}
        sums = (small, large) if len(low) <= len(high) else (large, small)
        return (
            self._leaf(low, sums[0], total, (at, 2)),
            self._leaf(high, sums[1], leaf.total - total, (at, 3)),
        )

    def _leaf(
        self, rows: Sequence[int], sums: dict[int, Sums], total: complex, place: tuple[int, int] = (-1, 0)
    ) -> _Leaf:
        best = max((_best(feature, of_feature, total) for feature, of_feature in sums.items()))
        return _Leaf(rows, sums, total, best, *place)

    def _sums(self, rows: Sequence[int]) -> dict[int, Sums]:
        slopes = [self._slopes[i] for i in rows]
        found = dict[int, Sums]()
        for feature, column in self._columns.items():
            sums = found[feature] = [0j] * (len(column.thresholds) + 1)
            for bin_, slope in zip(map(column.bins.__getitem__, rows), slopes, strict=True):
                sums[bin_] += slope
        return found


def _best(feature: int, sums: Sums, total: complex) -> _Split:
    """Return the best split of a feature; one without gain if there is none."""
    best, low, whole = _Split(0.0, feature, 0), 0j, _worth(total)
    for bin_, one in enumerate(sums[:-1]):
        low += one
        high = total - low
        if min(low.imag, high.imag) >= LEAST_HESSIAN:
            gain = _worth(low) + _worth(high) - whole
            if gain > best.gain:
                best = _Split(gain, feature, bin_)
    return best


def _worth(total: complex) -> float:
    return total.real * total.real / (total.imag + STIFFNESS)


def _value(total: complex) -> float:
    return -RATE * total.real / (total.imag + STIFFNESS)


def _slope(score: float, row: Row) -> complex:
    chance = 1.0 / (1.0 + exp(-score))
    return complex(row.weight * (chance - row.needed), row.weight * chance * (1.0 - chance))


def _drawn(rows: Sequence[Row], draw: random.Random) -> Sequence[Row]:
    """Return at most MOST_ROWS rows, which count for all."""
    if len(rows) <= MOST_ROWS:
        return rows
    each = len(rows) / MOST_ROWS
    return [row._replace(weight=row.weight * each) for row in draw.sample(rows, MOST_ROWS)]


def _log_odds(rows: Iterable[Row]) -> float:
    needed, others = 1.0, 1.0
    for row in rows:
        if row.needed:
            needed += row.weight
        else:
            others += row.weight
    return log(needed / others)


def _column(values: Sequence[float]) -> _Column:
    """Return the column, with each value in a bin of its own if there are few, else in one of at least a BINS-th of the rows."""
    counts = sorted(Counter(values).items())
    least = len(values) / BINS if len(counts) > BINS else 0
    bin_of, thresholds, held = dict[float, int](), list[float](), 0
    for at, (value, count) in enumerate(counts):
        bin_of[value] = len(thresholds)
        held += count
        if held >= least and at + 1 < len(counts):
            thresholds.append(round((value + counts[at + 1][0]) / 2, 3))
            held = 0
    return _Column(bytes(map(bin_of.__getitem__, values)), thresholds)
