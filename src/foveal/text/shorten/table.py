"""Tables: CSV, TSV, Markdown and aligned columns. The header, the first and last rows, and the outliers."""

import re
from collections.abc import Callable, Sequence

from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.columns import outliers
from foveal.text.shorten.content_kind import extensions, sample
from foveal.text.shorten.languages import NUMBERED
from foveal.text.shorten.line_selection import select_lines
from foveal.text.shorten.signals import add_scores, alarms, edge_scores, focus_scores, novelty
from foveal.text.shorten.terminal_text import clean_lines

_GAP = re.compile(r"[ ]{2,}|\t")
_BORDER = re.compile(r"[\s|+:=─-]{3,}$")
_EVEN = 0.8
_LEAST_ROWS = 5

Split = Callable[[str], list[str]]


def fits(text: str, hint: str) -> bool:
    # Numbered lines of a file look like a table of two columns.
    lines = [NUMBERED().sub("", line, count=1) for line in sample(text)]
    if len(lines) < _LEAST_ROWS or (split := _splitter(lines)) is None:
        return False
    widths = [len(split(line)) for line in lines]
    named = bool({"csv", "tsv"} & set(extensions(hint)))
    return named or min(sorted(widths)[len(widths) // 10 :]) >= 3


def shrink(text: str, allowance: Allowance) -> str | None:
    lines = clean_lines(text)
    split = _splitter(sample(text))
    if split is None:
        return None
    rows = [split(line) for line in lines]
    width = max(set(map(len, rows[:50])), key=[len(row) for row in rows[:50]].count, default=0)
    header = next((at for at, row in enumerate(rows) if len(row) == width), 0)
    scores = [0.05 if line.strip() else 0.0 for line in lines]
    add_scores(scores, novelty(lines), 0.3)
    scores[header] += 20.0
    if header + 1 < len(lines) and _BORDER.match(lines[header + 1][:400]):
        scores[header + 1] += 20.0
    add_scores(scores, edge_scores(lines), 0.7)
    add_scores(scores, outliers([row if len(row) == width else [] for row in rows]), 1.0)
    add_scores(scores, alarms(lines), 0.5)
    add_scores(scores, focus_scores(lines, allowance.focus), 1.0)
    return select_lines(text, lines, scores, allowance, of="rows")


def _splitter(lines: Sequence[str]) -> Split | None:
    """Return a function that cuts lines into cells, by the sign that most lines hold equally often."""
    for sign in ("\t", "|", ",", ";"):
        counts = [line.count(sign) for line in lines if not _BORDER.match(line)]
        common = max(set(counts), key=counts.count, default=0) if counts else 0
        if common >= 2 and counts.count(common) >= _EVEN * len(counts):
            return lambda line, sign=sign: line.split(sign)
    counts = [len(_GAP.findall(line.strip())) for line in lines]
    common = max(sorted(set(counts)), key=counts.count, default=0)
    if common >= 2 and counts.count(common) >= _EVEN * len(counts):
        return lambda line: _GAP.split(line.strip()[:2_000])
    return None
