"""Sessions of the pi coding agent: `~/.pi/agent/sessions/<folder>/<time>_<id>.jsonl`.

The first line is a header (`type` session), the others are entries of a tree (`id`, `parentId`); the conversation is the
path from the last entry to the root. Version 1 had no ids: its entries follow each other.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from foveal.analysis.recordings.lines import JsonLine, at, session_lines, stem
from foveal.analysis.recordings.recording import RecordedStep, Recording, one_session, tally
from foveal.dialects.content import SpokenPart, result_content, result_status, text_part
from foveal.dialects.json_values import (
    JsonObject,
    NotUnderstood,
    arguments_text,
    count,
    expect_mapping,
    expect_string,
    fields,
    json_text,
    kind_of,
    sequence,
    string,
)
from foveal.dialects.media import base64_bytes
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

_DIALECTS = {
    "anthropic-messages": "anthropic",
    "openai-responses": "openai_responses",
    "openai-codex-responses": "openai_responses",
    "azure-openai-responses": "openai_responses",
    "openai-completions": "openai_chat",
    "google-generative-ai": "gemini",
    "google-vertex": "gemini",
    "google-gemini-cli": "gemini",
}
_STOPS: dict[str | None, Stop] = {"error": "error", "aborted": "aborted"}


class _Entry(msgspec.Struct, frozen=True):
    number: int
    type: str
    record: JsonObject


def read(lines: Iterable[JsonLine], file: str) -> Iterator[Recording]:
    notes: list[str] = []
    header: JsonObject = {}
    entries: list[_Entry] = []
    for line in session_lines(lines, notes):
        with at(file, line.number):
            record = expect_mapping(line.value, "a line of a pi session")
            kind = expect_string(record.get("type"), "`type` of a pi session line")
        if kind == "session":
            header = header or record
        else:
            entries.append(_Entry(line.number, kind, record))
    steps: list[RecordedStep] = []
    compactions: list[int] = []
    skipped: Counter[str] = Counter()
    for entry in _branch(entries, notes):
        if entry.type == "compaction":
            compactions.append(len(steps))
        with at(file, entry.number):
            step = _step(entry)
        if step is None:
            skipped[entry.type] += 1
        else:
            steps.append(step)
    notes += tally(skipped, "entries carry no message for the model and were left out")
    notes.append("pi records neither the system prompt nor the tool definitions")
    yield one_session(
        string(header.get("id")) or stem(file),
        file,
        steps,
        notes,
        dialect=_dialect(entries),
        project=string(header.get("cwd")) or "",
        compactions=compactions,
    )


def _dialect(entries: Sequence[_Entry]) -> str | None:
    """Return the dialect of the newest reply, by the API that pi called for it."""
    apis = (string(fields(entry.record.get("message")).get("api")) for entry in reversed(entries))
    return next((_DIALECTS[api] for api in apis if api in _DIALECTS), None)


def _branch(entries: Sequence[_Entry], notes: list[str]) -> list[_Entry]:
    places = {string(entry.record.get("id")): index for index, entry in enumerate(entries)}
    if None in places:
        return list(entries)
    chosen: set[int] = set()
    index = len(entries) - 1 if entries else None
    while index is not None and index not in chosen:
        chosen.add(index)
        parent = string(entries[index].record.get("parentId"))
        index = places.get(parent)
        if parent is not None and index is None:
            notes.append(f"line {entries[min(chosen)].number} continues an entry that is not in this file")
    left = Counter(entry.type for index, entry in enumerate(entries) if index not in chosen)
    notes += tally(left, "entries of other branches were left out")
    return [entry for index, entry in enumerate(entries) if index in chosen]


def _step(entry: _Entry) -> RecordedStep | None:
    match entry.type:
        case "message":
            return _message(expect_mapping(entry.record.get("message"), "`message` of a pi entry"))
        case "custom_message":
            return RecordedStep(Message("user", tuple(_said(entry.record.get("content")))))
        case "compaction" | "branch_summary":
            return _summary(entry.record)
        case _:
            return None


def _summary(record: JsonObject) -> RecordedStep | None:
    parts = text_part(expect_string(record.get("summary"), "`summary`"))
    return RecordedStep(Message("user", parts)) if parts else None


def _message(record: JsonObject) -> RecordedStep | None:
    role = expect_string(record.get("role"), "`role` of a pi message")
    match role:
        case "user" | "custom" | "hookMessage":
            return RecordedStep(Message("user", tuple(_said(record.get("content")))))
        case "assistant":
            return _reply(record)
        case "toolResult":
            content = result_content(_said(record.get("content")))
            call = expect_string(record.get("toolCallId"), "`toolCallId` of a tool result")
            status = result_status(content, record.get("isError") is True)
            return RecordedStep(Message("tool", (ToolResult(call, content, status),)))
        case "bashExecution":
            return None if record.get("excludeFromContext") is True else _command(record)
        case "branchSummary" | "compactionSummary":
            return _summary(record)
        case _:
            raise NotUnderstood(f"role {role!r} of a pi message is not known")


def _command(record: JsonObject) -> RecordedStep:
    """Return a command that the user ran, shown to the model as the user's words."""
    text = f"Ran `{expect_string(record.get('command'), '`command`')}`\n"
    output = string(record.get("output"))
    text += f"```\n{output}\n```" if output else "(no output)"
    code = record.get("exitCode")
    if record.get("cancelled") is True:
        text += "\n\n(cancelled)"
    elif code not in (None, 0):
        text += f"\n\nExit code: {code}"
    return RecordedStep(Message("user", (Text(text),)))


def _reply(record: JsonObject) -> RecordedStep:
    model = string(record.get("model"))
    api = string(record.get("api")) or ""
    parts = tuple(_reply_parts(record.get("content"), api))
    stop = _STOPS.get(string(record.get("stopReason")), "done")
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
                    expect_string(block.get("id"), "`id` of a tool call"),
                    expect_string(block.get("name"), "`name` of a tool call"),
                    arguments_text(block.get("arguments")),
                    string(block.get("thoughtSignature")),
                )
            case _:
                yield from _block(block)


def _thinking(block: JsonObject, api: str) -> Thinking | RedactedThinking | Opaque:
    """Return the thinking of a block. By provider, pi signs it with a signature, a whole reasoning item or a field name."""
    text = expect_string(block.get("thinking"), "`thinking`")
    signature = string(block.get("thinkingSignature")) or None
    if signature and block.get("redacted") is True:
        return RedactedThinking(signature)
    if signature and api.startswith("openai"):
        return Opaque("openai", signature) if signature.startswith("{") else Thinking(text)
    return Thinking(text, signature)


def _usage(record: JsonObject, model: str | None) -> Usage | None:
    usage = fields(record.get("usage"))
    read, written = count(usage.get("cacheRead")), count(usage.get("cacheWrite"))
    given, taken = count(usage.get("input")) + read + written, count(usage.get("output"))
    if not given and not taken:
        return None  # a call that failed before the provider counted anything
    return Usage(model or "unknown", given, taken, cache_read_tokens=read, cache_write_tokens=written)


def _said(content: object) -> Iterator[SpokenPart]:
    if content is None or isinstance(content, str):
        yield from text_part(content)
        return
    for block in _blocks(content):
        yield from _block(block)


def _blocks(content: object) -> Iterator[JsonObject]:
    blocks = sequence(content)
    if blocks is None:
        raise NotUnderstood(f"`content` of a pi message must be a string or a list, not {kind_of(content)}")
    for value in blocks:
        yield expect_mapping(value, "a content block")


def _block(block: JsonObject) -> Iterator[SpokenPart]:
    match block.get("type"):
        case "text" if isinstance(block.get("text"), str):
            yield from text_part(block["text"], block.get("textSignature"))
        case "image":
            data = base64_bytes(string(block.get("data")) or "")
            media_type = string(block.get("mimeType")) or "image/*"
            yield Image(media_type, data=data) if data else Opaque("pi", json_text(block))
        case _:
            yield Opaque("pi", json_text(block))
