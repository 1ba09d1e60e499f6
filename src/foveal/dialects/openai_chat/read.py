"""OpenAI Chat Completions, read: replies, requests, and the messages of recordings.

A request that our writer made reads back as its messages, up to these forms: a tool message is one message for each result;
the texts of a reply and those of a result are one text; images of results follow in a
message of the user; signed thinking, parts of other formats and reasoning that nothing follows are not written; an image at an
address has the media type of its suffix.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from foveal.dialects.content import SpokenPart, result_content, result_status, text_part, unlabelled
from foveal.dialects.json_values import (
    JsonObject,
    NotUnderstood,
    arguments_text,
    count,
    expect_mapping,
    expect_sequence,
    expect_string,
    fields,
    json_text,
    kind_of,
    mapping,
    sequence,
    string,
    told_count,
)
from foveal.dialects.media import base64_bytes, file_of_data, image_of_url
from foveal.dialects.opaque import KeepVerbatim, sent_json
from foveal.dialects.port import WireReply
from foveal.dialects.wire_request import (
    WireRequest,
    drop_fields,
    read_each,
    read_role,
    reading_request,
    request_message,
    split_system,
    tool_definitions,
    with_known_types,
)
from foveal.values.entry import File, Message, Opaque, Part, Role, Thinking, ToolCall, ToolResult, Usage

NAME = "openai_chat"
ROLES: dict[str, Role] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
# Fields of a reply's message that become parts. `parsed` is the SDK's own reading of the content.
_MODELLED = frozenset({"role", "content", "refusal", "reasoning_content", "tool_calls", "parsed"})


def read_reply(reply: Mapping[str, Any]) -> WireReply:
    """Return the message and the usage of a reply."""
    message: Mapping[str, Any] = reply["choices"][0]["message"]
    parts = [*read_words(message, sent_json)]
    parts.extend(read_call(call, call["id"]) for call in message.get("tool_calls") or ())
    if others := other_fields(message):
        parts.append(Opaque(NAME, sent_json(others)))
    model = reply.get("model")
    return WireReply(Message("assistant", tuple(parts), model), read_usage(reply, str(model or "")))


def read_usage(reply: JsonObject, model: str, sent: str = "prompt", made: str = "completion") -> Usage | None:
    """Return the tokens that the provider counted. `sent` and `made` are its names for the two directions."""
    usage = mapping(reply.get("usage"))
    if not usage:
        return None
    details = fields(usage.get(f"{sent}_tokens_details"))
    input_tokens, output_tokens = count(usage.get(f"{sent}_tokens")), count(usage.get(f"{made}_tokens"))
    reasoning = told_count(fields(usage.get(f"{made}_tokens_details")).get("reasoning_tokens"))
    if reasoning and count(usage.get("total_tokens")) == input_tokens + output_tokens + reasoning:
        output_tokens += reasoning  # xAI counts it beside the output, and OpenAI within
    return Usage(
        model=model,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        cache_read_tokens=count(details.get("cached_tokens")),
        cache_write_tokens=count(details.get("cache_write_tokens")),
        reasoning_tokens=reasoning,
    )


def other_fields(message: JsonObject) -> dict[str, object]:
    """Return the fields of a model's message that no part models: compatible servers add their own."""
    return {key: value for key, value in message.items() if value and key not in _MODELLED}


def read_request(body: Mapping[str, Any]) -> WireRequest:
    """Return the conversation of a request body."""
    with reading_request(NAME):
        model = string(body.get("model")) or ""
        read = ChatMessages(model)
        read_each(expect_sequence(body.get("messages"), "`messages`"), "a message", read.add)
        system, messages = split_system(with_known_types(read.messages))
        tools, rest = tool_definitions(body.get("tools")), drop_fields(body, "model", "messages", "tools")
        spans = ((len(system) + i, len(system) + i + 1) for i in range(len(messages)))
        return WireRequest(model, system, messages, tools, rest, tuple(spans))


class ChatMessages:
    """Reads the messages of one conversation in order, and knows which calls are still unanswered.

    Each of them becomes exactly one `Message`. A call without an id, as in the older `function_call`, is given one, and a result
    without an id answers the first open call (of its name, if it has one).
    """

    def __init__(self, model: str = "") -> None:
        self.messages: list[Message] = []
        self.made_up_ids = 0
        self._model = model
        self._unanswered: list[ToolCall] = []

    def add(self, message: JsonObject) -> None:
        """Read the next message."""
        role = read_role(message.get("role"), ROLES)
        if role == "tool":
            self.messages.append(Message("tool", (self._result(message),)))
            return
        parts = self._reply(message) if role == "assistant" else read_content(message.get("content"), json_text)
        self.messages.append(request_message(role, parts, self._model))

    def _reply(self, message: JsonObject) -> Iterator[Part]:
        yield from read_words(message, json_text)
        self._unanswered = []
        for value in expect_sequence(message.get("tool_calls") or [], "`tool_calls`"):
            yield self._call(expect_mapping(value, "a tool call"))
        legacy = mapping(message.get("function_call"))
        if legacy is not None:
            yield self._call({"function": legacy})
        if others := other_fields(drop_fields(message, "function_call")):
            yield Opaque(NAME, json_text(others))

    def _call(self, call: JsonObject) -> ToolCall:
        call_id = string(call.get("id"))
        if not call_id:
            self.made_up_ids += 1
            call_id = f"call_{len(self.messages)}_{len(self._unanswered)}"
        made = read_call(call, call_id)
        self._unanswered.append(made)
        return made

    def _result(self, message: JsonObject) -> ToolResult:
        content, labelled = unlabelled(result_content(read_content(message.get("content"), json_text)))
        status = result_status(content, message.get("is_error") is True) if labelled == "ok" else labelled
        return ToolResult(self._answered(message), content, status)

    def _answered(self, message: JsonObject) -> str:
        call_id, name = string(message.get("tool_call_id")), string(message.get("name"))
        for position, call in enumerate(self._unanswered):
            if call_id == call.id or (not call_id and name in (None, call.name)):
                return self._unanswered.pop(position).id
        if not call_id:
            raise NotUnderstood("a tool result names no call (`tool_call_id`), and no call before it is open")
        return call_id


def read_words(message: JsonObject, keep: KeepVerbatim) -> Iterator[Part]:
    """Yield the thinking, the content and the refusal of a model's message."""
    thinking = string(message.get("reasoning_content"))
    if thinking:
        yield Thinking(thinking)
    yield from read_content(message.get("content"), keep)
    yield from text_part(message.get("refusal"))


def read_call(call: JsonObject, call_id: str) -> ToolCall:
    """Return a tool call. A custom tool takes any text, where a function takes JSON; some servers send that decoded."""
    custom = mapping(call.get("custom"))
    function = custom or expect_mapping(call.get("function"), "`function` of a tool call")
    name = expect_string(function.get("name"), "`name` of a tool call")
    if custom:
        return ToolCall(call_id, name, json_text({"input": custom.get("input")}), _signature(call))
    return ToolCall(call_id, name, arguments_text(function.get("arguments")), _signature(call))


def _signature(call: JsonObject) -> str | None:
    """Return the signature that Gemini's compatible endpoint puts beside a call and wants back."""
    google = fields(fields(call.get("extra_content")).get("google"))
    return string(google.get("thought_signature")) or None


def read_content(content: object, keep: KeepVerbatim) -> Iterator[SpokenPart]:
    """Yield the parts of a content: null, a string, or a list of strings and parts."""
    if content is None or isinstance(content, str):
        yield from text_part(content)
        return
    parts = sequence(content)
    if parts is None:
        raise NotUnderstood(f"`content` must be a string, a list of parts or null, not {kind_of(content)}")
    for value in parts:
        if isinstance(value, str):
            yield from text_part(value)
        else:
            part = expect_mapping(value, "a content part")
            yield from _part(part, keep)


def _part(part: JsonObject, keep: KeepVerbatim) -> Iterator[SpokenPart]:
    match part.get("type"):
        case "text" | "input_text" | "output_text" if isinstance(text := part.get("text"), str):
            yield from text_part(text)
        case "refusal" if isinstance(text := part.get("refusal"), str):
            yield from text_part(text)
        case "image_url" | "input_image":
            image = part.get("image_url")
            url = string((mapping(image) or {"url": image}).get("url"))
            yield image_of_url(url) if url else Opaque("openai", keep(part))
        case "input_audio" | "file":
            yield _file(part) or Opaque("openai", keep(part))
        case _:
            yield Opaque("openai", keep(part))


def _file(part: JsonObject) -> File | None:
    """Return a file or a sound by its bytes; None for one that the provider holds (`file_id`)."""
    audio = mapping(part.get("input_audio"))
    if audio is not None:
        form = string(audio.get("format")) or "wav"
        data = base64_bytes(string(audio.get("data")) or "")
        return File(f"audio/{form}", f"audio.{form}", data=data) if data else None
    file = fields(part.get("file"))
    name = string(file.get("filename")) or "file"
    return file_of_data(string(file.get("file_data")) or "", name)
