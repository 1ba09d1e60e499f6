"""Which lines of a file a result really shows: what was asked for is not always what came back."""

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
"""Failures are told in the first lines; further down such words belong to what was read."""

_DEFAULT_LINES = 2_000
"""Claude Code, OpenCode and Pi read as many lines of a file if nothing is said."""


def succeeded(result: ToolResult, access: Access) -> bool:
    """Whether the result is what the call was for. Many recorders and some tools report errors as ordinary text."""
    text = result_text(result)
    if result.status != "ok":
        return False
    # Numbered lines are a file's own, whatever they say.
    is_file = access.kind == "read" and _NUMBERED.match(text) is not None
    return is_file or _FAILED().search(text[:_HEAD_CHARS]) is None


def lines_shown(result: ToolResult, access: Access) -> LineSpan | None:
    """The lines that a successful read shows without a hole; None if that cannot be told."""
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
    # Fewer lines than were asked for: there were no more.
    return asked[0], END if not more and _line_count(text) <= asked[1] - asked[0] else asked[1]


def lines_needed(result: ToolResult, access: Access) -> LineSpan:
    """The lines that another result has to show to replace this one: all that it may show."""
    text = result_text(result)
    first, last = asked_lines(access)
    if (numbers := _numbers(text)) and numbers[-1] - numbers[0] + 1 == len(numbers):
        return numbers[0], numbers[-1]
    return first, last if _has_more(text.lower()) else min(last, first + _line_count(text) - 1)


def asked_lines(access: Access) -> LineSpan:
    return access.first or 1, access.last or END


def _numbers(text: str) -> list[int]:
    """The line numbers that most lines begin with; none, if most do not."""
    numbers = [int(found) for found in _NUMBERED.findall(text)]
    return numbers if len(numbers) * 2 > text.count("\n") else []


def _is_cut(low: str) -> bool:
    """Harnesses cut in the middle too, so that all of the text is looked at: by plain searches first, which are fast."""
    return ("truncated" in low or "..." in low[-16:]) and _CUT().search(low) is not None


def _has_more(low: str) -> bool:
    return any(stem in low for stem in _MORE_STEMS) and _MORE.search(low) is not None


def _line_count(text: str) -> int:
    return text.count("\n") + 1


def covers(spans: Iterable[LineSpan], wanted: LineSpan) -> bool:
    """Whether the spans together hold all lines of `wanted`."""
    at, last = wanted
    for first, end in sorted(spans):
        if first > at:
            return False
        at = max(at, end + 1)
        if at > last:
            return True
    return False
