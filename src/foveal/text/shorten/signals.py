"""Signals that a line of any kind of text is worth keeping: alarms, rare shapes, terms that were asked for, new names."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, repeat
from operator import add
from typing import AnyStr

from foveal.text.names import words_in

_ALARMS = {
    10.0: (b"panic", b"fatal", b"traceback"),
    9.0: (b"exception",),
    8.0: (b"error", b"fail"),
    6.0: (b"undefined", b"denied", b"not found", b"refused", b"timed out", b"killed"),
    5.0: (b"cannot", b"assert"),
    3.0: (b"warn",),
}
"""Stems that announce trouble, by the score of a line with one. Found by plain search: 15 passes of a gigabyte a second."""

_FALSE_ALARM = re.compile(
    rb"\b(?:0|no|zero|without) (?:[a-z]{1,12} )?(?:error|fail|warn)|(?:error|fail|warn)[a-z]{0,6}[=:] ?(?:0\b|none|null|false)"
)
_ALARM_CHARS, _ALARM_LINES = 400, 3_000
"""A stem on more lines than this tells nothing any more; searching further would only take time."""

_VARYING = b"0123456789abcdefABCDEF"
"""Removed before lines are compared: two lines that differ only in times, counts, hashes or addresses become equal."""

_EDGE_LINES = 8

_FOCUS_TERMS = 64
_FOCUS_LINES = 200
_FOCUS_WORTH = 30.0

_COMPARED_LINES, _COMPARED_CHARS = 4_000, 1_000
"""Words are compared at 5 MB/s: of longer texts, only evenly spaced lines. An allowance holds a hundred lines at most."""


def shapes(lines: Sequence[str]) -> list[bytes]:
    """Return each line without the characters that vary between near-identical lines."""
    return _bytes(lines).translate(None, _VARYING).split(b"\n") if lines else []


def alarms(lines: Sequence[str]) -> dict[int, float]:
    """Return the lines that announce trouble, with their scores."""
    low = _bytes(lines).lower()
    starts: list[int] = []
    found: dict[int, float] = {}
    for worth, stem in ((worth, stem) for worth, stems in _ALARMS.items() for stem in stems):
        if stem in low:
            starts = starts or line_starts(low.split(b"\n"))
            for at in lines_with(low, stem, starts, _ALARM_LINES):
                found[at] = max(found.get(at, 0.0), worth)
    ends = {at: min(starts[at + 1], starts[at] + _ALARM_CHARS) for at in found}
    return {at: worth for at, worth in found.items() if not _FALSE_ALARM.search(low, starts[at], ends[at])}


def _bytes(lines: Sequence[str]) -> bytes:
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def focus_scores(lines: Sequence[str], focus: frozenset[str]) -> dict[int, float]:
    """Return scores of the lines that hold a term of the focus. A term on many lines is worth less on each."""
    if not focus:
        return {}
    text = "\n".join(lines)
    starts = line_starts(lines)
    scores: dict[int, float] = {}
    # The longest terms are the most specific; sorted, because sets have no order.
    for term in sorted(filter(None, focus), key=lambda term: (-len(term), term))[:_FOCUS_TERMS]:
        hits = list(lines_with(text, term, starts, _FOCUS_LINES))
        for at in hits:
            scores[at] = scores.get(at, 0.0) + _FOCUS_WORTH / len(hits) ** 0.7
    return scores


def line_starts(lines: Sequence[str] | Sequence[bytes]) -> list[int]:
    """Return the place where each line begins, and where one more would."""
    return [0, *accumulate(map(add, map(len, lines), repeat(1)))]


def lines_with(text: AnyStr, term: AnyStr, starts: list[int], most: int) -> Iterator[int]:
    """Yield the first `most` lines that hold the term."""
    position = text.find(term)
    while position >= 0 and most > 0:
        at = bisect_right(starts, position) - 1
        yield at
        most -= 1
        position = text.find(term, starts[at + 1])


def spread(scores: dict[int, float], lines: int, reach: int, share: float) -> dict[int, float]:
    """Return the scores with those of neighbours added, at a share of the score that falls with distance."""
    wider = dict(scores)
    for at, score in scores.items():
        for distance in range(1, reach + 1):
            for near in (at - distance, at + distance):
                if 0 <= near < lines:
                    wider[near] = max(wider.get(near, 0.0), score * share / distance)
    return wider


def novelty(lines: Sequence[str]) -> dict[int, float]:
    """Return scores by new words: each word counts for the line that is the first to use it, by how often it is used."""
    step = len(lines) // _COMPARED_LINES + 1
    compared = [line[:_COMPARED_CHARS] for line in lines[::step]]
    counts = Counter(words_in("\n".join(compared)))
    seen: set[str] = set()
    scores: dict[int, float] = {}
    for at, line in enumerate(compared):
        # Not a set: its order differs between processes, and with it the last digit of the sum.
        words = [word for word in dict.fromkeys(words_in(line)) if word not in seen]
        seen.update(words)
        if words:
            scores[at * step] = sum(_word_worth(word, counts[word]) for word in words)
    return scores


def _word_worth(word: str, count: int) -> float:
    named = not word.isalpha() or not (word.islower() or word.istitle())
    return (0.5 if named else 0.12) * min(count, 8) ** 0.8


def edge_scores(lines: Sequence[str]) -> dict[int, float]:
    """Return scores of the first and the last lines, falling inwards."""
    found: dict[int, float] = {}
    for distance in range(min(_EDGE_LINES, len(lines))):
        worth = 6.0 / (1 + distance / 2)
        found[distance] = worth
        found[len(lines) - 1 - distance] = worth
    return {at: worth for at, worth in found.items() if lines[at].strip()}


def add_scores(scores: list[float], more: dict[int, float], share: float) -> None:
    """Add a share of more scores to those of all lines, in place."""
    for at, score in more.items():
        scores[at] += score * share
