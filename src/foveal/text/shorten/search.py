"""Search results: each file once, with the number of its hits, and its best hits."""

import re
from collections.abc import Sequence

from foveal.text.lazy_pattern import lazy_pattern
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.content_kind import sample, share
from foveal.text.shorten.line_selection import select_lines
from foveal.text.shorten.signals import add_scores, edge_scores, focus_scores, novelty
from foveal.text.shorten.terminal_text import clean_lines

_HIT = lazy_pattern(
    r"(?P<path>(?:[A-Za-z]:[\\/])?[\w.@~+()\[\] \\/-]{1,260}?)(?P<sign>[:-])(?P<rest>(?P<line>\d{1,7})(?P=sign))"
)
_PATH_SIGN = re.compile(r"[./\\]")
_DEFINITION = lazy_pattern(
    r"\d+[:-](?:\d+[:-])?\s{0,40}(?:export |pub |public |private |static |async |abstract |default ){0,4}"
    r"(?:def|class|func|fn|function|interface|struct|enum|trait|impl|type|module|const|var|let)\b"
)


def fits(text: str, hint: str) -> bool:
    lines = sample(text)
    return (
        len(lines) > 3
        and share(_HIT(), lines) >= 0.6
        and sum(bool(_PATH_SIGN.search(line[:120])) for line in lines) > 2
    )


def shrink(text: str, allowance: Allowance) -> str | None:
    lines = clean_lines(text)
    shown, source_lines, tails = _grouped(lines)
    new = novelty(shown)
    scores = [0.0] * len(shown)
    for at, line in enumerate(shown):
        if at in tails:
            scores[at] = 4.0 + new.get(at, 0.0)
        elif line.strip():
            scores[at] = (
                0.3 + 0.6 * new.get(at, 0.0) + 2.0 * (_DEFINITION().match(line) is not None) - 0.3 * (_is_context(line))
            )
    add_scores(scores, edge_scores(shown), 1.5)
    add_scores(scores, focus_scores(shown, allowance.focus), 1.0)
    return select_lines(text, shown, scores, allowance, source_lines=source_lines, tails=tails)


def _is_context(line: str) -> bool:
    digits = len(line) - len(line.lstrip("0123456789"))
    return line[digits : digits + 1] == "-"


def _same(path: str, other: str) -> bool:
    """Return whether two paths name one file. Some tools print its full path on context lines and a relative one on hits."""
    return path == other or (bool(other) and (path.endswith(other) or other.endswith(path)))


def _grouped(lines: Sequence[str]) -> tuple[list[str], list[int], dict[int, str]]:
    """Return lines of the form `path:12:text` as one line for the path and `12:text` below it, in the order of the source."""
    hits = [_HIT().match(line) for line in lines]
    counts: dict[str, int] = {}
    for hit in hits:
        if hit:
            counts[hit["path"]] = counts.get(hit["path"], 0) + (hit["sign"] == ":")
    shown: list[str] = []
    source_lines: list[int] = []
    tails: dict[int, str] = {}
    current = ""
    for line, hit in zip(lines, hits, strict=True):
        if hit and not _same(hit["path"], current):
            current = hit["path"]
            tails[len(shown)] = f"[{counts[current]:,} hits]"
            shown.append(current)
            source_lines.append(0)
        shown.append(line[hit.start("rest") :] if hit else line)
        source_lines.append(1)
    return shown, source_lines, tails
