"""Mentions in a user's text: `@tool`, `@skill`, `@agent`, `#file`. Pure, and linear in the text.

`find` returns the places of mentions, by the signs alone; `classify` returns the tools, skills, agents and files of those
names. A sign counts where a word could begin: after a space, a bracket or a quote, or after a script that puts no spaces between
words. Signs in code, URLs, e-mail addresses and decorators do not count; `#123` and `#fff` are an issue and a colour unless a
file has that name.
"""

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from functools import cache
from typing import Literal, NamedTuple, TypeAlias

import msgspec

Sigil: TypeAlias = Literal["@", "#"]
MentionKind: TypeAlias = Literal["tool", "skill", "agent", "file"]

MOST_NAME = 200
"""Characters of a name: no tool's or skill's is longer than 64, and a longer path can be written as its last part."""
MOST_REPORTED = 20
"""Unknown names for which near ones are sought: a text with more of them does not refer to known names."""
MOST_NEAREST = 3
_NEAR = 0.5
"""The share of common letters and pairs from which two names look alike: `serach` and `search` have 0.6."""

_ENDS = r"""\s\x00-\x1f\x7f@#<>()\[\]{}"'`,;!?|*=&%$^。，！？、；：（）「」『』【】《》〈〉“”‘’«»…—"""
_BARE = re.compile(rf"[^{_ENDS}]")
_OPENING = frozenset("([{“‘«,;:|，。；：！？、（「『【《〈…—")
_QUOTES = frozenset("\"'")
_DOMAIN = re.compile(r"[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+")
_NUMBER_OR_COLOUR = re.compile(r"[0-9]+|(?:[0-9a-fA-F]{3,4}|[0-9a-fA-F]{6}|[0-9a-fA-F]{8})")
_KINDS: tuple[MentionKind, ...] = ("tool", "skill", "agent")

_LINE = re.compile(r"[^\n]*\n?")
_FENCE = re.compile(r"(?P<fence>`{3,}|~{3,})(?P<rest>.*)", re.DOTALL)
_LIST_ITEM = re.compile(r"(?:[-*+]|[0-9]{1,9}[.)])[ \t]")
_DECORATOR = re.compile(r"@[A-Za-z_][\w.]*(?:\(.*\))?")
_DEFINITION = re.compile(r"(?:async[ \t]+def|def)[ \t]+\w+[ \t]*\(|class[ \t]+\w+[ \t]*[:(]")
_TICKS = re.compile(r"`+")
_URL = re.compile(r"(?<![A-Za-z0-9+.-])(?:[A-Za-z][A-Za-z0-9+.-]{0,20}://|www\.)[!#-;=?-_a-~]*")
CharSpan: TypeAlias = tuple[int, int]


@cache
def _mention_pattern() -> re.Pattern[str]:
    """Return the pattern of a sign with a name, compiled by the first text that has a sign: it takes milliseconds."""
    return re.compile(
        r"(?P<sigil>[@#])(?:"
        rf"\{{(?P<braced>[^{{}}\r\n]{{1,{MOST_NAME}}})\}}"
        rf'|"(?P<quoted>[^"\r\n]{{1,{MOST_NAME}}})"'
        rf"|“(?P<curly>[^“”\r\n]{{1,{MOST_NAME}}})”"
        rf"|(?P<bare>[^{_ENDS}]{{1,{MOST_NAME}}}))"
    )


@cache
def _unspaced() -> re.Pattern[str]:
    """Return the pattern of a character of a script without spaces between words, compiled on first use."""
    return re.compile(
        "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uac00-\ud7af"
        "\U00020000-\U0003ffff]"
    )


class Mention(msgspec.Struct, frozen=True):
    """A name in a text; `text[start:end]` is the mention as written."""

    sigil: Sigil
    name: str
    start: int
    end: int


class KnownNames(msgspec.Struct, frozen=True):
    """The names that can be mentioned. Files are paths, with `/` between their parts."""

    tools: frozenset[str] = frozenset()
    skills: frozenset[str] = frozenset()
    agents: frozenset[str] = frozenset()
    files: frozenset[str] = frozenset()

    def __or__(self, other: "KnownNames") -> "KnownNames":
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return KnownNames(*(mine | theirs for mine, theirs in pairs))


class Unknown(msgspec.Struct, frozen=True):
    """A name that is not known, and known names that look like it."""

    written: str
    nearest: tuple[str, ...] = ()


class Ambiguous(msgspec.Struct, frozen=True):
    """A name that several have; each choice is written so that it is unambiguous."""

    written: str
    choices: tuple[str, ...]


class Mentioned(msgspec.Struct, frozen=True):
    """The tools, skills, agents and files that a text mentions, in its order and each of them once."""

    tools: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    unknown: tuple[Unknown, ...] = ()
    ambiguous: tuple[Ambiguous, ...] = ()


def mentions_in(text: str, known_names: KnownNames) -> Mentioned:
    """Return the mentions of a user's text."""
    return classify(find(text, known=known_names.files), known_names)


def find(text: str, *, known: Collection[str] = frozenset()) -> tuple[Mention, ...]:
    """Return the places of mentions in a text. `known` are files whose names may look like an issue's number or a colour."""
    if "@" not in text and "#" not in text:
        return ()
    return tuple(_found(text, known))


def _found(text: str, known: Collection[str]) -> Iterator[Mention]:
    spans = iter(_foreign(text))
    span = next(spans, None)
    for match in _mention_pattern().finditer(text):
        while span and span[1] <= match.start():
            span = next(spans, None)
        if span and span[0] <= match.start():
            continue
        mention = _mention(text, match)
        if mention and (mention.sigil == "@" or mention.name in known or not _NUMBER_OR_COLOUR.fullmatch(mention.name)):
            yield mention


def _mention(text: str, match: re.Match[str]) -> Mention | None:
    """Return the mention at a sign, or None if the sign means something else there."""
    start, end = match.span()
    sigil: Sigil = "@" if match["sigil"] == "@" else "#"
    if not _may_begin(text, start):
        return None
    bare = match["bare"]
    if bare is None:
        name = (match["braced"] or match["quoted"] or match["curly"] or "").strip()
        return Mention(sigil, name, start, end) if name else None
    if end < len(text) and (text[end] in "@#" or _BARE.match(text, end)):
        return None  # user@host@, or longer than any name
    name = bare.rstrip(".:~+-\\")
    end -= len(bare) - len(name)
    if not name or not (name[0].isalnum() or (sigil == "#" and name[0] in "._~/") or name[0] == "_"):
        return None
    if sigil == "@" and start and _unspaced().match(text, start - 1) and _DOMAIN.fullmatch(name):
        return None  # an e-mail address behind a name in such a script
    return Mention(sigil, name, start, end)


def _may_begin(text: str, start: int) -> bool:
    """Return whether a word could begin here."""
    if start == 0:
        return True
    before = text[start - 1]
    if before in _QUOTES:  # an opening quote; after a closing one it is an address: "Jo Doe"@example.org
        return start == 1 or text[start - 2].isspace() or text[start - 2] in _OPENING
    if before == "(":
        return start == 1 or text[start - 2] != "]"  # [text](#section)
    return before.isspace() or before in _OPENING or bool(_unspaced().match(before))


def _foreign(text: str) -> list[CharSpan]:
    """Return the spans that are not the user's own sentences: blocks and pieces of code, decorators, URLs. In order."""
    spans: list[CharSpan] = [match.span() for match in _URL.finditer(text)]
    spans.extend((line.start, line.end) for line in _lines(text) if line.is_code)
    spans.extend(_decorators(text))
    for start, end in _paragraphs(text):
        spans.extend(_inline_code(text, start, end))
    return sorted(spans)


class _Line(NamedTuple):
    start: int
    end: int
    words: str
    is_code: bool


def _lines(text: str) -> Iterator[_Line]:
    """Yield the lines, with whether they are code: between fences, or indented after a blank line and not below a list's item.

    A fence that is never closed holds the rest.
    """
    fence = ""
    after_blank, in_list, in_code = True, False, False
    for match in _LINE.finditer(text):
        words = match[0].strip()
        if fence:
            is_code = True
            fence = "" if len(words) >= len(fence) and not words.strip(fence[0]) else fence
        elif (opened := _FENCE.match(words)) and not (words[0] == "`" and "`" in opened["rest"]):
            is_code, fence = True, opened["fence"]
        elif words:
            is_indented = match[0].startswith(("    ", "\t"))
            is_code = in_code = is_indented and (in_code or (after_blank and not in_list))
            in_list = in_list if is_indented else bool(_LIST_ITEM.match(words))
        else:
            is_code = False
        yield _Line(*match.span(), words, is_code)
        after_blank = not words


def _paragraphs(text: str) -> Iterator[CharSpan]:
    start: int | None = None
    for line in _lines(text):
        is_prose = bool(line.words) and not line.is_code
        if is_prose and start is None:
            start = line.start
        elif not is_prose and start is not None:
            yield start, line.start
            start = None
    if start is not None:
        yield start, len(text)


def _decorators(text: str) -> Iterator[CharSpan]:
    """Yield lines with only a decorator, right above a definition. Above anything else, such a line may be a mention."""
    waiting: list[CharSpan] = []
    for line in _lines(text) if "\n" in text else ():
        if line.words.startswith("@") and _DECORATOR.fullmatch(line.words):
            waiting.append((line.start, line.end))
        elif waiting:
            if _DEFINITION.match(line.words):
                yield from waiting
            waiting = []


def _inline_code(text: str, start: int, end: int) -> Iterator[CharSpan]:
    """Yield pieces between two runs of backticks of the same length."""
    runs = [match.span() for match in _TICKS.finditer(text, start, end)]
    by_length: dict[int, list[int]] = {}
    for first, last in runs:
        by_length.setdefault(last - first, []).append(first)
    done = start
    for first, last in runs:
        if first < done:
            continue
        same = by_length[last - first]
        closing = bisect_right(same, first)
        if closing < len(same):
            done = same[closing] + last - first
            yield first, done


def classify(mentions: Iterable[Mention], known_names: KnownNames) -> Mentioned:
    """Return the tools, skills, agents and files of these mentions. An unknown name is reported, and never taken for an agent."""
    by_name = {mention.sigil + mention.name: mention for mention in mentions}
    if not by_name:
        return Mentioned()
    index = _Index(known_names)
    meant: dict[MentionKind, dict[str, None]] = {"tool": {}, "skill": {}, "agent": {}, "file": {}}
    unknown: list[Unknown] = []
    ambiguous: list[Ambiguous] = []
    for written, mention in by_name.items():
        match index.candidates(mention):
            case [(kind, name)]:
                meant[kind][name] = None
            case []:
                unknown.append(Unknown(written, index.nearest(mention) if len(unknown) < MOST_REPORTED else ()))
            case several:
                ambiguous.append(Ambiguous(written, tuple(_unmistakable(kind, name) for kind, name in several)))
    return Mentioned(*map(tuple, meant.values()), unknown=tuple(unknown), ambiguous=tuple(ambiguous))


Candidates: TypeAlias = list[tuple[MentionKind, str]]


class _Index:
    """Known names by the ways to write them: composed, in any case, and files by their last part."""

    def __init__(self, known_names: KnownNames) -> None:
        self._exact: dict[str, Candidates] = {}
        self._folded: dict[str, Candidates] = {}
        self._files: dict[str, Candidates] = {}
        self._shapes: dict[Sigil, dict[str, frozenset[str]]] = {}
        self._known_names = known_names
        self._lengths: set[int] = set()
        """Lengths of the names: no other beginning of a longer word can be a name."""
        for kind, names in zip(_KINDS, (known_names.tools, known_names.skills, known_names.agents), strict=True):
            for name in sorted(names):
                self._add("@", kind, name)
                self._exact.setdefault(f"@{kind}:{_composed(name)}", []).append((kind, name))
        for name in sorted(known_names.files):
            self._add("#", "file", name)
            self._files.setdefault(_folded(name).rpartition("/")[2], []).append(("file", name))

    def _add(self, sigil: Sigil, kind: MentionKind, name: str) -> None:
        self._exact.setdefault(sigil + _composed(name), []).append((kind, name))
        self._folded.setdefault(sigil + _folded(name), []).append((kind, name))
        self._lengths.update((len(_composed(name)), len(_composed(name).rpartition("/")[2])))

    def candidates(self, mention: Mention) -> Candidates:
        """Return all that a mention may refer to; if its name is not known, all that the longest known beginning may refer to.

        A script without spaces goes on after the name: `@pdf处理` is the skill `pdf` and a verb.
        """
        name = _composed(mention.name)
        if whole := self._named(mention.sigil, name):
            return whole
        for end in reversed([match.start() for match in _unspaced().finditer(name)]):
            if end in self._lengths and (found := self._named(mention.sigil, name[:end])):
                return found
        return []

    def _named(self, sigil: Sigil, name: str) -> Candidates:
        folded = _folded(name)
        exact = self._exact.get(sigil + name) or self._folded.get(sigil + folded)
        if exact or sigil == "@":
            return exact or []
        tail = "/" + folded.removeprefix("./")
        return [one for one in self._files.get(tail.rpartition("/")[2], ()) if ("/" + _folded(one[1])).endswith(tail)]

    def nearest(self, mention: Mention) -> tuple[str, ...]:
        """Return the names that look most like this one, written as mentions."""
        if mention.sigil not in self._shapes:
            known = self._known_names
            names = known.files if mention.sigil == "#" else known.tools | known.skills | known.agents
            self._shapes[mention.sigil] = {name: _shape(name) for name in names}
        wanted = _shape(mention.name)
        likeness = (
            (2 * len(wanted & shape) / (len(wanted) + len(shape)), name)
            for name, shape in self._shapes[mention.sigil].items()
        )
        near = sorted((pair for pair in likeness if pair[0] >= _NEAR), key=lambda pair: (-pair[0], pair[1]))
        return tuple(mention.sigil + name for _, name in near[:MOST_NEAREST])


def _unmistakable(kind: MentionKind, name: str) -> str:
    plain = name if kind == "file" else f"{kind}:{name}"
    sign = "#" if kind == "file" else "@"
    return sign + (plain if not re.search(rf"[{_ENDS}]", plain) else f"{{{plain}}}")


def _shape(name: str) -> frozenset[str]:
    """Return the letters of a name and their pairs, with its edges: cheap to compare, and tolerant of swapped letters."""
    edged = f"^{_folded(name)[:MOST_NAME]}$"
    return frozenset(edged[1:-1]) | {edged[i : i + 2] for i in range(len(edged) - 1)}


def _composed(name: str) -> str:
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def _folded(name: str) -> str:
    return _composed(name).casefold()
