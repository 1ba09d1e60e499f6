"""The neutral form: one trajectory a line, with the provider's token counts.

    {"id", "source", "license", "model", "tools", "messages", "meta"}

`messages` are OpenAI chat messages. `meta.usage` lists `[message_index, input, output, cached]`, one for each model call
that was measured; `input` includes the cached tokens, `cached` may be null.
"""

from collections.abc import Iterable, Iterator

from foveal.analysis.recordings.lines import JsonLine, dataset
from foveal.analysis.recordings.openai_chat import conversation, tools_text
from foveal.analysis.recordings.recording import RecordedStep, Recording
from foveal.dialects.json_values import (
    JsonObject,
    NotUnderstood,
    count,
    elements,
    expect_count,
    expect_mapping,
    expect_sequence,
    expect_string,
    fields,
    string,
)
from foveal.values.entry import Message, Usage

_LOSSES = {
    "dropped_unanswered_calls": "calls without an answer",
    "dropped_unexecuted_calls": "calls that were never run",
    "dropped_abandoned_branch_entries": "entries of abandoned branches",
    "sidechain_entries_not_included": "entries of side chains",
    "images_omitted": "images",
    "thinking_chars_dropped": "characters of thinking",
    "reasoning_summary_chars_dropped": "characters of reasoning",
}
"""Content that the makers of a set left out by their own account. It is lost, so it can only be noted."""


def read(lines: Iterable[JsonLine], file: str) -> Iterator[Recording]:
    return dataset(lines, file, _recording)


def _recording(line: JsonLine, file: str) -> Recording:
    record = expect_mapping(line.value, "a line of the neutral form")
    if "messages" not in record or "id" not in record:
        raise NotUnderstood("expected a trajectory: an object with `id`, `model`, `tools`, `messages` and `meta`")
    model = string(record.get("model"))
    meta = fields(record.get("meta"))
    made = conversation(expect_sequence(record["messages"], "`messages`"))
    usage = _usage(meta, made.messages, model)
    return Recording(
        id=expect_string(record["id"], "`id`"),
        source=f"{file}:{line.number}",
        model=model,
        tools=tools_text(record),
        steps=tuple(RecordedStep(message, usage.get(index)) for index, message in enumerate(made.messages)),
        notes=(*made.notes(), *_notes(meta)),
        compactions=tuple(count(fields(value).get("index")) for value in elements(meta.get("compactions"))),
    )


def _usage(meta: JsonObject, messages: list[Message], model: str | None) -> dict[int, Usage]:
    found: dict[int, Usage] = {}
    for value in expect_sequence(meta.get("usage") or [], "`meta.usage`"):
        row = expect_sequence(value, "an item of `meta.usage`")
        if len(row) not in (3, 4):
            raise NotUnderstood("an item of `meta.usage` must be [message_index, input, output, cached]")
        index, given, taken = (expect_count(number, "a number in `meta.usage`") for number in row[:3])
        if index >= len(messages) or messages[index].role != "assistant":
            raise NotUnderstood(f"`meta.usage` counts a call at message {index}, which is no assistant message")
        found[index] = Usage(model or "unknown", given, taken, cache_read_tokens=count(row[3:] and row[3]))
    return found


def _notes(meta: JsonObject) -> Iterator[str]:
    if meta.get("system_prompt_recorded") is False:
        yield "the system prompt was not recorded"
    compactions = elements(meta.get("compactions"))
    if compactions:
        yield f"{len(compactions)} compactions of the recording agent are in it"
    for key, what in _LOSSES.items():
        lost = count(meta.get(key))
        if lost:
            yield f"the set leaves out {lost} {what}"
