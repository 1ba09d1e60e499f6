"""Patterns: the same lines match as with Python's engine, in linear time."""

import re
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foveal.recall import spooled_text
from foveal.recall.pattern import LinePattern
from foveal.recall.spooled_text import SpooledText
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


def matches(pattern: str, line: str) -> bool:
    return LinePattern(pattern).end_in(line) is not None


@settings(max_examples=300)
@given(
    PATTERNS,
    st.booleans(),
    st.lists(st.text(alphabet="abcA1 ._é\t{]x", min_size=1, max_size=9), min_size=1, max_size=8),
)
def test_the_same_lines_match_as_with_pythons_engine(pattern: str, ignores_case: bool, lines: list[str]) -> None:
    """On every pattern that both know, they agree: line by line, many lines at once, and in a line kept in a file."""
    pattern = f"(?i){pattern}" if ignores_case else pattern
    try:
        expected = re.compile(pattern)
        ours = LinePattern(pattern)
    except (re.error, BadInput):
        return
    matching = {number for number, line in enumerate(lines) if expected.search(line)}
    assert {number for number, line in enumerate(lines) if ours.end_in(line) is not None} == matching
    assert ours.lines_in("\n".join(lines)) == matching
    for line in lines:
        with SpooledText() as spooled:
            for char in line:
                spooled.add(char)
            assert ours.end_in_long(spooled) == ours.end_in(line)


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*b", "(a|aa)+$", "(.*)*x", "a*a*a*a*a*a*b", "(a?){50}a{50}b", "^(([a-z])+.)+[A-Z]([a-z])+$"],
)
def test_patterns_that_hang_other_engines_take_linear_time(pattern: str) -> None:
    """Half a million letters, each of them looked at once."""
    assert not matches(pattern, "a" * 500_000 + "!")


@pytest.mark.parametrize("pattern", ["(a|b)*a(a|b){14}c", r"\w{1000}!", r"(\w+\s+){80}!"])
def test_a_pattern_with_many_states_takes_linear_time(pattern: str) -> None:
    """Where RE2's memory is full, it goes on without: slower, but with the same answer."""
    letters = "".join(Random(1).choices("ab ", k=50_000))
    assert matches(pattern, letters) is False


def test_a_line_beyond_the_limit_of_memory_is_looked_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a file, it gives the same end of the first match: with ASCII, without, and with word boundaries."""
    monkeypatch.setattr(spooled_text, "IN_MEMORY_BYTES", 10)
    for pattern in ("b+", "é.", r"\bб\b", r"\Bа", "x", "^", "$"):
        for line in ("aaaaaaaaaaaaaaaabba", "ааа аб б éе" * 3):
            with SpooledText() as spooled:
                spooled.add(line[:7])
                spooled.add(line[7:])
                assert LinePattern(pattern).end_in_long(spooled) == LinePattern(pattern).end_in(line)


def test_words_and_digits_are_those_of_every_script() -> None:
    """Word boundaries lie where Python sees them, and so do letters, digits and spaces."""
    assert matches(r"\bcafé\b", "un café noir")
    assert matches(r"\bошибка\b", "— ошибка: 5")
    assert not matches(r"\bcaf\b", "un café noir")
    assert matches(r"^\w+\s\d[^\W\d]$", "größe\u3000٣ß")
    assert not matches(r"\S[^\S]\W", "a\u2003b")


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
        ("((a{100}){100}){100}", "multiplied"),
        (r"(a)\1", "backreferences"),
        (r"a\q", "not known"),
        ("a\\", "backslash"),
        ("(?=a)", "only `(?:…)`"),
        ("(?P<n>a)", "only `(?:…)`"),
        (r"a\nb", "line by line"),
        ("a\nb", "line by line"),
        ("x" * 201, "200 is the most"),
    ],
)
def test_what_is_not_understood_is_refused_with_its_reason(pattern: str, words: str) -> None:
    """A pattern is never taken for something else than it says."""
    with pytest.raises(BadInput) as refusal:
        LinePattern(pattern)
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    "pattern", ["(" * 99 + "a" + ")" * 99, "\ud800\0", "[\\]^-]", "", "|", "a||b", "{", "]{b}", "(?i)"]
)
def test_odd_patterns_are_no_problem(pattern: str) -> None:
    """Nested, empty and strange, but valid."""
    assert matches(pattern, "\ud800\0aab]{b}{")


def test_a_refused_pattern_is_not_logged(capfd: pytest.CaptureFixture[str]) -> None:
    """The error is raised, and RE2 writes nothing of its own."""
    with pytest.raises(BadInput):
        LinePattern("(")
    assert capfd.readouterr() == ("", "")


def test_case_is_ignored_only_where_it_is_asked_for() -> None:
    """`(?i)` at the beginning, for literals, ranges and classes, and for excluded characters."""
    assert matches("(?i)error [a-c]+É", "an ERROR BCé")
    assert not matches("error", "ERROR")
    assert not matches("(?i)^[^a]$", "A")
