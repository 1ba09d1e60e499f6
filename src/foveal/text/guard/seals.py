"""Seals: lines that the engine writes among texts of others are told from them until the whole text has been neutralised.

A level takes a text apart, removes colours and tags, and puts notes of its own between the pieces. Afterwards nobody could
say whether a form in the result is a note or a forgery that the cleaning has put together. So notes are written **sealed**:
their openings are characters that no foreign text holds. `unsealed` neutralises the finished text, in which every live form is
now foreign, and only then writes the openings.
"""

from collections.abc import Callable
from typing import Final

from foveal.text.guard.neutral_text import neutralise_live

_OPEN: Final = "\ufdd0"
_SEMICOLON: Final = "\ufdd1"
"""Unicode's noncharacters: never assigned, and of no meaning in a text that is exchanged."""

_SEAL: Final = str.maketrans({"[": _OPEN, ";": _SEMICOLON})
_PLAIN: Final = str.maketrans({_OPEN: "[", _SEMICOLON: ";"})
_FOREIGN: Final = str.maketrans({_OPEN: "\ufffd", _SEMICOLON: "\ufffd"})


def sealed(note: str) -> str:
    """Return a line of the engine's with its openings sealed. Names in it must be safe names."""
    return note.translate(_SEAL)


def plain(text: str) -> str:
    """Return the text as it will be read, for counting."""
    return text.translate(_PLAIN) if _OPEN in text or _SEMICOLON in text else text


def unsealed(text: str, guard: Callable[[str], str] = neutralise_live) -> str:
    """Return the finished text: guarded, and with the notes of the engine opened."""
    return plain(guard(text))


def sealable(text: str) -> str:
    """Return a foreign text without the two characters of seals, of the same length."""
    return text.translate(_FOREIGN) if _OPEN in text or _SEMICOLON in text else text
