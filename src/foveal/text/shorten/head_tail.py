"""Level `trimmed`: the beginning and the end of a text, verbatim, with a note about the text between them."""

import re

from foveal.text.guard.seals import plain, sealed
from foveal.text.shorten.allowance import CountTokens
from foveal.text.shorten.cut import boundary

HEAD_SHARE = 0.6
"""Beginnings name things (paths, signatures, the command's echo); ends report outcomes. Beginnings get a little more."""

_NOTE = re.compile(r"\[[^\[\]\n]{0,200}\bref [\w.-]{1,120}[^\[\]\n]{0,80}\]")
_NOTE_CHARS = 400
"""A note of an earlier cut, with its reference."""

_SAMPLE_CHARS = 4_000
_ATTEMPTS = 5


def head_tail(text: str, tokens: int, count: CountTokens, ref: str, *, head_share: float = HEAD_SHARE) -> str | None:
    """Return head, note and tail in at most `tokens`; None if that is not possible or would not be shorter.

    A cut makes nothing live: of a text that holds no live form, neither does this.
    """
    shown = sealed_head_tail(text, tokens, count, ref, head_share=head_share)
    return None if shown is None else plain(shown)


def sealed_head_tail(
    text: str, tokens: int, count: CountTokens, ref: str, *, head_share: float = HEAD_SHARE
) -> str | None:
    """Return head, sealed note and tail, as `head_tail` does."""
    room = max(8, int(tokens * chars_per_token(text, count)))
    lines = text.count("\n") + 1
    for _ in range(_ATTEMPTS):
        if room >= len(text):
            return None
        shown = _cut(text, (int(room * head_share), room - int(room * head_share)), lines, ref)
        size = count(plain(shown))
        if size <= tokens:
            return shown if len(shown) < len(text) else None
        room = int(room * tokens / size * 0.95) - 8
        if room < 8:
            return None
    return None


def _cut(text: str, rooms: tuple[int, int], lines: int, ref: str) -> str:
    head, _ = _note_around(text, _line_end(text, boundary(text, rooms[0])))
    _, tail = _note_around(text, _line_start(text, boundary(text, len(text) - rooms[1])))
    left_out = text.count("\n", head, tail)
    what = f"{left_out:,} of {lines:,} lines" if left_out > 1 else f"{tail - head:,} of {len(text):,} characters"
    # A tail that begins in the middle of a line must not look like the beginning of one.
    cut = "" if text[tail - 1 : tail] == "\n" else "…"
    note = sealed(f"[… {what} left out; ref {ref}]")
    return f"{text[:head]}\n{note}\n{cut}{text[tail:]}"


def _note_around(text: str, at: int) -> tuple[int, int]:
    """Return where the note begins and ends that a cut at this place would go through; half a reference leads nowhere."""
    start = text.rfind("[", max(0, at - _NOTE_CHARS), at)
    found = _NOTE.match(text, start) if start >= 0 else None
    return found.span() if found and found.end() > at else (at, at)


def _line_end(text: str, at: int) -> int:
    """Return the last line break shortly before `at`, if there is one: whole lines read better."""
    found = text.rfind("\n", at - at // 3, at)
    return found if found > 0 else at


def _line_start(text: str, at: int) -> int:
    found = text.find("\n", at, at + (len(text) - at) // 3)
    return found + 1 if found >= 0 else at


def chars_per_token(text: str, count: CountTokens) -> float:
    """Return the characters per token, from a sample of both ends."""
    sample = text if len(text) <= 2 * _SAMPLE_CHARS else text[:_SAMPLE_CHARS] + text[-_SAMPLE_CHARS:]
    return len(sample) / max(1, count(sample))
