"""Gemini CLI sessions: `~/.gemini/tmp/<project>/chats/session-*.jsonl`, older `session-*.json`, and saved checkpoints.

    {"sessionId", "projectHash", "startTime", "kind"}               the header; older files are one document with `messages`
    {"id", "type": "user" | "gemini" | "info" | …, "content"}       a message; written again when more of it is known
    {"$set": {…}}                                                   changed fields; `messages` is a history rewritten by the CLI
    {"$rewindTo": id}                                               this message and all later ones are taken back

A reply has `content` (text or parts), `thoughts`, `toolCalls` with their results, `tokens` and `model`. Newer versions write the
results twice, the second time as parts of a user message; they count once. A checkpoint (`checkpoint-*.json`, `checkpoints/`)
is a list of the API's contents, alone or as `history` or `clientHistory`. Neither the system prompt nor the tools are recorded.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from foveal.analysis.recordings.lines import JsonLine, at, session_lines, stem
from foveal.analysis.recordings.recording import RecordedStep, Recording, one_session, tally
from foveal.dialects.gemini.read import read_request
from foveal.dialects.json_values import (
    JsonObject,
    NotUnderstood,
    count,
    elements,
    expect_mapping,
    fields,
    mapping,
    sequence,
    string,
)
from foveal.values.entry import Message, ToolCall, ToolResult, Usage
from foveal.values.errors import BadInput

_DIALECT = "gemini"
_NO_SETUP = "Gemini CLI records neither the system prompt nor the tool definitions"


def is_session_line(record: JsonObject) -> bool:
    """Return whether this is a header, an older session as a whole, or a change of a session."""
    return {"sessionId", "projectHash"} <= record.keys() or "$set" in record or "$rewindTo" in record


def is_prompt_log(record: JsonObject) -> bool:
    """Return whether this is an item of `logs.json`, which has the user's prompts and nothing else."""
    return {"sessionId", "messageId", "message"} <= record.keys() and isinstance(record["message"], str)


def contents_of(value: object) -> Sequence[object] | None:
    """Return the contents of a checkpoint; None for any other value."""
    record = mapping(value)
    held = value if record is None else record.get("clientHistory") or record.get("history")
    items = sequence(held)
    return items if items and {"role", "parts"} <= fields(items[0]).keys() else None


def read(lines: Iterable[JsonLine], file: str) -> Iterator[Recording]:
    notes: list[str] = []
    session = _Session()
    for line in session_lines(lines, notes):
        contents = contents_of(line.value)
        with at(file, line.number):
            if contents is not None:
                yield _checkpoint(contents, file)
            else:
                session.add(expect_mapping(line.value, "a line of a Gemini CLI session"), line.number)
    if session.is_begun:
        steps = list(session.steps(file))
        notes += [*session.notes(), _NO_SETUP]
        yield one_session(session.id or stem(file), file, steps, notes, dialect=_DIALECT)


def _checkpoint(contents: Sequence[object], file: str) -> Recording:
    steps = [RecordedStep(message) for message in _read(contents)]
    notes = [_NO_SETUP, "a checkpoint has no usage and no model"]
    return one_session(stem(file), file, steps, notes, dialect=_DIALECT)


class _Session:
    """Reads a session line by line; keeps of every message its newest form."""

    def __init__(self) -> None:
        self.id: str | None = None
        self.is_begun = False
        self._messages: dict[str, tuple[int, JsonObject]] = {}
        self._left_out: Counter[str] = Counter()
        self._taken_back = self._rewritten = 0

    def add(self, record: JsonObject, number: int) -> None:
        """Take one line."""
        if is_prompt_log(record):
            raise NotUnderstood("this is logs.json, which has the prompts alone; name a file of `chats/` instead")
        self.is_begun = True
        if "$rewindTo" in record:
            self._rewind(string(record["$rewindTo"]))
        elif "$set" in record:
            changed = fields(record["$set"])
            self.id = string(changed.get("sessionId")) or self.id
            self._rewrite(elements(changed.get("messages")), number)
        elif "sessionId" in record:
            self.id = string(record["sessionId"]) or self.id
            for value in elements(record.get("messages")):
                self._take(expect_mapping(value, "a message of a Gemini CLI session"), number)
        elif "id" in record:
            self._take(record, number)
        else:
            self._left_out["lines of no known kind"] += 1

    def notes(self) -> list[str]:
        """Return what was left out."""
        notes = tally(self._left_out, "lines carry no message for the model and were left out")
        if self._taken_back:
            notes.append(f"{self._taken_back} messages that were taken back (rewind) were left out")
        if self._rewritten:
            notes.append(f"{self._rewritten} rewritten histories (compressions and the like): what they replaced stays")
        return notes

    def steps(self, file: str) -> Iterator[RecordedStep]:
        """Yield the messages in order, the results of a reply's calls after it."""
        answered: set[str] = set()
        for number, record in self._messages.values():
            kind = string(record.get("type"))
            with at(file, number):
                if kind == "gemini":
                    yield from _reply(record, answered)
                elif kind == "user":
                    yield from _said(record, answered)
                else:
                    self._left_out[kind or "messages of no type"] += 1

    def _take(self, record: JsonObject, number: int) -> None:
        self._messages[string(record.get("id")) or f"line {number}, {len(self._messages)}"] = number, record

    def _rewind(self, to: str | None) -> None:
        """Take back a message and all later ones; all of them, if it is not known."""
        ids = list(self._messages)
        gone = ids[ids.index(to) if to in self._messages else 0 :]
        self._taken_back += len(gone)
        for name in gone:
            del self._messages[name]

    def _rewrite(self, messages: Sequence[object], number: int) -> None:
        """Add the new messages of a rewritten history. Those that it cut or masked stay as they were."""
        known = len(self._messages)
        for value in messages:
            record = expect_mapping(value, "a message of a Gemini CLI session")
            if string(record.get("id")) not in self._messages:
                self._take(record, number)
        self._rewritten += bool(messages) and known > 0


def _reply(record: JsonObject, answered: set[str]) -> Iterator[RecordedStep]:
    parts = _parts(record.get("content"))
    is_whole = any("functionCall" in part or part.get("thought") for part in parts)
    calls = [fields(call) for call in elements(record.get("toolCalls"))]
    if not is_whole:
        thoughts = [{"text": text, "thought": True} for text in _thoughts(record)]
        made = [{"functionCall": {key: call.get(key) for key in ("id", "name", "args")}} for call in calls]
        parts = [*thoughts, *parts, *made]
    model = string(record.get("model"))
    for message in _read([{"role": "model", "parts": parts}]):
        called = msgspec.structs.replace(message, model=model)
        yield RecordedStep(called, _usage(fields(record.get("tokens")), model))
        known = {part.id for part in message.parts if isinstance(part, ToolCall)}
        for call in calls:
            yield from _results(call, known, answered)


def _results(call: JsonObject, known: set[str], answered: set[str]) -> Iterator[RecordedStep]:
    """Yield the result that is kept with a call, and whatever else its tool gave."""
    call_id, held = string(call.get("id")) or "", call.get("result")
    if held is None or call_id not in known:
        return
    parts = _parts(held)
    if not any("functionResponse" in part for part in parts):
        text = "\n".join(text for part in parts if (text := string(part.get("text"))))
        parts = [{"functionResponse": {"id": call_id, "name": call.get("name"), "response": {"output": text}}}]
    for message in _read([{"role": "user", "parts": parts}]):
        result = message.parts[0]
        if not isinstance(result, ToolResult):
            yield RecordedStep(message)
        elif result.call == call_id and call_id not in answered:
            answered.add(call_id)
            is_cancelled = call.get("status") == "cancelled"
            ended = msgspec.structs.replace(result, status="interrupted") if is_cancelled else result
            yield RecordedStep(Message("tool", (ended,)))


def _said(record: JsonObject, answered: set[str]) -> Iterator[RecordedStep]:
    """Yield a message of the user. Results that were kept with their calls are not repeated."""
    for message in _read([{"role": "user", "parts": _parts(record.get("content"))}]):
        result = message.parts[0] if message.parts else None
        if isinstance(result, ToolResult):
            if result.call in answered:
                continue
            answered.add(result.call)
        yield RecordedStep(message)


def _parts(content: object) -> list[JsonObject]:
    """Return the parts of a content: a text, a part, or a list of both."""
    listed = sequence(content)
    given = [content] if listed is None else listed
    return [
        {"text": part} if isinstance(part, str) else expect_mapping(part, "a part")
        for part in given
        if part is not None and part != ""
    ]


def _thoughts(record: JsonObject) -> Iterator[str]:
    for value in elements(record.get("thoughts")):
        thought = fields(value)
        texts = (string(thought.get("subject")), string(thought.get("description")))
        if text := ": ".join(text for text in texts if text):
            yield text


def _usage(tokens: JsonObject, model: str | None) -> Usage | None:
    given = count(tokens.get("input"))
    taken = count(tokens.get("output")) + count(tokens.get("thoughts"))
    if not given and not taken:
        return None
    return Usage(model or "unknown", given, taken, cache_read_tokens=count(tokens.get("cached")))


def _read(contents: Sequence[object]) -> tuple[Message, ...]:
    """Return the messages of contents of the Gemini API."""
    try:
        return read_request({"contents": list(contents)}).messages
    except BadInput as error:
        raise NotUnderstood(str(error)) from None
