"""Scores: the chance of each name and each line to be needed again.

The weights are two small ensembles of trees in `weights.json`, made by `benchmarks/train_weights.py`.
"""

from functools import cache
from importlib import resources
from typing import NamedTuple

import msgspec

from foveal.summary.relevance.features import Features, FeatureTable
from foveal.summary.relevance.forest import forest
from foveal.summary.relevance.state import RelevanceState
from foveal.summary.relevance.weights import LINE_FEATURES, NAME_FEATURES, Scoring, Weights, weights_from


class LineSelection(msgspec.Struct, frozen=True):
    """Options by which lines are selected."""

    score: Scoring = "learned"
    weights: Weights | None = None
    """Weights of the learned score; None for the package's own."""
    least: float = 0.0
    """Least chance to be needed per token: lines and names below it are left out, even if the allowance is not used up."""


DEFAULT_SELECTION = LineSelection()


class Score(NamedTuple):
    names: dict[str, float]
    lines: list[float]


def score_all(state: RelevanceState, features: Features, selection: LineSelection) -> Score:
    """Return the chances of all names and lines. A line that the prompt shows already has none."""
    of_names = of_lines = _recency
    if selection.score == "learned":
        weights = selection.weights or shipped_weights()
        of_names = forest(weights.names, NAME_FEATURES).chances
        of_lines = forest(weights.lines, LINE_FEATURES).chances
    names = {
        name: chance
        for told, table in features.of_hidden_names()
        for name, chance in zip(told, of_names(table), strict=True)
    }
    hidden = [i for i, line in enumerate(state.lines) if line.text.strip() not in features.shown.lines]
    lines = dict(zip(hidden, of_lines(features.of_lines(hidden)), strict=True))
    return Score(names, [lines.get(i, 0.0) for i in range(len(state.lines))])


def _recency(table: FeatureTable) -> list[float]:
    return [1.0 / (20.0 + age) for age in table.columns["age"]]


@cache
def shipped_weights() -> Weights:
    """Return the package's own weights, read when something is first scored."""
    return weights_from(
        resources.files("foveal.summary.relevance").joinpath("weights.json").read_bytes(), "weights.json"
    )
