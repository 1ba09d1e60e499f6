"""Anthropic Messages, read: replies, requests, and the content blocks of both and of recordings.

A request that our writer made reads back as its messages, up to these forms: messages of the user in a row, tool results
included, are one turn on the wire and come back as one message for each result and one for the rest; a system message among the
others is a labelled text of the user; images of a failed result follow it; an interrupted result is an error; trailing white
space of replies is gone; an image at an address has the media type of its suffix. A block of a tool result that is neither text,
image nor document is kept as its JSON text.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from foveal.dialects.content import SpokenPart, result_content, result_status, text_part
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
from foveal.dialects.media import base64_bytes, guess_type
from foveal.dialects.opaque import KeepVerbatim, sent_json
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
    unmarked_json,
    with_known_types,
)
from foveal.values.entry import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    RedactedThinking,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)

NAME = "anthropic"
_ROLES: dict[str, Role] = {"user": "user", "assistant": "assistant", "system": "system"}


def read_reply(reply: Mapping[str, Any]) -> WireReply:
    """Return the message and the usage of a reply."""
    blocks: Sequence[Mapping[str, Any]] = reply["content"]
    if any("type" not in block for block in blocks):
        raise KeyError("type")  # another provider's content
    parts = tuple(read_reply_block(block, sent_json) for block in blocks)
    model = reply.get("model")
    return WireReply(Message("assistant", parts, model), read_usage(reply, str(model or "")))


def read_usage(reply: JsonObject, model: str) -> Usage | None:
    """Return the tokens that the provider counted. Its input tokens leave out the cached ones; ours do not."""
    usage = mapping(reply.get("usage"))
    if not usage:
        return None
    read, written = count(usage.get("cache_read_input_tokens")), count(usage.get("cache_creation_input_tokens"))
    return Usage(
        model=model,
        input_tokens=count(usage.get("input_tokens")) + read + written,
        output_tokens=count(usage.get("output_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=told_count(fields(usage.get("output_tokens_details")).get("thinking_tokens")),
    )


def read_request(body: Mapping[str, Any]) -> WireRequest:
    """Return the conversation of a request body."""
    with reading_request(NAME):
        model = string(body.get("model")) or ""
        given = expect_sequence(body.get("messages"), "`messages`")
        messages, spans = read_list(given, "a message", lambda message: _messages(message, model))
        system = tuple(Message("system", (part,)) for part in read_content(body.get("system"), unmarked_json))
        rest = drop_fields(body, "model", "system", "messages", "tools")
        known, tools = tuple(with_known_types(messages)), tool_definitions(body.get("tools"))
        return WireRequest(model, system, known, tools, rest, tuple(spans))


def _messages(message: JsonObject, model: str) -> Iterator[Message]:
    """Yield the messages of one turn: one for each tool result, and one for the other blocks between them."""
    role = read_role(message.get("role"), _ROLES)
    content = message.get("content")
    if isinstance(content, str):
        yield request_message(role, text_part(content), model)
        return
    blocks = [expect_mapping(value, "a content block") for value in expect_sequence(content, "`content`")]
    if role == "assistant" or not blocks:
        yield request_message(role, (read_reply_block(block, unmarked_json) for block in blocks), model)
        return
    yield from turn_messages(role, (part for block in blocks for part in _sent_parts(block)), model)


def _sent_parts(block: JsonObject) -> Iterable[Part]:
    return (read_result(block),) if block.get("type") == "tool_result" else read_block(block, unmarked_json)


def read_reply_block(block: JsonObject, keep: KeepVerbatim) -> Part:
    """Return the part of a block that a model wrote. A text with citations is kept verbatim."""
    match block.get("type"):
        case "text" if not block.get("citations") and isinstance(text := block.get("text"), str):
            return Text(text)
        case "thinking":
            signature = string(block.get("signature")) or None
            return Thinking(expect_string(block.get("thinking"), "`thinking`"), signature)
        case "redacted_thinking":
            return RedactedThinking(expect_string(block.get("data"), "`data` of redacted thinking"))
        case "tool_use":
            return ToolCall(
                expect_string(block.get("id"), "`id` of a tool_use block"),
                expect_string(block.get("name"), "`name` of a tool_use block"),
                arguments_text(block.get("input")),
            )
        case _:
            return Opaque(NAME, keep(block))


def read_result(block: JsonObject) -> ToolResult:
    """Return the tool result of a block."""
    content = result_content(read_content(block.get("content"), json_text))
    call = expect_string(block.get("tool_use_id"), "`tool_use_id` of a tool result")
    return ToolResult(call, content, result_status(content, block.get("is_error") is True))


def read_content(content: object, keep: KeepVerbatim) -> Iterator[SpokenPart]:
    """Yield the parts of a content: null, a string, or a list of strings and blocks."""
    if content is None or isinstance(content, str):
        yield from text_part(content)
        return
    blocks = sequence(content)
    if blocks is None:
        raise NotUnderstood(f"content must be a string or a list of blocks, not {kind_of(content)}")
    for value in blocks:
        if isinstance(value, str):
            yield from text_part(value)
        else:
            yield from read_block(expect_mapping(value, "a content block"), keep)


def read_block(block: JsonObject, keep: KeepVerbatim) -> Iterator[SpokenPart]:
    """Yield the part of a block that users and tools can send too; none for an empty text."""
    match block.get("type"):
        case "text" if isinstance(text := block.get("text"), str):
            yield from text_part(text)
        case "image":
            yield _image(block) or Opaque(NAME, keep(block))
        case "document":
            yield _document(block) or Opaque(NAME, keep(block))
        case _:
            yield Opaque(NAME, keep(block))


def _image(block: JsonObject) -> Image | None:
    source = fields(block.get("source"))
    url = string(source.get("url"))
    if url:
        return Image(guess_type(url), url=url)
    data = base64_bytes(string(source.get("data")) or "")
    return Image(string(source.get("media_type")) or "image/*", data=data) if data else None


def _document(block: JsonObject) -> File | None:
    """Return the file of a document block; None for one that says more than a file can hold."""
    if block.get("citations") or block.get("context"):
        return None
    source = fields(block.get("source"))
    name = string(block.get("title")) or "document"
    media_type = string(source.get("media_type")) or "application/pdf"
    url, text = string(source.get("url")), string(source.get("data")) or ""
    match source.get("type"):
        case _ if url:
            return File(media_type, name, url=url)
        case "base64" if data := base64_bytes(text):
            return File(media_type, name, data=data)
        case "text" if text:
            return File("text/plain", name, data=text.encode("utf-8", "surrogatepass"))
        case _:
            return None
