"""The weights fit the features, and the score tells what is used from what is not."""

from importlib import resources

import pytest

from foveal.summary.ledger import LedgerStep
from foveal.summary.relevance import RelevanceState, update
from foveal.summary.relevance.features import Features, ShownElsewhere, line_form
from foveal.summary.relevance.score import DEFAULT_SELECTION, LineSelection, score_all, shipped_weights
from foveal.summary.relevance.weights import LINE_FEATURES, NAME_FEATURES, Tree, Weights
from foveal.values.entry import ToolCall, assistant, result

WEIGHTS = resources.files("foveal.summary.relevance") / "weights.json"
MOST_BYTES = 50_000


def features() -> tuple[RelevanceState, Features]:
    """A file that is read, of which the agent uses one name again and again."""
    found = [result("c0", "first_value = 1\nsecond_value = 2")]
    found += [assistant("", ToolCall(f"c{i}", "Bash", '{"command": "grep second_value ."}')) for i in range(3)]
    state = update(RelevanceState(), [LedgerStep(f"r{i}", message, i) for i, message in enumerate(found)])
    return state, Features(state, ShownElsewhere(["shown_value = 3"]), 20)


def test_the_weights_are_small():
    """The file of weights is small, because it is part of every installation."""
    assert len(WEIGHTS.read_bytes()) < MOST_BYTES


def test_the_weights_name_features_that_there_are():
    """A change of the features without a new training would be noticed here at the latest."""
    weights = shipped_weights()
    for trees, features in ((weights.names, NAME_FEATURES), (weights.lines, LINE_FEATURES)):
        assert max(feature for tree in trees for feature, *_ in tree.nodes) < len(features)
        for tree in trees:
            following = [place for *_, low, high in tree.nodes for place in (low, high)]
            assert sorted(following) == sorted((*range(1, len(tree.nodes)), *range(-len(tree.leaves), 0)))


def test_rows_are_as_long_as_the_features():
    """Every feature has its value."""
    _, known = features()
    assert {len(known.of_name(name)) for name in known.all_names()} == {len(NAME_FEATURES)}
    assert len(known.of_lines([0]).rows(LINE_FEATURES)[0]) == len(LINE_FEATURES)


def test_what_the_agent_uses_scores_higher():
    """Two names are in the same result; the one that the agent used has the higher chance."""
    state, known = features()
    names = score_all(state, known, DEFAULT_SELECTION).names
    assert names["second_value"] > names["first_value"]


def test_other_weights_score_otherwise():
    """A name is worth what the given weights say, and a line as well."""
    state, known = features()
    weights = Weights((Tree((), (2.0,)),), (Tree((), (-2.0,)),))
    score = score_all(state, known, LineSelection(weights=weights))
    assert {round(chance, 4) for chance in score.names.values()} == {0.8808}
    assert {round(chance, 4) for chance in score.lines} == {0.1192}


def test_chances_are_chances():
    """Every score is a number between 0 and 1."""
    score = score_all(*features(), DEFAULT_SELECTION)
    assert all(0 <= chance <= 1 for chance in (*score.names.values(), *score.lines))


@pytest.mark.parametrize(
    ("line", "like"),
    [
        ("def run(self):", "export class Store {"),
        ("# why", "// why"),
        ("x = 1", "retries: 3"),
        ("Error: no", "panic: x"),
    ],
)
def test_lines_of_one_form_are_alike(line: str, like: str):
    """Definitions, comments, values and trouble are told in several languages."""
    assert line_form(line) == line_form(like) != line_form("plain words here")
