"""Logs, terminal and test output: repeats collapsed, trouble and its surroundings kept, the beginning and the end."""

from collections import Counter
from collections.abc import Sequence
from itertools import compress, islice, pairwise
from operator import ne

import msgspec

from foveal.text.lazy_pattern import lazy_pattern
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.content_kind import sample, share
from foveal.text.shorten.line_selection import select_lines
from foveal.text.shorten.signals import add_scores, alarms, edge_scores, focus_scores, novelty, shapes, spread
from foveal.text.shorten.terminal_text import clean_lines

_LOG_LINE = lazy_pattern(
    r"[ \t]{0,8}(?:[^\n]{0,60}?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|\[[^\]\n]{1,40}\]"
    r"|(?:DEBUG|INFO|WARN|WARNING|ERROR|TRACE|FATAL)\b|[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d"
    r"|(?:---|===) (?:RUN|PASS|FAIL|SKIP)"
    r"|(?:ok|FAIL|PASS|PASSED|FAILED)\b|[✓✗✔✘●×√]"
    r"|\S{1,200}(?:::|\.py)\S{0,200} (?:PASSED|FAILED|ERROR)|\s{0,3}\d{1,3}%|npm |Compiling |Downloading |Collecting |Step \d)"
)
_SUMMARY = lazy_pattern(
    r"\b\d+ (?:passed|failed|errors?|failures?|skipped|tests?|warnings?|problems?|examples?)\b"
    r"|Process exited|[Ee]xit (?:code|status)"
    r"|\bTests?:|\bFAIL\b|\bBUILD (?:SUCCESS|FAIL)|^(?:ok|FAIL)\s|real\t"
)
_SUMMARY_LINES = 400
"""Summaries are at the ends of a log; the middle of a long one is not searched for them."""
_TROUBLED_LINES = 5_000
"""More troubled lines than this cannot be shown anyway."""
_FEW_REPEATS = 0.9
_RUN = 3
"""For this many near-identical lines or more, a count takes less than the lines."""


class Collapsed(msgspec.Struct, frozen=True):
    """Lines, with runs of near-identical ones reduced to the first with a count, and the last."""

    lines: list[str]
    source_lines: list[int]
    tails: dict[int, str]
    """Counts that follow lines."""
    shapes: list[bytes]


def fits(text: str, hint: str) -> bool:
    lines = sample(text)
    return "\x1b[" in text[:4_000] or (len(lines) > 3 and share(_LOG_LINE(), lines) >= 0.35)


def shrink(text: str, allowance: Allowance) -> str | None:
    collapsed = collapse(clean_lines(text))
    return select_lines(
        text,
        collapsed.lines,
        score(collapsed, allowance),
        allowance,
        source_lines=collapsed.source_lines,
        tails=collapsed.tails,
    )


def collapse(lines: list[str]) -> Collapsed:
    """Return the lines with each run that differs only in numbers, times or hashes reduced to a line with a count, and its
    last line."""
    forms = shapes(lines)
    changes = map(ne, forms, islice(forms, 1, None))
    starts = [0, *compress(range(1, len(lines)), changes), len(lines)]
    if len(starts) > len(lines) * _FEW_REPEATS:
        return Collapsed(lines, [1] * len(lines), {}, forms)
    shown: list[str] = []
    source_lines: list[int] = []
    tails: dict[int, str] = {}
    kept: list[bytes] = []
    for start, end in pairwise(starts):
        run = end - start
        if run < _RUN or not forms[start]:
            shown.extend(lines[start:end])
            source_lines.extend([1] * run)
            kept.extend(forms[start:end])
        elif lines[start] == lines[end - 1]:
            tails[len(shown)] = f"[×{run:,}]"
            shown.append(lines[start])
            source_lines.append(run)
            kept.append(forms[start])
        else:
            tails[len(shown)] = f"[×{run - 1:,} alike]"
            shown += (lines[start], lines[end - 1])
            source_lines += (run - 1, 1)
            kept += (forms[start], forms[start])
    return Collapsed(shown, source_lines, tails, kept)


def score(collapsed: Collapsed, allowance: Allowance) -> list[float]:
    """Return scores that prefer rare shapes to frequent ones, and trouble, summaries and terms that were asked for to both."""
    lines, forms = collapsed.lines, collapsed.shapes
    counts = Counter(forms)
    worth = {form: 1.5 / count**0.5 if form.strip() else 0.0 for form, count in counts.items()}
    # Lines of one shape say the same: one of each is searched for trouble.
    places = dict(zip(reversed(forms), range(len(forms) - 1, -1, -1), strict=True))
    kinds = list(places)
    troubled = {kinds[at]: alarm for at, alarm in alarms([lines[place] for place in places.values()]).items()}
    scores = [worth[form] for form in forms]
    where = (at for at, form in enumerate(forms) if form in troubled)
    trouble = {at: troubled[forms[at]] / counts[forms[at]] ** 0.4 for at in islice(where, _TROUBLED_LINES)}
    add_scores(scores, spread(trouble, len(lines), 2, 0.25), 1.0)
    add_scores(scores, edge_scores(lines), 1.0)
    add_scores(scores, _summaries(lines), 1.0)
    add_scores(scores, spread(focus_scores(lines, allowance.focus), len(lines), 1, 0.3), 1.0)
    add_scores(scores, novelty(lines), 0.6)
    return scores


def _summaries(lines: Sequence[str]) -> dict[int, float]:
    last = range(max(0, len(lines) - _SUMMARY_LINES), len(lines))
    return {at: 8.0 for at in (*range(min(20, last.start)), *last) if _SUMMARY().search(lines[at][:400])}
