"""Regular expressions that cannot hang: the part of the usual syntax that a machine without memory can run.

Python's own engine tries alternatives one after the other, and `(a+)+$` takes it years on one line of forty letters. Here a
pattern becomes a graph whose paths are all walked at once (`automaton`), so that time grows with the text and nothing else.

Understood: literal text, `.`, classes `[a-z_]` and `[^…]`, `\\d \\w \\s` and their capitals, `\\t`, `|`, groups `(…)` and
`(?:…)`, `* + ? {2} {2,} {2,5}` (a `?` after them changes nothing: what matters is whether a line matches), `^ $ \\b \\B`,
and `(?i)` at the beginning. Refused: backreferences, looking around, and what else needs memory.
"""

from collections.abc import Callable
from typing import Literal, NoReturn, TypeAlias

import msgspec

from foveal.values.errors import BadInput

MOST_PATTERN_CHARACTERS = 200
"""A pattern that somebody wrote is shorter; generated ones are better given as several."""
MOST_REPEATS = 1_000


class Chars(msgspec.Struct, frozen=True):
    """One character out of a set."""

    singles: str = ""
    ranges: tuple[tuple[str, str], ...] = ()
    classes: str = ""
    """Letters of the escapes in it, as in `\\d`."""
    negated: bool = False

    def has(self, char: str) -> bool:
        found = (
            char in self.singles
            or any(first <= char <= last for first, last in self.ranges)
            or any(_CLASSES[letter](char) for letter in self.classes)
        )
        return found is not self.negated

    @property
    def literal(self) -> str:
        """The character, if it can be no other."""
        return self.singles if len(self.singles) == 1 and not (self.ranges or self.classes or self.negated) else ""


class Seam(msgspec.Struct, frozen=True):
    """Something that must be so between two characters."""

    kind: Literal["^", "$", "b", "B"]


class Repeat(msgspec.Struct, frozen=True):
    item: "Node"
    least: int
    most: int | None


class Chain(msgspec.Struct, frozen=True):
    items: tuple["Node", ...]


class Choice(msgspec.Struct, frozen=True):
    items: tuple["Node", ...]


Node: TypeAlias = Chars | Seam | Repeat | Chain | Choice


class Pattern(msgspec.Struct, frozen=True):
    root: Node
    ignores_case: bool = False


def is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


_CLASSES: dict[str, Callable[[str], bool]] = {
    "d": str.isdecimal,
    "D": lambda char: not char.isdecimal(),
    "w": is_word,
    "W": lambda char: not is_word(char),
    "s": str.isspace,
    "S": lambda char: not char.isspace(),
}
_CONTROLS = {"t": "\t", "r": "\r", "f": "\f", "v": "\v"}
_SEAMS: dict[str, Seam] = {"b": Seam("b"), "B": Seam("B"), "A": Seam("^"), "Z": Seam("$"), "z": Seam("$")}
_ANY = Chars(negated=True)


def parse(text: str) -> Pattern:
    """The pattern that the text says; `BadInput` names the place that is not understood."""
    if len(text) > MOST_PATTERN_CHARACTERS:
        raise BadInput(f"the pattern has {len(text):,} characters; {MOST_PATTERN_CHARACTERS} is the most")
    ignores_case = text.startswith("(?i)")
    parser = _Parser(text, 4 if ignores_case else 0)
    root = parser.choice()
    if parser.char:
        parser.refuse("a `)` closes nothing")
    return Pattern(root, ignores_case)


class _Parser:
    def __init__(self, text: str, at: int) -> None:
        self._text, self._at = text, at

    @property
    def char(self) -> str:
        return self._text[self._at : self._at + 1]

    def refuse(self, what: str) -> NoReturn:
        raise BadInput(f"the pattern {self._text!r} cannot be used: {what} (at character {self._at + 1})")

    def choice(self) -> Node:
        items = [self._chain()]
        while self._took("|"):
            items.append(self._chain())
        return items[0] if len(items) == 1 else Choice(tuple(items))

    def _chain(self) -> Node:
        items: list[Node] = []
        while self.char and self.char not in "|)":
            items.append(self._repeated(self._item()))
        return items[0] if len(items) == 1 else Chain(tuple(items))

    def _item(self) -> Node:
        char = self._next()
        match char:
            case "(":
                return self._group()
            case "[":
                return self._class()
            case "\\":
                return self._escape()
            case ".":
                return _ANY
            case "^" | "$":
                return Seam(char)
            case _:
                return Chars(self._plain(char))

    def _plain(self, char: str) -> str:
        if char in "*+?":
            self.refuse(f"`{char}` repeats nothing")
        if char == "\n":
            self.refuse("it is matched line by line, and no line holds a line break")
        return char

    def _group(self) -> Node:
        if self._took("?") and not self._took(":"):
            self.refuse("of the groups that begin with `(?`, only `(?:…)` is known, and `(?i)` at the very beginning")
        inner = self.choice()
        if not self._took(")"):
            self.refuse("a `(` is never closed")
        return inner

    def _escape(self) -> Node:
        char = self._next()
        if char in _SEAMS:
            return _SEAMS[char]
        if char in _CLASSES:
            return Chars(classes=char)
        return Chars(self._escaped(char))

    def _escaped(self, char: str) -> str:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if not char:
            self.refuse("it ends with a backslash")
        if char == "n":
            self.refuse("it is matched line by line, and no line holds a line break")
        if char.isascii() and char.isalnum():
            self.refuse(f"the escape `\\{char}` is not known; backreferences cannot be used")
        return char

    def _class(self) -> Node:
        negated = self._took("^")
        singles, classes, ranges = "", "", list[tuple[str, str]]()
        is_first = True
        while is_first or self.char != "]":
            char = self._class_char()
            is_first = False
            if len(char) == 2:
                classes += char[1]
            elif self.char == "-" and self._text[self._at + 1 : self._at + 2] not in ("]", ""):
                self._next()
                last = self._class_char()
                if len(last) == 2 or last < char:
                    self.refuse("a range in a `[…]` goes from a lower to a higher character")
                ranges.append((char, last))
            else:
                singles += char
        self._next()
        return Chars(singles, tuple(ranges), classes, negated)

    def _class_char(self) -> str:
        """The character, or the two of an escape that stands for a class."""
        char = self._next()
        if not char:
            self.refuse("a `[` is never closed")
        if char != "\\":
            return char
        letter = self._next()
        return f"\\{letter}" if letter in _CLASSES else self._escaped(letter)

    def _repeated(self, item: Node) -> Node:
        counts = self._counts()
        if counts is None:
            return item
        self._took("?")
        if isinstance(item, Seam):
            self.refuse("a repeat of nothing")
        if self._counts() is not None:
            self.refuse("a repeat is repeated; put it into a group")
        return Repeat(item, *counts)

    def _counts(self) -> tuple[int, int | None] | None:
        for char, counts in (("*", (0, None)), ("+", (1, None)), ("?", (0, 1))):
            if self._took(char):
                return counts
        end = self._text.find("}", self._at)
        inside = self._text[self._at + 1 : end] if self.char == "{" else ""
        low, comma, high = inside.partition(",")
        # A brace is a character like others unless it holds counts, as in every other engine.
        if not (low or high) or not all(word.isascii() and word.isdecimal() for word in (low, high) if word):
            return None
        least, most = int(low or 0), int(high or low) if high or not comma else None
        if max(least, most or 0) > MOST_REPEATS or (most is not None and most < least):
            self.refuse(f"`{{{inside}}}` is no count; {MOST_REPEATS:,} is the most")
        self._at = end + 1
        return least, most

    def _next(self) -> str:
        char = self.char
        self._at += 1
        return char

    def _took(self, char: str) -> bool:
        if self.char != char:
            return False
        self._at += 1
        return True


def literals(pattern: Pattern) -> frozenset[str] | None:
    """Texts of which every match holds at least one; None if there are none to tell by."""
    found = _literals(pattern.root)
    if found is None or (pattern.ignores_case and not all(text.isascii() for text in found)):
        return None
    return frozenset(text.lower() for text in found) if pattern.ignores_case else found


def _literals(node: Node) -> frozenset[str] | None:
    match node:
        case Chars():
            return frozenset({node.literal}) if node.literal else None
        case Repeat(item, least):
            return _literals(item) if least else None
        case Choice(items):
            sets = [_literals(item) for item in items]
            texts = frozenset(text for found in sets for text in found or ())
            return texts if all(sets) and len(texts) <= 16 else None  # more than that are no quicker to look for
        case Chain(items):
            return max(_chain_literals(items), key=lambda found: min(map(len, found)), default=None)
        case Seam():
            return None


def _chain_literals(items: tuple[Node, ...]) -> list[frozenset[str]]:
    found: list[frozenset[str]] = []
    run = ""
    for item in (*items, Seam("^")):
        if isinstance(item, Chars) and item.literal:
            run += item.literal
            continue
        if run:
            found.append(frozenset({run}))
        run = ""
        if inner := _literals(item):
            found.append(inner)
    return found
