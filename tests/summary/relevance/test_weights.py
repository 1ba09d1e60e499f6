"""Weights are checked before they score anything, and are known by their hash wherever they are written down."""

import copy
import json
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.summary.relevance.features import NAME_FEATURES
from foveal.summary.relevance.forest import Forest
from foveal.summary.relevance.score import shipped_weights
from foveal.summary.relevance.weights import MOST_LEAVES, Tree, Weights, weights_from
from foveal.values.errors import BadPolicy

STUMP = Tree(((0, 2.5, -1, -2),), (-1.0, 1.0))


def written(**changes):
    """The package's weights as a file, with some keys changed."""
    return json.dumps(json.loads(shipped_weights().to_json()) | changes).encode()


def test_weights_are_read_as_they_were_written():
    """To the last byte."""
    assert weights_from(shipped_weights().to_json(), "w.json").to_json() == shipped_weights().to_json()


def test_equal_trees_are_equal_weights():
    """Equal trees have one hash, and another tree has another."""
    one, same, other = Weights((STUMP,), ()), Weights((STUMP,), ()), Weights((), (STUMP,))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert one.name.startswith("sha256:")


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301 - our own
def test_weights_can_be_handed_to_another_process(copied):
    """Weights keep their trees when they are pickled for another process."""
    assert copied(Weights((STUMP,), ())).names == (STUMP,)


def test_weights_from_a_log_are_known_by_their_hash_alone():
    """Weights from a log equal those that were logged, and raise an error when they are asked to score."""
    logged = Weights.logged(shipped_weights().name)
    assert logged is not None
    assert logged == shipped_weights()
    with pytest.raises(BadPolicy, match=f"{shipped_weights().name} are not here.*Fold this session where it is used"):
        assert logged.names


@pytest.mark.parametrize("name", ["", "w.json", "sha256:", "sha256:xyz", "sha256:" + "g" * 16, "sha256:" + "a" * 15])
def test_what_is_no_hash_is_nobodys(name):
    """A log writes sixteen digits."""
    assert Weights.logged(name) is None


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        (Tree(((99, 0.0, -1, -2),), (0.0, 0.0)), r"names\[0\]: node 0 looks at feature 99; there are 20"),
        (Tree(((-1, 0.0, -1, -2),), (0.0, 0.0)), "looks at feature -1"),
        (Tree(((0, float("nan"), -1, -2),), (0.0, 0.0)), "node 0 has the threshold nan"),
        (Tree(((0, 0.0, -1, -2),), (0.0, float("inf"))), "a leaf that is no finite number"),
        (Tree(((0, 0.0, 0, -1),), (0.0, 0.0)), "node 0 leads to 0"),
        (Tree(((0, 0.0, 1, -1), (0, 0.0, 0, -2)), (0.0, 0.0, 0.0)), "node 1 leads to 0"),
        (Tree(((0, 0.0, -1, -3),), (0.0, 0.0)), "node 0 leads to -3; it leads to later nodes or to leaves, -1 to -2"),
        (Tree(((0, 0.0, -1, 5),), (0.0, 0.0)), "node 0 leads to 5"),
        (Tree(((0, 0.0, -1, -1),), (0.0, 0.0)), "two ways lead to the same place"),
        (Tree((), ()), "has 0 nodes and 0 leaves"),
        (Tree((), (501.0,)), "leaves add up to 501; to 500 at most"),
    ],
)
def test_trees_that_would_not_end_in_a_number_are_refused(tree, said):
    """Trees are refused with the place of the error: an unknown feature, a circle, a value that is no number."""
    with pytest.raises(BadPolicy, match=said):
        Weights((tree,), ())


def test_a_forest_without_end_is_refused():
    """Too many leaves are refused, so that the time of scoring is bounded."""
    with pytest.raises(BadPolicy, match=f"lines: its trees have 2,002 leaves; {MOST_LEAVES:,} at most"):
        Weights((), (STUMP,) * (MOST_LEAVES // 2 + 1))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no weights as `benchmarks/train_weights.py` writes them"),
        (b"[]", "no weights as"),
        (b"\xff\xfe", "no weights as"),
        (b'{"features":' + b"[" * 100_000, "no weights as"),
        (written(names=[[[[0, 1e999, -1, -2]], [0, 0]]]).replace(b"Infinity", b"1e999"), "no weights as"),
        (written(names=[[[[0.5, 1.0, -1, -2]], [0, 0]]]), r"no weights as .* `\$.names\[0\]\[0\]\[0\]\[0\]`"),
        (written(more=1), "unknown field `more`"),
        (written(names=[[[[0, 1.0, 0, -2]], [0, 0]]]), r"w.json: weights: names\[0\]: node 0 leads to 0"),
    ],
)
def test_a_file_that_holds_no_weights_is_refused_by_name(data, said):
    """A file with any other content is refused with its name."""
    with pytest.raises(BadPolicy, match=said) as caught:
        weights_from(data, "w.json")
    assert str(caught.value).startswith("w.json: ")


@pytest.mark.parametrize(
    ("features", "said"),
    [
        (NAME_FEATURES[:-1], "feature 19 is 'none', and here it is 'file_shown'"),
        ((*NAME_FEATURES, "mood"), "feature 20 is 'mood', and here it is 'none'"),
        (("span", "age", *NAME_FEATURES[2:]), "feature 0 is 'span', and here it is 'age'"),
    ],
)
def test_weights_for_other_features_are_refused(features, said):
    """Also for the same ones in another order: trees know them by their place."""
    lines = json.loads(shipped_weights().to_json())["features"]["lines"]
    with pytest.raises(BadPolicy, match=f"{said}.*Train them again"):
        weights_from(written(features={"names": features, "lines": lines}), "w.json")


@st.composite
def any_trees(draw):
    """Trees as anybody may write them, sound or not."""
    places = st.integers(-6, 6)
    nodes = st.tuples(st.integers(-1, 25), st.floats(), places, places)
    tree = st.builds(Tree, st.lists(nodes, max_size=5).map(tuple), st.lists(st.floats(), max_size=6).map(tuple))
    return tuple(draw(st.lists(tree, max_size=4)))


@given(any_trees())
def test_whatever_is_accepted_can_be_scored_with(trees):
    """No tree that passes leads to a leaf that is not there."""
    try:
        weights = Weights(trees, ())
    except BadPolicy:
        return
    Forest(weights.names, NAME_FEATURES)
    for tree in weights.names:
        reached = {place for _, _, low, high in tree.nodes for place in (low, high)} | {0 if tree.nodes else -1}
        assert reached == {*range(-len(tree.leaves), 0), *range(len(tree.nodes))}
