"""Text of no other kind: headings, lines that name something new, the beginning and the end."""

import re
from collections import Counter
from collections.abc import Sequence

from foveal.text.lazy_pattern import lazy_pattern
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.line_selection import select_lines
from foveal.text.shorten.signals import alarms, focus_scores, novelty, spread
from foveal.text.shorten.terminal_text import clean_lines

_HEADING = lazy_pattern(
    r"(?:[ \t]{0,8}\d{1,7}(?:→|\t|:))?[ \t]{0,4}(?:#{1,6}[ ]|\*\*[^*\n]{1,80}\*\*|[-=]{3,}$|File:|[A-Z][\w ,/-]{2,60}:$)"
)
_DIGITS = re.compile(r"\d+")
_EDGE_LINES = 8


def fits(text: str, hint: str) -> bool:
    return "\n" in text


def shrink(text: str, allowance: Allowance) -> str | None:
    lines = clean_lines(text)
    scores = [0.0] * len(lines)
    add(scores, novelty(lines), 1.0)
    seen: Counter[str] = Counter()
    is_heading = _HEADING().match
    for at, line in enumerate(lines):
        if is_heading(line):
            shape = _DIGITS.sub("", line[:80])
            seen[shape] += 1
            scores[at] += 2.0 / seen[shape]
    add(scores, alarms(lines), 0.2)
    add(scores, edges(lines), 1.0)
    add(scores, spread(focus_scores(lines, allowance.focus), len(lines), 1, 0.3), 1.0)
    return select_lines(text, lines, scores, allowance)


def edges(lines: Sequence[str]) -> dict[int, float]:
    """Return scores of the first and the last lines, falling inwards."""
    found: dict[int, float] = {}
    for distance in range(min(_EDGE_LINES, len(lines))):
        worth = 6.0 / (1 + distance / 2)
        found[distance] = worth
        found[len(lines) - 1 - distance] = worth
    return {at: worth for at, worth in found.items() if lines[at].strip()}


def add(scores: list[float], more: dict[int, float], share: float) -> None:
    for at, score in more.items():
        scores[at] += score * share
