"""Gemini, read: replies, requests, and the parts of both, in the spelling of the SDK and in that of the wire.

A request that our writer made reads back as its messages, up to these forms: messages of the user in a row, tool results
included, are one turn on the wire and come back as one message for each result and one for the rest; a system message among the
others is a labelled text of the user; the system messages are one; the texts of a result are one, and its images follow it; an
interrupted result is an error; thinking is not written; a file has lost its name.
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from foveal.dialects.content import SpokenPart, result_content, result_status, text_part
from foveal.dialects.gemini.spelling import both_spellings, camel_case
from foveal.dialects.json_values import (
    JsonObject,
    arguments_text,
    count,
    elements,
    expect_mapping,
    expect_sequence,
    expect_string,
    fields,
    json_text,
    mapping,
    string,
    told_count,
)
from foveal.dialects.media import base64_bytes
from foveal.dialects.opaque import sent_json
from foveal.dialects.port import WireReply
from foveal.dialects.wire_request import (
    WireRequest,
    drop_fields,
    read_list,
    read_role,
    reading_request,
    request_message,
    tool_definitions,
    turn_messages,
)
from foveal.values.entry import (
    Content,
    File,
    Image,
    Message,
    Opaque,
    Part,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)

NAME = "gemini"

NO_SIGNATURE = b"skip_thought_signature_validator"
"""Taken by Gemini 3 in place of a signature for calls that it did not make itself."""

# A blocked prompt is answered without candidates, but never without one of these.
_REPLY_KEYS = both_spellings("candidates", "prompt_feedback", "usage_metadata")

_ROLES: dict[str, Role] = {"user": "user", "function": "user", "model": "assistant"}


def read_reply(reply: Mapping[str, Any]) -> WireReply:
    """Return the message and the usage of a reply. A blocked prompt has no candidates, a blocked reply no content."""
    if not _REPLY_KEYS & reply.keys():
        raise KeyError("candidates")
    model = reply.get("model_version") or reply.get("modelVersion")
    candidates: Sequence[Mapping[str, Any]] = reply.get("candidates") or ({},)
    content: Mapping[str, Any] = candidates[0].get("content") or {}
    parts = tuple(read_reply_part(part) for part in content.get("parts") or ())
    return WireReply(Message("assistant", parts, model), read_usage(reply, model or ""))


def read_usage(reply: JsonObject, model: str) -> Usage | None:
    """Return the tokens that the provider counted. Thoughts are output; their count is beside that of the candidates."""
    usage = mapping(either(reply, "usage_metadata"))
    if not usage:
        return None
    candidates = count(either(usage, "candidates_token_count"))
    thoughts = told_count(either(usage, "thoughts_token_count"))
    return Usage(
        model=model,
        input_tokens=count(either(usage, "prompt_token_count")),
        output_tokens=candidates + (thoughts or 0),
        cache_read_tokens=count(either(usage, "cached_content_token_count")),
        reasoning_tokens=thoughts,
    )


def read_request(body: Mapping[str, Any]) -> WireRequest:
    """Return the conversation of a request: the SDK's arguments, or a body of the REST interface."""
    with reading_request(NAME):
        model = string(body.get("model")) or ""
        held = mapping(body.get("config"))
        config = body if held is None else held
        given = body.get("contents")
        contents = [given] if isinstance(given, str) or mapping(given) else expect_sequence(given, "`contents`")
        read = _Contents(model)
        values = [{"parts": [one]} if isinstance(one, str) else one for one in contents]
        messages, spans = read_list(values, "a content", read.messages)
        system = tuple(Message("system", (part,)) for part in _system(config))
        keys = ("system_instruction", "systemInstruction", "tools")
        rest = drop_fields(body, "model", "contents", "config", *(keys if held is None else ()))
        if held is not None:
            rest = {**rest, "config": drop_fields(held, *keys)}
        tools = tool_definitions(config.get("tools"))
        return WireRequest(model, system, tuple(messages), tools, rest, tuple(spans))


def _system(config: JsonObject) -> Iterator[Part]:
    given = either(config, "system_instruction")
    parts = [given] if isinstance(given, str) else elements(fields(given).get("parts"))
    for part in parts:
        yield from text_part(part if isinstance(part, str) else fields(part).get("text"))


class _Contents:
    """Reads the contents of a request in order, and knows the calls that the next turn answers."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._unanswered: list[ToolCall] = []

    def messages(self, content: JsonObject) -> Iterator[Message]:
        """Yield the next content: a reply, or one message for each function response and one for the parts between them."""
        role = read_role(string(content.get("role")) or "user", _ROLES)
        parts = [
            {"text": part} if isinstance(part, str) else expect_mapping(part, "a part")
            for part in elements(content.get("parts"))
        ]
        if role == "assistant":
            reply = [read_reply_part(part) for part in parts]
            self._unanswered = [part for part in reply if isinstance(part, ToolCall)]
            yield request_message(role, reply, self._model)
        elif parts:
            sent = (one for part in parts for one in self._sent(part))
            yield from turn_messages(role, sent, self._model)
        else:
            yield request_message(role, (), self._model)

    def _sent(self, part: JsonObject) -> Iterable[Part]:
        response = mapping(either(part, "function_response"))
        return _sent_part(part) if response is None else (self._result(response),)

    def _result(self, response: JsonObject) -> ToolResult:
        """Return a tool result. One without an id answers the first open call of its name, whose id may be empty too."""
        call_id, name = string(response.get("id")), string(response.get("name"))
        for position, call in enumerate(self._unanswered):
            if call_id == call.id or (not call_id and name == call.name):
                call_id = self._unanswered.pop(position).id
                break
        answer = expect_mapping(response.get("response") or {}, "`response` of a function response")
        content = (*_answer(answer), *result_content(_media_in(response)))
        status = result_status(content, "error" in answer and "output" not in answer)
        return ToolResult(call_id or "", content, status)


def _answer(answer: JsonObject) -> tuple[Content, ...]:
    """Return the text of a response: of its one field `output` or `error`, or the object as JSON."""
    if len(answer) == 1 and isinstance(text := answer.get("output", answer.get("error")), str):
        return text_part(text)
    return (Text(json_text(answer)),) if answer else ()


def _media_in(response: JsonObject) -> Iterator[SpokenPart]:
    for part in elements(response.get("parts")):
        yield from _sent_part(expect_mapping(part, "a part of a function response"))


def _sent_part(part: JsonObject) -> Iterator[SpokenPart]:
    """Yield a part that users and tools can send; none for an empty text."""
    data, address = mapping(either(part, "inline_data")), mapping(either(part, "file_data"))
    held = data or address
    media_type = string(either(held or {}, "mime_type")) or "application/octet-stream"
    url = string(either(address or {}, "file_uri"))
    content = _bytes((data or {}).get("data"))
    if isinstance(text := part.get("text"), str):
        yield from text_part(text, _signature(part))
    elif held is None or (not content and not url):
        yield Opaque(NAME, sent_json(part))
    elif media_type.startswith("image/"):
        yield Image(media_type, content, url)
    else:
        yield File(media_type, "file", content, url)


def read_reply_part(part: JsonObject) -> Part:
    """Return the part of a model's turn."""
    call = mapping(either(part, "function_call"))
    if call:
        name = expect_string(call.get("name"), "`name` of a function call")
        return ToolCall(string(call.get("id")) or "", name, arguments_text(call.get("args")), _signature(part))
    text = part.get("text")
    if isinstance(text, str):
        return Thinking(text, _signature(part)) if part.get("thought") else Text(text, _signature(part))
    return Opaque(NAME, sent_json(part))


def _signature(part: JsonObject) -> str | None:
    """Return the signature of a part as base64 text; None for the word that we send in place of one."""
    raw = either(part, "thought_signature")
    text = b64encode(raw).decode("ascii") if isinstance(raw, bytes) else string(raw)
    if not text or text == NO_SIGNATURE.decode() or text == b64encode(NO_SIGNATURE).decode("ascii"):
        return None
    return text


def _bytes(data: object) -> bytes | None:
    if isinstance(data, bytes):
        return data or None
    text = string(data) or ""
    return base64_bytes(text.replace("-", "+").replace("_", "/")) or None


def either(part: JsonObject, key: str) -> object:
    """Return a field in the SDK's spelling or in that of the wire."""
    return part.get(key) or part.get(camel_case(key))
