"""Claude Code sessions: `~/.claude/projects/<project>/<session>.jsonl`.

A line is an envelope around a message of the Anthropic API (`type` user or assistant), an attachment that was put before
the model, or bookkeeping. One API reply is written as several lines, a block each, which share `message.id` and repeat
`message.usage`; they become one message again here. A user message of the file may hold the results of tools.
The format is internal to Claude Code and changes; unknown lines and blocks are expected and counted or kept.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from foveal.analysis.recordings.claude_chain import ClaudeLine, conversation_lines
from foveal.analysis.recordings.lines import JsonLine, at, raw_at, session_lines, stem
from foveal.analysis.recordings.recording import RecordedStep, Recording, one_session, tally
from foveal.dialects.anthropic.read import read_block, read_content, read_reply_block, read_result, read_usage
from foveal.dialects.content import text_part
from foveal.dialects.json_values import (
    JsonObject,
    NotUnderstood,
    expect_mapping,
    expect_string,
    fields,
    json_text,
    kind_of,
    mapping,
    sequence,
    string,
)
from foveal.dialects.opaque import KeepVerbatim
from foveal.values.entry import Message, Part, Text, ToolResult, Usage

_SYNTHETIC = "<synthetic>"
"""The model name of replies that Claude Code wrote itself, such as API errors."""


def read(lines: Iterable[JsonLine], file: str) -> Iterator[Recording]:
    notes: list[str] = []
    entries: list[ClaudeLine] = []
    skipped: Counter[str] = Counter()
    for line in session_lines(lines, notes):
        with at(file, line.number):
            entry = _entry(line)
        entries.append(entry)
        if entry.message is None and entry.uuid is None:
            skipped[entry.type] += 1
    conversation = _Conversation()
    for entry in conversation_lines(entries, notes):
        with at(file, entry.line.number):
            conversation.add(entry)
    skipped.update(conversation.skipped)
    notes += tally(skipped, "lines carry no message and were left out")
    notes += conversation.notes()
    notes.append("Claude Code records neither the system prompt nor the tool definitions")
    ids = (string(entry.record.get("sessionId")) for entry in reversed(entries))
    yield one_session(next(filter(None, ids), stem(file)), file, conversation.steps, notes)


def _entry(line: JsonLine) -> ClaudeLine:
    record = expect_mapping(line.value, "a line of a Claude Code session")
    kind = string(record.get("type")) or "lines without a type"
    message = None
    if kind in ("user", "assistant"):
        message = expect_mapping(record.get("message"), f"`message` of a Claude Code {kind} line")
    aside = record.get("isSidechain") is True or record.get("parent_tool_use_id") is not None
    return ClaudeLine(line, kind, record, message, aside)


class _Conversation:
    """Turns live entries into steps."""

    def __init__(self) -> None:
        self.steps: list[RecordedStep] = []
        self.skipped: Counter[str] = Counter()
        self._places: dict[str, int] = {}
        self._synthetic = 0

    def add(self, entry: ClaudeLine) -> None:
        if entry.type == "assistant" and entry.message is not None:
            self._reply(entry, entry.message)
        elif entry.message is not None:
            self._user(entry, entry.message)
        elif entry.type == "attachment":
            self._attachment(fields(entry.record.get("attachment")))
        elif entry.type == "system":
            self._system(entry.record)
        elif entry.uuid is not None:
            self.skipped[entry.type] += 1

    def notes(self) -> list[str]:
        if not self._synthetic:
            return []
        return [f"{self._synthetic} replies were written by Claude Code itself (API errors and the like)"]

    def _reply(self, entry: ClaudeLine, message: JsonObject) -> None:
        parts = tuple(_assistant_parts(entry, message))
        model = string(message.get("model"))
        usage = read_usage(message, model or "unknown")
        if model == _SYNTHETIC:
            self._synthetic += 1
            model = usage = None
        place = self._places.get(entry.reply or "")
        if place is None:
            stop = "error" if entry.record.get("isApiErrorMessage") is True else "done"
            if entry.reply:
                self._places[entry.reply] = len(self.steps)
            self.steps.append(RecordedStep(Message("assistant", parts, model, stop), usage))
            return
        begun = self.steps[place]
        merged = msgspec.structs.replace(begun.message, parts=(*begun.message.parts, *parts))
        self.steps[place] = RecordedStep(merged, _fuller(begun.usage, usage))

    def _user(self, entry: ClaudeLine, message: JsonObject) -> None:
        content = message.get("content")
        blocks = [content] if isinstance(content, str) else sequence(content)
        if blocks is None:
            raise NotUnderstood(f"`content` of a user message must be a string or a list, not {kind_of(content)}")
        parts: list[Part] = []
        for index, value in enumerate(blocks):
            block = mapping(value)
            if block is None:
                parts += text_part(expect_string(value, "a content block"))
            elif block.get("type") == "tool_result":
                self.steps.append(RecordedStep(Message("tool", (_result(block, entry.record),))))
            else:
                parts += read_block(block, _as_written(entry, index))
        if parts:
            self.steps.append(RecordedStep(Message("user", tuple(parts))))
        elif not content:
            self.steps.append(RecordedStep(Message("user", ())))

    def _attachment(self, attachment: JsonObject) -> None:
        """Add an attachment (a note to the model) as the user's words, if it is plain text in the file; count any other."""
        kind = string(attachment.get("type")) or "of no type"
        content = attachment.get("prompt") if kind == "queued_command" else attachment.get("content")
        known = kind in ("queued_command", "hook_additional_context")
        parts = tuple(read_content(content, json_text)) if known and content else ()
        if parts:
            self.steps.append(RecordedStep(Message("user", parts)))
        else:
            self.skipped[f"attachment {kind}"] += 1

    def _system(self, record: JsonObject) -> None:
        """Add the output of a command that the user ran; count any other system line, which the model does not see."""
        subtype = string(record.get("subtype")) or "of no subtype"
        content = record.get("content")
        if subtype == "local_command" and isinstance(content, str) and content:
            self.steps.append(RecordedStep(Message("user", (Text(content),))))
        else:
            self.skipped[f"system {subtype}"] += 1


def _assistant_parts(entry: ClaudeLine, message: JsonObject) -> Iterator[Part]:
    content = message.get("content")
    if isinstance(content, str):
        yield from text_part(content)
        return
    blocks = sequence(content)
    if blocks is None:
        raise NotUnderstood(f"`content` of an assistant message must be a list of blocks, not {kind_of(content)}")
    for index, value in enumerate(blocks):
        block = expect_mapping(value, "a content block")
        if block.get("type") == "text" and isinstance(text := block.get("text"), str):
            yield from text_part(text)  # without its citations, so that every dialect can show the words
        else:
            yield read_reply_block(block, _as_written(entry, index))


def _result(block: JsonObject, record: JsonObject) -> ToolResult:
    """Return a tool result. Beside the block, the line says whether the user interrupted the tool."""
    result = read_result(block)
    is_interrupted = fields(record.get("toolUseResult")).get("interrupted") is True
    return msgspec.structs.replace(result, status="interrupted") if is_interrupted else result


def _fuller(first: Usage | None, second: Usage | None) -> Usage | None:
    """Return the usage with more output: lines written while the reply was streaming carry a provisional count."""
    if first is None or second is None:
        return first or second
    return second if second.output_tokens >= first.output_tokens else first


def _as_written(entry: ClaudeLine, index: int) -> KeepVerbatim:
    """Return a function that keeps a content block byte for byte as it was written."""
    return lambda block: raw_at(entry.line, ("message", "content", index), json_text(block))
