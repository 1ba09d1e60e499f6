"""Names that others gave (tools, files, attributes, keys), made safe for the lines that the engine writes."""

import re
import unicodedata
from typing import Final

from foveal.text.guard.neutral_text import neutralise
from foveal.text.shorten.cut import boundary

_BRACKETS: Final = str.maketrans({"<": "(", ">": ")", "[": "(", "]": ")", '"': "'", "`": "'", ";": ",", "\\": "/"})
"""Replacements for the characters that end one of our lines, attributes or tags."""

_BLANKS: Final = re.compile(r"\s+")
_TAIL: Final = "…"
NAMELESS: Final = "unnamed"


def safe_name(text: str, limit: int) -> str:
    """Return the name on one line of at most `limit` characters, without characters that could end the line's brackets.

    The result is shown, never looked up: it cannot be reversed. It is never empty, so that a line keeps its shape.
    """
    limit = max(limit, 1)
    # Cut before it is read: names come in megabytes, too. Removed marks and blanks leave space, hence the factor.
    name = _BLANKS.sub(" ", "".join(map(_visible, text[: limit * 8]))).strip().translate(_BRACKETS)
    is_cut = len(text) > limit * 8
    if not name:
        return NAMELESS[:limit]
    room = limit
    while True:
        whole = len(name) <= room and not is_cut
        shown = neutralise(name if whole else name[: boundary(name, room - 1, look_back=limit)] + _TAIL)
        if len(shown) <= limit:
            return shown
        room -= len(shown) - limit


def _visible(char: str) -> str:
    """Return the character; nothing if it is invisible, and a replacement if it cannot be shown."""
    match unicodedata.category(char):
        case "Cf":
            return ""
        case "Cc" | "Zl" | "Zp":
            return " " if char.isspace() else "\ufffd"
        case "Cs" | "Co" | "Cn":
            return "\ufffd"
        case _:
            return char
