"""Lines that match, with what stands around them, while the text streams by."""

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from foveal.recall.matches import LINE_CHARACTERS, PIECE_CHARACTERS, Matches, MatchQuery, matching_lines

LARGE = MatchQuery(0, 10_000, 0, 10**9)


def expected(text: str, pattern: str, wanted: MatchQuery) -> list[tuple[int, str]]:
    """Which lines are shown and how, the plain way."""
    lines = text.removesuffix("\n").split("\n") if text else []
    hits = {n for n, line in enumerate(lines, 1) if re.search(pattern, line)}
    shown: list[tuple[int, str]] = []
    for number, line in enumerate(lines, 1):
        near = any(abs(number - hit) <= wanted.context for hit in hits)
        # What stands before the offset was shown before; a match there still has its context after it.
        if near and number > wanted.offset:
            shown.append((number, f"{number}{':' if number in hits else '-'}{line}\n"))
    return shown[: wanted.limit]


@given(
    st.text(alphabet="xyz\n\n", max_size=60),
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.sampled_from(["x", "xy", "^$", "z$", "[yz]", "(?i)X"]),
    st.tuples(st.integers(0, 12), st.integers(1, 9), st.integers(0, 3)),
)
def test_the_shown_lines_are_those_that_a_plain_search_shows(
    text: str, sizes: list[int], pattern: str, numbers: tuple[int, int, int]
) -> None:
    """Whatever the blocks: the matches, their context, and a mark where lines are left out."""
    wanted = MatchQuery(*numbers, 10**9)
    cuts = [sum(sizes[: i + 1]) for i in range(len(sizes))]
    blocks = [text[start:end] for start, end in zip([0, *cuts], [*cuts, None], strict=True)]
    found = matching_lines(blocks, pattern, wanted)
    shown = expected(text, pattern, wanted)
    assert found.text.replace("--\n", "") == "".join(line for _, line in shown)
    gaps = sum(after - before > 1 for (before, _), (after, _) in pairwise(shown))
    assert found.text.count("--\n") == gaps
    lines = text.removesuffix("\n").split("\n") if text else []
    assert found.matches == sum(bool(re.search(pattern, line)) for line in lines)
    assert found.total == len(lines)


@given(st.text(alphabet="xyz\n\n", max_size=80), st.integers(1, 4), st.integers(0, 2), st.integers(1, 40))
def test_following_the_pages_shows_every_match_once(text: str, limit: int, context: int, most: int) -> None:
    """Limits only cut: no match is lost between two pages, and each page gets on."""
    seen: list[str] = []
    offset, more = 0, True
    while more:
        found = matching_lines([text], "x", MatchQuery(offset, limit, context, most))
        seen += re.findall(r"^(\d+):", found.text, re.MULTILINE)
        assert not found.more or found.last > offset
        offset, more = found.last, found.more
    assert seen == [str(n) for n, line in enumerate(text.split("\n"), 1) if "x" in line]


def test_a_long_line_is_shown_around_its_match_with_the_place() -> None:
    """The offset that is shown is where the window begins in the whole text."""
    for size in (LINE_CHARACTERS * 3, PIECE_CHARACTERS * 3):
        text = "first\n" + "ab" * size + "NEEDLE" + "cd" * size + "\nlast\n"
        found = matching_lines([text[at : at + 9_999] for at in range(0, len(text), 9_999)], "N..DLE", LARGE)
        place = re.fullmatch(r"2:\[offset (\d+) in characters\] (.*) \[…\]\n", found.text)
        assert place
        window = place[2]
        assert "NEEDLE" in window
        assert len(window) == LINE_CHARACTERS
        assert text[int(place[1]) :].startswith(window)
        assert (found.total, found.matches) == (3, 1)


def test_a_match_at_the_very_end_of_a_long_line_is_found() -> None:
    """The end of the line is known only when it has come."""
    for ending in ("", "\n", "\nmore"):
        text = "a" * (PIECE_CHARACTERS * 2 + 17) + "END" + ending
        blocks = [text[at : at + PIECE_CHARACTERS + 1] for at in range(0, len(text), PIECE_CHARACTERS + 1)]
        found = matching_lines(blocks, "END$", LARGE)
        assert found.matches == 1
        assert found.text.endswith("END\n")


def test_a_text_without_a_match_shows_nothing() -> None:
    """That is an answer and not an error."""
    assert matching_lines(["a\nb\n"], "x", LARGE) == Matches("", 2, 0, 0, 0, False)


def test_a_very_long_line_beside_a_match_is_cropped_once() -> None:
    """One mark says where the shown piece begins, whether the line fits into memory or not."""
    for size in (LINE_CHARACTERS * 3, PIECE_CHARACTERS * 2 + 7):
        text = f"first\n{'y' * size}\nx\n"
        blocks = [text[at : at + PIECE_CHARACTERS] for at in range(0, len(text), PIECE_CHARACTERS)]
        found = matching_lines(blocks, "x", MatchQuery(0, 10, 1, 10**9))
        assert found.text.count("[offset") == 1
        assert f"[offset 6 in characters] {'y' * 50}" in found.text
