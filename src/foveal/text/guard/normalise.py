"""Normalised text: disguises undone, with a way back to the places in the original.

Three things happen, in this order, and none of them changes the text that is sent:

1. every character is replaced by the one it is read as (`＜` by `<`, a Cyrillic `о` by `o`, invisible ones by one mark);
2. percent codes, backslash codes and character references are decoded, up to `_ROUNDS` deep;
3. the marks by which `neutralise` has broken a form (`~` after its opening) are removed.

Because of the third step neutralising can be undone: a text and its neutralised text are normalised to the same string, so
the same forms are found in both. For that, step 2 may never produce a `~`, and no code may reach across an opening. It
cannot: the characters of codes and the mark are disjoint.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Callable
from html.entities import html5
from typing import Final, NamedTuple

from foveal.text.guard.lookalikes import LOOKALIKES
from foveal.text.lazy_pattern import lazy_pattern

MARK: Final = "~"
"""The character that breaks a form. It means nothing in a tag, a URL, JSON or a character reference, so it cannot merge
with the text after it."""

UNSEEN: Final = "\u200b"
"""Replacement for every invisible character."""

_ROUNDS: Final = 3
"""How often codes are decoded: codes inside codes inside codes. The same code within itself (`&amp;amp;lt;`, `%25253c`)
counts once."""

_KEPT: Final = 20_000
"""Normalised characters that are cached: all living alphabets, and not all of Unicode."""

_INVISIBLE: Final = frozenset(("Cf", "Mn", "Me", "Cc"))
_FILLERS: Final = "\u115f\u1160\u3164\uffa0\u2800"

_PERCENT: Final = lazy_pattern(
    r"%(?:25){0,64}(?:[0-7][0-9a-f]|[c-f][0-9a-f](?:%(?:25){0,64}+[89ab][0-9a-f]){1,3})", re.I
)
_BACKSLASH: Final = lazy_pattern(
    r"\\(?<!\\\\)(?:\\++|u005c|x5c){0,64}(?:ud([89ab][0-9a-f]{2})\\++ud([c-f][0-9a-f]{2})"
    r"|(?:u|(?-i:U)0000)([0-9a-f]{4})|u\{0*+([0-9a-f]{1,6})\}|x([0-9a-f]{2}))",
    re.I,
)
_REFERENCE: Final = lazy_pattern(
    r"&(?:(?:amp|#0*+38|#x0*+26);){0,64}(?:#0*+([0-9]{1,7});?|#x0*+([0-9a-f]{1,6});?|(lt|gt|amp);?|([a-z]{2,31});)",
    re.I,
)
_LONG: Final = lazy_pattern(
    "[\u00df\u0132\u0133\u0149\u01c4-\u01cc\u01f1-\u01f3\u1e9a\u1e9e\u20a8\u2100-\u213f\u2160-\u217f\u3250"
    "\u32cc-\u32cf\u3371-\u33ff\ufb00-\ufb06\U0001f12a-\U0001f1ff]"
)
_MARKS: Final = re.compile(MARK + MARK + "*+")
_FOREIGN: Final = re.compile("[^\x00-\x7f]+")


class Shifts(NamedTuple):
    """One replacement's shifts: from place `at` of the new text on, the old text is `ahead` characters further."""

    at: list[int]
    ahead: list[int]


class NormalisedText(NamedTuple):
    """A normalised text, and the shifts that lead back to places in the original."""

    text: str
    shifts: tuple[Shifts, ...] = ()

    def place(self, at: int) -> int:
        """Return the place in the original that corresponds to this place, behind any code that ends here."""
        for where, ahead in reversed(self.shifts):
            found = bisect_right(where, at)
            at += ahead[found - 1] if found else 0
        return at


def normalise(text: str) -> NormalisedText:
    """Return the text with all disguises undone. A plain text is returned unchanged."""
    read, shifts = text, list[Shifts]()
    if not text.isascii():
        runs = list[str]()
        read = _FOREIGN.sub(lambda run: _plain(run[0], runs), text)
        if runs:
            read = replaced(read, _LONG(), _letters, shifts)
    for _ in range(_ROUNDS):
        before = len(shifts)
        if "%" in read:
            read = replaced(read, _PERCENT(), _percent, shifts)
        if "\\" in read:
            read = replaced(read, _BACKSLASH(), _backslash, shifts)
        if "&" in read:
            read = replaced(read, _REFERENCE(), _reference, shifts)
        if len(shifts) == before:
            break
    for line_end in "\r\v\f":
        if line_end in read:
            read = read.replace(line_end, "\n")
    if MARK in read:
        read = replaced(read, _MARKS, _unmarked, shifts)
    return NormalisedText(read, tuple(shifts))


def replaced(text: str, units: re.Pattern[str], read: Callable[[re.Match[str]], str], shifts: list[Shifts]) -> str:
    """Return the text with each unit replaced by its reading; add to `shifts` if there was any."""
    pieces, at, ahead = list[str](), list[int](), list[int]()
    done = length = 0
    for unit in units.finditer(text):
        meant = read(unit)
        if (end := unit.end()) - (start := unit.start()) == len(meant) and meant == unit[0]:
            continue
        pieces += (text[done:start], meant)
        length += start - done + len(meant)
        done = end
        at.append(length)
        ahead.append(end - length)
    if not at:
        return text
    shifts.append(Shifts(at, ahead))
    pieces.append(text[done:])
    return "".join(pieces)


class _Readings(dict[int, str]):
    """The reading of each character; filled as characters are met."""

    def __missing__(self, code: int) -> str:
        read = _read(chr(code))
        if len(self) < _KEPT:
            self[code] = read
        return read


def _read(char: str) -> str:
    if char.isascii():
        return char
    if alike := LOOKALIKES.get(char):
        return alike
    if char in "\u0085\u2028\u2029":
        return "\n"
    if unicodedata.category(char) in _INVISIBLE or char in _FILLERS or "\U000e0000" <= char <= "\U000e0fff":
        return UNSEEN
    if char.isspace():
        return " "
    plain = _bare(char)
    if len(plain) == 1:
        plain = LOOKALIKES.get(plain, plain)
    return plain if len(plain) == 1 and plain.isascii() and plain != MARK else char


def _bare(char: str) -> str:
    """Return the character without its accents and its styling."""
    return "".join(c for c in unicodedata.normalize("NFKD", char) if unicodedata.category(c) not in _INVISIBLE)


_READ: Final = _Readings({code: chr(code) for code in range(128)})


def _meant(code: int) -> str | None:
    """Return the reading of a coded character. A coded mark does not count as a mark: only the engine sets marks."""
    if code > 0x10FFFF:
        return None
    return "\ufffd" if code == ord(MARK) else _READ[code]


def _plain(run: str, long: list[str]) -> str:
    """Return these characters as they are read, one for one. If one of them is read as several letters, the run is added to
    `long`."""
    if _LONG().search(run):
        long.append(run)
    return run.translate(_READ)


def _letters(unit: re.Match[str]) -> str:
    letters = _bare(unit[0].casefold())
    return letters if letters.isascii() and letters.isalpha() else unit[0]


def _percent(unit: re.Match[str]) -> str:
    data = bytes(int(code[-2:], 16) for code in unit[0].split("%")[1:])
    try:
        return _meant(ord(data.decode())) or unit[0]
    except (UnicodeDecodeError, TypeError):
        return unit[0]


def _backslash(unit: re.Match[str]) -> str:
    high, low, *codes = unit.groups()
    if high:
        return _meant(0x10000 + ((int(high, 16) & 0x3FF) << 10) + (int(low, 16) & 0x3FF)) or unit[0]
    return _meant(int(next(filter(None, codes)), 16)) or unit[0]


def _reference(unit: re.Match[str]) -> str:
    decimal, hexadecimal, short, name = unit.groups()
    if decimal or hexadecimal:
        return _meant(int(decimal) if decimal else int(hexadecimal, 16)) or unit[0]
    if short:
        return {"lt": "<", "gt": ">", "amp": "&"}[short.lower()]
    char = html5.get(f"{name};") or html5.get(f"{name.lower()};", "")
    return (_meant(ord(char)) or unit[0]) if len(char) == 1 else unit[0]


def _unmarked(unit: re.Match[str]) -> str:
    """Return nothing if these marks follow the opening of a form, else the marks."""
    at, text = unit.start(), unit.string
    opens = at == 0 or text[at - 1] in "<[;\n" or text[at - 2 : at] in ("\\n", "\\r")
    return "" if opens else unit[0]
