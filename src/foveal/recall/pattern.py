"""Regular expressions that cannot hang, matched line by line.

Python's own engine tries alternatives one after the other, and `(a+)+$` takes it years on one line of forty letters. RE2 walks
all alternatives at once, so that time grows with the text alone and memory is bounded.

Understood: literal text, `.`, classes `[a-z_]` and `[^…]`, `\\d \\w \\s` and their capitals, `\\t`, `|`, groups `(…)` and
`(?:…)`, `* + ? {2} {2,} {2,5}` (a `?` after them changes nothing: only whether a line matches is asked), `^ $ \\b \\B`,
and `(?i)` at the beginning. Refused: backreferences, looking around, and everything else that needs memory.

Letters, digits, spaces and word boundaries are those of Unicode, as in Python. RE2 knows only those of ASCII, so a pattern is
translated before RE2 compiles it: `\\w` becomes `[\\p{L}\\p{N}_]`. For `\\b` and `\\B` there is no such class. Where the text is
not ASCII, such a pattern is matched against a *flagged* text: each character between two copies of a flag, `a` if it belongs to
a word and a space if not. RE2's own `\\b` between two flags is then Unicode's between the two characters.
"""

import re
import sys
from collections.abc import Iterator
from functools import cache
from mmap import mmap
from typing import NoReturn, Protocol

import re2

from foveal.recall.spooled_text import SpooledText
from foveal.values.errors import BadInput

MOST_PATTERN_CHARACTERS = 200
"""A pattern that somebody wrote is shorter; generated ones are better given as several."""
MOST_REPEATS = 1_000
"""RE2's own limit, for the product of repeats within repeats as well."""
MOST_MEMORY_BYTES = 64 << 20
"""Memory that RE2 may use for one pattern; `\\w` a thousand times takes a third of it. Beyond it RE2 gets slower, not wrong."""

_TOKEN = re.compile(
    r"""\\(?P<escape>.?)
      | (?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])
      | (?P<group>\(\?:?)
      | (?P<repeat>[*+?]|\{[0-9]+(?:,[0-9]*)?\}|\{,[0-9]+\})\??
      | (?P<structure>[()|^$])
      | .""",
    re.VERBOSE | re.DOTALL,
)
_SPACES = r"\t-\r\x1c-\x20\x85\xa0\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_CLASSES = {"d": r"\p{Nd}", "D": r"\P{Nd}", "w": r"\p{L}\p{N}_", "s": _SPACES}
"""The escapes for classes, as they are written between brackets. `\\W` and `\\S` have no such form: see `_outside`."""
_NEGATED = {"W": "w", "S": "s"}
_SEAMS = {"b": r"\b", "B": r"\B", "A": "^", "Z": "$", "z": "$"}
_BOUNDARIES = (r"\b", r"\B")
_CONTROLS = frozenset("trfv")
_LINE_BREAK = "it is matched line by line, and no line holds a line break"
_REASONS = {
    "missing )": "a `(` is never closed",
    "unexpected )": "a `)` closes nothing",
    "missing ]": "a `[` is never closed",
    "invalid character class range": "a range in a `[…]` goes from a lower to a higher character",
    "no argument for repetition operator": "`{}` repeats nothing",
    "bad repetition operator": "a repeat is repeated; put it into a group",
    "invalid repetition size": f"`{{}}` is no count; {MOST_REPEATS:,} is the most, repeats within repeats multiplied",
    "pattern too large": "it is too large; make it shorter, or its repeats smaller",
}
"""RE2's errors in Foveal's words; `{}` is the piece of the pattern that RE2 names."""


class _Match(Protocol):
    def start(self) -> int: ...
    def end(self) -> int: ...


class _Compiled(Protocol):
    def search(self, text: bytes | mmap, pos: int | None = None) -> _Match | None: ...


class LinePattern:
    """A pattern that is looked for in lines. `BadInput` says which piece of it is not understood."""

    def __init__(self, text: str) -> None:
        if len(text) > MOST_PATTERN_CHARACTERS:
            raise BadInput(f"the pattern has {len(text):,} characters; {MOST_PATTERN_CHARACTERS} is the most")
        flags, body = ("i", text[4:]) if text.startswith("(?i)") else ("", text)
        tokens = list(_tokens(text, body))
        self._plain = self._loose = _compiled(text, f"(?m{flags}:{''.join(token for token, _ in tokens)})")
        self._flagged = None
        if any(token in _BOUNDARIES for token, _ in tokens):
            loose = ("(?:)" if token in _BOUNDARIES else token for token, _ in tokens)
            self._loose = _compiled(text, f"(?m{flags}:{''.join(loose)})")
            atoms = (f"(?:(?s:.){token}(?s:.))" if is_atom else token for token, is_atom in tokens)
            self._flagged = _compiled(text, rf"\A(?s:...)*?(?{flags}:{''.join(atoms)})")

    def lines_in(self, text: str) -> set[int]:
        """Return the numbers, from 0, of the lines of the text that match."""
        if not self._flagged or text.isascii():
            return set(_lines(self._plain, text))
        lines = text.split("\n")  # flagging is slow: only lines that match without their boundaries are looked at
        return {number for number in _lines(self._loose, text) if self.end_in(lines[number]) is not None}

    def end_in(self, line: str) -> int | None:
        """Return how many characters of the line there are up to the end of its first match; None if it does not match."""
        if self._flagged and not line.isascii():
            data = _encoded(_flag(line))
            match = self._flagged.search(data)
            return None if match is None else len(data[: match.end()].decode("utf-8", "surrogatepass")) // 3
        data = _encoded(line)
        match = self._plain.search(data)
        return None if match is None else len(data[: match.end()].decode("utf-8", "surrogatepass"))

    def end_in_long(self, line: SpooledText) -> int | None:
        """Return the same as `end_in` for a line that is not in memory."""
        if not self._flagged or line.is_ascii:
            with line.buffer() as data:
                match = self._plain.search(data)
            return None if match is None else line.characters_before(match.end())
        with SpooledText() as flagged:
            for text in line.texts():
                flagged.add(_flag(text))
            with flagged.buffer() as data:
                match = self._flagged.search(data)
            return None if match is None else flagged.characters_before(match.end()) // 3


def _tokens(text: str, body: str) -> Iterator[tuple[str, bool]]:
    """Yield the pieces of the pattern in RE2's syntax, and whether each of them is one character of the line."""
    for token in _TOKEN.finditer(body):
        match token.lastgroup:
            case "escape":
                letter = token["escape"]
                yield (_SEAMS[letter], False) if letter in _SEAMS else (_escape(text, letter), True)
            case "class":
                inner = re.sub(r"\\(.)", lambda escape: _in_class(text, escape[1]), token["class"], flags=re.DOTALL)
                yield _without_breaks(text, inner), True
            case "group":
                if token["group"] == "(?":
                    _refuse(
                        text,
                        "of the groups that begin with `(?`, only `(?:…)` is known, and `(?i)` at the very beginning",
                    )
                yield "(?:", False
            case "repeat":
                # Lazy, so that the first match ends early: it is shown in the middle of a long line.
                yield token["repeat"].replace("{,", "{0,") + "?", False
            case "structure":
                yield token[0], False
            case _:
                yield _without_breaks(text, token[0]), True


def _escape(text: str, letter: str) -> str:
    if letter in _NEGATED:
        return f"[^{_CLASSES[_NEGATED[letter]]}]"
    return f"[{_in_class(text, letter)}]" if letter in _CLASSES else _in_class(text, letter)


def _in_class(text: str, letter: str) -> str:
    """Return an escape as it is written between brackets."""
    if letter in _CLASSES:
        return _CLASSES[letter]
    if letter in _NEGATED:
        return _outside(letter)
    if not letter:
        _refuse(text, "it ends with a backslash")
    if letter == "n":
        _refuse(text, _LINE_BREAK)
    if letter.isascii() and letter.isalnum() and letter not in _CONTROLS:
        _refuse(text, f"the escape `\\{letter}` is not known; backreferences cannot be used")
    return f"\\{letter}" if letter.isascii() else letter


@cache
def _outside(letter: str) -> str:
    """Return the ranges of `\\W` or `\\S`: between brackets, RE2 has no other way to exclude characters."""
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    runs = (run[0] for run in re.finditer(rf"\{letter}+", every))
    return "".join(rf"\x{{{ord(run[0]):x}}}-\x{{{ord(run[-1]):x}}}" for run in runs)


def _without_breaks(text: str, token: str) -> str:
    if "\n" in token:
        _refuse(text, _LINE_BREAK)
    return token


def _compiled(text: str, pattern: str) -> _Compiled:
    options = re2.Options()
    options.log_errors = False  # RE2 would write them to the standard error output
    options.max_mem = MOST_MEMORY_BYTES
    options.never_capture = True
    options.never_nl = True  # no class holds a line break, so that no match reaches into the next line
    try:
        return re2.compile(_encoded(pattern), options)
    except re2.error as error:
        reason, _, piece = error.args[0].decode("utf-8", "replace").partition(": ")
        known = next((words for start, words in _REASONS.items() if reason.startswith(start)), reason)
        _refuse(text, known.format(piece.removesuffix("?") if len(piece) > 1 else piece))


def _lines(pattern: _Compiled, text: str) -> Iterator[int]:
    data = _encoded(text)
    number = at = 0
    while match := pattern.search(data, at):
        number += data.count(b"\n", at, match.start())
        yield number
        at = data.find(b"\n", match.end()) + 1
        number += 1
        if not at:
            return


def _refuse(text: str, reason: str) -> NoReturn:
    raise BadInput(f"the pattern {text!r} cannot be used: {reason}")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _flag(text: str) -> str:
    """Put each character between two flags: `a` if it belongs to a word, a space if not."""
    return "".join(f"a{char}a" if char.isalnum() or char == "_" else f" {char} " for char in text)
