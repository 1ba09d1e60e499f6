"""OpenAI Chat Completions, written, for OpenAI and the many servers that speak it.

Servers of thinking models add fields of their own to a reply and want them back with the next request: `reasoning_content`
(DeepSeek, Kimi, GLM), `reasoning_details` (OpenRouter), `extra_content` (Gemini's compatible endpoint). They go to the model
that wrote them and to no other: OpenAI's own models never write them, and other servers refuse them.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from foveal.dialects.content import labelled, result_status
from foveal.dialects.media import MediaLimits, write_data_url
from foveal.dialects.opaque import verbatim
from foveal.dialects.openai_chat import rules
from foveal.dialects.openai_chat.filter import ChatFilter
from foveal.dialects.openai_chat.read import NAME, read_reply, read_request
from foveal.dialects.openai_chat.stream import ChatStream
from foveal.dialects.port import CannotSay, Dialect, RequestOptions, Wire, WireReader
from foveal.dialects.rules import RequestProblem
from foveal.dialects.tools import chat_form, hosted_by
from foveal.text.tool_names import sent_name
from foveal.values.codec import sendable
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

MOST_CALLS = 128
IMAGES_OF_RESULTS = "[images of the results above]"
_SENT_BACK = ("reasoning_details", "extra_content")
"""Fields of a reply without a part of their own that its server wants back."""


class OpenAIChat:
    """The dialect of OpenAI's Chat Completions API."""

    name = NAME
    reader = WireReader(read_reply, read_request, ChatStream, ChatFilter)
    media = MediaLimits()
    tool_name = staticmethod(sent_name)

    def hides(self, part: Part, writer: str | None, model: str) -> str:
        match part:
            case RedactedThinking() | Thinking(_, str()):
                return "the chat format has no place for signed thinking"
            case Thinking(text) if sendable(text) != text:
                return "thinking that holds what cannot be sent"
            case Thinking() if writer != model:
                return f"thinking of {writer or 'an unknown model'}, which only that model gets back"
            case Opaque(provider) if provider != NAME:
                return f"a part of {provider}'s own format"
            case Opaque() if writer != model:
                return f"fields of {writer or 'an unknown model'}, which only that model gets back"
            case Opaque() if not any(verbatim(part).get(key) for key in _SENT_BACK):
                return "fields of a reply that are not sent back"
            case Text(text, signature) if signature and not text.strip():
                return "a signature of another format, without text"
            case _:
                return ""

    def signs(self, part: Part) -> bool:
        return False

    def chunk(self, messages: Sequence[Message]) -> list[Wire]:
        wires: list[Wire] = []
        for message in _in_batches(messages):
            match message.role:
                case "assistant":
                    wires.extend(_assistant(message))
                case "tool":
                    wires.extend(_results(message))
                case role:
                    wires.append({"role": role, "content": _content(message.parts)})
        return wires

    def join(self, wires: list[Wire], chunk: Sequence[Wire]) -> None:
        wires.extend(chunk)

    def request(
        self, ask: RequestOptions, lead: Sequence[Message], wires: list[Wire], tail: Sequence[Wire] = ()
    ) -> dict[str, Any]:
        messages = [*self.chunk(lead), *wires]
        self.join(messages, tail)
        request: dict[str, Any] = {"model": ask.model, "messages": messages}
        if ask.tools:
            request["tools"] = [hosted_by(spec, NAME) or chat_form(spec) for spec in ask.tools]
        if ask.cache_key:
            request["prompt_cache_key"] = ask.cache_key
        return request

    def problems(self, request: Mapping[str, Any], since: int) -> list[RequestProblem]:
        lead = next((i for i, wire in enumerate(request["messages"]) if wire["role"] != "system"), 0)
        return rules.problems(request, since + lead if since else 0)


def _in_batches(messages: Sequence[Message]) -> Iterator[Message]:
    """Yield the messages with at most `MOST_CALLS` calls each: more of them are several replies, each with its results."""
    calls = [part for message in messages for part in message.parts if isinstance(part, ToolCall)]
    if len(calls) <= MOST_CALLS:
        yield from messages
        return
    reply, results = messages
    said = tuple(part for part in reply.parts if not isinstance(part, ToolCall))
    for start in range(0, len(calls), MOST_CALLS):
        batch = slice(start, start + MOST_CALLS)
        yield msgspec.structs.replace(reply, parts=(*said, *calls[batch]))
        yield msgspec.structs.replace(results, parts=results.parts[batch])
        said = ()


def _assistant(message: Message) -> Iterator[Wire]:
    """Yield the reply. Reasoning that no text and no call follows any more is left out: it would be refused."""
    if strange := next((part for part in message.parts if isinstance(part, Image | File | RedactedThinking)), None):
        raise CannotSay(f"a reply cannot hold a {type(strange).__name__}")
    texts = [part.text for part in message.parts if isinstance(part, Text)]
    calls = [part for part in message.parts if isinstance(part, ToolCall)]
    if not texts and not calls:
        return
    wire: Wire = {"role": "assistant", "content": "\n\n".join(texts) if texts else None}
    if thoughts := [part.text for part in message.parts if isinstance(part, Thinking)]:
        wire["reasoning_content"] = "\n\n".join(thoughts)
    for part in message.parts:
        if isinstance(part, Opaque):
            wire |= {key: value for key, value in verbatim(part).items() if key in _SENT_BACK and value}
    if calls:
        wire["tool_calls"] = [_call(call) for call in calls]
    yield wire


def _call(call: ToolCall) -> Wire:
    wire: Wire = {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
    if call.signature:  # of the model that is asked: the renderer takes those of others off
        wire["extra_content"] = {"google": {"thought_signature": call.signature}}
    return wire


def _results(message: Message) -> list[Wire]:
    """Return the tool messages of the results. They hold text only, so images follow in a message of the user."""
    wires: list[Wire] = []
    media: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            content = labelled(part, result_status(part.content, is_error=False))
            texts = [item.text for item in content if isinstance(item, Text)]
            media.extend(item for item in content if isinstance(item, Image | File))
            wires.append({"role": "tool", "tool_call_id": part.call, "content": "\n".join(texts) or "[see below]"})
    if media:
        wires.append({"role": "user", "content": _content((Text(IMAGES_OF_RESULTS), *media))})
    return wires


def _content(parts: Sequence[Part]) -> str | list[Wire]:
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [_part(part) for part in parts]


def _part(part: Part) -> Wire:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Image():
            return {"type": "image_url", "image_url": {"url": write_data_url(part)}}
        case File(media_type, name, data) if data and media_type == "application/pdf":
            return {"type": "file", "file": {"filename": name, "file_data": write_data_url(part)}}
        case File(media_type, name):
            raise CannotSay(f"the file {name} ({media_type}) can only be sent as PDF bytes")
        case _:
            raise CannotSay(f"a {type(part).__name__} has no place in a {type(part).__name__.lower()} message")


DIALECT: Dialect = OpenAIChat()
