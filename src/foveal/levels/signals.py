"""What makes a line worth keeping whatever the text is: alarms, rare shapes, words asked for, words that name things."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate

_ALARMS: tuple[tuple[bytes, float], ...] = (
    (b"panic", 10.0),
    (b"fatal", 10.0),
    (b"traceback", 10.0),
    (b"exception", 9.0),
    (b"error", 8.0),
    (b"fail", 8.0),
    (b"undefined", 6.0),
    (b"denied", 6.0),
    (b"not found", 6.0),
    (b"cannot", 5.0),
    (b"refused", 6.0),
    (b"timed out", 6.0),
    (b"killed", 6.0),
    (b"assert", 5.0),
    (b"warn", 3.0),
)
"""Stems that announce trouble, and what a line with one is worth. Found by plain search: 15 passes of a gigabyte a second."""

_FALSE_ALARM = re.compile(
    rb"\b(?:0|no|zero|without) (?:[a-z]{1,12} )?(?:error|fail|warn)|(?:error|fail|warn)[a-z]{0,6}[=:] ?(?:0\b|none|null|false)"
)
_ALARM_LINES = 3_000
"""A stem on more lines than this tells nothing any more; looking further would only take time."""

_VARYING = b"0123456789abcdefABCDEF"
"""Left out before lines are compared: what remains of two lines that differ in times, counts, hashes or addresses is equal."""

_FOCUS_TERMS = 64
_FOCUS_LINES = 200
_FOCUS_WORTH = 30.0

WORD = re.compile(r"[A-Za-z_][\w]{3,60}")


class Lines:
    """A text by its lines, as characters and as lower-case bytes."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.bytes = "\n".join(lines).encode("utf-8", "surrogatepass")
        self.low = self.bytes.lower()

    def shapes(self) -> list[bytes]:
        """Each line without what varies between near-identical lines."""
        return self.bytes.translate(None, _VARYING).split(b"\n")

    def alarms(self) -> dict[int, float]:
        """The lines that announce trouble, and how much."""
        found: dict[int, float] = {}
        starts: list[int] | None = None
        for stem, worth in _ALARMS:
            if stem not in self.low:
                continue
            starts = starts or [0, *accumulate(len(line) + 1 for line in self.low.split(b"\n"))]
            for at in self._with(stem, starts):
                found[at] = max(found.get(at, 0.0), worth)
        return {at: worth for at, worth in found.items() if starts and not self._harmless(starts[at], starts[at + 1])}

    def _harmless(self, start: int, end: int) -> bool:
        return _FALSE_ALARM.search(self.low, start, min(end, start + 400)) is not None

    def _with(self, stem: bytes, starts: list[int]) -> Iterator[int]:
        position, hits = self.low.find(stem), 0
        while position >= 0 and hits < _ALARM_LINES:
            at = bisect_right(starts, position) - 1
            yield at
            hits += 1
            position = self.low.find(stem, starts[at + 1])


def focus_scores(lines: Sequence[str], focus: frozenset[str]) -> dict[int, float]:
    """The lines that hold what was asked for. A term on many lines is worth less on each."""
    if not focus:
        return {}
    text = "\n".join(lines)
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    scores: dict[int, float] = {}
    # The longest terms are the most specific; sorted, because sets have no order.
    for term in sorted(filter(None, focus), key=lambda term: (-len(term), term))[:_FOCUS_TERMS]:
        hits = list(_lines_with(text, term, starts))
        for at in hits:
            scores[at] = scores.get(at, 0.0) + _FOCUS_WORTH / len(hits) ** 0.7
    return scores


def _lines_with(text: str, term: str, starts: list[int]) -> Iterator[int]:
    position, hits = text.find(term), 0
    while position >= 0 and hits < _FOCUS_LINES:
        at = bisect_right(starts, position) - 1
        yield at
        hits += 1
        position = text.find(term, starts[at + 1])


def spread(scores: dict[int, float], lines: int, reach: int, share: float) -> dict[int, float]:
    """Also the neighbours of scored lines, at a share of the score that falls with distance."""
    wider = dict(scores)
    for at, score in scores.items():
        for distance in range(1, reach + 1):
            for near in (at - distance, at + distance):
                if 0 <= near < lines:
                    wider[near] = max(wider.get(near, 0.0), score * share / distance)
    return wider


def novelty(lines: Sequence[str]) -> list[float]:
    """What each line is the first to name: its new words, each by how often it comes back."""
    counts = Counter(WORD.findall("\n".join(lines)))
    seen: set[str] = set()
    scores: list[float] = []
    for line in lines:
        words = set(WORD.findall(line[:2_000])) - seen
        seen |= words
        scores.append(sum(_word_worth(word, counts[word]) for word in words))
    return scores


def _word_worth(word: str, count: int) -> float:
    named = not word.isalpha() or not (word.islower() or word.istitle())
    return (0.6 if named else 0.15) * min(count, 8) ** 0.5
