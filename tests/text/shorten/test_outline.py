"""The outline: what it was and what is named in it."""

from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.outline import outline

REF = "k3v9x2m1qa"


def count(text: str) -> int:
    return (len(text) + 3) // 4


def text() -> str:
    lines = [f"plain words on line {i} about nothing" for i in range(200)]
    lines[10] = "see src/net/pool.py and https://example.com/guide for ConnectionPool.acquire_timeout"
    lines[20] = "ConnectionPool raised PoolExhaustedError, retries=5, commit 9f86d081884c7d65"
    return "\n".join(lines)


def test_an_outline_says_what_it_was_and_names_what_is_in_it():
    """Tool, kind, size and reference first; then paths, names and values, verbatim."""
    shown = outline(text(), 'read {"path": "x"}', "prose", Allowance(200, count, REF)) or ""
    lines = shown.split("\n")
    assert lines[0] == f"[read: prose, 200 lines, {len(text()):,} characters; ref {REF}]"
    assert lines[1].startswith("[paths] ")
    for term in (
        "src/net/pool.py",
        "https://example.com/guide",
        "ConnectionPool",
        "PoolExhaustedError",
        "retries=5",
        "9f86d081884c7d65",
    ):
        assert term in shown


def test_an_outline_shrinks_to_its_room():
    """With a small allowance only the first line is left, with a smaller one nothing."""
    assert (outline(text(), "read", "prose", Allowance(22, count, REF)) or "").startswith("[read: prose, 200 lines")
    assert outline(text(), "read", "prose", Allowance(3, count, REF)) is None


def test_what_was_asked_for_is_named_first():
    """A term in focus comes before more frequent ones."""
    source = "\n".join(["alpha_beta gamma_delta"] * 50 + ["rare_term_here"])
    shown = outline(source, "read", "prose", Allowance(100, count, REF, frozenset({"rare_term_here"}))) or ""
    assert "[names] rare_term_here" in shown
