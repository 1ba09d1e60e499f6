"""Forms: texts that a model could take for another speaker. The patterns are searched in a normalised text.

- our own: tags (`<foveal:…>`), the bracketed lines of stand-ins, the labels that dialects put before a text;
- foreign: the tags by which other engines and chat templates frame a turn, the tokens of chat templates (`<|im_start|>`,
  `[INST]`, `<<SYS>>`, `<s>`) and turns at the start of a line (`Human:`).

Ordinary HTML, XML, generics and redirections have none of these names and are not touched. Every form is found by its
opening character, so that each scan is driven by a search for one character. Gaps are possessive and bounded, so that a
scan is linear in any text.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from foveal.text.guard.normalise import UNSEEN, NormalisedText, normalise, replaced
from foveal.text.lazy_pattern import LazyPattern, lazy_pattern

_CONTROL: Final = rf"\x00-\x08\x0e-\x1a\x1c-\x1f\x7f{UNSEEN}"
_COLOUR: Final = (
    r"\x1b\[[0-?]{0,64}+[ -/]{0,8}+[@-~]|\x1b\][^\x07\x1b\n<]{0,200}+(?:\x07|\x1b\\)|\x1b[()][0-9A-Za-z]|\x1b"
)
_THIN: Final = rf"(?:[{_CONTROL}]++|{_COLOUR}|\\++b){{0,8}}+"
"""A gap of invisible characters."""
_WIDE: Final = rf"(?:[\s{_CONTROL}]++|{_COLOUR}|\\++[bfnrt]){{0,8}}+"
"""A gap that a reader skips: blanks and escaped line ends as well."""
_GAP: Final = rf"(?:[\s{_CONTROL}]++|{_COLOUR}|\\++[bfnrt]|<[^<>]{{0,80}}+>){{0,8}}+"
"""A gap that may split a name: other tags as well."""
_LEAST_PIECES: Final = 4
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
_BRACKETS: Final = "inst system-prompt available-tools tool-calls tool-results tool-content"
_ENDS: Final = rf"(?=[\s>/<|\\{_CONTROL}\x1b]|\Z)"
_TURN: Final = rf"{_THIN}{_any('human assistant', _THIN)}{_WIDE}:"
_SPLIT: Final = rf"\s\x00-\x1f\x7f{UNSEEN}<\\/!?"

_FOREIGN_TAG: Final = rf"<(?!{_WIDE}{_SLASH}{_WIDE}{_spread('sys', _WIDE)}{_WIDE}>)[^<>]{{0,80}}+>"
_LONG_GAPS: Final = tuple(
    lazy_pattern(
        rf"(?:{_COLOUR}|(?<!\\)\\++[{codes}]|{_FOREIGN_TAG})(?:[{blanks}{_CONTROL}]++|{_COLOUR}|\\++[{codes}]|{_FOREIGN_TAG}){{6,}}+",
        re.IGNORECASE,
    )
    for blanks, codes in ((r"\s", "bfnrt"), (r" \t", "bt"))
)
"""Gaps of more pieces than the patterns look across: with line ends, and without. They do not overlap, and a
run of backslashes is read from its first one alone, so that looking for them is linear, too."""

_OUR_TAG: Final = rf"{_spread('foveal')}{_GAP}[:>]"
_OUR_LINE: Final = (
    rf"{_spread('pinned')}{_GAP}\]|…{_GAP}[0-9]|the{_SPACE}call{_SPACE}(?:failed|was{_SPACE}interrupted){_SPACE}\]"
    rf"|{_spread('system', _THIN)}{_SPACE}\]{_THIN}[ \t]{_SPACE}[^\s\[]"
    rf"|late{_SPACE}result{_SPACE}for{_SPACE}call|no{_SPACE}result:"
)
_OUR_REF: Final = rf"(;)(?=({_WIDE}{_spread('ref', _THIN)}{_THIN}\s{_WIDE}(?:[\w.-]{_THIN}){{1,80}}+{_WIDE}[\];]))"

_OURS: Final[dict[str, str]] = {
    "<": rf"(<)(?=(?-i:[{_SPLIT}fF]))(?=({_GAP}{_SLASH}{_GAP}{_OUR_TAG}))",
    "[": rf"(\[)(?=(?-i:[{_SPLIT}…lLnNpPsStT]))(?=({_GAP}{_SLASH}{_GAP}(?:{_OUR_LINE})))",
    ";": _OUR_REF,
}
"""Patterns of our own forms, by the character that opens them."""

_ALL: Final[dict[str, str]] = {
    "<": (
        rf"(<)(?=(?-i:[{_SPLIT}|bBeEfFsStT]))(?=("
        rf"{_WIDE}<{_WIDE}{_SLASH}{_WIDE}{_spread('sys', _WIDE)}{_WIDE}>"
        rf"|{_THIN}/?{_THIN}(?-i:s){_THIN}>"
        rf"|{_GAP}{_SLASH}{_GAP}(?:{_OUR_TAG}|{_any(_TAGS)}{_ENDS}"
        rf"|\|{_GAP}{_any(_TOKENS)}{_GAP}(?:\||\Z)|\|{_THIN}(?:[\w▁.-]{_THIN}){{1,60}}+\|{_THIN}>)))"
    ),
    "[": (
        rf"(\[)(?=(?-i:[{_SPLIT}…aAiIlLnNpPsStT]))"
        rf"(?=({_GAP}{_SLASH}{_GAP}(?:{_any(_BRACKETS)}{_GAP}\]|{_OUR_LINE})))"
    ),
    ";": _OUR_REF,
    "\n": rf"(\n)(?=(?-i:[{_CONTROL}\x1baAhH]))(?=({_TURN}))",
    "\\": rf"(\\[nr])(?=({_TURN}))",
}
"""Patterns of all forms. Each is compiled when its character is first met: they are long, and an import must be short."""


_PATTERNS: Final = {trigger: lazy_pattern(form, re.IGNORECASE) for trigger, form in _ALL.items()}
_OUR_PATTERNS: Final = {trigger: lazy_pattern(form, re.IGNORECASE) for trigger, form in _OURS.items()}
_FIRST_TURN: Final = lazy_pattern(_TURN, re.IGNORECASE)
_AROUND_NAME: Final = "/|<>[]: \n\\"


class Form(NamedTuple):
    """One form in a text: its beginning, the end of its opening (after our marks), and the end of its name."""

    start: int
    opened: int
    end: int


def forms(text: str, *, ours_only: bool = False, believed: Callable[[str], bool] | None = None) -> list[Form]:
    """Return all forms of a text in order, broken by our mark or not; none in an ordinary text.

    With `ours_only`, forms of others are left out; with `believed`, those foreign ones whose name it accepts, written plainly.
    """
    plain = normalise(text)
    found: dict[int, Form] = {}
    for read in (plain, *_bridged(plain)):
        ours = set(_matches(read.text, _OUR_PATTERNS)) if ours_only or believed is not None else set[Form]()
        for form in ours if ours_only else _found(read.text):
            if believed is None or form in ours or not believed(_plain_name(text, read, form)):
                place = Form(*map(read.place, form))
                found.setdefault(place.opened, place)
    return sorted(found.values())


def _bridged(read: NormalisedText) -> Iterator[NormalisedText]:
    """Yield the text with one invisible character for each long gap, so that what it divides is read as one."""
    text = read.text
    if text.count("\x1b") + text.count(">") + text.count("\\") < _LEAST_PIECES:
        return
    for gap in _LONG_GAPS:
        shifts = list(read.shifts)
        bridged = replaced(text, gap(), lambda _: UNSEEN, shifts)
        if len(shifts) == len(read.shifts):
            return
        yield NormalisedText(bridged, tuple(shifts))


def _plain_name(text: str, read: NormalisedText, form: Form) -> str:
    """Return the name of a form; empty if it is written in any disguise."""
    start, opened, end = map(read.place, form)
    name = read.text[form.opened : form.end]
    is_plain = text[opened:end] == name and text[start : start + 1] == read.text[form.start : form.start + 1]
    return name.strip(_AROUND_NAME).casefold().replace("_", "-") if is_plain else ""


def _found(text: str) -> Iterator[Form]:
    """Yield the forms of a normalised text."""
    if first := _FIRST_TURN().match(text):
        yield Form(0, 0, first.end())
    yield from _matches(text, _PATTERNS)


def _matches(text: str, patterns: Mapping[str, LazyPattern]) -> Iterator[Form]:
    for trigger, pattern in patterns.items():
        if trigger in text:
            for form in pattern().finditer(text):
                yield Form(form.start(), form.end(1), form.end(2))
