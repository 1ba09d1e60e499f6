"""Rows through trees, column by column, end where they would end one by one."""

from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.summary.ledger import LedgerStep
from foveal.summary.relevance import RelevanceState, update
from foveal.summary.relevance.features import FeatureRow, Features, FeatureTable, ShownElsewhere
from foveal.summary.relevance.forest import Forest, forest
from foveal.summary.relevance.score import shipped_weights
from foveal.summary.relevance.weights import LINE_FEATURES, NAME_FEATURES, Tree
from foveal.values.entry import ToolCall, assistant, result, user

FEATURES = ("a", "b", "c", "d")


def walked(trees: tuple[Tree, ...], row: FeatureRow) -> float:
    """The chance of one row, tree by tree and node by node."""
    total = 0.0
    for tree in trees:
        place = 0 if tree.nodes else -1
        while place >= 0:
            feature, threshold, low, high = tree.nodes[place]
            place = low if row[feature] <= threshold else high
        total += tree.leaves[-1 - place]
    return 1.0 / (1.0 + exp(-total))


@st.composite
def grown(draw: st.DrawFn) -> Tree:
    """A tree that begins as one leaf, of which leaves are split again and again."""
    nodes = list[list[float]]()
    for at in range(draw(st.integers(0, 8))):
        node = [draw(st.integers(0, len(FEATURES) - 1)), draw(st.integers(-3, 3)) + 0.5, -1, -1]
        open_ends = [(i, side) for i, one in enumerate(nodes) for side in (2, 3) if one[side] < 0]
        if open_ends:
            i, side = draw(st.sampled_from(open_ends))
            nodes[i][side] = at
        nodes.append(node)
    leaves = 0
    for node in nodes:
        for side in (2, 3):
            if node[side] < 0:
                leaves += 1
                node[side] = -leaves
    values = draw(st.lists(st.floats(-2, 2), min_size=leaves or 1, max_size=leaves or 1))
    return Tree(tuple((int(f), t, int(low), int(high)) for f, t, low, high in nodes), tuple(values))


_ROWS = st.lists(st.tuples(*[st.integers(-5, 5)] * 4), max_size=12)


@given(st.lists(grown(), max_size=5).map(tuple), _ROWS)
def test_columns_end_in_the_leaves_that_a_walk_ends_in(trees: tuple[Tree, ...], rows: list[FeatureRow]):
    """Columns give the same chance as a walk through the trees, to the last bit, for any trees: the same leaves, added in
    the same order."""
    commons = list(dict.fromkeys(row[2:] for row in rows))
    columns = {name: [row[at] for row in rows] for at, name in enumerate(FEATURES[:2])}
    table = FeatureTable(dict(columns), FEATURES[2:], commons, [commons.index(row[2:]) for row in rows])
    assert Forest(trees, FEATURES).chances(table) == [walked(trees, row) for row in rows]


def test_a_column_that_no_tree_looks_at_is_not_made():
    """Features may be dear, and trees use some of them only."""
    trees = (Tree(((0, 0.5, -1, -2),), (1.0, -1.0)),)
    unused = (pytest.fail("was made") for _ in range(1))
    assert len(Forest(trees, FEATURES).chances(FeatureTable({"a": [0], "b": unused}, (), [()], [0]))) == 1


def folded() -> tuple[RelevanceState, Features]:
    """A session with names of every sort: used, asked for, in lines that are kept and in none."""
    found = [user("Look at parse_header"), result("c0", "first_value = 1\nsecond_value = load_it(2)")]
    found += [assistant("", ToolCall(f"c{i}", "Bash", '{"command": "grep second_value ."}')) for i in range(3)]
    found += [result("c9", "\n".join(f"    row_{i} = build_row_{i}(other_{i % 7})  # {'x' * 90}" for i in range(900)))]
    state = update(RelevanceState(), [LedgerStep(f"r{i}", message, i) for i, message in enumerate(found)])
    return state, Features(state, ShownElsewhere(["row_3 = second_value.strip"]), 20)


def test_names_in_tables_have_the_chances_of_their_own_rows():
    """Whether a name comes with those that were met once or with the others."""
    _, features = folded()
    trees = shipped_weights().names
    found = {
        name: chance
        for names, table in features.of_hidden_names()
        for name, chance in zip(names, forest(trees, NAME_FEATURES).chances(table), strict=True)
    }
    assert found == {name: walked(trees, features.of_name(name)) for name in features.all_names() if name != "row_3"}
    assert len(list(features.of_hidden_names())) == 2


def test_lines_in_a_table_have_the_chances_of_their_own_rows():
    """Many lines at once, or one."""
    state, features = folded()
    trees = shipped_weights().lines
    chances = forest(trees, LINE_FEATURES).chances(features.of_lines(range(len(state.lines))))
    rows = features.of_lines(range(len(state.lines))).rows(LINE_FEATURES)
    assert chances == [walked(trees, row) for row in rows]
