"""Claude Code sessions: `~/.claude/projects/<project>/<session>.jsonl`.

A line is an envelope around a message of the Anthropic API (`type` user or assistant), an attachment that was put before
the model, or bookkeeping. One API reply is written as several lines, a block each, which share `message.id` and repeat
`message.usage`; they become one message again here. What the file calls a user message may be the results of tools.
The format is internal to Claude Code and changes; unknown lines and blocks are expected and counted or kept.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from foveal.analysis.recordings.anthropic_blocks import said, said_block
from foveal.analysis.recordings.claude_chain import ClaudeLine, live
from foveal.analysis.recordings.fields import (
    NotUnderstood,
    Object,
    arguments_text,
    at,
    count_or_zero,
    dump,
    expect_object,
    expect_text,
    kind_of,
    list_or_none,
    object_or_none,
    tally,
    text_or_none,
)
from foveal.analysis.recordings.lines import JsonLine, complete, raw_at, stem
from foveal.analysis.recordings.parts import as_content, result_status, text_part, total
from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.analysis.recordings.session import one_session
from foveal.values.entry import Message, Part, RedactedThinking, Text, Thinking, ToolCall, ToolResult, Usage

_SYNTHETIC = "<synthetic>"
"""The model name of replies that Claude Code wrote itself, such as API errors."""


def read(lines: Iterable[JsonLine], file: str) -> Iterator[Recording]:
    notes: list[str] = []
    entries: list[ClaudeLine] = []
    silent: Counter[str] = Counter()
    for line in complete(lines, notes):
        with at(file, line.number):
            entry = _entry(line)
        entries.append(entry)
        if entry.message is None and entry.uuid is None:
            silent[entry.type] += 1
    conversation = _Conversation()
    for entry in live(entries, notes):
        with at(file, entry.line.number):
            conversation.add(entry)
    silent.update(conversation.silent)
    notes += tally(silent, "lines carry no message and were left out")
    notes += conversation.notes()
    notes.append("Claude Code records neither the system prompt nor the tool definitions")
    ids = (text_or_none(entry.record.get("sessionId")) for entry in reversed(entries))
    yield one_session(next(filter(None, ids), stem(file)), file, conversation.steps, notes)


def _entry(line: JsonLine) -> ClaudeLine:
    record = expect_object(line.value, "a line of a Claude Code session")
    kind = text_or_none(record.get("type")) or "lines without a type"
    message = None
    if kind in ("user", "assistant"):
        message = expect_object(record.get("message"), f"`message` of a Claude Code {kind} line")
    aside = record.get("isSidechain") is True or record.get("parent_tool_use_id") is not None
    return ClaudeLine(line, kind, record, message, aside)


class _Conversation:
    """Turns live entries into steps."""

    def __init__(self) -> None:
        self.steps: list[RecordedStep] = []
        self.silent: Counter[str] = Counter()
        self._places: dict[str, int] = {}
        self._synthetic = 0

    def add(self, entry: ClaudeLine) -> None:
        if entry.type == "assistant" and entry.message is not None:
            self._reply(entry, entry.message)
        elif entry.message is not None:
            self._user(entry, entry.message)
        elif entry.type == "attachment":
            self._attachment(object_or_none(entry.record.get("attachment")) or {})
        elif entry.type == "system":
            self._system(entry.record)
        elif entry.uuid is not None:
            self.silent[entry.type] += 1

    def notes(self) -> list[str]:
        if not self._synthetic:
            return []
        return [f"{self._synthetic} replies were written by Claude Code itself (API errors and the like)"]

    def _reply(self, entry: ClaudeLine, message: Object) -> None:
        parts = tuple(_assistant_parts(entry, message))
        model = text_or_none(message.get("model"))
        usage = _usage(message, model)
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

    def _user(self, entry: ClaudeLine, message: Object) -> None:
        content = message.get("content")
        blocks = [content] if isinstance(content, str) else list_or_none(content)
        if blocks is None:
            raise NotUnderstood(f"`content` of a user message must be a string or a list, not {kind_of(content)}")
        parts: list[Part] = []
        for index, value in enumerate(blocks):
            block = object_or_none(value)
            if block is None:
                parts += text_part(expect_text(value, "a content block"))
            elif block.get("type") == "tool_result":
                self.steps.append(RecordedStep(Message("tool", (_result(block, entry.record),))))
            else:
                parts += said_block(block, _raw(entry, index, block))
        if parts:
            self.steps.append(RecordedStep(Message("user", tuple(parts))))
        elif not content:
            self.steps.append(RecordedStep(Message("user", ())))

    def _attachment(self, attachment: Object) -> None:
        """Attachments are notes to the model; those which are plain text in the file are kept as the user's words."""
        kind = text_or_none(attachment.get("type")) or "of no type"
        content = attachment.get("prompt") if kind == "queued_command" else attachment.get("content")
        known = kind in ("queued_command", "hook_additional_context")
        parts = tuple(said(content)) if known and content else ()
        if parts:
            self.steps.append(RecordedStep(Message("user", parts)))
        else:
            self.silent[f"attachment {kind}"] += 1

    def _system(self, record: Object) -> None:
        """Only the output of commands that the user ran is shown to the model."""
        subtype = text_or_none(record.get("subtype")) or "of no subtype"
        content = record.get("content")
        if subtype == "local_command" and isinstance(content, str) and content:
            self.steps.append(RecordedStep(Message("user", (Text(content),))))
        else:
            self.silent[f"system {subtype}"] += 1


def _assistant_parts(entry: ClaudeLine, message: Object) -> Iterator[Part]:
    content = message.get("content")
    if isinstance(content, str):
        yield from text_part(content)
        return
    blocks = list_or_none(content)
    if blocks is None:
        raise NotUnderstood(f"`content` of an assistant message must be a list of blocks, not {kind_of(content)}")
    for index, value in enumerate(blocks):
        block = expect_object(value, "a content block")
        match block.get("type"):
            case "thinking":
                signature = text_or_none(block.get("signature")) or None
                yield Thinking(expect_text(block.get("thinking"), "`thinking`"), signature)
            case "redacted_thinking":
                yield RedactedThinking(expect_text(block.get("data"), "`data` of redacted thinking"))
            case "tool_use":
                yield _call(block)
            case _:
                yield from said_block(block, _raw(entry, index, block))


def _call(block: Object) -> ToolCall:
    return ToolCall(
        expect_text(block.get("id"), "`id` of a tool_use block"),
        expect_text(block.get("name"), "`name` of a tool_use block"),
        arguments_text(block.get("input")),
    )


def _result(block: Object, record: Object) -> ToolResult:
    content = as_content(said(block.get("content")))
    status = result_status(content, block.get("is_error") is True)
    details = object_or_none(record.get("toolUseResult")) or {}
    if details.get("interrupted") is True:
        status = "interrupted"
    return ToolResult(expect_text(block.get("tool_use_id"), "`tool_use_id` of a tool result"), content, status)


def _usage(message: Object, model: str | None) -> Usage | None:
    usage = object_or_none(message.get("usage"))
    if usage is None:
        return None
    counted = total(usage, "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    return Usage(
        model or "unknown",
        counted,
        count_or_zero(usage.get("output_tokens")),
        cache_read_tokens=count_or_zero(usage.get("cache_read_input_tokens")),
        cache_write_tokens=count_or_zero(usage.get("cache_creation_input_tokens")),
    )


def _fuller(first: Usage | None, second: Usage | None) -> Usage | None:
    """Lines written while the reply was streaming carry a provisional output count, so the larger one is right."""
    if first is None or second is None:
        return first or second
    return second if second.output_tokens >= first.output_tokens else first


def _raw(entry: ClaudeLine, index: int, block: Object) -> str:
    return raw_at(entry.line, ("message", "content", index), dump(block))
