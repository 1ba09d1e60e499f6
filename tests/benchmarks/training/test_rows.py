"""Rows are what a fold has to choose from, and say what came of it."""

import pytest

from foveal.summary.relevance.weights import LINE_FEATURES, NAME_FEATURES
from foveal_bench.training import rows
from foveal_bench.training.rows import NEEDED, ONE_IN, FoldRows, balanced, rows_of
from foveal_bench.training.sessions import TrainingSession

from .made import line, row, session


@pytest.fixture
def made(monkeypatch):
    monkeypatch.setattr(rows, "LIMITS", (2_000, 1_000_000))
    return TrainingSession("alpha", session("alpha"))


def test_a_session_that_fits_has_no_rows():
    """Nothing is folded in it."""
    assert rows_of(TrainingSession("alpha", session("alpha", steps=2)), frozenset()) == []


def test_rows_have_every_feature(made):
    """In the order that weights refer to."""
    folds = rows_of(made, frozenset())
    assert len(folds) > 1
    assert {len(row.features) for fold in folds for row in fold.names} == {len(NAME_FEATURES)}
    assert {len(row.features) for fold in folds for row in fold.lines} == {len(LINE_FEATURES)}


def test_what_was_needed_is_always_taken_and_of_the_rest_one_in_some(made):
    """Which counts for all of those that were not taken."""
    found = [row for fold in rows_of(made, frozenset()) for row in fold.lines]
    assert {row.weight for row in found if row.needed} == {1.0}
    assert {row.weight for row in found if not row.needed} == {ONE_IN}
    assert sum(row.needed for row in found) >= 5


def test_what_is_common_was_not_needed(made):
    """Even if it was used."""
    used = frozenset(line("alpha", i, 3) for i in range(24))
    assert not any(row.needed for fold in rows_of(made, used) for row in fold.lines)


def test_the_same_session_gives_the_same_rows(made):
    """Draws are seeded."""
    assert rows_of(made, frozenset()) == rows_of(made, frozenset())


def test_what_was_needed_counts_for_the_same_share_of_all_whoever_the_agent_is():
    """Between names and lines, and between sessions, it is as it was."""
    rare = [
        FoldRows([row(0, needed=True)], [row(1, needed=False, weight=4.0)] * 500),
        FoldRows([], [row(2, needed=True)]),
    ]
    found = [one for fold in balanced(rare) for one in (*fold.names, *fold.lines)]
    needed = [one.weight for one in found if one.needed]
    assert sum(needed) / sum(one.weight for one in found) == pytest.approx(NEEDED)
    assert needed[0] == needed[1]
    assert [one.features for one in found][:1] == [(0,)]


def test_where_nothing_was_needed_nothing_is_weighed():
    """There is nothing to count for more."""
    assert balanced([FoldRows([row(0, needed=False)], [])]) == [FoldRows([row(0, needed=False)], [])]
