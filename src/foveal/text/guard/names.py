"""Names that others gave (tools, files, attributes, keys), for use inside the lines that we write."""

import re
import unicodedata
from typing import Final

from foveal.text.guard.neutral import neutralise

_BRACKETS: Final = str.maketrans({"<": "(", ">": ")", "[": "(", "]": ")", '"': "'", "`": "'", ";": ",", "\\": "/"})
"""What ends one of our lines, attributes or tags, by what does not."""

_BLANKS: Final = re.compile(r"\s+")
_TAIL: Final = "…"
NAMELESS: Final = "unnamed"


def safe_name(text: str, limit: int) -> str:
    """The name on one line, without anything that could end the line's brackets, in at most `limit` characters.

    Not reversible: it is shown, never looked up. It is never empty, so that a line keeps its shape.
    """
    limit = max(limit, 1)
    # Bounded before it is looked at: names come in megabytes, too. Marks and blanks that go leave room, hence the factor.
    name = _BLANKS.sub(" ", "".join(map(_visible, text[: limit * 8]))).strip().translate(_BRACKETS)
    is_cut = len(text) > limit * 8
    if not name:
        return NAMELESS[:limit]
    room = limit
    while True:
        whole = len(name) <= room and not is_cut
        shown = neutralise(name if whole else name[: _boundary(name, room - 1)] + _TAIL)
        if len(shown) <= limit:
            return shown
        room -= len(shown) - limit


def _visible(char: str) -> str:
    """The character; nothing if it shows nothing, and a replacement if it cannot be shown."""
    match unicodedata.category(char):
        case "Cf":
            return ""
        case "Cc" | "Zl" | "Zp":
            return " " if char.isspace() else "\ufffd"
        case "Cs" | "Co" | "Cn":
            return "\ufffd"
        case _:
            return char


def _boundary(text: str, at: int) -> int:
    """The last place at or before `at` that does not part a letter from its accents, or a flag or a syllable in two."""
    at = max(0, min(at, len(text)))
    while 0 < at < len(text) and _joins(text, at):
        at -= 1
    return at


def _joins(text: str, at: int) -> bool:
    after = text[at]
    if "\U0001f1e6" <= after <= "\U0001f1ff":
        before = text[:at]
        return (at - len(before.rstrip("".join(map(chr, range(0x1F1E6, 0x1F200)))))) % 2 == 1
    return (
        unicodedata.category(after) in ("Mn", "Me", "Mc")
        or "\U0001f3fb" <= after <= "\U0001f3ff"
        or "\u1160" <= after <= "\u11ff"
    )
