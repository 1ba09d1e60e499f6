"""The lines of a text that match a pattern, with the lines around them, found while the text streams by.

Shown as `grep -n` does: `12:a match`, `13-a line beside it`, and `--` where lines are left out. A line of any length is
looked through to its end, but of a long one only the text around its match is shown, with the offset (in characters) at
which they can be fetched.
"""

from collections import deque
from collections.abc import Iterable, Iterator

import msgspec

from foveal.recall.pattern import LinePattern
from foveal.recall.spooled_text import SpooledText
from foveal.recall.windows import character_window, line_count

LINE_CHARACTERS = 2_000
"""Characters shown of one line: five hundred tokens, of which ten still fit into one fetch."""
PIECE_CHARACTERS = 1 << 16
"""A line longer than this is collected piece by piece and looked through at its end."""


class Matches(msgspec.Struct, frozen=True):
    text: str
    total: int
    """Lines in the whole text."""
    matches: int
    """Lines that match in the whole text."""
    first: int
    last: int
    """The numbers of the first and the last line that are shown, from 1; the last is 0 if none are."""
    more: bool
    """Whether a match after the last shown line is not shown."""


class MatchQuery(msgspec.Struct, frozen=True):
    offset: int
    """Lines up to this one are not shown."""
    limit: int
    """Lines shown at most, matching or not."""
    context: int
    most: int
    """Characters shown at most; one line is shown in any case."""


def matching_lines(blocks: Iterable[str], pattern: str, wanted: MatchQuery) -> Matches:
    scan = _Scan(LinePattern(pattern), wanted)
    for text, is_whole in _line_runs(blocks):
        scan.take(text, is_whole=is_whole)
    return scan.end()


def _line_runs(blocks: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield runs of whole lines; a very long line comes in pieces, and all but its last are not whole."""
    rest = ""
    for block in blocks:
        data = rest + block if rest else block
        end = data.rfind("\n") + 1
        if end:
            yield data[:end], True
        rest = data[end:]
        if len(rest) > PIECE_CHARACTERS:
            yield rest, False
            rest = ""
    if rest:
        yield rest, True


class _Scan:
    def __init__(self, pattern: LinePattern, wanted: MatchQuery) -> None:
        self._pattern, self._wanted = pattern, wanted
        self._page = _Page(wanted)
        self._line = self._seen = self._matches = 0
        self._after = 0
        """Lines still to be shown after the last match."""
        self._before: deque[tuple[int, str]] = deque(maxlen=wanted.context)
        self._long: _LongLine | None = None

    def take(self, text: str, *, is_whole: bool) -> None:
        if not is_whole:
            self._long = self._long or _LongLine(self._pattern, self._seen)
            self._long.add(text)
            return
        if self._long:
            rest, _, text = text.partition("\n")
            self._long.add(rest)
            self._end_long(self._long)
        if not text:
            return
        lines = text.removesuffix("\n")
        matching = self._pattern.lines_in(lines)
        if matching or self._after:
            for number, line in enumerate(lines.split("\n")):
                self._take_line(line, is_match=number in matching)
        else:
            self._skip(text)

    def end(self) -> Matches:
        if self._long:
            self._end_long(self._long)
        page = self._page
        return Matches(page.text, self._line, self._matches, page.first, page.last, page.missed)

    def _take_line(self, line: str, *, is_match: bool) -> None:
        if not is_match and not self._after:
            self._pass(cropped(line, 0, self._seen))
        elif len(line) <= LINE_CHARACTERS:
            self._show(line, is_match=is_match)
        else:
            at = (self._pattern.end_in(line) if is_match else None) or 0
            self._show(cropped(line, at, self._seen), is_match=is_match)
        self._seen += len(line) + 1

    def _pass(self, shown: str) -> None:
        """Keep a line, cropped already, as the context of a match that may follow."""
        self._line += 1
        if self._line > self._wanted.offset:
            self._before.append((self._line, shown))

    def _show(self, line: str, *, is_match: bool) -> None:
        self._line += 1
        self._matches += is_match
        self._after = self._wanted.context if is_match else self._after - 1
        if self._line <= self._wanted.offset:
            return
        if is_match:
            for number, before in self._before:
                self._page.add(number, "-", before)
            self._before.clear()
        self._page.add(self._line, ":" if is_match else "-", line)

    def _skip(self, text: str) -> None:
        """Pass over whole lines without a match: only the last of them may be shown, as the context of a later one."""
        count, context = line_count(text), self._wanted.context
        tail = text.removesuffix("\n").rsplit("\n", context)[-context:] if context else []
        self._line += count - len(tail)
        self._seen += len(text) - sum(len(line) + 1 for line in tail)
        for line in tail:
            self._pass(cropped(line, 0, self._seen))
            self._seen += len(line) + 1

    def _end_long(self, long: "_LongLine") -> None:
        is_match, shown = long.end()
        self._long = None
        if is_match or self._after:
            self._show(shown, is_match=is_match)
        else:
            self._pass(shown)
        self._seen += long.length + 1


class _LongLine:
    """A line that is not held in memory: its beginning, and the text around its first match."""

    def __init__(self, pattern: LinePattern, start: int) -> None:
        self.length = 0
        self._pattern, self._start = pattern, start
        self._text = SpooledText()

    def add(self, piece: str) -> None:
        self._text.add(piece)
        self.length += len(piece)

    def end(self) -> tuple[bool, str]:
        """Return whether the line matches, and the piece of it to be shown."""
        with self._text as text:
            found = self._pattern.end_in_long(text)
            first = _window_start(found or 0, self.length)
            window = character_window(text.texts(), first, LINE_CHARACTERS).text
        is_whole_end = first + LINE_CHARACTERS >= self.length
        return found is not None, _marked(window, self._start + first, is_whole_end=is_whole_end)


class _Page:
    """The lines to be shown, until there is no room for more."""

    def __init__(self, wanted: MatchQuery) -> None:
        self.first = self.last = 0
        self.missed = False
        self._wanted = wanted
        self._lines: list[str] = []
        self._count = self._size = 0
        self._is_full = False

    @property
    def text(self) -> str:
        return "".join(self._lines)

    def add(self, number: int, mark: str, line: str) -> None:
        shown = f"{number}{mark}{line}\n"
        if self._lines and number != self.last + 1:
            shown = "--\n" + shown
        has_room = self._count < self._wanted.limit and self._size + len(shown) <= self._wanted.most
        self._is_full = self._is_full or (bool(self._lines) and not has_room)
        if self._is_full:
            self.missed = self.missed or mark == ":"
            return
        self._lines.append(shown)
        self._count, self._size = self._count + 1, self._size + len(shown)
        self.first, self.last = self.first or number, number


def cropped(line: str, at: int, start: int) -> str:
    """Return the piece of a long line around `at`; the line begins at `start` in the text."""
    if len(line) <= LINE_CHARACTERS:
        return line
    first = _window_start(at, len(line))
    end = first + LINE_CHARACTERS
    return _marked(line[first:end], start + first, is_whole_end=end >= len(line))


def _window_start(at: int, length: int) -> int:
    """Return where to begin, so that `at` is in the middle of the characters shown of a line of this length."""
    return max(0, min(at - LINE_CHARACTERS // 2, length - LINE_CHARACTERS))


def _marked(window: str, offset: int, *, is_whole_end: bool) -> str:
    return f"[offset {offset} in characters] {window}{'' if is_whole_end else ' […]'}"
