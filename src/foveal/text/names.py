"""Names in a text: paths, dotted names, identifiers, ids, numbers. Every pattern that recognises them is in this module.

Four readers look for names, and each needs another set, because each pays another price for a wrong one:

- `line_names`: names that an agent copies letter by letter. Relevance scores lines by them, so that numbers of four digits
  count and hashes do not.
- `search_terms`: every run of name characters, plain words included. Lines that hold one are kept first.
- `words_in`: words of four letters or more, for counting which line is the first to use one.
- `camel_case_parts`: the parts of `camelCase` names, which SQLite's tokenizer does not separate.

`text/shorten/outline.py` has patterns of its own: it sorts names into three labelled groups, with other bounds in each.
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import chain

from foveal.text.shorten.cut import boundary

PIECE_CHARS = 240
"""Longest piece of a line that is searched at once: it bounds the work of the pattern below and the size of one kept line."""

_LOWER_CAMEL = r"[a-z]+[A-Z]\w+"
_RUN_CHARS = r"[\w./-]"

_NAME = re.compile(
    r"[\w.-]*/[\w./-]{3,}"  # a path
    r"|\w+(?:\.\w+)+"  # a dotted name or a file
    rf"|[A-Za-z]\w*_\w+|[A-Za-z]+\d\w*|{_LOWER_CAMEL}|[A-Z][a-z]+[A-Z]\w+"  # an identifier that is no plain word
    r"|\d{4,}|\d+\.\d{2,}"
)
_LEAST_CHARS = 4
_RUN = re.compile(rf"{_RUN_CHARS}{{4,}}")
"""Every name of `_NAME` lies within such a run, and the same runs come again and again: each is searched once."""
_TERM = re.compile(rf"{_RUN_CHARS}{{4,80}}")
_BREAK = re.compile(r"[\s,;(){}\[\]\"'|]")

_PART_CHARS = 2_000
"""Characters of a long line that `names_in_lines` searches at once."""

PATH, DOTTED, IDENTIFIER, NUMBER = range(4)

_WORD = re.compile(r"[A-Za-z_][\w]{3,60}")
_LETTERS_AND_DIGITS = re.compile(r"[A-Za-z0-9]+")
_CAMEL_CASE_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def line_names(piece: str) -> tuple[str, ...]:
    """Return the names in a piece of a line, each once, in order."""
    return _remembered(piece) if len(piece) <= PIECE_CHARS else _line_names(piece)


def names_in_lines(lines: Iterable[str]) -> set[str]:
    """Return the names in some lines of any length."""
    parts = (line[at : at + _PART_CHARS] for line in lines for at in range(0, len(line), _PART_CHARS))
    return set(chain.from_iterable(map(_in_run, set(_RUN.findall("\n".join(parts))))))


def _line_names(piece: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(map(_in_run, _RUN.findall(piece)))))


_remembered = lru_cache(8_192)(_line_names)
"""A line is searched when the prompt shows it beside a summary, when it is folded, and whenever a summary is composed again."""


@lru_cache(16_384)
def _in_run(run: str) -> tuple[str, ...]:
    if run.isalpha() and (run[1:].islower() or run.isupper()):  # a plain word, like most
        return ()
    found = [name.strip("./-") for name in _NAME.findall(run)]
    return tuple(name for name in found if len(name) >= _LEAST_CHARS)


def name_kind(name: str) -> int:
    """Return PATH, DOTTED, IDENTIFIER or NUMBER, by the form of the name."""
    if "/" in name:
        return PATH
    if name[0].isdecimal() and name.replace(".", "").isdecimal():
        return NUMBER
    return DOTTED if "." in name else IDENTIFIER


def line_pieces(line: str, most: int) -> list[str]:
    """Return the line, or the first `most` pieces of a long one, cut between names if there is such a place."""
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


def search_terms(text: str) -> list[str]:
    """Return every run of 4 to 80 letters, digits, dots, slashes and dashes, in order."""
    return _TERM.findall(text)


def words_in(text: str) -> list[str]:
    """Return the words of four letters or more, in order."""
    return _WORD.findall(text)


def camel_case_parts(text: str) -> Iterator[str]:
    """Yield the parts of the text's camelCase names: `max`, `Context` and `Tokens` of `maxContextTokens`."""
    for name in dict.fromkeys(_LETTERS_AND_DIGITS.findall(text)):
        if not (name.islower() or name.isupper() or name.istitle() or name.isdecimal()):
            yield from _CAMEL_CASE_PART.findall(name)
