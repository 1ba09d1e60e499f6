"""The lines of a file that a result really shows, which are not always the lines that the call asked for."""

import re
from collections.abc import Iterable
from typing import TypeAlias

from foveal.text.calls.access import Access
from foveal.text.lazy_pattern import lazy_pattern
from foveal.text.stand_in import result_text
from foveal.values.entry import ToolResult

LineSpan: TypeAlias = tuple[int, int]
"""First and last line, counted from 1."""

END = 1 << 60
"""The last line of a file whose length is not known."""

_NUMBERED = re.compile(r"^[ \t]{0,10}(\d{1,7})(?:→|\t|:|\|)", re.MULTILINE)
_CUT = lazy_pattern(
    r"\b(?:tokens|chars|characters|lines|bytes|output|text) (?:was |were )?truncated|truncated output|\.\.\.[\s`]{0,8}\Z"
)
_MORE = re.compile(r"\b\d+ more lines\b|lines (?:not shown|omitted)|use offset=")
_MORE_STEMS = ("more lines", "lines not shown", "lines omitted", "use offset=")
_FAILED = lazy_pattern(
    r"\A\W{0,8}(?:error\b|failed\b|tool_use_error|traceback|cannot |could not |no such file|file (?:does not exist|not found)"
    r"|apply_patch verification failed|your proposed edit has introduced)"
    r"|exited with code [1-9]|exit code:? [1-9]|\"exit_code\": ?[1-9]|: No such file or directory",
    re.IGNORECASE,
)
_HEAD_CHARS = 600
"""Failures are reported in the first lines; further down, such words belong to the text that was read."""

_DEFAULT_LINES = 2_000
"""Lines that Claude Code, OpenCode and Pi read of a file if the call names no number."""


def succeeded(result: ToolResult, access: Access) -> bool:
    """Return whether the call succeeded. Many recorders and some tools report errors as ordinary text."""
    text = result_text(result)
    if result.status != "ok":
        return False
    # Numbered lines come from a file, and prove nothing by their words.
    is_file = access.kind == "read" and _NUMBERED.match(text) is not None
    return is_file or _FAILED().search(text[:_HEAD_CHARS]) is None


def lines_shown(result: ToolResult, access: Access) -> LineSpan | None:
    """Return the lines that a successful read shows without a hole; None if the result does not tell."""
    text = result_text(result)
    low = text.lower()
    asked, more = asked_lines(access), _has_more(low)
    if numbers := _numbers(text):
        if numbers[-1] - numbers[0] + 1 != len(numbers):
            return None
        to_end = numbers[-1] < asked[1] and len(numbers) != _DEFAULT_LINES and not more
        return min(numbers[0], asked[0]) if numbers[0] <= 1 else numbers[0], END if to_end else numbers[-1]
    if _is_cut(low) or (access.last is None and more):
        return None
    # Fewer lines than were asked for: the file has no more.
    return asked[0], END if not more and _line_count(text) <= asked[1] - asked[0] else asked[1]


def lines_needed(result: ToolResult, access: Access) -> LineSpan:
    """Return the lines that another result has to show in order to replace this one: all lines that this result may show."""
    text = result_text(result)
    first, last = asked_lines(access)
    if (numbers := _numbers(text)) and numbers[-1] - numbers[0] + 1 == len(numbers):
        return numbers[0], numbers[-1]
    return first, last if _has_more(text.lower()) else min(last, first + _line_count(text) - 1)


def asked_lines(access: Access) -> LineSpan:
    return access.first or 1, access.last or END


def _numbers(text: str) -> list[int]:
    """Return the line numbers at the beginning of the lines; none if fewer than half of the lines have one."""
    numbers = [int(found) for found in _NUMBERED.findall(text)]
    return numbers if len(numbers) * 2 > text.count("\n") else []


def _is_cut(low: str) -> bool:
    """Return whether a harness cut the text. Harnesses cut in the middle too, so all of it is searched: by plain searches
    first."""
    return ("truncated" in low or "..." in low[-16:]) and _CUT().search(low) is not None


def _has_more(low: str) -> bool:
    return any(stem in low for stem in _MORE_STEMS) and _MORE.search(low) is not None


def _line_count(text: str) -> int:
    return text.count("\n") + 1


def covers(spans: Iterable[LineSpan], wanted: LineSpan) -> bool:
    """Return whether the spans together hold all lines of `wanted`."""
    at, last = wanted
    for first, end in sorted(spans):
        if first > at:
            return False
        at = max(at, end + 1)
        if at > last:
            return True
    return False
