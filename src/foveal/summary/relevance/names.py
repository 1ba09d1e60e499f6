"""Names in a text: paths, dotted names, identifiers, numbers. What an agent takes over letter by letter."""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from foveal.text.shorten.cut import boundary

PIECE_CHARS = 240
"""A line is looked at in pieces of this length at most: it bounds the work of the pattern below and what one line may take."""

_NAME = re.compile(
    r"[\w.-]*/[\w./-]{3,}"  # a path
    r"|\w+(?:\.\w+)+"  # a dotted name or a file
    r"|[A-Za-z]\w*_\w+|[A-Za-z]+\d\w*|[a-z]+[A-Z]\w+|[A-Z][a-z]+[A-Z]\w+"  # an identifier that is no plain word
    r"|\d{4,}|\d+\.\d{2,}"
)
_LEAST_CHARS = 4
_RUN = re.compile(r"[\w./-]{4,}")
"""Every name lies within such a run, and the same runs come again and again: each is looked at once."""
_BREAK = re.compile(r"[\s,;(){}\[\]\"'|]")

_PART_CHARS = 2_000
"""Of a long line, where all of it is looked at."""

PATH, DOTTED, IDENTIFIER, NUMBER = range(4)


def names(piece: str) -> tuple[str, ...]:
    """The names in a piece of a line, each once, in order."""
    return _remembered(piece) if len(piece) <= PIECE_CHARS else _names(piece)


def names_in(lines: Iterable[str]) -> set[str]:
    """The names in some lines, whatever their length."""
    parts = (line[at : at + _PART_CHARS] for line in lines for at in range(0, len(line), _PART_CHARS))
    return set(chain.from_iterable(map(_in_run, set(_RUN.findall("\n".join(parts))))))


def _names(piece: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(map(_in_run, _RUN.findall(piece)))))


_remembered = lru_cache(8_192)(_names)
"""A line is looked at when it is shown beside a summary, when it is folded, and whenever a summary chooses again."""


@lru_cache(16_384)
def _in_run(run: str) -> tuple[str, ...]:
    if run.isalpha() and (run[1:].islower() or run.isupper()):  # a plain word, like most
        return ()
    found = [name.strip("./-") for name in _NAME.findall(run)]
    return tuple(name for name in found if len(name) >= _LEAST_CHARS)


def kind(name: str) -> int:
    if "/" in name:
        return PATH
    if name[0].isdecimal() and name.replace(".", "").isdecimal():
        return NUMBER
    return DOTTED if "." in name else IDENTIFIER


def pieces(line: str, most: int) -> list[str]:
    """The line, or its first `most` pieces if it is long, cut where no name is cut if there is such a place."""
    if len(line) <= PIECE_CHARS:
        return [line]
    found, at = list[str](), 0
    while at < len(line) and len(found) < most:
        end = at + PIECE_CHARS
        if end < len(line):
            breaks = [cut.end() for cut in _BREAK.finditer(line, at + PIECE_CHARS // 2, end)]
            end = breaks[-1] if breaks else max(boundary(line, end), at + 1)
        found.append(line[at:end])
        at = end
    return found
