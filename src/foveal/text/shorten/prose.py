"""Text of no other kind: headings, lines that name something new, the beginning and the end."""

import re
from collections import Counter

from foveal.text.lazy_pattern import lazy_pattern
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.line_selection import select_lines
from foveal.text.shorten.signals import add_scores, alarms, edge_scores, focus_scores, novelty, spread
from foveal.text.shorten.terminal_text import clean_lines

_HEADING = lazy_pattern(
    r"(?:[ \t]{0,8}\d{1,7}(?:→|\t|:))?[ \t]{0,4}(?:#{1,6}[ ]|\*\*[^*\n]{1,80}\*\*|[-=]{3,}$|File:|[A-Z][\w ,/-]{2,60}:$)"
)
_DIGITS = re.compile(r"\d+")


def fits(text: str, hint: str) -> bool:
    return "\n" in text


def shrink(text: str, allowance: Allowance) -> str | None:
    lines = clean_lines(text)
    scores = [0.0] * len(lines)
    add_scores(scores, novelty(lines), 1.0)
    seen: Counter[str] = Counter()
    is_heading = _HEADING().match
    for at, line in enumerate(lines):
        if is_heading(line):
            shape = _DIGITS.sub("", line[:80])
            seen[shape] += 1
            scores[at] += 2.0 / seen[shape]
    add_scores(scores, alarms(lines), 0.2)
    add_scores(scores, edge_scores(lines), 1.0)
    add_scores(scores, spread(focus_scores(lines, allowance.focus), len(lines), 1, 0.3), 1.0)
    return select_lines(text, lines, scores, allowance)
