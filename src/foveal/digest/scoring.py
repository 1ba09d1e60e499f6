"""How likely each name and each line is to be needed again.

The weights are two small ensembles of trees in `weights.json`, made by `scripts/train_digest.py`.
"""

from collections.abc import Callable
from functools import cache
from importlib import resources
from math import exp
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from foveal.digest.features import Facts
from foveal.digest.state import Digest

Scoring: TypeAlias = Literal["learned", "recency"]
"""By the weights, or by how long ago it was seen."""

Row: TypeAlias = tuple[float, ...]


class Score(NamedTuple):
    names: dict[str, float]
    lines: list[float]


class Tree(msgspec.Struct, frozen=True, array_like=True):
    """A node is a feature, a threshold, and the nodes that follow up to it and above it; below 0 are leaves, from -1 on."""

    nodes: tuple[tuple[int, float, int, int], ...]
    leaves: tuple[float, ...]


class Weights(msgspec.Struct, frozen=True):
    names: tuple[Tree, ...]
    lines: tuple[Tree, ...]


def scored(digest: Digest, facts: Facts, how: Scoring) -> Score:
    """The chance of everything that is not shown already; what is shown is worth nothing."""
    of_name = _recency if how == "recency" else _chance(_weights().names)
    names = {name: of_name(facts.of_name(name)) for name in facts.all_names() if name not in facts.shown.names}
    of_line = _recency if how == "recency" else _chance(_weights().lines)
    shown = facts.shown.lines
    lines = [0.0 if line.text.strip() in shown else of_line(facts.of_line(i)) for i, line in enumerate(digest.lines)]
    return Score(names, lines)


def _recency(row: Row) -> float:
    """By the age alone, which comes first in every row."""
    return 1.0 / (20.0 + row[0])


@cache
def _weights() -> Weights:
    """Read when something is first scored."""
    return msgspec.json.decode(resources.files("foveal.digest").joinpath("weights.json").read_bytes(), type=Weights)


def _chance(trees: tuple[Tree, ...]) -> Callable[[Row], float]:
    plain = [(tree.nodes, tree.leaves, 0 if tree.nodes else -1) for tree in trees]

    def chance(row: Row) -> float:
        total = 0.0
        for nodes, leaves, at in plain:
            place = at
            while place >= 0:
                feature, threshold, low, high = nodes[place]
                place = low if row[feature] <= threshold else high
            total += leaves[-1 - place]
        return 1.0 / (1.0 + exp(-total))

    return chance
