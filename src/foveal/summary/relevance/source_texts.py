"""The texts of a message from which lines are collected, with their sources."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from foveal.summary.ledger.events import LedgerStep
from foveal.summary.relevance.state import SourceKind, SourceText
from foveal.text.calls.read_tools import fields_of, kind_of, strings_in
from foveal.text.calls.reads import accesses
from foveal.text.names import PIECE_CHARS, line_pieces
from foveal.text.shorten.cut import boundary
from foveal.text.stand_in import content_texts
from foveal.text.user_words import user_words
from foveal.values.entry import Role, Text, ToolCall, ToolResult

_MOST_LINES = 1_200
_MOST_CHARS = 200_000
_MOST_PIECES = 12
_TITLE_CHARS = 80

_NUMBERED = re.compile(r" {0,8}(\d{1,6})(?:→|\t|: |\| ?)")
"""Line numbers as tools print them before the lines of a file."""


class KnownCall(NamedTuple):
    """The facts about a call that its result needs."""

    name: str
    kind: str
    title: str
    path: str
    first: int
    """First line that the call asked for."""
    changes: tuple[str, ...]
    """Files that the call writes."""


class CandidateLine(msgspec.Struct, frozen=True, gc=False):
    """A line of a text, or a piece of a long line."""

    text: str
    at: int
    """Number of the line in its text, from 0."""
    number: int
    """Number of the line in its file, from 1; 0 if unknown."""
    before: bool = False
    after: bool = False
    """Whether the line continues before and after this piece."""


UNKNOWN = KnownCall("", "", "", "", 1, ())


def known_call(call: ToolCall) -> KnownCall:
    found = accesses(call)
    changes = tuple(access.path for access in found if access.kind in ("write", "edit"))
    only = found[0] if len({access.path for access in found}) == 1 else None
    path = only.path if only and only.kind in ("read", "write", "edit") else ""
    first = only.first or 1 if only else 1
    title = path or next((line for text in strings_in(fields_of(call)) if (line := text.strip().split("\n")[0])), "")
    return KnownCall(call.name, kind_of(call), _cut(f"{call.name} {title}".strip()), path, first, changes)


def source_texts(step: LedgerStep, calls: dict[str, KnownCall]) -> Iterator[tuple[SourceText, str, int]]:
    """Yield the texts of a message, each with its source and the number of its first line. `calls` are those met before, by
    id."""
    for i, part in enumerate(step.message.parts):
        ref = f"{step.ref}.{i}" if i else step.ref
        match part:
            case Text(text):
                source, title = _spoken_by(step.message.role, text)
                yield SourceText(ref, step.number, source, title=title), text, 0
            case ToolCall(id_, _, arguments):
                call = calls.get(id_, UNKNOWN)
                for source, text in _arguments(part) or [("arguments", arguments)]:
                    yield SourceText(ref, step.number, source, call.kind, call.title, call.path), text, 0
            case ToolResult(id_, content):
                call = calls.get(id_, UNKNOWN)
                first = call.first if call.path and call.kind in ("read", "shell", "editor") else 0
                text = "\n".join(content_texts(content))
                yield SourceText(ref, step.number, "result", call.kind, call.title or "result", call.path), text, first
            case _:
                pass


def _spoken_by(role: Role, text: str) -> tuple[SourceKind, str]:
    """Return the source and the title of a text: the model, the user, or a harness that speaks in the user's place."""
    if role == "assistant":
        return "text", "assistant"
    return ("user", "user") if role == "user" and user_words(text) else ("result", "note")


def candidate_lines(text: str, first: int) -> list[CandidateLine]:
    """Return the lines of a text that are not empty; of very long texts, the beginning and the end."""
    if len(text) > _MOST_CHARS:
        text = text[: _MOST_CHARS * 3 // 4] + "\n" + text[-_MOST_CHARS // 4 :]
    lines = text.split("\n")
    places = range(len(lines))
    if len(lines) > _MOST_LINES:
        places = (*places[: _MOST_LINES * 3 // 4], *places[-_MOST_LINES // 4 :])
    found = list[CandidateLine]()
    for at in places:
        line = lines[at].rstrip()
        if len(line) < 4:
            continue
        number = first + at if first else 0
        if line[0] in " 0123456789" and (numbered := _NUMBERED.match(line)):
            line, number = line[numbered.end() :], int(numbered[1])
        if len(line) <= PIECE_CHARS:
            found.append(CandidateLine(line, at, number))
            continue
        start = 0
        for piece in line_pieces(line, _MOST_PIECES):
            found.append(CandidateLine(piece, at, number, start > 0, start + len(piece) < len(line)))
            start += len(piece)
    return found


def _arguments(call: ToolCall) -> list[tuple[SourceKind, str]]:
    """Return the texts in the arguments; text that an edit removes has a source kind of its own."""
    found = list[tuple[SourceKind, str]]()
    for key, value in fields_of(call).items():
        source: SourceKind = "replaced" if key.startswith("old") else "arguments"
        text = "\n".join(strings_in(value))
        if text:
            found.append((source, text))
    return found


def _cut(text: str) -> str:
    """Return the text on one short line."""
    text = " ".join(text[: 4 * _TITLE_CHARS].split())
    return text if len(text) <= _TITLE_CHARS else text[: boundary(text, _TITLE_CHARS - 1)] + "…"
