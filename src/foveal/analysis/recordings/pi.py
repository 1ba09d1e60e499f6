"""Sessions of the pi coding agent: `~/.pi/agent/sessions/<folder>/<time>_<id>.jsonl`.

The first line is a header (`type` session), the others are entries of a tree (`id`, `parentId`); the conversation is the
path from the last entry to the root. Version 1 had no ids: its entries follow each other.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from foveal.analysis.recordings.fields import (
    NotUnderstood,
    Object,
    arguments_text,
    at,
    count_or_zero,
    expect_object,
    expect_text,
    kind_of,
    list_or_none,
    object_or_none,
    tally,
    text_or_none,
)
from foveal.analysis.recordings.lines import JsonLine, complete, stem
from foveal.analysis.recordings.parts import (
    SpokenPart,
    as_content,
    base64_bytes,
    opaque,
    result_status,
    text_part,
    total,
)
from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.analysis.recordings.session import one_session
from foveal.values.entry import (
    Image,
    Message,
    Opaque,
    Part,
    RedactedThinking,
    Stop,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)

_STOPS: dict[str | None, Stop] = {"error": "error", "aborted": "aborted"}


class _Entry(msgspec.Struct, frozen=True):
    number: int
    type: str
    record: Object


def read(lines: Iterable[JsonLine], file: str) -> Iterator[Recording]:
    notes: list[str] = []
    header: Object = {}
    entries: list[_Entry] = []
    for line in complete(lines, notes):
        with at(file, line.number):
            record = expect_object(line.value, "a line of a pi session")
            kind = expect_text(record.get("type"), "`type` of a pi session line")
        if kind == "session":
            header = header or record
        else:
            entries.append(_Entry(line.number, kind, record))
    steps: list[RecordedStep] = []
    silent: Counter[str] = Counter()
    for entry in _branch(entries, notes):
        with at(file, entry.number):
            step = _step(entry)
        if step is None:
            silent[entry.type] += 1
        else:
            steps.append(step)
    notes += tally(silent, "entries carry no message for the model and were left out")
    notes.append("pi records neither the system prompt nor the tool definitions")
    yield one_session(text_or_none(header.get("id")) or stem(file), file, steps, notes)


def _branch(entries: Sequence[_Entry], notes: list[str]) -> list[_Entry]:
    places = {text_or_none(entry.record.get("id")): index for index, entry in enumerate(entries)}
    if None in places:
        return list(entries)
    chosen: set[int] = set()
    index = len(entries) - 1 if entries else None
    while index is not None and index not in chosen:
        chosen.add(index)
        parent = text_or_none(entries[index].record.get("parentId"))
        index = places.get(parent)
        if parent is not None and index is None:
            notes.append(f"line {entries[min(chosen)].number} continues an entry that is not in this file")
    left = Counter(entry.type for index, entry in enumerate(entries) if index not in chosen)
    notes += tally(left, "entries of other branches were left out")
    return [entry for index, entry in enumerate(entries) if index in chosen]


def _step(entry: _Entry) -> RecordedStep | None:
    match entry.type:
        case "message":
            return _message(expect_object(entry.record.get("message"), "`message` of a pi entry"))
        case "custom_message":
            return RecordedStep(Message("user", tuple(_said(entry.record.get("content")))))
        case "compaction" | "branch_summary":
            return _summary(entry.record)
        case _:
            return None


def _summary(record: Object) -> RecordedStep | None:
    parts = text_part(expect_text(record.get("summary"), "`summary`"))
    return RecordedStep(Message("user", parts)) if parts else None


def _message(record: Object) -> RecordedStep | None:
    role = expect_text(record.get("role"), "`role` of a pi message")
    match role:
        case "user" | "custom" | "hookMessage":
            return RecordedStep(Message("user", tuple(_said(record.get("content")))))
        case "assistant":
            return _reply(record)
        case "toolResult":
            content = as_content(_said(record.get("content")))
            call = expect_text(record.get("toolCallId"), "`toolCallId` of a tool result")
            status = result_status(content, record.get("isError") is True)
            return RecordedStep(Message("tool", (ToolResult(call, content, status),)))
        case "bashExecution":
            return None if record.get("excludeFromContext") is True else _command(record)
        case "branchSummary" | "compactionSummary":
            return _summary(record)
        case _:
            raise NotUnderstood(f"role {role!r} of a pi message is not known")


def _command(record: Object) -> RecordedStep:
    """A command that the user ran, told to the model as the user's words."""
    text = f"Ran `{expect_text(record.get('command'), '`command`')}`\n"
    output = text_or_none(record.get("output"))
    text += f"```\n{output}\n```" if output else "(no output)"
    code = record.get("exitCode")
    if record.get("cancelled") is True:
        text += "\n\n(cancelled)"
    elif code not in (None, 0):
        text += f"\n\nExit code: {code}"
    return RecordedStep(Message("user", (Text(text),)))


def _reply(record: Object) -> RecordedStep:
    model = text_or_none(record.get("model"))
    api = text_or_none(record.get("api")) or ""
    parts = tuple(_reply_parts(record.get("content"), api))
    stop = _STOPS.get(text_or_none(record.get("stopReason")), "done")
    return RecordedStep(Message("assistant", parts, model, stop), _usage(record, model))


def _reply_parts(content: object, api: str) -> Iterator[Part]:
    if isinstance(content, str):
        yield from text_part(content)
        return
    for block in _blocks(content):
        match block.get("type"):
            case "thinking":
                yield _thinking(block, api)
            case "toolCall":
                yield ToolCall(
                    expect_text(block.get("id"), "`id` of a tool call"),
                    expect_text(block.get("name"), "`name` of a tool call"),
                    arguments_text(block.get("arguments")),
                    text_or_none(block.get("thoughtSignature")),
                )
            case _:
                yield from _block(block)


def _thinking(block: Object, api: str) -> Thinking | RedactedThinking | Opaque:
    """What pi keeps as the signature depends on the provider: a signature, a whole reasoning item, a field name."""
    text = expect_text(block.get("thinking"), "`thinking`")
    signature = text_or_none(block.get("thinkingSignature")) or None
    if signature and block.get("redacted") is True:
        return RedactedThinking(signature)
    if signature and api.startswith("openai"):
        return Opaque("openai", signature) if signature.startswith("{") else Thinking(text)
    return Thinking(text, signature)


def _usage(record: Object, model: str | None) -> Usage | None:
    usage = object_or_none(record.get("usage")) or {}
    given, taken = total(usage, "input", "cacheRead", "cacheWrite"), count_or_zero(usage.get("output"))
    if not given and not taken:
        return None  # a call that failed before the provider counted anything
    read, written = count_or_zero(usage.get("cacheRead")), count_or_zero(usage.get("cacheWrite"))
    return Usage(model or "unknown", given, taken, cache_read_tokens=read, cache_write_tokens=written)


def _said(content: object) -> Iterator[SpokenPart]:
    if content is None or isinstance(content, str):
        yield from text_part(content)
        return
    for block in _blocks(content):
        yield from _block(block)


def _blocks(content: object) -> Iterator[Object]:
    blocks = list_or_none(content)
    if blocks is None:
        raise NotUnderstood(f"`content` of a pi message must be a string or a list, not {kind_of(content)}")
    for value in blocks:
        yield expect_object(value, "a content block")


def _block(block: Object) -> Iterator[SpokenPart]:
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            yield from text_part(block["text"], block.get("textSignature"))
        case "image":
            data = base64_bytes(text_or_none(block.get("data")) or "")
            media_type = text_or_none(block.get("mimeType")) or "image/*"
            yield Image(media_type, data=data) if data else opaque("pi", block)
        case _:
            yield opaque("pi", block)
