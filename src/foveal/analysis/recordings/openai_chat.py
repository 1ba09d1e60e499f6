"""OpenAI chat messages, in the forms that people keep them in.

    {"messages": [...], "tools": [...], "model": "..."}     one conversation a line (the fine-tuning form)
    [{"role": ...}, ...]                                    the same without a wrapper
    {"role": "user", "content": "..."}                      one message a line; the file is the conversation

Each recorded message becomes exactly one `Message`, so that indices into a recording stay valid.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain

from foveal.analysis.recordings.fields import (
    NotUnderstood,
    Object,
    arguments_text,
    at,
    dump,
    expect_list,
    expect_object,
    expect_text,
    kind_of,
    list_or_none,
    object_or_none,
    tally,
    text_or_none,
)
from foveal.analysis.recordings.lines import JsonLine, complete, stem, whole
from foveal.analysis.recordings.parts import (
    SpokenPart,
    as_content,
    base64_bytes,
    data_url,
    guess_type,
    image_of_url,
    opaque,
    result_status,
    text_part,
)
from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.values.entry import File, Message, Part, Role, Thinking, ToolCall, ToolResult

_ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_SPOKEN_FIELDS = {"role", "content", "tool_calls", "function_call", "refusal", "reasoning_content", "reasoning"}
_RESULT_FIELDS = {"role", "content", "tool_call_id", "name", "is_error"}


def read(lines: Iterable[JsonLine], file: str) -> Iterator[Recording]:
    rest = iter(lines)
    first = next(rest)
    if is_message(first.value):
        yield _file_of_messages(chain((first,), rest), file)
    else:
        yield from _file_of_conversations(chain((first,), rest), file)


def is_message(value: object) -> bool:
    record = object_or_none(value)
    return record is not None and "role" in record and "messages" not in record


class Conversation:
    """Reads the messages of one conversation in order; knows which calls are still unanswered."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._unanswered: list[ToolCall] = []
        self._made_up_ids = 0
        self._fields: Counter[str] = Counter()

    def add(self, value: object) -> None:
        record = expect_object(value, "a message")
        name = expect_text(record.get("role"), "`role` of a message")
        role = _ROLES.get(name)
        if role is None:
            raise NotUnderstood(f"role {name!r} is not known; expected {', '.join(_ROLES)}")
        known = _RESULT_FIELDS if role == "tool" else _SPOKEN_FIELDS
        self._fields.update(key for key, field in record.items() if key not in known and field is not None)
        if role == "assistant":
            parts = tuple(self._assistant(record))
        elif role == "tool":
            parts = (self._result(record),)
        else:
            parts = tuple(_said(record.get("content")))
        self.messages.append(Message(role, parts))

    def notes(self) -> list[str]:
        notes = tally(self._fields, "message fields have no place in a log and were left out")
        if self._made_up_ids:
            notes.append(f"{self._made_up_ids} calls had no id and were given one")
        return notes

    def _assistant(self, record: Object) -> Iterator[Part]:
        thinking = text_or_none(record.get("reasoning_content")) or text_or_none(record.get("reasoning"))
        if thinking:
            yield Thinking(thinking)
        yield from _said(record.get("content"))
        yield from text_part(record.get("refusal"))
        self._unanswered = []
        for value in expect_list(record.get("tool_calls") or [], "`tool_calls`"):
            yield self._call(expect_object(value, "a tool call"))
        legacy = object_or_none(record.get("function_call"))
        if legacy is not None:
            yield self._call({"function": legacy})

    def _call(self, record: Object) -> ToolCall:
        custom = object_or_none(record.get("custom"))
        function = custom or expect_object(record.get("function"), "`function` of a tool call")
        call_id = text_or_none(record.get("id"))
        if not call_id:
            self._made_up_ids += 1
            call_id = f"call_{len(self.messages)}_{len(self._unanswered)}"
        name = expect_text(function.get("name"), "`name` of a tool call")
        call = ToolCall(call_id, name, arguments_text(function.get("input" if custom else "arguments")))
        self._unanswered.append(call)
        return call

    def _result(self, record: Object) -> ToolResult:
        content = as_content(_said(record.get("content")))
        return ToolResult(self._answered(record), content, result_status(content, record.get("is_error") is True))

    def _answered(self, record: Object) -> str:
        """The id that a result names or, in the forms without ids, the first open call (of its name, if it has one)."""
        call_id = text_or_none(record.get("tool_call_id"))
        name = text_or_none(record.get("name"))
        for position, call in enumerate(self._unanswered):
            if call_id == call.id or (not call_id and name in (None, call.name)):
                return self._unanswered.pop(position).id
        if not call_id:
            raise NotUnderstood("a tool result names no call (`tool_call_id`), and no call before it is open")
        return call_id


def conversation(messages: list[object]) -> Conversation:
    made = Conversation()
    for index, value in enumerate(messages):
        try:
            made.add(value)
        except NotUnderstood as problem:
            raise NotUnderstood(f"message {index}: {problem}") from None
    return made


def tools_text(record: Object) -> str:
    """The tool definitions as JSON text; the older `functions` are wrapped."""
    tools = list_or_none(record.get("tools"))
    functions = list_or_none(record.get("functions"))
    if not tools and functions:
        tools = [{"type": "function", "function": function} for function in functions]
    return dump(tools or [])


def _file_of_messages(lines: Iterable[JsonLine], file: str) -> Recording:
    made, notes = Conversation(), list[str]()
    for line in complete(lines, notes):
        with at(file, line.number):
            made.add(line.value)
    steps = tuple(RecordedStep(message) for message in made.messages)
    return Recording(stem(file), file, None, "[]", steps, (*made.notes(), *notes))


def _file_of_conversations(lines: Iterable[JsonLine], file: str) -> Iterator[Recording]:
    for line in whole(lines, file):
        with at(file, line.number):
            recording = _one_conversation(line, file)
        yield recording


def _one_conversation(line: JsonLine, file: str) -> Recording:
    record = object_or_none(line.value) or {"messages": line.value}
    if "messages" not in record:
        raise NotUnderstood("expected a conversation: an object with `messages`, or a list of messages")
    made = conversation(expect_list(record["messages"], "`messages`"))
    return Recording(
        id=text_or_none(record.get("id")) or f"{stem(file)}-{line.number}",
        source=f"{file}:{line.number}",
        model=text_or_none(record.get("model")),
        tools=tools_text(record),
        steps=tuple(RecordedStep(message) for message in made.messages),
        notes=tuple(made.notes()),
    )


def _said(content: object) -> Iterator[SpokenPart]:
    if content is None:
        return
    if isinstance(content, str):
        yield from text_part(content)
        return
    parts = list_or_none(content)
    if parts is None:
        raise NotUnderstood(f"`content` must be a string, a list of parts or null, not {kind_of(content)}")
    for value in parts:
        if isinstance(value, str):
            yield from text_part(value)
        else:
            yield from _part(expect_object(value, "a content part"))


def _part(part: Object) -> Iterator[SpokenPart]:
    match part.get("type"):
        case "text" | "input_text" | "output_text" if isinstance(part.get("text"), str):
            yield from text_part(part["text"])
        case "refusal" if isinstance(part.get("refusal"), str):
            yield from text_part(part["refusal"])
        case "image_url" | "input_image":
            image = part.get("image_url")
            url = text_or_none((object_or_none(image) or {"url": image}).get("url"))
            yield image_of_url(url) if url else opaque("openai", part)
        case "input_audio" | "file":
            yield _file(part) or opaque("openai", part)
        case _:
            yield opaque("openai", part)


def _file(part: Object) -> File | None:
    """A file or a sound that is in the recording; one that the provider holds (`file_id`) stays opaque."""
    audio = object_or_none(part.get("input_audio"))
    if audio is not None:
        form = text_or_none(audio.get("format")) or "wav"
        data = base64_bytes(text_or_none(audio.get("data")) or "")
        return File(f"audio/{form}", f"audio.{form}", data=data) if data else None
    file = object_or_none(part.get("file")) or {}
    name = text_or_none(file.get("filename")) or "file"
    content = text_or_none(file.get("file_data")) or ""
    media_type, data = data_url(content) or ("", base64_bytes(content))
    return File(media_type or guess_type(name, "application/octet-stream"), name, data=data) if data else None
