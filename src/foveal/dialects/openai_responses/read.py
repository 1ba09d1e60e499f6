"""OpenAI Responses, read: replies, requests, and the items of both and of recordings.

A request that our writer made reads back as its messages, up to these forms: items of the model in a row are one reply; an
output is one message for each result; reasoning that nothing follows and parts of other formats are not written; item ids,
annotations and the phase of a message are gone; an image at an address has the media type of its suffix, a file at an address
its last segment as its name.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from foveal.dialects.content import SpokenPart, result_content, result_status, text_part, unlabelled
from foveal.dialects.json_values import (
    JsonObject,
    NotUnderstood,
    arguments_text,
    expect_mapping,
    expect_sequence,
    expect_string,
    fields,
    json_text,
    kind_of,
    mapping,
    sequence,
    string,
)
from foveal.dialects.media import file_of_data, guess_type, image_of_url
from foveal.dialects.opaque import KeepVerbatim, drop_unset, sent_json
from foveal.dialects.openai_chat.read import read_usage
from foveal.dialects.port import WireReply
from foveal.dialects.wire_request import (
    ReadMessages,
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
from foveal.values.entry import Content, File, Message, Opaque, Part, Role, Status, Text, ToolCall, ToolResult

NAME = "openai_responses"
PROVIDER = "openai"
ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}

# Calls that the host answers. They are kept and shown as calls of a function, whatever kind of tool was called.
CLIENT_CALLS = frozenset(
    {"custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call", "tool_search_call"}
)

_EXIT_CODE = re.compile(r"(?:^|\n)(?:Exit code: |Process exited with code )(-?\d+)")
_HEADER_CHARS = 400
"""Shell results open with a few lines about the run; the command's own output comes after them and may say anything."""


def read_reply(reply: Mapping[str, Any]) -> WireReply:
    """Return the message and the usage of a reply."""
    parts = [part for item in reply["output"] for part in read_item(item, sent_json)]
    model = reply.get("model")
    return WireReply(Message("assistant", tuple(parts), model), read_usage(reply, str(model or ""), "input", "output"))


def read_request(body: Mapping[str, Any]) -> WireRequest:
    """Return the conversation of a request body."""
    with reading_request(NAME):
        model = string(body.get("model")) or ""
        given = body.get("input")
        items = [{"role": "user", "content": given}] if isinstance(given, str) else expect_sequence(given, "`input`")
        read = _Items(model)
        read_each(items, "an item", read.add)
        first = text_part(body.get("instructions"))
        every, spans = read.finished()
        lead, messages = split_system(with_known_types(every))
        system = (Message("system", first), *lead) if first else lead
        tools, rest = tool_definitions(body.get("tools")), drop_fields(body, "model", "instructions", "input", "tools")
        return WireRequest(model, system, messages, tools, rest, tuple(spans[len(lead) :]))


class _Items:
    """Reads the items of a request in order; `_reply` holds those of the reply that is being read."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._messages: list[Message] = []
        self._spans: list[tuple[int, int]] = []
        self._reply: list[Part] = []
        self._began, self._at = 0, 0
        """Number of the first item of the reply, and of the next item."""

    def add(self, item: JsonObject) -> None:
        """Read the next item."""
        kind = string(item.get("type")) or "message"
        role = read_role(item.get("role"), ROLES) if kind == "message" else None
        if role == "assistant":
            self._said(read_content(item.get("content"), json_text))
        elif role is not None:
            self._heard(request_message(role, read_content(item.get("content"), json_text), self._model))
        elif kind.endswith("_output"):
            self._heard(Message("tool", (read_output(item),)))
        else:
            self._said(read_item(item, json_text))
        self._at += 1

    def finished(self) -> ReadMessages:
        """Return all messages."""
        self._end_reply()
        return ReadMessages(self._messages, self._spans)

    def _said(self, parts: Iterable[Part]) -> None:
        if not self._reply:
            self._began = self._at
        self._reply.extend(parts)

    def _heard(self, message: Message) -> None:
        self._end_reply()
        self._messages.append(message)
        self._spans.append((self._at, self._at + 1))

    def _end_reply(self) -> None:
        if self._reply:
            self._messages.append(request_message("assistant", self._reply, self._model))
            self._spans.append((self._began, self._at))
            self._reply = []


def read_item(item: JsonObject, keep: KeepVerbatim) -> Iterator[Part]:
    """Yield the parts of an item that a model wrote."""
    match item.get("type"):
        case "message":
            for content in expect_sequence(item.get("content"), "`content` of a message"):
                words = expect_mapping(content, "a content item")
                yield Text(string(words.get("text")) or string(words.get("refusal")) or "")
        case "function_call":
            yield ToolCall(
                expect_string(item.get("call_id"), "`call_id` of a function_call"),
                expect_string(item.get("name"), "`name` of a function_call"),
                arguments_text(item.get("arguments")),
            )
        case str(kind) if kind in CLIENT_CALLS and is_client_call(item) and (call_id := string(item.get("call_id"))):
            name = string(item.get("name")) or kind.removesuffix("_call")
            frame = ("type", "id", "call_id", "name", "status")
            yield ToolCall(call_id, name, json_text(drop_unset(drop_fields(item, *frame))))
        case _:
            yield Opaque(PROVIDER, keep(item))


def is_client_call(item: JsonObject) -> bool:
    """Return whether the host executes the call; only a search for tools may be run by the provider."""
    return item.get("type") != "tool_search_call" or item.get("execution") == "client"


def read_content(content: object, keep: KeepVerbatim, owner: str = "an item") -> Iterator[SpokenPart]:
    """Yield the parts of a message's content: null, a string, or a list of content items. Errors name the `owner`."""
    if content is None or isinstance(content, str):
        yield from text_part(content)
        return
    parts = sequence(content)
    if parts is None:
        raise NotUnderstood(f"`content` of {owner} must be a string or a list, not {kind_of(content)}")
    for value in parts:
        yield from _content_item(expect_mapping(value, "a content item"), keep)


def _content_item(part: JsonObject, keep: KeepVerbatim) -> Iterator[SpokenPart]:
    match part.get("type"):
        case "input_text" | "output_text" | "text" if isinstance(text := part.get("text"), str):
            yield from text_part(text)
        case "refusal" if isinstance(text := part.get("refusal"), str):
            yield from text_part(text)
        case "input_image" if url := string(part.get("image_url")):
            yield image_of_url(url)
        case "input_file":
            yield _file(part) or Opaque(PROVIDER, keep(part))
        case _:
            yield Opaque(PROVIDER, keep(part))


def _file(part: JsonObject) -> File | None:
    """Return a file by its bytes or its address; None for one that the provider holds (`file_id`)."""
    name, url = string(part.get("filename")), string(part.get("file_url"))
    if url:
        name = name or url.partition("?")[0].rpartition("/")[2] or "file"
        return File(guess_type(name, "application/octet-stream"), name, url=url)
    return file_of_data(string(part.get("file_data")) or "", name or "file")


def read_output(item: JsonObject, owner: str = "an item") -> ToolResult:
    """Return the tool result of an output item: text, content items, or an object with a success flag around them."""
    output = item.get("output", item.get("tools"))
    wrapped = mapping(output)
    failed = wrapped is not None and wrapped.get("success") is False
    if wrapped is not None:
        output = wrapped.get("content", json_text(wrapped))
    elif "output" not in item and output is not None:
        output = json_text(output)
    content, labelled = unlabelled(result_content(read_content(output, json_text, owner)))
    call = string(item.get("call_id")) or string(item.get("id"))
    told = told_status(content)
    status = labelled if labelled != "ok" else "error" if failed and told == "ok" else told
    return ToolResult(expect_string(call, "`call_id` of an output"), content, status)


def told_status(content: tuple[Content, ...]) -> Status:
    """Return how a call ended by the words of its result alone."""
    return result_status(content, _exit_code(content) not in (None, 0))


def _exit_code(content: tuple[Content, ...]) -> int | None:
    """Return the exit code that Codex writes into a shell result: into its head, or into JSON around the output (older)."""
    text = next((item.text for item in content if isinstance(item, Text)), "")
    if text.startswith('{"output":') and '"exit_code":' in text:
        try:
            whole = fields(json.loads(text))
        except (ValueError, RecursionError):
            return None
        code = fields(whole.get("metadata")).get("exit_code")
        return code if isinstance(code, int) else None
    found = _EXIT_CODE.search(text[:_HEADER_CHARS])
    return int(found[1]) if found else None
