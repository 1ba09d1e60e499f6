"""Markdown that comes word by word, cut into blocks that can be shown on their own: paragraphs, and whole pieces of code."""

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class MarkdownBlocks:
    """Takes words and gives back blocks as soon as they are whole."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._line = ""
        self._fence = ""

    @property
    def unfinished(self) -> str:
        """The words of the block that has not ended."""
        return "\n".join([*self._lines, self._line])

    def feed(self, text: str) -> list[str]:
        """Take words, and return the blocks that they end."""
        found: list[str] = []
        *whole, self._line = (self._line + text).split("\n")
        for line in whole:
            if self._take(line):
                found += [block] if (block := self._cut()).strip() else []
        return found

    def rest(self) -> str:
        """Return the words that are left, and begin anew."""
        self._take(self._line)
        self._line = self._fence = ""
        return self._cut().strip("\n")

    def _take(self, line: str) -> bool:
        """Take a whole line, and return whether a block ends with it."""
        self._lines.append(line)
        if fence := _FENCE.match(line):
            if not self._fence:
                self._fence = fence[1]
            elif fence[1].startswith(self._fence):
                self._fence = ""
                return True
        return not self._fence and not line.strip()

    def _cut(self) -> str:
        block, self._lines = "\n".join(self._lines), []
        return block
