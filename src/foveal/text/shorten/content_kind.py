"""Samples of a text, from which its kind can be told."""

import re

_HEAD, _MIDDLE, _TAIL = 2_000, 1_000, 1_000
_LINE_CHARS = 400

_EXTENSION = re.compile(r"[\w)\]]\.([A-Za-z][A-Za-z0-9+]{0,9})(?![\w.])")


def sample(text: str) -> list[str]:
    """Return lines from the beginning, the middle and the end, without blank lines and lines torn at the seams."""
    if len(text) <= _HEAD + _MIDDLE + _TAIL:
        pieces = (text,)
    else:
        middle = len(text) // 2
        pieces = (text[:_HEAD], text[middle : middle + _MIDDLE], text[-_TAIL:])
    lines: list[str] = []
    for at, piece in enumerate(pieces):
        found = piece.split("\n")
        found = found[1 if at > 0 else 0 : len(found) - 1 if at < len(pieces) - 1 else len(found)]
        lines.extend(line.rstrip("\r")[:_LINE_CHARS] for line in found if line.strip())
    return lines


def share(pattern: re.Pattern[str], lines: list[str]) -> float:
    """Return the share of the lines that the pattern matches at their beginning."""
    return sum(pattern.match(line) is not None for line in lines) / len(lines) if lines else 0.0


def extensions(hint: str) -> list[str]:
    """Return the file extensions that the call names, in lower case."""
    return [found.lower() for found in _EXTENSION.findall(hint[:4_000])]
