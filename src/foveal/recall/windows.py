"""Windows of a text that comes in blocks: the rest is counted and forgotten.

A line ends with "\\n" and nothing else: carriage returns, form feeds and Unicode's own line ends are characters like others.
Its break belongs to it, so that windows put side by side are the text again. A text that ends with a break has no further,
empty line after it.
"""

from collections.abc import Iterable

import msgspec


class TextWindow(msgspec.Struct, frozen=True):
    """A window, and the size of the whole text."""

    text: str
    count: int
    """Lines or characters in it; a line that was cut counts."""
    total: int
    """Lines or characters in the whole text."""
    cut_at: int | None = None
    """The character to go on from, if a single line was too long for the window."""


def character_window(blocks: Iterable[str], offset: int, limit: int) -> TextWindow:
    """Return at most `limit` characters after the first `offset`."""
    taken: list[str] = []
    seen = 0
    for block in blocks:
        if seen < offset + limit and offset < seen + len(block):
            taken.append(block[max(offset - seen, 0) : offset + limit - seen])
        seen += len(block)
    text = "".join(taken)
    return TextWindow(text, len(text), seen)


def line_window(blocks: Iterable[str], offset: int, limit: int, most: int) -> TextWindow:
    """Return at most `limit` lines after the first `offset`, and of them as many as fit into `most` characters.

    The first line is given in any case, though perhaps cut.
    """
    breaks = seen = start = 0
    last = "\n"
    taken = _Taken(limit, most)
    for block in blocks:
        found = block.count("\n")
        if breaks <= offset <= breaks + found and not taken.is_begun:
            at = after_breaks(block, offset - breaks)
            start = seen + at
            taken.add(block[at:])
        elif taken.is_begun:
            taken.add(block)
        breaks, seen, last = breaks + found, seen + len(block), block[-1:] or last
    text, is_cut = taken.fitted()
    total = breaks + (last != "\n")
    return TextWindow(text, line_count(text), total, start + len(text) if is_cut else None)


class _Taken:
    """The text taken so far for a window of lines: never much more than the window may show."""

    def __init__(self, limit: int, most: int) -> None:
        self.is_begun = False
        self._limit, self._most = limit, most
        self._texts: list[str] = []
        self._size = 0

    def add(self, text: str) -> None:
        self.is_begun = True
        if self._limit == 0 or self._size > self._most:
            return
        found = text.count("\n")
        kept = text if found < self._limit else text[: after_breaks(text, self._limit)]
        kept = kept[: self._most + 1]  # one more than may be shown tells that something is left out
        self._limit -= min(found, self._limit)
        self._size += len(kept)
        self._texts.append(kept)

    def fitted(self) -> tuple[str, bool]:
        """Return the whole lines that fit, or the beginning of the first one; and whether a line was cut."""
        text = "".join(self._texts)
        if len(text) <= self._most:
            return text, False
        end = text.rfind("\n", 0, self._most) + 1
        return (text[:end], False) if end else (text[: self._most], True)


def after_breaks(text: str, count: int) -> int:
    """Return the place after that many line breaks; the text has them."""
    at = 0
    for _ in range(count):
        at = text.find("\n", at) + 1
    return at


def line_count(text: str) -> int:
    return text.count("\n") + (text[-1:] not in ("", "\n"))
