"""Diffs: every file with its counts, hunk headers, changed lines before context."""

import re
from collections.abc import Sequence
from itertools import pairwise

from foveal.text.lazy_pattern import lazy_pattern
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.line_selection import select_lines
from foveal.text.shorten.signals import add_scores, edge_scores, focus_scores, novelty, spread
from foveal.text.shorten.terminal_text import clean_lines

_SNIFF_CHARS = 20_000
_START = lazy_pattern(
    r"^(?:diff --git |Index: |\*\*\* (?:Update|Add|Delete) File: |--- [^\n]{1,400}\n\+\+\+ )", re.MULTILINE
)
_HUNK = re.compile(r"^@@ ", re.MULTILINE)
_FILE = ("diff --git ", "Index: ", "*** Update File: ", "*** Add File: ", "*** Delete File: ")
_PLUMBING = ("index ", "--- ", "+++ ", "old mode", "new mode", "similarity index", "\\ No newline")
_GENERATED = lazy_pattern(
    r"(?:package-lock|pnpm-lock|yarn\.lock|go\.sum|Cargo\.lock|poetry\.lock|uv\.lock|\.min\.|\.snap|/dist/)"
)


def fits(text: str, hint: str) -> bool:
    start = text[:_SNIFF_CHARS]
    return _START().search(start) is not None and _HUNK.search(start) is not None


def shrink(text: str, allowance: Allowance) -> str | None:
    lines = clean_lines(text)
    heads = [at for at, line in enumerate(lines) if _opens_file(lines, at, line)]
    tails: dict[int, str] = {}
    new = novelty(lines)
    scores = [_line_score(line) * new.get(at, 0.0) for at, line in enumerate(lines)]
    add_scores(scores, edge_scores(lines[: heads[0]] if heads else lines), 0.6)  # the commit's message
    for opening, end in pairwise([*heads, len(lines)]):
        body = lines[opening:end]
        start = opening + _name_line(body)
        changes = [line[:1] for line in body if not line.startswith(("+++ ", "--- "))]
        added, removed = changes.count("+"), changes.count("-")
        tails[start] = f"[+{added:,} -{removed:,}]"
        scores[start] += 8.0
        if _GENERATED().search(lines[start][:400]):
            scores[start + 1 : end] = [score * 0.1 for score in scores[start + 1 : end]]
    add_scores(scores, {at: 2.0 for at, line in enumerate(lines) if line.startswith("@@ ")}, 1.0)
    add_scores(scores, spread(focus_scores(lines, allowance.focus), len(lines), 2, 0.3), 1.0)
    return select_lines(text, lines, scores, allowance, tails=tails)


def _opens_file(lines: Sequence[str], at: int, line: str) -> bool:
    if line.startswith(_FILE):
        return True
    bare = line.startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")
    return bare and not any(above.startswith(_FILE) for above in lines[max(0, at - 6) : at])


def _name_line(body: Sequence[str]) -> int:
    """Return the line that names the file: `+++ b/path` is the shortest, unless the file is gone."""
    for at, line in enumerate(body[:8]):
        if line.startswith("+++ ") and "/dev/null" not in line:
            return at
    return 0


def _line_score(line: str) -> float:
    if line.startswith(_PLUMBING):
        return 0.02
    return 1.0 if line.startswith(("+", "-")) else 0.25
