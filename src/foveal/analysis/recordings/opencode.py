"""opencode sessions: from its database, from the folders of older versions, or as `opencode export` writes one.

A session has messages, a message has parts:

    user        text, file …
    assistant   step-start, reasoning, text, tool (a call with its result), step-finish (tokens) …

Each step is one model call; newer versions write a message for each, older ones many steps into one message. `opencode_files`
finds the records. Sub-agents are sessions of their own (`parentID`). Neither the system prompt nor the tools are recorded.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from foveal.analysis.recordings.lines import JsonLine, at, session_lines, stem
from foveal.analysis.recordings.opencode_files import StoredSession, session_beside
from foveal.analysis.recordings.recording import RecordedStep, Recording, one_session, tally
from foveal.dialects.content import text_part
from foveal.dialects.json_values import (
    JsonObject,
    arguments_text,
    count,
    elements,
    expect_mapping,
    expect_string,
    fields,
    string,
)
from foveal.dialects.media import read_data_url
from foveal.values.entry import (
    Content,
    File,
    Image,
    Message,
    Part,
    RedactedThinking,
    Stop,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)

_DIALECTS = {
    "anthropic": "anthropic",
    "google-vertex-anthropic": "anthropic",
    "openai": "openai_responses",
    "azure": "openai_responses",
    "google": "gemini",
    "google-vertex": "gemini",
}
"""Dialects of the providers that opencode names; it speaks OpenAI chat to all others."""

_AS_TEXT = ("text/plain", "application/x-directory")
"""Types of files that opencode sends as text parts beside them."""


def is_session(record: JsonObject) -> bool:
    """Return whether this is an exported session, or the file of one in the folders of older versions."""
    is_export = "info" in record and "messages" in record
    return is_export or {"id", "projectID", "time"} <= record.keys()


def read(lines: Iterable[JsonLine], file: str) -> Iterator[Recording]:
    """Yield the sessions of exported documents, or of the files of sessions."""
    notes: list[str] = []
    for line in session_lines(lines, notes):
        with at(file, line.number):
            record = expect_mapping(line.value, "an opencode session")
            stored = _exported(record) if "messages" in record else session_beside(file, record)
            yield recording_of(stored, file, notes)


def recording_of(stored: StoredSession, file: str, notes: Sequence[str] = ()) -> Recording:
    """Return the recording of a session."""
    session = _Session()
    for info, parts in stored.messages:
        session.add(info, parts)
    found = [*notes, *stored.notes, *session.notes()]
    found.append("opencode records neither the system prompt nor the tool definitions")
    dialect = _DIALECTS.get(session.provider, "openai_chat") if session.provider else None
    return one_session(
        stored.id or stem(file),
        file,
        session.steps,
        found,
        dialect=dialect,
        project=session.project,
        compactions=session.compactions,
    )


def _exported(record: JsonObject) -> StoredSession:
    messages = [expect_mapping(value, "a message of an opencode session") for value in elements(record["messages"])]
    pairs = [(fields(one.get("info")), [fields(part) for part in elements(one.get("parts"))]) for one in messages]
    return StoredSession(string(fields(record.get("info")).get("id")) or "", pairs)


class _Step(msgspec.Struct):
    """One model call of an assistant message: its parts so far, and the results of its calls."""

    parts: list[Part] = msgspec.field(default_factory=list)
    results: list[ToolResult] = msgspec.field(default_factory=list)


class _Session:
    """Turns the messages of a session into steps."""

    def __init__(self) -> None:
        self.steps: list[RecordedStep] = []
        self.provider: str | None = None
        self._skipped: Counter[str] = Counter()
        self.project = ""
        self.compactions: list[int] = []

    def add(self, info: JsonObject, parts: Sequence[JsonObject]) -> None:
        """Add the next message."""
        role = string(info.get("role"))
        if role == "user":
            self._user(parts)
        elif role == "assistant":
            self._assistant(info, parts)
        else:
            self._skipped[f"message of role {role}"] += 1

    def notes(self) -> list[str]:
        """Return what was left out."""
        notes = tally(+self._skipped, "parts carry nothing for the model and were left out")
        return notes + [f"{len(self.compactions)} compactions of the recording agent are in it"] * bool(
            self.compactions
        )

    def _user(self, parts: Sequence[JsonObject]) -> None:
        said: list[Part] = []
        for part in parts:
            kind = string(part.get("type")) or "of no type"
            if kind == "compaction":
                self.compactions.append(len(self.steps))
            if kind == "text" and part.get("ignored") is not True:
                said += text_part(part.get("text"))
            elif kind == "file" and part.get("mime") not in _AS_TEXT:
                said += _media(part)
            else:
                self._skipped[kind] += 1
        if said:
            self.steps.append(RecordedStep(Message("user", tuple(said))))

    def _assistant(self, info: JsonObject, parts: Sequence[JsonObject]) -> None:
        self.provider = string(info.get("providerID")) or self.provider
        self.project = self.project or string(fields(info.get("path")).get("cwd")) or ""
        step, ended = _Step(), 0
        for part in parts:
            match part.get("type"):
                case "text":
                    step.parts += text_part(part.get("text"))
                case "reasoning":
                    step.parts += _thinking(part)
                case "tool":
                    step.parts.append(_call(part))
                    step.results += _result(part)
                case "step-finish":
                    ended += 1
                    self._end(step, info, part.get("tokens"))
                    step = _Step()
                case kind:
                    self._skipped[str(kind or "of no type")] += kind != "step-start"
        self._end(step, info, None if ended else info.get("tokens"))

    def _end(self, step: _Step, info: JsonObject, tokens: object) -> None:
        """Add a reply and the results of its calls; one without parts failed before the model said anything."""
        if not step.parts:
            return
        model = string(info.get("modelID"))
        failed = string(fields(info.get("error")).get("name"))
        stop: Stop = "done" if failed is None else "aborted" if "Abort" in failed else "error"
        usage = _usage(fields(tokens), model)
        self.steps.append(RecordedStep(Message("assistant", tuple(step.parts), model, stop), usage))
        self.steps += [RecordedStep(Message("tool", (result,))) for result in step.results]


def _thinking(part: JsonObject) -> Iterator[Part]:
    """Yield the thinking of a part, with the signature that a provider put beside it."""
    beside = [fields(value) for value in fields(part.get("metadata")).values()]
    keys = ("signature", "thoughtSignature")
    signature = next((text for one in beside for key in keys if (text := string(one.get(key)))), None)
    redacted = next((text for one in beside if (text := string(one.get("redactedData")))), None)
    text = string(part.get("text")) or ""
    if redacted:
        yield RedactedThinking(redacted)
    elif text or signature:
        yield Thinking(text, signature)


def _call(part: JsonObject) -> ToolCall:
    call, name = part.get("callID"), part.get("tool")
    given = fields(part.get("state")).get("input")
    call_id = expect_string(call, "`callID` of a tool part")
    return ToolCall(call_id, expect_string(name, "`tool` of a tool part"), arguments_text(given))


def _result(part: JsonObject) -> Iterator[ToolResult]:
    """Yield the result that is kept with a call; none for a call that never ended."""
    state, call = fields(part.get("state")), string(part.get("callID")) or ""
    match state.get("status"):
        case "completed":
            content: list[Content] = list(text_part(state.get("output")))
            for value in elements(state.get("attachments")):
                content += _media(fields(value))
            yield ToolResult(call, tuple(content))
        case "error":
            beside = fields(state.get("metadata"))
            is_interrupted = beside.get("interrupted") is True
            told = beside.get("output") if is_interrupted else None
            text = text_part(told) or text_part(state.get("error"))
            yield ToolResult(call, text, "interrupted" if is_interrupted else "error")
        case _:
            return


def _media(part: JsonObject) -> Iterator[Image | File]:
    """Yield the image or file of a part: its bytes, or its address."""
    mime, url = string(part.get("mime")) or "application/octet-stream", string(part.get("url")) or ""
    held = read_data_url(url)
    data = held[1] if held else None
    address = url if data is None and url.startswith(("https:", "http:")) else None
    if data is None and address is None:
        return
    if mime.startswith("image/"):
        yield Image(mime, data, address)
    else:
        yield File(mime, string(part.get("filename")) or "file", data, address)


def _usage(tokens: JsonObject, model: str | None) -> Usage | None:
    """Return the tokens of a step. Its input leaves out the cached ones; ours does not."""
    cache = fields(tokens.get("cache"))
    read, written = count(cache.get("read")), count(cache.get("write"))
    given = count(tokens.get("input")) + read + written
    taken = count(tokens.get("output")) + count(tokens.get("reasoning"))
    if not given and not taken:
        return None
    return Usage(model or "unknown", given, taken, cache_read_tokens=read, cache_write_tokens=written)
