"""Forms: texts that a model could take for another speaker. The patterns are searched in a normalised text.

- our own tags (`<foveal:…>`), and the tags by which other engines and chat templates frame a turn;
- the tokens of chat templates (`<|im_start|>`, `[INST]`, `<<SYS>>`, `<s>`) and turns at the start of a line (`Human:`);
- the bracketed lines of our stand-ins.

Ordinary HTML, XML, generics and redirections have none of these names and are not touched. Every form is found by its
opening character, so that each scan is driven by a search for one character. Gaps are possessive and bounded, so that a
scan is linear in any text.
"""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from foveal.text.guard.normalise import UNSEEN, normalise
from foveal.text.lazy_pattern import lazy_pattern

_CONTROL: Final = rf"\x00-\x08\x0e-\x1a\x1c-\x1f\x7f{UNSEEN}"
_COLOUR: Final = r"\x1b\[[0-?]{0,64}+[ -/]{0,8}+[@-~]|\x1b\][^\x07\x1b\n<]{0,200}+(?:\x07|\x1b\\)|\x1b"
_THIN: Final = rf"(?:[{_CONTROL}]++|{_COLOUR}|\\++b){{0,8}}+"
"""A gap of invisible characters."""
_WIDE: Final = rf"(?:[\s{_CONTROL}]++|{_COLOUR}|\\++[bfnrt]){{0,8}}+"
"""A gap that a reader skips: blanks and escaped line ends as well."""
_GAP: Final = rf"(?:[\s{_CONTROL}]++|{_COLOUR}|\\++[bfnrt]|<[^<>]{{0,80}}+>){{0,8}}+"
"""A gap that may split a name: other tags as well."""
_SPACE: Final = rf"(?:[ \t{_CONTROL}]++|{_COLOUR}|\\++[bt]){{0,8}}+"
_SLASH: Final = r"(?:\\*+[/!?])?+"


def _spread(name: str, gap: str = _GAP) -> str:
    """Return a pattern of the name with gaps; `-` and `_` are the same and may be missing, `1` is read as `l` and `0` as
    `o`."""
    alike = {"-": "[-_]?+", "l": "[l1i|]", "o": "[o0]"}
    return gap.join(alike.get(char, char) for char in name)


def _any(names: str, gap: str = _GAP) -> str:
    return "(?:" + "|".join(_spread(name, gap) for name in names.split()) + ")"


_TAGS: Final = (
    "system-reminder system-warning system-prompt system-message system-instructions system-instruction system"
    " start-of-turn end-of-turn start-of-image tool-runtime-configuration tool-calls tool-call tool-responses tool-response"
    " tool-results tool-result function-calls function-results function-response bos eos"
)
_TOKENS: Final = (
    "im-start im-end im-sep system user assistant endoftext end-of-text begin-of-text start-header-id end-header-id eot-id"
    " eom-id python-tag endofprompt begin-of-sentence end-of-sentence"
)
_BRACKETS: Final = "inst system-prompt available-tools tool-calls tool-results tool-content pinned"
_ENDS: Final = rf"(?=[\s>/<|\\{_CONTROL}\x1b]|\Z)"
_TURN: Final = rf"{_THIN}{_any('human assistant', _THIN)}{_WIDE}:"
_SPLIT: Final = rf"\s\x00-\x1f\x7f{UNSEEN}<\\/!?"

_FORMS: Final[dict[str, str]] = {
    "<": (
        rf"(<)(?=(?-i:[{_SPLIT}|bBeEfFsStT]))(?=("
        rf"{_WIDE}<{_WIDE}{_SLASH}{_WIDE}{_spread('sys', _WIDE)}{_WIDE}>"
        rf"|{_THIN}/?{_THIN}(?-i:s){_THIN}>"
        rf"|{_GAP}{_SLASH}{_GAP}(?:{_spread('foveal')}{_GAP}[:>]|{_any(_TAGS)}{_ENDS}"
        rf"|\|{_GAP}{_any(_TOKENS)}{_GAP}(?:\||\Z)|\|{_THIN}(?:[\w▁.-]{_THIN}){{1,60}}+\|{_THIN}>)))"
    ),
    "[": (
        rf"(\[)(?=(?-i:[{_SPLIT}…aAiIlLnNpPsStT]))(?=({_GAP}{_SLASH}{_GAP}(?:{_any(_BRACKETS)}{_GAP}\]|…{_GAP}[0-9]"
        rf"|{_spread('system', _THIN)}{_SPACE}\]{_THIN}[ \t]{_SPACE}[^\s\[]"
        rf"|late{_SPACE}result{_SPACE}for{_SPACE}call|no{_SPACE}result:)))"
    ),
    ";": (rf"(;)(?=({_SPACE}{_spread('ref', _THIN)}{_THIN}[ \t]{_SPACE}(?:[\w.-]{_THIN}){{1,80}}+{_SPACE}[\];]))"),
    "\n": rf"(\n)(?=(?-i:[{_CONTROL}\x1baAhH]))(?=({_TURN}))",
    "\\": rf"(\\[nr])(?=({_TURN}))",
}
"""Patterns by the character that opens them. Each is compiled when its character is first met: they are long, and an import
must be short."""


_PATTERNS: Final = {trigger: lazy_pattern(form, re.IGNORECASE) for trigger, form in _FORMS.items()}
_FIRST_TURN: Final = lazy_pattern(_TURN, re.IGNORECASE)


class Form(NamedTuple):
    """One form in a text: its beginning, the end of its opening (after our marks), and the end of its name."""

    start: int
    opened: int
    end: int


def forms(text: str) -> list[Form]:
    """Return all forms of a text in order, broken by our mark or not; none in an ordinary text."""
    read = normalise(text)
    return [Form(*map(read.place, form)) for form in sorted(_found(read.text))]


def _found(text: str) -> Iterator[Form]:
    """Yield the forms of a normalised text."""
    if first := _FIRST_TURN().match(text):
        yield Form(0, 0, first.end())
    for trigger, pattern in _PATTERNS.items():
        if trigger in text:
            for form in pattern().finditer(text):
                yield Form(form.start(), form.end(1), form.end(2))
