"""Names that others gave (tools, files, attributes, keys), for use inside the lines that we write."""

import re
import unicodedata
from typing import Final

from foveal.text.guard.neutral_text import neutralise
from foveal.text.shorten.cut import boundary

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
        shown = neutralise(name if whole else name[: boundary(name, room - 1, look_back=limit)] + _TAIL)
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
