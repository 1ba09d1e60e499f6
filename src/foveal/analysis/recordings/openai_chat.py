"""OpenAI chat messages, in the forms that people keep them in.

    {"messages": [...], "tools": [...], "model": "..."}     one conversation a line (the fine-tuning form)
    [{"role": ...}, ...]                                    the same without a wrapper
    {"role": "user", "content": "..."}                      one message a line; the file is the conversation

Each recorded message becomes exactly one `Message`, so that indices into a recording stay valid.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from foveal.analysis.recordings.lines import JsonLine, at, dataset, session_lines, stem
from foveal.analysis.recordings.recording import RecordedStep, Recording, tally
from foveal.dialects.json_values import (
    JsonObject,
    NotUnderstood,
    expect_mapping,
    expect_sequence,
    json_text,
    mapping,
    sequence,
    string,
)
from foveal.dialects.openai_chat.read import ROLES, ChatMessages
from foveal.values.entry import Message

_SPOKEN_FIELDS = {"role", "content", "tool_calls", "function_call", "refusal", "reasoning_content", "reasoning"}
_RESULT_FIELDS = {"role", "content", "tool_call_id", "name", "is_error"}


def read(lines: Iterable[JsonLine], file: str) -> Iterator[Recording]:
    rest = iter(lines)
    first = next(rest)
    if is_message(first.value):
        yield _file_of_messages(chain((first,), rest), file)
    else:
        yield from dataset(chain((first,), rest), file, _one_conversation)


def is_message(value: object) -> bool:
    record = mapping(value)
    return record is not None and "role" in record and "messages" not in record


class Conversation:
    """Reads the messages of one recorded conversation in order; counts the fields that have no place in a log."""

    def __init__(self) -> None:
        self._read = ChatMessages()
        self._fields: Counter[str] = Counter()

    @property
    def messages(self) -> list[Message]:
        return self._read.messages

    def add(self, value: object) -> None:
        record = expect_mapping(value, "a message")
        known = _RESULT_FIELDS if ROLES.get(string(record.get("role")) or "") == "tool" else _SPOKEN_FIELDS
        self._fields.update(key for key, field in record.items() if key not in known and field is not None)
        message = {key: field for key, field in record.items() if key in known}
        reasoning = message.pop("reasoning", None)  # another server's word for `reasoning_content`
        self._read.add(message if message.get("reasoning_content") else message | {"reasoning_content": reasoning})

    def notes(self) -> list[str]:
        notes = tally(self._fields, "message fields have no place in a log and were left out")
        if self._read.made_up_ids:
            notes.append(f"{self._read.made_up_ids} calls had no id and were given one")
        return notes


def conversation(messages: Sequence[object]) -> Conversation:
    made = Conversation()
    for index, value in enumerate(messages):
        try:
            made.add(value)
        except NotUnderstood as problem:
            raise NotUnderstood(f"message {index}: {problem}") from None
    return made


def tools_text(record: JsonObject) -> str:
    """Return the tool definitions as JSON text; the older `functions` are wrapped."""
    tools = sequence(record.get("tools"))
    functions = sequence(record.get("functions"))
    if not tools and functions:
        tools = [{"type": "function", "function": function} for function in functions]
    return json_text(tools or [])


def _file_of_messages(lines: Iterable[JsonLine], file: str) -> Recording:
    made, notes = Conversation(), list[str]()
    for line in session_lines(lines, notes):
        with at(file, line.number):
            made.add(line.value)
    steps = tuple(RecordedStep(message) for message in made.messages)
    return Recording(stem(file), file, None, "[]", steps, (*made.notes(), *notes))


def _one_conversation(line: JsonLine, file: str) -> Recording:
    record = mapping(line.value) or {"messages": line.value}
    if "messages" not in record:
        raise NotUnderstood("expected a conversation: an object with `messages`, or a list of messages")
    made = conversation(expect_sequence(record["messages"], "`messages`"))
    return Recording(
        id=string(record.get("id")) or f"{stem(file)}-{line.number}",
        source=f"{file}:{line.number}",
        model=string(record.get("model")),
        tools=tools_text(record),
        steps=tuple(RecordedStep(message) for message in made.messages),
        notes=tuple(made.notes()),
    )
