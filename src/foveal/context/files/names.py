"""A file's name as it may stand in a line of text: one line, visible, and not too long."""

import unicodedata

MOST_CHARACTERS = 120
_SUFFIX_CHARACTERS = 12
_MOST_PATH = 4_096
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Controls, directions, halves of characters, and what no font shows."""


def safe_name(name: str) -> str:
    """The last step of the name, with what cannot be seen replaced; the beginning and the extension of a long one."""
    last = name.replace("\\", "/").rstrip("/ ").rpartition("/")[2]
    shown = one_line(last if len(last) <= _MOST_PATH else last[:MOST_CHARACTERS] + last[-_SUFFIX_CHARACTERS:])
    if not shown.strip("._ "):
        return "unnamed"
    if len(shown) <= MOST_CHARACTERS:
        return shown
    suffix = shown[-_SUFFIX_CHARACTERS:].rpartition(".")[2]
    tail = f"….{suffix}" if "." in shown[-_SUFFIX_CHARACTERS:] else "…"
    return shown[: MOST_CHARACTERS - len(tail)] + tail


def one_line(text: str) -> str:
    """The text on one line, with what cannot be seen replaced. Names in archives are paths, and stay whole to be told apart."""
    return " ".join("".join("_" if unicodedata.category(c) in _UNSEEN else c for c in text[:_MOST_PATH]).split())
