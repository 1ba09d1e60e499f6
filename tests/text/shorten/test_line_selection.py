"""Picking lines by what they are worth for their tokens."""

from foveal.text.guard import plain
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.cut import boundary, clip
from foveal.text.shorten.line_selection import only_if_shorter, select_lines

REF = "k3v9x2m1qa"


def count(text: str) -> int:
    return (len(text) + 3) // 4


def numbered(lines: int) -> list[str]:
    return [f"line number {i} of the text" for i in range(lines)]


def test_the_best_lines_stay_in_their_order():
    """Lines with the highest scores are shown, earlier ones first, with the number missing between them."""
    lines = numbered(100)
    scores = [9.0 if i in (70, 20, 21) else 0.0 for i in range(100)]
    shown = select_lines("\n".join(lines), lines, scores, Allowance(60, count, REF))
    assert plain(shown or "") == "\n".join(
        (
            f"[97 of 100 lines left out; ref {REF}]",
            "[… 20 lines]",
            lines[20],
            lines[21],
            "[… 48 lines]",
            lines[70],
            "[… 29 lines]",
        )
    )


def test_a_gap_shorter_than_its_mark_is_filled():
    """A line that takes no more than the mark in its place is shown."""
    lines = ["first of the lines kept here", "}", "second of the lines kept here", *numbered(50)]
    scores = [9.0, 0.0, 9.0, *([0.0] * 50)]
    shown = plain(select_lines("\n".join(lines), lines, scores, Allowance(50, count, REF)) or "")
    assert "\n}\n" in shown


def test_counting_is_frugal():
    """Ten thousand lines are picked from with a dozen counts, and none of them of the whole text."""
    sizes: list[int] = []

    def counted(text: str) -> int:
        sizes.append(len(text))
        return count(text)

    lines = numbered(10_000)
    select_lines("\n".join(lines), lines, [float(i % 97) for i in range(10_000)], Allowance(500, counted, REF))
    assert len(sizes) <= 12
    assert max(sizes) <= 100_000


def test_the_room_is_used():
    """When there is more than enough to show, most of the room is filled."""
    lines = numbered(1_000)
    shown = plain(select_lines("\n".join(lines), lines, [1.0] * 1_000, Allowance(400, count, REF)) or "")
    assert count(shown) >= 320


def test_nothing_to_gain_is_none():
    """A text that fits anyway has no stand-in."""
    assert select_lines("a\nb", ["a", "b"], [1.0, 1.0], Allowance(1_000, count, REF)) is None
    assert only_if_shorter("abc", "abcd", Allowance(100, count, REF)) is None


def test_a_long_line_is_clipped_around_what_was_asked_for():
    """One long line is shown by the part that holds the term, with the number of missing characters on both sides."""
    line = "x" * 5_000 + "needle" + "y" * 5_000
    shown = plain(clip(line, 200, frozenset({"needle"})))
    assert shown.startswith("[… 4,950 characters] x")
    assert "needle" in shown
    assert shown.endswith(" characters]")


def test_cuts_do_not_split_characters():
    """A cut inside a joined sequence moves to its beginning."""
    family, flag = "👩‍👩‍👧‍👦", "🇩🇪"
    assert boundary(f"a{family}b", 4) == 1
    assert boundary(flag * 3, 3) == 2
    assert boundary("ae\u0301", 2) == 1
    assert boundary("a\r\nb", 2) == 1
    assert boundary("plain", 3) == 3
