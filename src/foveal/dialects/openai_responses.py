"""OpenAI Responses, stateless: the whole input is sent, and encrypted reasoning travels with it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from foveal.dialects import openai_responses_rules
from foveal.dialects.media import check_image, data_url
from foveal.dialects.opaque import opaque, sent, verbatim
from foveal.dialects.port import CannotSay, RequestOptions, ToolSpec, Wire
from foveal.dialects.rules import RequestProblem
from foveal.dialects.tools import hosted_by
from foveal.values.entry import (
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

_ROLES = {"user": "user", "system": "developer"}

# Where there is only a system prompt: the provider wants something to answer.
_BEGIN: Wire = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Please continue."}]}

# Models that reason. Nothing is stored at the provider, so their reasoning is lost unless every reply brings it along;
# other models refuse to be asked for it.
_REASONS = re.compile(r"(?:^|/)(?:o\d|codex|gpt-(?:[5-9]|\d\d)(?!.*-chat))")

# Calls that the host answers. They are kept and shown as calls of a function, whatever kind of tool was called.
_CLIENT_CALLS = frozenset(
    {"custom_tool_call", "local_shell_call", "shell_call", "apply_patch_call", "computer_call", "tool_search_call"}
)


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
            case Opaque() if not _stands_alone(verbatim(part)):
                return "an item that is sent only as a part of its own kind"
            case Opaque() if _is_stored_elsewhere(verbatim(part)):
                return "reasoning that came without its encrypted content; the provider has not stored it either"
            case Text(text, signature) if signature and not text.strip():
                return "a signature of another format, without text"
            case _:
                return ""

    def chunk(self, messages: Sequence[Message]) -> list[Wire]:
        return [wire for message in messages for wire in _items(message)]

    def join(self, wires: list[Wire], chunk: Sequence[Wire]) -> None:
        wires.extend(chunk)

    def request(
        self, ask: RequestOptions, lead: Sequence[Message], wires: list[Wire], tail: Sequence[Wire] = ()
    ) -> dict[str, Any]:
        items = list(wires)
        self.join(items, tail)
        request: dict[str, Any] = {"model": ask.model, "input": items or [_BEGIN], "store": False}
        texts = [part.text for message in lead for part in message.parts if isinstance(part, Text)]
        if texts:
            request["instructions"] = "\n\n".join(texts)
        if ask.tools:
            request["tools"] = [_tool(spec) for spec in ask.tools]
        if _REASONS.search(ask.model) or any(wire.get("type") == "reasoning" for wire in wires):
            request["include"] = ["reasoning.encrypted_content"]
        if ask.cache_key:
            request["prompt_cache_key"] = ask.cache_key
        return request

    def parse(self, reply: Mapping[str, Any]) -> tuple[Message, Usage | None]:
        parts = [part for item in reply["output"] for part in _parse_item(item)]
        return Message("assistant", tuple(parts), reply.get("model")), _usage(reply)

    def problems(self, request: Mapping[str, Any], since: int) -> list[RequestProblem]:
        return openai_responses_rules.problems(request, since)


def _is_stored_elsewhere(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "reasoning" and not item.get("encrypted_content")


def _stands_alone(item: Mapping[str, Any]) -> bool:
    """Whether nothing else has to be sent with it: calls want their outputs, and messages are texts of ours."""
    kind = item.get("type")
    if not isinstance(kind, str) or kind in ("message", "function_call") or kind.endswith("_output"):
        return False
    if kind == "reasoning":
        return isinstance(item.get("summary"), list)
    return kind not in _CLIENT_CALLS or not _is_ours(item)


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
    """The reply's items in order. Reasoning that nothing follows any more is left out: it would be refused.

    What the provider compacted stands for what came before, so it comes first: nothing may part a call from its output.
    """
    waiting: list[Wire] = []
    for part in sorted(parts, key=lambda part: not _is_compaction(part)):
        match part:
            case Opaque():
                item = verbatim(part)
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


def _is_compaction(part: Part) -> bool:
    return isinstance(part, Opaque) and verbatim(part).get("type") == "compaction"


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
        case File(_, name, data) if data:
            return {"type": "input_file", "filename": name, "file_data": data_url(part)}
        case File(_, _, _, url) if url:
            return {"type": "input_file", "file_url": url}
        case _:
            raise CannotSay(f"a {type(part).__name__} has no place in this message")


def _tool(spec: ToolSpec) -> dict[str, Any]:
    if (hosted := hosted_by(spec, OpenAIResponses.name)) is not None:
        return hosted
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "strict": spec.strict,
    }


def _parse_item(item: Mapping[str, Any]) -> Iterator[Part]:
    match item.get("type"):
        case "message":
            for content in item["content"]:
                yield Text(content.get("text") or content.get("refusal") or "")
        case "function_call":
            yield ToolCall(item["call_id"], item["name"], item["arguments"])
        case str(kind) if kind in _CLIENT_CALLS and isinstance(item.get("call_id"), str) and _is_ours(item):
            yield ToolCall(item["call_id"], item.get("name") or kind.removesuffix("_call"), _arguments(item))
        case _:
            yield opaque("openai", item)


def _is_ours(item: Mapping[str, Any]) -> bool:
    """Whether the host executes the call; only a search for tools may be the provider's own affair."""
    return item.get("type") != "tool_search_call" or item.get("execution") == "client"


def _arguments(item: Mapping[str, Any]) -> str:
    frame = ("type", "id", "call_id", "name", "status")
    return msgspec.json.encode(sent({key: value for key, value in item.items() if key not in frame})).decode()


def _usage(reply: Mapping[str, Any]) -> Usage | None:
    usage = reply.get("usage")
    if not usage:
        return None
    details: Mapping[str, Any] = usage.get("input_tokens_details") or {}
    return Usage(
        model=str(reply.get("model") or ""),
        input_tokens=usage.get("input_tokens") or 0,
        output_tokens=usage.get("output_tokens") or 0,
        cache_read_tokens=details.get("cached_tokens") or 0,
        cache_write_tokens=details.get("cache_write_tokens") or 0,
    )
