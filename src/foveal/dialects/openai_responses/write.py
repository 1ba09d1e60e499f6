"""OpenAI Responses, written, stateless: the whole input is sent, and encrypted reasoning travels with it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from foveal.dialects.content import labelled
from foveal.dialects.media import MediaLimits, write_data_url
from foveal.dialects.opaque import verbatim
from foveal.dialects.openai_responses import rules
from foveal.dialects.openai_responses.filter import ResponsesFilter
from foveal.dialects.openai_responses.read import (
    CLIENT_CALLS,
    NAME,
    PROVIDER,
    is_client_call,
    read_reply,
    read_request,
    told_status,
)
from foveal.dialects.openai_responses.stream import ResponsesStream
from foveal.dialects.port import CannotSay, Dialect, RequestOptions, ToolSpec, Wire, WireReader
from foveal.dialects.tools import hosted_by
from foveal.text.tool_names import sent_name
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
)

_ROLES = {"user": "user", "system": "developer"}

# The input of a request with only a system prompt: the provider wants a message to answer.
_BEGIN: Wire = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Please continue."}]}

# Models that reason. Nothing is stored at the provider, so their reasoning is lost unless every reply brings it along;
# other models refuse to be asked for it.
_REASONS = re.compile(r"(?:^|/)(?:o\d|codex|gpt-(?:[5-9]|\d\d)(?!.*-chat))")


class OpenAIResponses:
    """The dialect of OpenAI's Responses API."""

    name = NAME
    problems = staticmethod(rules.problems)
    tool_name = staticmethod(sent_name)
    reader = WireReader(read_reply, read_request, ResponsesStream, ResponsesFilter)
    # Documents, tables and source by bytes or address; archives and sounds are refused by name.
    media = MediaLimits(
        files=("application/", "text/"),
        no_files=("application/zip", "application/gzip", "application/x-"),
        file_urls=("application/", "text/"),
    )

    def hides(self, part: Part, writer: str | None, model: str) -> str:
        match part:
            case Thinking() | RedactedThinking():
                return "another provider's thinking"
            case Opaque(provider) if provider != PROVIDER:
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

    def signs(self, part: Part) -> bool:
        return False

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


def _is_stored_elsewhere(item: Mapping[str, Any]) -> bool:
    return item.get("type") == "reasoning" and not item.get("encrypted_content")


def _stands_alone(item: Mapping[str, Any]) -> bool:
    """Return whether the item can be sent alone: calls want their outputs, and messages are sent as texts."""
    kind = item.get("type")
    if not isinstance(kind, str) or kind in ("message", "function_call") or kind.endswith("_output"):
        return False
    if kind == "reasoning":
        return isinstance(item.get("summary"), list)
    return kind not in CLIENT_CALLS or not is_client_call(item)


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
    """Yield the reply's items in order. Reasoning that nothing follows any more is left out: it would be refused.

    A compaction item of the provider replaces the items before it, so it comes first: nothing may part a call from its output.
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
    content = labelled(result, told_status(result.content))
    if len(content) == 1 and isinstance(content[0], Text):
        return content[0].text
    return [_content(item) for item in content]


def _content(part: Part) -> Wire:
    match part:
        case Text(text):
            return {"type": "input_text", "text": text}
        case Image():
            return {"type": "input_image", "image_url": write_data_url(part), "detail": "auto"}
        case File(_, name, data) if data:
            return {"type": "input_file", "filename": name, "file_data": write_data_url(part)}
        case File(_, _, _, url) if url:
            return {"type": "input_file", "file_url": url}
        case Opaque():
            return verbatim(part)
        case _:
            raise CannotSay(f"a {type(part).__name__} has no place in this message")


def _tool(spec: ToolSpec) -> dict[str, Any]:
    if (hosted := hosted_by(spec, NAME)) is not None:
        return hosted
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "strict": spec.strict,
    }


DIALECT: Dialect = OpenAIResponses()
