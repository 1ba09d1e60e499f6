"""Selection of lines, the mechanism that most levels share: of scored lines, the best for their tokens, in their order.

A level cleans its text into lines and scores each by its worth to a reader who sees no other line. `select_lines` keeps
lines by score per token until the allowance is used up, puts a mark wherever lines are missing, and one note on top:

    [812 of 900 lines left out; ref k3v9x2m1qa]
    def connect(host):
    [… 12 lines]
        raise Refused(host)

Tokens are estimated from characters; only whole stand-ins are counted, a handful of times for a text of any length.
"""

from collections.abc import Callable, Mapping, Sequence
from heapq import nlargest
from itertools import pairwise

import msgspec

from foveal.text.guard.seals import plain, sealed, unsealed
from foveal.text.shorten.allowance import Allowance
from foveal.text.shorten.cut import CLIP_NOTE, clip
from foveal.text.shorten.head_tail import chars_per_token

_ATTEMPTS = 6
_BLANKS = 6
"""Up to this number of missing blank lines are not worth a mark."""
_LINE_TOKENS = 15
"""Added to each line's size before scores are compared: a line of two characters is not worth ten times one of twenty."""
_LINE_SHARE = 6
"""No line takes more than this part of the allowance; a longer one is clipped."""
_ENOUGH = 0.9
_LIKELY = 4
"""Lines that are ranked by score per token, for each token of the allowance."""
_CERTAIN_CHARS = 100_000
"""Sources longer than this are compared by their beginning first: counting all of 20 MB takes a second."""

GapMark = Callable[[int, int], str]
"""Text of the mark for missing lines: from the first line left out up to, not including, the next one shown."""


_NO_TAILS: Mapping[int, str] = {}


def select_lines(
    source: str,
    lines: Sequence[str],
    scores: Sequence[float],
    allowance: Allowance,
    *,
    of: str = "lines",
    source_lines: Sequence[int] | None = None,
    tails: Mapping[int, str] = _NO_TAILS,
    mark: GapMark | None = None,
) -> str | None:
    """Return the stand-in, or None if there is nothing to gain.

    `source_lines` is the number of source lines that each line represents; `tails` are notes that follow lines, in
    brackets.
    """
    chars = density(source, allowance)
    most = max(40, int(allowance.tokens * chars / _LINE_SHARE))
    choice = _Choices(lines, allowance, chars, most, of, source_lines, tails, mark)
    order = _order(scores, lambda at: (scores[at] / (choice.tokens(at) + _LINE_TOKENS), -at), allowance)
    limit = float(allowance.tokens)
    best = None
    for _ in range(_ATTEMPTS):
        kept = choice.fill(order, limit)
        shown = choice.render(kept)
        size = allowance.count(plain(shown))
        if size <= allowance.tokens:
            best = shown
            if size >= allowance.tokens * _ENOUGH or len(kept) >= len(lines) or limit > allowance.tokens * 2:
                break
            limit *= allowance.tokens / max(1, size) * 0.98
        elif best is not None:
            break
        else:
            limit = min(limit * allowance.tokens / size, limit - 1) * 0.97
        if limit < 1:
            break
    return only_if_shorter(source, best, allowance)


def only_if_shorter(source: str, shown: str | None, allowance: Allowance) -> str | None:
    """Return the stand-in if it is within the allowance and shorter than its source in characters and in tokens, else None."""
    if shown is None or len(shown) >= len(source):
        return None
    size = allowance.count(plain(shown))
    if size > allowance.tokens:
        return None
    if len(source) > _CERTAIN_CHARS and allowance.count(source[:_CERTAIN_CHARS]) > size:
        return shown
    return shown if allowance.count(source) > size else None


def guarded(source: str, shown: str | None, allowance: Allowance) -> str | None:
    """Return a stand-in that is shorter than its source, finished: nothing in it is live but the notes of the engine.

    None if the marks of the guard make it longer than it may be.
    """
    if shown is None:
        return None
    safe = unsealed(shown, allowance.guard)
    return safe if safe == plain(shown) else only_if_shorter(source, safe, allowance)


def density(text: str, allowance: Allowance) -> float:
    """Return the characters per token, at least a fifth of one."""
    return max(0.2, chars_per_token(text, allowance.count))


def _order(scores: Sequence[float], worth: Callable[[int], tuple[float, int]], allowance: Allowance) -> list[int]:
    """Return the lines that may be kept, by score per token, of equals the earlier: no more than there are tokens."""
    likely: Sequence[int] = range(len(scores))
    if len(scores) > _LIKELY * allowance.tokens:
        # By score alone first, because that compares in C: most lines of a long text are out of the question.
        least = sorted(scores)[-_LIKELY * allowance.tokens]
        level = [at for at, score in enumerate(scores) if score == least]
        likely = [at for at, score in enumerate(scores) if score > least] + level[: _LIKELY * allowance.tokens]
    return nlargest(allowance.tokens, (at for at in likely if scores[at] > 0), key=worth)


class _Choices(msgspec.Struct, frozen=True):
    """The lines to choose from, with estimates of their tokens, and the marks where some of them are left out."""

    lines: Sequence[str]
    allowance: Allowance
    chars_per_token: float
    most: int
    """Most characters of a line."""
    of: str
    source_lines: Sequence[int] | None
    tails: Mapping[int, str]
    gap_mark: GapMark | None

    def tokens(self, at: int) -> float:
        chars = min(len(self.lines[at]), self.most + CLIP_NOTE) + len(self.tails.get(at, ""))
        return chars / self.chars_per_token + 1

    def fill(self, order: Sequence[int], limit: float) -> list[int]:
        """Return the lines that fit, with those between two of them that take no more than the mark would."""
        kept: set[int] = set()
        used = 24.0  # the note
        mark_tokens = 1 + len(self._mark(0, 12)) / 2
        for at in order:
            cost = self.tokens(at) + mark_tokens * (1 - (at - 1 in kept) - (at + 1 in kept))
            if used + cost <= limit:
                kept.add(at)
                used += cost
        for before, after in pairwise(sorted(kept)):
            between = range(before + 1, after)
            if len(between) <= mark_tokens and sum(map(self.tokens, between)) <= mark_tokens:
                kept.update(between)
        return sorted(kept)

    def render(self, kept: list[int]) -> str:
        body: list[str] = []
        missing, after = 0, 0
        for at in (*kept, len(self.lines)):
            if at > after:
                missing += self._count(after, at)
                if at - after > _BLANKS or any(line.strip() for line in self.lines[after:at]):
                    body.append(self._mark(after, at))
            if at < len(self.lines):
                line, tail = clip(self.lines[at], self.most, self.allowance.focus), self.tails.get(at)
                body.append(" ".join(filter(None, (line, tail))) if tail else line)
            after = at + 1
        total = self._count(0, len(self.lines))
        note = f"[{missing:,} of {total:,} {self.of} left out; ref {self.allowance.ref}]"
        return "\n".join((sealed(note), *body))

    def _count(self, first: int, end: int) -> int:
        return sum(self.source_lines[first:end]) if self.source_lines else end - first

    def _mark(self, first: int, end: int) -> str:
        if self.gap_mark:
            return sealed(self.gap_mark(first, end))
        count = self._count(first, end)
        return sealed(f"[… {count:,} {self.of.removesuffix('s') if count == 1 else self.of}]")
