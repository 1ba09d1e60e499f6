"""Cuts between characters as a reader sees them: no accent, flag or emoji is split."""

import unicodedata

from foveal.text.guard.seals import sealed

_LOOK_BACK = 64
"""The longest emoji sequences have about a dozen code points; longer piles of marks are cut anyway."""

CLIP_NOTE = 24
"""About the length of the note of a clipped line: cutting less than that gains nothing."""

_MARKS = frozenset(("Mn", "Me", "Mc"))
_ZWJ = "\u200d"
_FLAGS = "".join(map(chr, range(0x1F1E6, 0x1F200)))


def boundary(text: str, at: int, *, look_back: int = _LOOK_BACK) -> int:
    """Return the last place at or before `at` where the text can be cut."""
    at = max(0, min(at, len(text)))
    if at in (0, len(text)) or (text[at - 1].isascii() and text[at].isascii() and text[at] != "\n"):
        return at
    for place in range(at, max(-1, at - look_back), -1):
        if place == 0 or not _joined(text, place):
            return place
    return at


def clip(line: str, most: int, focus: frozenset[str] = frozenset()) -> str:
    """Return the line if it has about `most` characters, else a part of it and a sealed note of the missing characters."""
    if len(line) <= most + CLIP_NOTE:
        return line
    start = 0
    places = [at for term in sorted(focus) if (at := line.find(term)) >= 0]
    if places and (first := min(places)) > most // 2:
        start = boundary(line, first - most // 4)
    end = boundary(line, start + most)
    if end <= start:
        return sealed(f"[… {len(line):,} characters]")
    before = sealed(f"[… {start:,} characters] ") if start else ""
    after = sealed(f" [… {len(line) - end:,} characters]") if end < len(line) else ""
    return f"{before}{line[start:end]}{after}"


def _joined(text: str, at: int) -> bool:
    """Return whether the characters on both sides of `at` are read as one."""
    before, after = text[at - 1], text[at]
    if before == "\r":
        return after == "\n"
    if before == _ZWJ or _extends(after):
        return True
    if before in _FLAGS and after in _FLAGS:
        # Flags are pairs of letters: whether a pair is split depends on the number of letters before.
        letters = at - len(text[:at].rstrip(_FLAGS))
        return letters % 2 == 1
    return False


def _extends(char: str) -> bool:
    """Return whether the character extends the one before: marks, joiners, variation selectors, skin tones, tags, later
    parts of a Korean syllable."""
    return (
        char in "\u200c\u200d"
        or unicodedata.category(char) in _MARKS
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        or "\u1160" <= char <= "\u11ff"
    )
