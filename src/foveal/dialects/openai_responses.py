"""OpenAI Responses, stateless: the whole input is sent, and encrypted reasoning travels with it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec

from foveal.core.entry import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
)
from foveal.dialects import openai_responses_rules
from foveal.dialects.media import check_image, data_url
from foveal.dialects.port import Ask, CannotSay, ToolSpec, Wire
from foveal.dialects.rules import Problem

_ROLES = {"user": "user", "system": "developer"}


class OpenAIResponses:
    name = "openai_responses"

    def hides(self, part: Part, writer: str | None, model: str) -> str:
        match part:
            case Thinking() | RedactedThinking():
                return "another provider's thinking"
            case Opaque(provider) if provider != "openai":
                return f"a part of {provider}'s own format"
            case Opaque() if writer != model:
                return f"reasoning of {writer or 'an unknown model'}, which {model} cannot read"
            case _:
                return ""

    def chunk(self, messages: Sequence[Message]) -> list[Wire]:
        return [wire for message in messages for wire in _items(message)]

    def join(self, wires: list[Wire], chunk: Sequence[Wire]) -> None:
        wires.extend(chunk)

    def request(self, ask: Ask, lead: Sequence[Message], wires: list[Wire]) -> dict[str, Any]:
        request: dict[str, Any] = {"model": ask.model, "input": list(wires), "store": False}
        texts = [part.text for message in lead for part in message.parts if isinstance(part, Text)]
        if texts:
            request["instructions"] = "\n\n".join(texts)
        if ask.tools:
            request["tools"] = [_tool(spec) for spec in ask.tools]
        if any(wire.get("type") == "reasoning" for wire in wires[-64:]):
            request["include"] = ["reasoning.encrypted_content"]
        if ask.cache_key:
            request["prompt_cache_key"] = ask.cache_key
        return request

    def parse(self, reply: Mapping[str, Any]) -> tuple[Message, Usage | None]:
        parts = [part for item in reply["output"] for part in _parse_item(item)]
        return Message("assistant", tuple(parts), reply.get("model")), _usage(reply)

    def problems(self, request: Mapping[str, Any], since: int) -> list[Problem]:
        return openai_responses_rules.problems(request, since)


def _items(message: Message) -> Iterator[Wire]:
    match message.role:
        case "assistant":
            yield from _assistant(message.parts)
        case "tool":
            for part in message.parts:
                if isinstance(part, ToolResult):
                    yield {"type": "function_call_output", "call_id": part.call, "output": _output(part)}
        case role:
            yield {"type": "message", "role": _ROLES[role], "content": [_content(part) for part in message.parts]}


def _assistant(parts: Sequence[Part]) -> Iterator[Wire]:
    """The reply's items in order. Reasoning that nothing follows any more is left out: it would be refused."""
    waiting: list[Wire] = []
    for part in parts:
        match part:
            case Opaque(_, json):
                item = msgspec.json.decode(json, type=dict[str, Any])
                if item.get("type") == "reasoning":
                    waiting.append(item)
                else:
                    yield from (*waiting, item)
                    waiting.clear()
            case Text(text):
                yield from waiting
                waiting.clear()
                yield {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
            case ToolCall(call_id, name, arguments):
                yield from waiting
                waiting.clear()
                yield {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
            case _:
                raise CannotSay(f"a reply cannot hold a {type(part).__name__}")


def _output(result: ToolResult) -> str | list[Wire]:
    if len(result.content) == 1 and isinstance(result.content[0], Text):
        return result.content[0].text
    return [_content(item) for item in result.content]


def _content(part: Part) -> Wire:
    match part:
        case Text(text):
            return {"type": "input_text", "text": text}
        case Image():
            check_image(part)
            return {"type": "input_image", "image_url": data_url(part), "detail": "auto"}
        case File(_, name, data, url) if data or url:
            return {"type": "input_file", "filename": name, "file_data": data_url(part)}
        case _:
            raise CannotSay(f"a {type(part).__name__} has no place in this message")


def _tool(spec: ToolSpec) -> dict[str, Any]:
    if spec.hosted is not None:
        return spec.hosted
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "strict": False,
    }


def _parse_item(item: Mapping[str, Any]) -> Iterator[Part]:
    match item.get("type"):
        case "message":
            for content in item["content"]:
                yield Text(content.get("text") or content.get("refusal") or "")
        case "function_call":
            yield ToolCall(item["call_id"], item["name"], item["arguments"])
        case _:
            known = {key: value for key, value in cast("dict[str, Any]", item).items() if value is not None}
            yield Opaque("openai", msgspec.json.encode(known).decode())


def _usage(reply: Mapping[str, Any]) -> Usage | None:
    usage = reply.get("usage")
    if not usage:
        return None
    details = usage.get("input_tokens_details") or {}
    return Usage(
        model=str(reply.get("model") or ""),
        input_tokens=usage.get("input_tokens") or 0,
        output_tokens=usage.get("output_tokens") or 0,
        cache_read_tokens=details.get("cached_tokens") or 0,
        cache_write_tokens=details.get("cache_write_tokens") or 0,
    )
