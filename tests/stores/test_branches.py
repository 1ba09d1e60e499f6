"""The branches of a log: its ends, and where each of them left another one."""

from foveal.stores.branches import list_branches
from foveal.stores.port import Row


def rows(*pairs: tuple[str, str | None]) -> list[Row]:
    return [Row(seq, name, parent, seq * 10, "me", b"") for seq, (name, parent) in enumerate(pairs, start=1)]


def test_a_log_that_was_never_rewound_has_one_branch() -> None:
    """It ends at the last entry and forked from nothing; an empty log has none."""
    (branch,) = list_branches(rows(("a", None), ("b", "a"), ("c", "b")))
    assert (branch.head, branch.seq, branch.time_ms, branch.entries, branch.forked_from) == ("c", 3, 30, 3, None)
    assert list_branches([]) == []


def test_each_end_is_a_branch_with_the_place_at_which_it_left() -> None:
    """The one that was last written comes first; lengths are counted from the beginning of the log."""
    log = rows(("a", None), ("b", "a"), ("c", "b"), ("d", "a"), ("e", "d"), ("f", "d"), ("g", "c"), ("h", None))
    assert [(one.head, one.entries, one.forked_from) for one in list_branches(log)] == [
        ("h", 1, None),
        ("g", 4, None),
        ("f", 3, "d"),
        ("e", 3, "a"),
    ]
