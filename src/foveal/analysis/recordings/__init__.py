"""Recorded agent sessions, read from the files of any agent.

    for recording in read("session.jsonl"):
        ...

    neutral        one trajectory a line, with measured usage
    openai_chat    OpenAI chat messages: a conversation a line, or a message a line
    claude_code    ~/.claude/projects/*/*.jsonl
    codex          ~/.codex/sessions/**/rollout-*.jsonl
    pi             ~/.pi/agent/sessions/*/*.jsonl
    gemini_cli     ~/.gemini/tmp/*/chats/session-*.jsonl, and checkpoints
    opencode       ~/.local/share/opencode/opencode.db, the folder `storage` of older versions, and exports

Files may be gzipped. A reader notes in the recording everything that it leaves out or has to guess; a line that it does not
understand is a `BadRecording` with file and line. Messages in a provider's wire format are read by that provider's dialect.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias

from foveal.analysis.recordings import claude_code, codex, gemini_cli, neutral, openai_chat, opencode, pi
from foveal.analysis.recordings.lines import JsonLine, read_lines
from foveal.analysis.recordings.opencode_files import is_database, is_storage, stored_sessions
from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.dialects.json_values import JsonObject, kind_of, mapping, sequence
from foveal.values.errors import BadRecording

__all__ = ["Format", "RecordedStep", "Recording", "detect", "read"]

Format: TypeAlias = Literal["neutral", "openai_chat", "claude_code", "codex", "pi", "gemini_cli", "opencode"]
_Reader: TypeAlias = Callable[[Iterable[JsonLine], str], Iterator[Recording]]

_READERS: dict[Format, _Reader] = {
    "neutral": neutral.read,
    "openai_chat": openai_chat.read,
    "claude_code": claude_code.read,
    "codex": codex.read,
    "pi": pi.read,
    "gemini_cli": gemini_cli.read,
    "opencode": opencode.read,
}

_KEYS: dict[Format, frozenset[str]] = {
    "neutral": frozenset(("id", "source", "license", "model", "tools", "messages", "meta")),
    "openai_chat": frozenset(("messages", "role", "content", "tool_calls", "tools")),
    "claude_code": frozenset(("type", "uuid", "parentUuid", "sessionId", "message", "isSidechain")),
    "codex": frozenset(("timestamp", "type", "payload")),
    "pi": frozenset(("type", "id", "parentId", "timestamp", "message")),
    "gemini_cli": frozenset(("sessionId", "projectHash", "startTime", "messages", "kind")),
    "opencode": frozenset(("id", "projectID", "directory", "title", "info")),
}
"""Keys of a line of each format, to name the format nearest to an unknown line."""

_LOOK_AHEAD = 64
"""Session files open with bookkeeping; a few dozen such lines have been seen before the first message."""


def read(path: str | PathLike[str]) -> Iterator[Recording]:
    """Yield the recordings in a file, each read when it is asked for."""
    file = Path(path)
    if is_database(file) or is_storage(file):
        yield from (opencode.recording_of(stored, str(file)) for stored in stored_sessions(file))
        return
    lines = read_lines(file)
    try:
        found, seen = _recognised(lines, str(file))
        yield from _READERS[found](chain(seen, lines), str(file))
    except RecursionError:
        raise BadRecording(str(file), None, "something in it is nested too deeply to be read") from None


def detect(path: str | PathLike[str]) -> Format:
    """Return the format of a file, from its first lines. Raise `BadRecording` if no format is recognised."""
    file = Path(path)
    if is_database(file) or is_storage(file):
        return "opencode"
    return _recognised(read_lines(file), str(file))[0]


def _recognised(lines: Iterator[JsonLine], file: str) -> tuple[Format, list[JsonLine]]:
    """Return the format, and the lines that had to be read to recognise it."""
    seen: list[JsonLine] = []
    for line in lines:
        seen.append(line)
        found = None if line.torn else format_of(line.value)
        if found is not None:
            return found, seen
        if len(seen) == _LOOK_AHEAD:
            break
    raise BadRecording(file, seen[0].number, _unknown(seen[0].value))


def format_of(value: object) -> Format | None:
    """Return the only format that such a line can come from; None for a line of several or of none."""
    record = mapping(value)
    if record is None:
        if gemini_cli.contents_of(value) is not None:
            return "gemini_cli"
        items = sequence(value)
        return "openai_chat" if items and openai_chat.is_message(items[0]) else None
    if gemini_cli.is_session_line(record) or gemini_cli.is_prompt_log(record) or gemini_cli.contents_of(record):
        return "gemini_cli"
    if opencode.is_session(record):
        return "opencode"
    if "messages" in record:
        return "neutral" if {"id", "source", "meta"} <= record.keys() else "openai_chat"
    if codex.is_rollout_line(record):
        return "codex"
    if record.get("type") == "session" or (record.get("type") == "message" and "message" in record):
        return "pi"
    if _is_claude_line(record):
        return "claude_code"
    return "openai_chat" if "role" in record else None


def _is_claude_line(record: JsonObject) -> bool:
    """Return whether the line is a message in its envelope, or the title that older files begin with."""
    if record.get("type") in ("user", "assistant"):
        return "message" in record
    return "parentUuid" in record or "leafUuid" in record


def _unknown(value: object) -> str:
    record = mapping(value)
    forms = ", ".join(_READERS)
    if record is None:
        return f"this is {kind_of(value)}, and no line of a recording that we know ({forms})"
    nearest = max(_KEYS, key=lambda form: len(_KEYS[form] & record.keys()))
    keys = ", ".join(list(record)[:8]) or "none"
    wanted = ", ".join(sorted(_KEYS[nearest]))
    return f"no known recording ({forms}) has lines with these keys: {keys}. The nearest is {nearest}, with {wanted}"
