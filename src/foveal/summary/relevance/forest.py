"""Evaluation of many rows by a few trees at once, column by column.

A value of a feature rules out the leaves that it cannot reach: in each tree, those on the other side of every node that
tests that feature. So a value is represented by the set of leaves that remain, and the intersection over all values of a
row is one leaf a tree. Sets are bits of an integer, and rows that end in the same leaves are summed once.
"""

from collections.abc import Iterable
from functools import lru_cache
from math import exp
from typing import TypeAlias

from foveal.summary.relevance.features import FeatureRow, FeatureTable
from foveal.summary.relevance.weights import Tree

_KEPT = 16_384
"""Cached values of a feature and ends of rows: more than a long session has, and fewer than all possible ones."""

TreeNode: TypeAlias = tuple[float, int, int]
"""A threshold, the leaves that remain up to it, and the leaves that remain above it."""


class _Column(dict[float, int]):
    """The leaves that remain for each value of one feature; filled as values are met."""

    def __init__(self, nodes: list[TreeNode], everything: int) -> None:
        super().__init__()
        self._nodes, self._everything = nodes, everything

    def __missing__(self, value: float) -> int:
        left = self._everything
        for threshold, low, high in self._nodes:
            left &= low if value <= threshold else high
        if len(self) < _KEPT:
            self[value] = left
        return left


class _Chances(dict[int, float]):
    """The chance for each set of leaves, one of each tree; filled as they are met."""

    def __init__(self, leaves: list[float]) -> None:
        super().__init__()
        self._leaves = leaves

    def __missing__(self, ends: int) -> float:
        total, left = 0.0, ends
        while left:
            lowest = left & -left
            total += self._leaves[lowest.bit_length() - 1]
            left ^= lowest
        chance = 1.0 / (1.0 + exp(-total))
        if len(self) < _KEPT:
            self[ends] = chance
        return chance


class Forest:
    """Trees over these features."""

    def __init__(self, trees: Iterable[Tree], features: tuple[str, ...]) -> None:
        leaves, nodes = list[float](), dict[str, list[TreeNode]]()
        for tree in trees:
            under = _under(tree, len(leaves))
            leaves += tree.leaves
            for at, threshold, low, high in tree.nodes:
                nodes.setdefault(features[at], []).append((threshold, ~under[high], ~under[low]))
        self._everything = (1 << len(leaves)) - 1
        self._columns = {feature: _Column(its, self._everything) for feature, its in nodes.items()}
        self._chances = _Chances(leaves)

    def chances(self, table: FeatureTable) -> list[float]:
        """Return the chance of every row. Columns that no tree tests are not made."""
        commons = [self._left(table.common, row) for row in table.commons]
        left = [commons[at] for at in table.of]
        for feature, values in table.columns.items():
            if (column := self._columns.get(feature)) is not None:
                left = [rest & column[value] for rest, value in zip(left, values, strict=True)]
        return list(map(self._chances.__getitem__, left))

    def _left(self, features: tuple[str, ...], row: FeatureRow) -> int:
        left = self._everything
        for feature, value in zip(features, row, strict=True):
            if (column := self._columns.get(feature)) is not None:
                left &= column[value]
        return left


def _under(tree: Tree, first: int) -> dict[int, int]:
    """Return the leaves under each node, and each leaf itself, by their places in the tree. Nodes come before those that
    follow."""
    under = {-1 - at: 1 << (first + at) for at in range(len(tree.leaves))}
    for at in range(len(tree.nodes) - 1, -1, -1):
        _, _, low, high = tree.nodes[at]
        under[at] = under[low] | under[high]
    return under


@lru_cache(maxsize=8)
def forest(trees: tuple[Tree, ...], features: tuple[str, ...]) -> Forest:
    return Forest(trees, features)
