"""The passages of a log, a screen of text each, of every part of every message: the unit of search."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import msgspec

from foveal.recall.offsets import character_range
from foveal.recall.originals import part_blocks
from foveal.stores.port import Artifacts
from foveal.text.shorten.reference import as_text
from foveal.values.entry import Message, Opaque, Part, RedactedThinking, Stored, Thinking, ToolCall, ToolResult
from foveal.values.errors import StoreCorrupt

EDGE_CHARACTERS = 1 << 20
"""Characters indexed of each end of a larger part; `recall` with a pattern reads all of it."""
PASSAGE_CHARACTERS = 4_000
"""Size of a passage, about a thousand tokens: short enough to tell one place in a result from another, long enough to hold a
few words of a question together."""
_WORD_CHARACTERS = 200  # how far back from a passage's end a word is looked for that should stay whole


class Passage(msgspec.Struct, frozen=True):
    """A piece of one part of a message, and its place in that part."""

    part: int
    kind: str
    """The role of its message, or `thinking`, or the name of the tool that was called or answered."""
    line: int
    """The number of its first line in the part, from 1."""
    start: int
    """Characters of the part before it."""
    text: str
    is_json: bool
    characters: int
    """Length of the whole part."""
    is_preview: bool
    """Whether the part's artifact is damaged, so that the passage is of the preview in the log."""


def passages(
    artifacts: Artifacts, message: Message, place: str, tool_of: Callable[[str], str | None]
) -> Iterator[Passage]:
    """Yield the passages of the message at `place`; `tool_of` names the tool of an earlier call."""
    for number, part in enumerate(message.parts):
        if isinstance(part, RedactedThinking):
            continue  # it is encrypted
        kind = _kind(message, part, tool_of)
        edges, characters, is_preview = _edges(artifacts, part, place)
        is_json = isinstance(part, ToolCall | Opaque) or edges[0].text.lstrip()[:1] in ("{", "[")
        for edge in edges:
            line = edge.line
            for first, end in cuts(edge.text, PASSAGE_CHARACTERS):
                text = edge.text[first:end]
                yield Passage(number, kind, line, edge.start + first, text, is_json, characters, is_preview)
                line += text.count("\n")


def passage_text(
    artifacts: Artifacts, part: Part, place: str, span: tuple[int, int], *, is_preview: bool
) -> str | None:
    """Return the text of a passage, read from the log again; None if there is nothing at that span."""
    start, end = span
    if not is_preview and (quick := character_range(artifacts, part, start, limit=end - start)) is not None:
        return quick.text if quick.count == end - start else None
    taken, seen = "", 0
    for block in [_preview(part)] if is_preview else part_blocks(artifacts, part, place):
        if seen + len(block) > start:
            taken += block[max(start - seen, 0) : end - seen]
        seen += len(block)
        if seen >= end:
            return taken
    return None


def cuts(text: str, size: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of the pieces of a text, of at most `size`: cut after a line where that is possible, else after a word."""
    at = 0
    while at < len(text):
        end = at + size
        if end < len(text):
            end = text.rfind("\n", at + size // 2, end) + 1 or _word_end(text, at, end)
        yield at, min(end, len(text))
        at = end


def _word_end(text: str, at: int, end: int) -> int:
    least = max(at + 1, end - _WORD_CHARACTERS)
    return next((place for place in range(end, least, -1) if not text[place - 1].isalnum()), end)


def _kind(message: Message, part: Part, tool_of: Callable[[str], str | None]) -> str:
    match part:
        case Thinking():
            return "thinking"
        case ToolCall(_, name):
            return name
        case ToolResult(call):
            return tool_of(call) or "tool"
        case _:
            return message.role


class _Edge(msgspec.Struct, frozen=True):
    """The beginning or the end of a part's text, with its first character and line."""

    start: int
    line: int
    text: str


def _edges(artifacts: Artifacts, part: Part, place: str) -> tuple[list[_Edge], int, bool]:
    """Return the texts to index of a part, the length of the part, and whether they are of a preview."""
    try:
        return *_ends(part_blocks(artifacts, part, place)), False
    except StoreCorrupt:
        # Fetching it raises the error. The rest of the session must stay searchable, even for good: a salvaged store may
        # name artifacts that are lost.
        return *_ends([_preview(part)]), True


def _ends(blocks: Iterable[str]) -> tuple[list[_Edge], int]:
    head = ""
    tail: deque[str] = deque()
    kept = seen = dropped = dropped_lines = 0
    for block in blocks:
        seen += len(block)
        room = EDGE_CHARACTERS - len(head)
        head, rest = head + block[:room], block[room:]
        tail.append(rest)
        kept += len(rest)
        while kept - len(tail[0]) > EDGE_CHARACTERS:
            gone = tail.popleft()
            kept, dropped, dropped_lines = kept - len(gone), dropped + len(gone), dropped_lines + gone.count("\n")
    end = "".join(tail)
    spare = max(len(end) - EDGE_CHARACTERS, 0)
    if not dropped + spare:
        return [_Edge(0, 1, head + end)], seen
    line = 1 + head.count("\n") + dropped_lines + end.count("\n", 0, spare)
    return [_Edge(0, 1, head), _Edge(len(head) + dropped + spare, line, end[spare:])], seen


def _preview(part: Part) -> str:
    """Return the text that the log itself holds of a part whose text is an artifact."""
    content = part.content if isinstance(part, ToolResult) else (part,) if isinstance(part, Stored) else ()
    return as_text(content)
