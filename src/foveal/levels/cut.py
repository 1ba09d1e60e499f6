"""Cuts that do not split what is read as one character."""

import unicodedata

_LOOK_BACK = 64
"""The longest emoji sequences have about a dozen code points; piled-up marks beyond this are cut anyway."""

_MARKS = frozenset(("Mn", "Me", "Mc"))
_ZWJ = "\u200d"


def boundary(text: str, at: int) -> int:
    """The last place at or before `at` where the text can be cut."""
    at = max(0, min(at, len(text)))
    if at in (0, len(text)) or (text[at - 1].isascii() and text[at].isascii() and text[at] != "\n"):
        return at
    for place in range(at, max(0, at - _LOOK_BACK), -1):
        if not _joined(text, place):
            return place
    return at


def clip(line: str, most: int, focus: frozenset[str] = frozenset()) -> str:
    """The line itself if it has at most `most` characters, else a part of it and a note of how much is missing."""
    if len(line) <= most:
        return line
    start = 0
    places = [at for term in sorted(focus) if (at := line.find(term)) >= 0]
    if places and (first := min(places)) > most // 2:
        start = boundary(line, first - most // 4)
    end = boundary(line, start + most)
    if end <= start:
        return f"[… {len(line):,} characters]"
    before = f"[… {start:,} characters] " if start else ""
    after = f" [… {len(line) - end:,} characters]" if end < len(line) else ""
    return f"{before}{line[start:end]}{after}"


def _joined(text: str, at: int) -> bool:
    """Whether the characters on both sides of `at` are read as one."""
    before, after = text[at - 1], text[at]
    if before == "\r":
        return after == "\n"
    if before == _ZWJ or _extends(after):
        return True
    if _flag(before) and _flag(after):
        run = 0
        while run < _LOOK_BACK and run < at and _flag(text[at - 1 - run]):
            run += 1
        return run % 2 == 1
    return False


def _extends(char: str) -> bool:
    """Marks, joiners, variation selectors, skin tones, tags, and the later parts of a Korean syllable."""
    return (
        char in "\u200c\u200d"
        or unicodedata.category(char) in _MARKS
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        or "\u1160" <= char <= "\u11ff"
    )


def _flag(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
