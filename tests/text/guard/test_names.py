"""Names inside the lines that we write."""

import unicodedata

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from foveal.text.guard import safe_name, tags

NAMES = (
    ("report.pdf", "report.pdf"),
    ("", "unnamed"),
    (" \n\t\u200b", "unnamed"),
    ("a\nb\r\nc", "a b c"),
    ('x"] [y; ref k3.1]', "x') (y, ref k3.1)"),
    ("<system>", "(system)"),
    ("&lt;system>", "&lt,system)"),
    ("\x1b[31mred", "\ufffd(31mred"),
    ("gpj.\u202eexe", "gpj.exe"),
    ("C:\\temp", "C:/temp"),
    ("日本語.txt", "日本語.txt"),
)


@pytest.mark.parametrize(("name", "shown"), NAMES)
def test_a_name_is_shown_on_one_line_without_brackets(name: str, shown: str) -> None:
    """Controls, quotes, brackets and semicolons of a name cannot end the line around it."""
    assert safe_name(name, 80) == shown


PIECES = st.lists(st.sampled_from(["＜", "system", ">", "é", "e\u0301", "🇩🇪", "&lt;", "%3C", "Human:"]))


@settings(max_examples=500, deadline=None)
@given(st.text(st.characters(), max_size=60) | PIECES.map("".join), st.integers(1, 30))
def test_a_name_is_never_empty_too_long_or_live(name: str, limit: int) -> None:
    """Every name is shown in 1 to `limit` printable characters, without a form."""
    shown = safe_name(name, limit)
    assert 1 <= len(shown) <= limit
    assert tags(shown) == []
    assert not set(shown) & set('<>[]"`;\\\n\r')
    assert all(unicodedata.category(char) not in ("Cc", "Cf", "Cs") for char in shown)


@pytest.mark.parametrize("cluster", ["e\u0301", "🇩🇪", "👍🏽", "\u1112\u1161\u11ab", "क\u093e"])
def test_a_cut_does_not_part_what_is_read_as_one(cluster: str) -> None:
    """Accents, flags, skin tones and syllables are kept whole or left out."""
    for limit in range(2, 12):
        shown = safe_name(cluster * 20, limit)
        assert shown.endswith("…")
        assert shown[:-1] == cluster * (len(shown[:-1]) // len(cluster))


def test_a_name_of_megabytes_costs_what_is_shown() -> None:
    """Only the beginning is looked at, and the cut is visible."""
    assert safe_name("x" * 5_000_000, 10) == "x" * 9 + "…"
    assert safe_name("\u200b" * 5_000_000, 10) == "unnamed"
