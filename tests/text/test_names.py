"""Names are what an agent takes over letter by letter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.text.names import (
    DOTTED,
    IDENTIFIER,
    NUMBER,
    PATH,
    PIECE_CHARS,
    line_names,
    line_pieces,
    name_kind,
    names_in_lines,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see src/app/main.py:12 and go", ["src/app/main.py"]),
        ("call os.path.join(a, b)", ["os.path.join"]),
        ("max_tokens = maxTokens or MaxTokens", ["max_tokens", "maxTokens", "MaxTokens"]),
        ("sha256 of 123456 is 3.14", ["sha256", "123456", "3.14"]),
        ("plain words only, 12 of them", []),
    ],
)
def test_names_are_paths_identifiers_and_numbers(text: str, expected: list[str]) -> None:
    """Paths, dotted names, identifiers and long numbers are names; plain words are not."""
    assert list(line_names(text)) == expected


@pytest.mark.parametrize("word", ["plain", "Title", "UPPER", "größe", "ÄRGER", "naïve", "ﬁnal"])
def test_plain_words_are_no_names(word: str) -> None:
    """A plain word is no name, alone or beside one."""
    assert (line_names(word), line_names(f"{word} max_size")) == ((), ("max_size",))


@given(st.lists(st.text(st.characters(exclude_characters="\n"), max_size=300), max_size=6))
def test_names_of_many_lines_are_those_of_each(lines: list[str]) -> None:
    """Looked at together, lines give the names that they give one by one."""
    assert names_in_lines(lines) == {name for line in lines for name in line_names(line)}


def test_a_long_line_is_looked_at_in_parts() -> None:
    """A name without a break is as long as a searched part at most."""
    assert {len(name) for name in names_in_lines(["a1" * 5_000])} == {2_000}


def test_a_name_is_given_once() -> None:
    """A name that occurs twice in a line is given once."""
    assert line_names("user_id == user_id") == ("user_id",)


@pytest.mark.parametrize(
    ("name", "expected"), [("a/b.py", PATH), ("a.b", DOTTED), ("a_b", IDENTIFIER), ("4096", NUMBER), ("1.25", NUMBER)]
)
def test_kinds_of_names(name: str, expected: int) -> None:
    """The kind is told by the form."""
    assert name_kind(name) == expected


@given(st.text(st.characters(), max_size=2_000))
def test_pieces_join_to_the_line(line: str) -> None:
    """Nothing is lost between pieces, and none is much longer than it may be."""
    found = line_pieces(line, 1_000)
    assert "".join(found) == line
    assert all(len(piece) <= PIECE_CHARS + 16 for piece in found)


def test_pieces_are_cut_between_words() -> None:
    """No name is cut where a blank is near."""
    found = line_pieces("some_name " * 100, 100)
    assert all(piece.endswith(" ") for piece in found)


def test_no_more_pieces_than_asked_for() -> None:
    """A line of ten megabytes costs no more than its first pieces."""
    assert len(line_pieces("x" * 10_000_000, 12)) == 12


def test_a_character_keeps_its_marks() -> None:
    """No piece begins with a mark that belongs to the character before it."""
    found = line_pieces("e\u0301" * 400, 100)
    assert all(piece.startswith("e") for piece in found)
