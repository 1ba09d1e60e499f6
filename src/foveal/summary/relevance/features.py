"""Features of names and lines: rows of numbers, in the order that `weights` gives. The weights refer to that order."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from foveal.summary.relevance.state import SOURCES, RelevanceState, SeenName, SourceText, TouchedFile
from foveal.summary.relevance.weights import BLOCK_FEATURES, NAME_FEATURES
from foveal.text.lazy_pattern import lazy_pattern
from foveal.text.names import line_names, name_kind, names_in_lines

NEVER = 999
"""Age of something that never happened."""

FeatureRow: TypeAlias = tuple[float, ...]

_NO_FILE: FeatureRow = 0, NEVER, 0, 0, 0
_NO_BLOCK: FeatureRow = -1, 0, 0, *_NO_FILE
_USES, _USED, _COUNT, _ASKED = map(attrgetter, ("uses", "used", "count", "asked"))

_TOOLS = ("", "read", "write", "edit", "move", "list", "search", "editor", "shell", "patch")
_FORMS = lazy_pattern(
    r"(?P<comment>#(?!include|define)|//|/?\*|--|<!--)"
    r"|(?P<import>import\b|from \S+ import|use\b|#include|require|package\b|using\b)"
    r"|(?P<definition>(?:export |public |private |protected |static |async |abstract |default |pub )*"
    r"(?:def|class|func|fn|function|type|interface|struct|enum|impl|trait|module|namespace)\b)"
    r"|(?P<value>(?:(?:const|let|var|final|val) )?[\w.\"'-]{1,60}(?:: ?[\w\[\]<>., ]{1,40})?\s?(?:=|:=|:)(?!=))"
    r"|(?P<item>[-+*] |\d+\. )"
)
_FORM_NUMBERS = {name: number for number, name in enumerate(("comment", "import", "definition", "value", "item"), 1)}
_TROUBLE = re.compile(r"error|fail|exception|panic|traceback|undefined|not found", re.IGNORECASE)
_TROUBLE_NUMBER = 6


class ShownElsewhere:
    """The names and lines that the prompt shows beside the summary."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.names: set[str] = set()
        self.lines: set[str] = set()
        for text in texts:
            lines = text.split("\n")
            self.lines.update(map(str.strip, lines))
            self.names |= names_in_lines(lines)
        self.files = {name.rpartition("/")[2] for name in self.names}
        self.ends = {name.rpartition(".")[2] for name in self.files}


class FeatureTable(NamedTuple):
    """Rows of features as columns, each made when it is asked for. Values that many rows have in common are stored once."""

    columns: dict[str, Iterable[float]]
    common: tuple[str, ...]
    """Names of the features that rows have in common."""
    commons: list[FeatureRow]
    """Their values: one row for each combination."""
    of: list[int]
    """For each row, the place of its combination in `commons`."""

    def rows(self, features: tuple[str, ...]) -> list[FeatureRow]:
        """Return the complete rows, in the order of these features."""
        commons = zip(*(self.commons[at] for at in self.of), strict=True)
        columns = {**self.columns, **dict(zip(self.common, commons, strict=False))}
        return list(zip(*(columns[feature] for feature in features), strict=True))


class Features:
    """Features of the names and lines in a relevance state, at the time of the message `now`."""

    def __init__(self, state: RelevanceState, shown: ShownElsewhere, now: int) -> None:
        self.shown, self.now = shown, max(now, state.newest)
        self.names = {name.text: name for name in state.names}
        self.said = [line_names(line.text) for line in state.lines]
        self.holders: dict[str, list[int]] = {}
        for i, said in enumerate(self.said):
            for name in said:
                self.holders.setdefault(name, []).append(i)
        self._state, self._once = state, dict(state.once)
        files = {file.path: file for file in state.files}
        self._blocks = [*(self._of_block(block, files.get(block.path)) for block in state.blocks), _NO_BLOCK]

    def all_names(self) -> list[str]:
        """Return every known name."""
        return list(dict.fromkeys((*self.holders, *self.names, *self._once)))

    def of_hidden_names(self) -> Iterator[tuple[list[str], FeatureTable]]:
        """Yield all names that are not shown, with their features. Names met once and in no line, which are most, come in a
        table of their own."""
        hidden = [text for text in self.all_names() if text not in self.shown.names]
        known = [text for text in hidden if text in self.holders or text in self.names]
        once = hidden[len(known) :]
        yield known, self.of_names(known)
        if once:
            yield once, self._of_names_met_once(once)

    def of_name(self, text: str) -> FeatureRow:
        return self.of_names([text]).rows(NAME_FEATURES)[0]

    def of_names(self, texts: Sequence[str]) -> FeatureTable:
        now, lines, ends = self.now, self._state.lines, self.shown.ends
        held = [self.holders.get(text, ()) for text in texts]
        of = [lines[places[-1]].block if places else -1 for places in held]
        known = list(map(self._known, texts, of))
        columns: dict[str, Iterable[float]] = {
            "age": (now - name.last for name in known),
            "span": (now - name.first for name in known),
            "count": (name.count for name in known),
            "uses": (name.uses for name in known),
            "use_age": (now - name.used if name.used >= 0 else NEVER for name in known),
            "kind": map(name_kind, texts),
            "chars": map(len, texts),
            "asked": (name.asked for name in known),
            "lines": map(len, held),
            "kin_shown": (text.rpartition("/")[2].rpartition(".")[2] in ends for text in texts),
            "form": (line_form(lines[places[-1]].text) if places else -1 for places in held),
            "near_shown": (max(map(self._shown_in, places), default=0) for places in held),
        }
        return FeatureTable(columns, BLOCK_FEATURES, self._blocks, of)

    def of_lines(self, places: Sequence[int]) -> FeatureTable:
        now, blocks = self.now, self._state.blocks
        lines = [self._state.lines[i] for i in places]
        best = [_best([name for text in self.said[i] if (name := self.names.get(text))]) for i in places]
        chars = [len(line.text.lstrip()) for line in lines]
        columns: dict[str, Iterable[float]] = {
            "age": (now - blocks[line.block].number for line in lines),
            "chars": chars,
            "count": (line.count for line in lines),
            "uses": (line.uses for line in lines),
            "use_age": (now - line.used if line.used >= 0 else NEVER for line in lines),
            "at": (line.at for line in lines),
            "from_end": (blocks[line.block].lines - line.at for line in lines),
            "form": (line_form(line.text) for line in lines),
            "indent": (len(line.text) - size for line, size in zip(lines, chars, strict=True)),
            "names": (len(self.said[i]) for i in places),
            "fresh_names": (len(self.said[i]) - self._shown_in(i) for i in places),
            "most_uses": (name.uses for name in best),
            "last_use_age": (now - name.used if name.used >= 0 else NEVER for name in best),
            "best_count": (name.count for name in best),
            "asked": (name.asked for name in best),
        }
        return FeatureTable(columns, BLOCK_FEATURES, self._blocks, [line.block for line in lines])

    def _of_names_met_once(self, texts: Sequence[str]) -> FeatureTable:
        """Return features of names that were met once: they differ only in the message and in their spelling."""
        ages, ends = [self.now - self._once[text] for text in texts], self.shown.ends
        columns: dict[str, Iterable[float]] = {
            "age": ages,
            "span": ages,
            "kind": map(name_kind, texts),
            "chars": map(len, texts),
            "kin_shown": (text.rpartition("/")[2].rpartition(".")[2] in ends for text in texts),
        }
        any_of_them = zip(NAME_FEATURES, self.of_name(texts[0]), strict=True)
        rest = {feature: value for feature, value in any_of_them if feature not in columns}
        return FeatureTable(columns, tuple(rest), [tuple(rest.values())], [0] * len(texts))

    def _known(self, text: str, block: int) -> SeenName:
        """Return the record of a name. A name that was met once has only the message that it was met in."""
        if name := self.names.get(text):
            return name
        met = self._state.blocks[block].number if block >= 0 else self._once.get(text, 0)
        return SeenName(text, met, met, 1)

    def _shown_in(self, i: int) -> int:
        """Return how many names of a line are shown."""
        return len(self.shown.names.intersection(self.said[i]))

    def _of_block(self, block: SourceText, file: TouchedFile | None) -> FeatureRow:
        tool = _TOOLS.index(block.tool) if block.tool in _TOOLS else 0
        found = SOURCES.index(block.source), tool, block.lines
        if file is None:
            return *found, *_NO_FILE
        is_shown = block.path.rpartition("/")[2] in self.shown.files
        return *found, file.count, self.now - file.last, file.edits, file.edited > block.number, is_shown


_NO_NAME = SeenName("", 0, 0, 1)


def _best(known: list[SeenName]) -> SeenName:
    """Return several names as one, with the maximum of each figure."""
    if len(known) < 2:
        return known[0] if known else _NO_NAME
    uses, used, count = max(map(_USES, known)), max(map(_USED, known)), max(map(_COUNT, known))
    return SeenName("", 0, 0, count, uses, used, any(map(_ASKED, known)))


@lru_cache(8_192)
def line_form(line: str) -> int:
    """Return the number of the form that a line looks like."""
    text = line.lstrip()
    if _TROUBLE.search(text):
        return _TROUBLE_NUMBER
    found = _FORMS().match(text)
    return _FORM_NUMBERS[found.lastgroup] if found and found.lastgroup else 0
