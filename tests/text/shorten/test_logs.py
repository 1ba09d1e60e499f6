"""Logs and terminal output."""

from foveal.text.guard import plain
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.logs import collapse, fits, shrink
from foveal.text.shorten.terminal_text import clean_lines

REF = "k3v9x2m1qa"


def count(text: str) -> int:
    return (len(text) + 3) // 4


def log(lines: int) -> list[str]:
    return [f"2026-01-02 10:{i // 60 % 60:02}:{i % 60:02} INFO worker-{i % 7} took {i} ms" for i in range(lines)]


def test_a_terminal_shows_no_colours_and_the_last_state_of_a_bar():
    """Escape sequences go, and of an overwritten line only the last state stays."""
    text = "\x1b[1;31mred\x1b[0m\nloading 1 %\rloading 99 %\rloading 100 %\r\n\x1b]0;title\x07done\r\n"
    assert clean_lines(text) == ["red", "loading 100 %", "done", ""]


def test_runs_of_like_lines_become_a_count():
    """Lines that differ in numbers, times or hashes are one line with a count, and the last of them."""
    collapsed = collapse([*log(500), "Done.", "same", "same", "same", "same"])
    assert collapsed.lines == [log(500)[0], log(500)[-1], "Done.", "same"]
    assert collapsed.tails == {0: "[×499 alike]", 3: "[×4]"}
    assert sum(collapsed.source_lines) == 505


def test_the_error_in_the_middle_and_what_surrounds_it_is_kept():
    """One failure among thousands of ordinary lines is shown with its neighbours."""
    lines = log(3_000)
    lines[1_500] = "2026-01-02 10:11:12 ERROR pool: connection refused by 10.0.0.7"
    lines[1_501] = "    retrying in 5 s with backoff policy Exponential"
    text = "\n".join(lines)
    assert fits(text, "bash")
    shown = plain(shrink(text, Allowance(150, count, REF)) or "")
    assert lines[1_500] in shown
    assert lines[1_501] in shown


def test_failures_and_the_summary_of_a_test_run_are_kept():
    """Failed tests and the last count of a test run are shown before passed tests."""
    lines = [f"tests/test_{i}.py::test_case_{chr(97 + i % 26)}{i} PASSED" for i in range(300)]
    lines[123] = "tests/test_pool.py::test_refused FAILED"
    lines += ["", "==== 1 failed, 299 passed in 12.3 s ===="]
    shown = plain(shrink("\n".join(lines), Allowance(120, count, REF)) or "")
    assert "test_refused FAILED" in shown
    assert "1 failed, 299 passed" in shown


def test_no_errors_is_no_alarm():
    """Lines that say that nothing failed are not taken for trouble."""
    lines = [f"step {chr(97 + i % 26)}{'z' * (i % 40)} checked: 0 errors found" for i in range(400)]
    lines[200] = "step q checked: fatal mismatch"
    shown = plain(shrink("\n".join(lines), Allowance(100, count, REF)) or "")
    assert "fatal mismatch" in shown


def test_twenty_megabytes_in_one_line_work():
    """One line of any length is clipped like any other."""
    text = "INFO start\n" + "x" * 20_000_000 + "\nERROR end"
    shown = plain(shrink(text, Allowance(200, count, REF)) or "")
    assert "ERROR end" in shown
    assert count(shown) <= 200
