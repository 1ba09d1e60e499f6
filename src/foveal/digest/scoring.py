"""How likely each name and each line is to be needed again."""

from functools import cache
from importlib import resources
from math import exp
from typing import Literal, NamedTuple, TypeAlias, cast

import msgspec

from foveal.digest.features import Facts
from foveal.digest.state import Digest

Scoring: TypeAlias = Literal["learned", "recency"]

Tree: TypeAlias = "float | tuple[int, float, Tree, Tree]"
"""A leaf, or: feature, threshold, what follows up to it, what follows above it."""


class Score(NamedTuple):
    names: dict[str, float]
    lines: list[float]


def scored(digest: Digest, facts: Facts, how: Scoring) -> Score:
    """The chance of everything that is not shown already; what is shown is worth nothing."""
    of_name = _recency if how == "recency" else _learned()[0]
    names = {name: of_name(facts.of_name(name)) for name in facts.all_names() if name not in facts.shown.names}
    return Score(names, of_lines(digest, facts, how))


def of_lines(digest: Digest, facts: Facts, how: Scoring) -> list[float]:
    of_line, shown = _recency if how == "recency" else _learned()[1], facts.shown.lines
    return [0.0 if line.text.strip() in shown else of_line(facts.of_line(i)) for i, line in enumerate(digest.lines)]


def _recency(row: tuple[float, ...]) -> float:
    return 1.0 / (20.0 + row[0])


@cache
def _learned():
    """The two ensembles of the package, read when something is first scored."""
    table = msgspec.json.decode(resources.files("foveal.digest").joinpath("weights.json").read_bytes())
    return tuple(_Ensemble(table[what]["trees"]) for what in ("names", "lines"))


class _Ensemble:
    def __init__(self, trees: list[object]) -> None:
        self._trees = [_frozen(tree) for tree in trees]

    def __call__(self, row: tuple[float, ...]) -> float:
        total = 0.0
        for tree in self._trees:
            while tree.__class__ is tuple:
                tree = tree[2] if row[tree[0]] <= tree[1] else tree[3]
            total += tree
        return 1.0 / (1.0 + exp(-total))


def _frozen(tree: object) -> Tree:
    if isinstance(tree, list):
        feature, threshold, low, high = cast("list[object]", tree)
        return cast("int", feature), float(cast("float", threshold)), _frozen(low), _frozen(high)
    return float(cast("float", tree))
