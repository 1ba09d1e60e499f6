"""Patterns: the same lines match as with Python's engine, in linear time."""

import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.recall import automaton as automata
from foveal.recall.automaton import Automaton
from foveal.values.errors import BadInput

LETTERS = ("a", "b", "A", "1", " ", ".", "é", "{", r"\.", r"\t")
CLASSES = (r"\w", r"\W", r"\d", r"\D", r"\s", r"\S", "[ab]", "[^a]", "[a-c_]", r"[\d_]", "[]x]")
SEAMS = (r"\b", r"\B", "^", "$")
ATOMS = st.sampled_from(LETTERS + CLASSES + SEAMS)
REPEATS = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{,2}", "{2,}", "*?", "+?"])
PATTERNS = st.recursive(
    ATOMS,
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})")
        | st.tuples(inner, REPEATS).map(lambda two: f"({two[0]}){two[1]}")
    ),
    max_leaves=8,
)


@settings(max_examples=300)
@given(PATTERNS, st.booleans(), st.lists(st.text(alphabet="abcA1 ._é\t{]x", min_size=1, max_size=9), max_size=8))
def test_the_same_lines_match_as_with_pythons_engine(pattern: str, ignores_case: bool, lines: list[str]) -> None:
    """On every pattern that both know, they agree; and no line that matches is passed over for want of a literal."""
    pattern = f"(?i){pattern}" if ignores_case else pattern
    try:
        expected = re.compile(pattern)
        ours = Automaton(pattern)
    except (re.error, BadInput):
        return
    for line in lines:
        is_match = expected.search(line) is not None
        assert ours.matches(line) is is_match
        assert ours.may_match(line) or not is_match


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*b", "(a|aa)+$", "(.*)*x", "a*a*a*a*a*a*b", "(a?){50}a{50}b", "^(([a-z])+.)+[A-Z]([a-z])+$"],
)
def test_patterns_that_hang_other_engines_take_linear_time(pattern: str) -> None:
    """Half a million letters, each of them looked at once."""
    assert not Automaton(pattern).matches("a" * 500_000 + "!")


def test_a_pattern_that_needs_too_many_states_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even what is linear may be too much; then it is an error that says so, and not a long wait."""
    monkeypatch.setattr(automata, "MOST_WORK", 100_000)
    letters = "".join(Random(1).choices("ab", k=50_000))
    with pytest.raises(BadInput, match="more specific"):
        Automaton("(a|b)*a(a|b){14}c").matches(letters)


def test_forgetting_states_changes_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded: what was remembered is dropped and made again."""
    monkeypatch.setattr(automata, "MOST_REMEMBERED", 5)
    pattern = Automaton(r"\b(ab|ba)+\d\b")
    lines = ["abba1", "x ab2 y", "aab1", "ba", "abab7,", "é ba3"] * 20
    expected = re.compile(r"\b(ab|ba)+\d\b")
    assert [pattern.matches(line) for line in lines] == [bool(expected.search(line)) for line in lines]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "never closed"),
        ("a)", "closes nothing"),
        ("[a", "never closed"),
        ("[z-a]", "lower to a higher"),
        ("*a", "repeats nothing"),
        ("a**", "put it into a group"),
        ("x{2}{3}", "put it into a group"),
        ("a{3,2}", "no count"),
        ("a{9999}", "no count"),
        ("((a{100}){100}){100}", "too large"),
        (r"(a)\1", "backreferences"),
        (r"a\q", "not known"),
        ("a\\", "backslash"),
        ("(?=a)", "only `(?:…)`"),
        ("(?P<n>a)", "only `(?:…)`"),
        (r"a\nb", "line by line"),
        ("a\nb", "line by line"),
        ("^*", "repeat of nothing"),
        ("x" * 201, "200 is the most"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_reason(pattern: str, words: str) -> None:
    """A pattern is never taken for something else than it says."""
    with pytest.raises(BadInput) as refusal:
        Automaton(pattern)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    "pattern", ["(" * 99 + "a" + ")" * 99, "\ud800\0", "[\\]^-]", "", "|", "a||b", "{", "]{b}", "(?i)"]
)
def test_odd_patterns_are_no_problem(pattern: str) -> None:
    """Nested, empty and strange, but valid."""
    assert Automaton(pattern).matches("\ud800\0aab]{b}{")


def test_case_is_ignored_only_where_it_is_asked_for() -> None:
    """`(?i)` at the beginning, for literals, ranges and classes, and what they exclude."""
    assert Automaton("(?i)error [a-c]+É").matches("an ERROR BCé")
    assert not Automaton("error").matches("ERROR")
    assert not Automaton("(?i)^[^a]$").matches("A")
    assert not Automaton("(?i)s").matches("ſ")
