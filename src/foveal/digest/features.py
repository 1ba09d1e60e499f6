"""What a score looks at: rows of numbers, in the order of the names given here. The weights refer to that order."""

import re
from collections.abc import Iterable

from foveal.digest.names import kind, names
from foveal.digest.state import SOURCES, Block, Digest, Name, Touched

NEVER = 999
"""How long ago something was that has never been."""

NAME_FEATURES = (
    "age", "span", "count", "uses", "use_age", "kind", "chars", "asked", "lines", "kin_shown", "source", "tool", "block_lines",
    "form", "near_shown", "file_count", "file_age", "edits", "edited_after", "file_shown",
)  # fmt: skip
LINE_FEATURES = (
    "age", "chars", "count", "uses", "use_age", "source", "tool", "at", "from_end", "block_lines", "form", "indent",
    "names", "fresh_names", "most_uses", "last_use_age", "best_count", "asked", "file_count", "file_age", "edits",
    "edited_after", "file_shown",
)  # fmt: skip

_TOOLS = ("", "read", "write", "edit", "move", "list", "search", "editor", "shell", "patch")
_FORMS = re.compile(
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


class Shown:
    """What the prompt shows beside the digest."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.names: set[str] = set()
        self.lines: set[str] = set()
        for text in texts:
            for line in text.split("\n"):
                self.lines.add(line.strip())
                for at in range(0, len(line), 2_000):
                    self.names.update(names(line[at : at + 2_000]))
        self.ends = {name.rpartition("/")[2].rpartition(".")[2] for name in self.names}
        self.files = {name.rpartition("/")[2] for name in self.names}


NOTHING_SHOWN = Shown(())


class Facts:
    """Rows of features for what a digest holds, as things are at the message `now`."""

    def __init__(self, digest: Digest, shown: Shown, now: int) -> None:
        self.blocks, self.shown, self.now = digest.blocks, shown, max(now, digest.newest)
        self.names = {name.text: name for name in digest.names}
        self._once = dict(digest.once)
        self.said = [names(line.text) for line in digest.lines]
        self.files = {file.path: file for file in digest.files}
        self._digest = digest
        self.holders: dict[str, list[int]] = {}
        self._near_shown = list[int]()
        self._forms = [form(line.text.lstrip()) for line in digest.lines]
        for i, said in enumerate(self.said):
            self._near_shown.append(sum(name in shown.names for name in said))
            for name in said:
                self.holders.setdefault(name, []).append(i)

    def all_names(self) -> list[str]:
        """Every name that is known of."""
        return list(dict.fromkeys((*self.holders, *self.names, *self._once)))

    def of_name(self, text: str) -> tuple[float, ...]:
        holders = self.holders.get(text, ())
        at = holders[-1] if holders else -1
        block = self.blocks[self._digest.lines[at].block] if holders else None
        met = block.number if block else self._once.get(text, 0)
        name = self.names.get(text) or Name(text, met, met, 1)
        end = text.rpartition("/")[2]
        return (
            self.now - name.last,
            self.now - name.first,
            name.count,
            name.uses,
            self.now - name.used if name.used >= 0 else NEVER,
            kind(text),
            len(text),
            name.asked,
            len(holders),
            end in self.shown.files or end.rpartition(".")[2] in self.shown.ends,
            SOURCES.index(block.source) if block else -1,
            _TOOLS.index(block.tool) if block and block.tool in _TOOLS else 0,
            block.lines if block else 0,
            self._forms[at] if block else -1,
            max((self._near_shown[i] for i in holders), default=0),
            *self._file(block),
        )

    def of_line(self, i: int) -> tuple[float, ...]:
        line, said = self._digest.lines[i], self.said[i]
        block = self.blocks[line.block]
        known = [name for text in said if (name := self.names.get(text))]
        text = line.text.lstrip()
        return (
            self.now - block.number,
            len(text),
            line.count,
            line.uses,
            self.now - line.used if line.used >= 0 else NEVER,
            SOURCES.index(block.source),
            _TOOLS.index(block.tool) if block.tool in _TOOLS else 0,
            line.at,
            block.lines - line.at,
            block.lines,
            self._forms[i],
            len(line.text) - len(text),
            len(said),
            len(said) - self._near_shown[i],
            max((name.uses for name in known), default=0),
            self.now - max((name.used for name in known if name.used >= 0), default=self.now - NEVER),
            max((name.count for name in known), default=1),
            any(name.asked for name in known),
            *self._file(block),
        )

    def _file(self, block: Block | None) -> tuple[float, ...]:
        file: Touched | None = self.files.get(block.path) if block and block.path else None
        if file is None or block is None:
            return 0, NEVER, 0, 0, 0
        return (
            file.count,
            self.now - file.last,
            file.edits,
            file.edited > block.number,
            block.path.rpartition("/")[2] in self.shown.files,
        )


def form(text: str) -> int:
    """What kind of line it looks like."""
    if _TROUBLE.search(text):
        return _TROUBLE_NUMBER
    found = _FORMS.match(text)
    return _FORM_NUMBERS[found.lastgroup] if found and found.lastgroup else 0
