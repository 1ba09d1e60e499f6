"""Anthropic Messages, written, with cache breakpoints.

Three of the four allowed breakpoints are used: after the tools and the system prompt, which never change; where the previous
call's prompt ended, so that its cache entry is found however many blocks the last turn added; and at the end, for the next call.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from foveal.dialects.anthropic import rules
from foveal.dialects.anthropic.filter import AnthropicFilter
from foveal.dialects.anthropic.read import NAME, read_reply, read_request
from foveal.dialects.anthropic.stream import AnthropicStream
from foveal.dialects.media import MediaLimits, base64_text
from foveal.dialects.opaque import verbatim
from foveal.dialects.port import CannotSay, Dialect, RequestOptions, ToolSpec, Wire, WireReader
from foveal.dialects.tools import hosted_by
from foveal.dialects.turns import BEGIN, CONTINUE, join_turns, label_system
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

_BREAKPOINT = {"type": "ephemeral"}


class Anthropic:
    """The dialect of Anthropic's Messages API."""

    name = NAME
    problems = staticmethod(rules.problems)
    tool_name = staticmethod(sent_name)
    reader = WireReader(read_reply, read_request, AnthropicStream, AnthropicFilter)
    # 5 MB of base64 and 8 000 pixels a side for an image; documents are PDF or plain text.
    media = MediaLimits(
        image_bytes=5 * 1024 * 1024 * 3 // 4,
        side_px=8_000,
        files=("application/pdf", "text/plain"),
        file_urls=("application/pdf",),
    )

    def hides(self, part: Part, writer: str | None, model: str) -> str:
        match part:
            case Thinking(_, signature) if not (signature or "").strip():
                return "thinking without a signature"
            case Thinking(text, signature) if sendable(text) != text or sendable(signature or "") != signature:
                return "signed thinking that holds what cannot be sent; it may not be mended"
            case RedactedThinking(data) if not data or sendable(data) != data:
                return "redacted thinking without data"
            case Thinking() | RedactedThinking() if writer != model:
                return f"thinking of {writer or 'an unknown model'}, which {model} cannot verify"
            case Text(text, signature) if signature and not text.strip():
                return "a signature of another format, without text"
            case Opaque(provider) if provider != "anthropic":
                return f"a part of {provider}'s own format"
            case Opaque() if writer != model:
                return f"a part of {writer or 'an unknown model'}, which {model} may not accept"
            case Opaque() if _has_a_kind_of_its_own(verbatim(part)):
                return "a block that is sent only as a part of its own kind"
            case _:
                return ""

    def signs(self, part: Part) -> bool:
        return isinstance(part, Thinking)

    def chunk(self, messages: Sequence[Message]) -> list[Wire]:
        wires: list[Wire] = []
        for message in messages:
            match message.role:
                case "assistant":
                    wires.append({"role": "assistant", "content": _reply_blocks(message.parts)})
                case "tool":
                    wires.append({"role": "user", "content": _result_blocks(message.parts)})
                case _:
                    wires.append({"role": "user", "content": [_content(part) for part in label_system(message)]})
        return wires

    def join(self, wires: list[Wire], chunk: Sequence[Wire]) -> None:
        join_turns(wires, chunk, "content", begin=_user_text(BEGIN), go_on=_user_text(CONTINUE))

    def request(
        self, ask: RequestOptions, lead: Sequence[Message], wires: list[Wire], tail: Sequence[Wire] = ()
    ) -> dict[str, Any]:
        messages = list(wires)
        if not tail and (not messages or messages[-1]["role"] == "assistant"):
            messages.append(_user_text(CONTINUE))
        if messages:  # the tail, joined below, is never marked
            _mark_breakpoints(messages)
        self.join(messages, tail)
        request: dict[str, Any] = {"model": ask.model, "max_tokens": ask.reply_tokens, "messages": messages}
        system = [{"type": "text", "text": p.text} for m in lead for p in m.parts if isinstance(p, Text)]
        if system:
            request["system"] = [*system[:-1], system[-1] | {"cache_control": _BREAKPOINT}]
        if ask.tools:
            tools = [_tool(spec) for spec in ask.tools]
            request["tools"] = tools if system else [*tools[:-1], tools[-1] | {"cache_control": _BREAKPOINT}]
        return request


def _user_text(text: str) -> Wire:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def _reply_blocks(parts: Sequence[Part]) -> list[Wire]:
    blocks: list[Wire] = []
    for part in parts:
        match part:
            case Thinking(text, signature):
                blocks.append({"type": "thinking", "thinking": text, "signature": signature})
            case RedactedThinking(data):
                blocks.append({"type": "redacted_thinking", "data": data})
            case ToolCall(call_id, name, arguments):
                value = msgspec.json.decode(arguments, type=dict[str, Any])
                blocks.append({"type": "tool_use", "id": call_id, "name": name, "input": value})
            case Text(text):
                blocks.append({"type": "text", "text": text.rstrip()})
            case Opaque():
                blocks.append(verbatim(part))
            case _:
                raise CannotSay(f"a reply cannot hold a {type(part).__name__}")
    return blocks


def _has_a_kind_of_its_own(block: Wire) -> bool:
    """Return whether a kept block is not sent as it is: calls, results and thinking have parts of their own."""
    kind = block.get("type")
    is_blank = kind == "text" and not str(block.get("text") or "").strip()
    return is_blank or kind in (None, "tool_use", "tool_result", "thinking", "redacted_thinking")


def _result_blocks(parts: Sequence[Part]) -> list[Wire]:
    """Return all results first, in one message, and after them the media of failed ones, whose results may hold text only."""
    results: list[Wire] = []
    after: list[Wire] = []
    for part in parts:
        if not isinstance(part, ToolResult):
            continue
        contents = [_content(item) for item in part.content]
        if part.status != "ok":
            after.extend(block for block in contents if block["type"] != "text")
            contents = [block for block in contents if block["type"] == "text"]
        block: Wire = {"type": "tool_result", "tool_use_id": part.call}
        if contents:
            block["content"] = contents
        if part.status != "ok":
            block["is_error"] = True
        results.append(block)
    return results + after


def _content(part: Part) -> Wire:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Image(media_type, data, url):
            if data:
                return {"type": "image", "source": _bytes(media_type, part)}
            return {"type": "image", "source": {"type": "url", "url": url}}
        case File(media_type, name, data, url) if media_type == "application/pdf" and (data or url):
            source = _bytes(media_type, part) if data else {"type": "url", "url": url}
            return {"type": "document", "source": source, "title": name}
        case File("text/plain", name, data) if data:
            source = {"type": "text", "media_type": "text/plain", "data": data.decode("utf-8", "replace")}
            return {"type": "document", "source": source, "title": name}
        case File(media_type, name):
            raise CannotSay(f"the file {name} ({media_type}) is neither PDF nor plain text")
        case Opaque():
            return verbatim(part)
        case _:
            raise CannotSay(f"a {type(part).__name__} has no place in this message")


def _bytes(media_type: str, item: Image | File) -> Wire:
    return {"type": "base64", "media_type": media_type, "data": base64_text(item)}


def _mark_breakpoints(messages: list[Wire]) -> None:
    """Mark the end, and the end of the previous call's prompt (the message before the last reply)."""
    replies = [
        i for i in range(len(messages) - 1, max(-1, len(messages) - 4), -1) if messages[i]["role"] == "assistant"
    ]
    for i in {len(messages) - 1, *(reply - 1 for reply in replies[:1] if reply > 0)}:
        content = messages[i]["content"]
        if content[-1]["type"] in ("thinking", "redacted_thinking"):
            continue  # takes no mark, and ends a message only where no other follows
        marked = content[-1] | {"cache_control": _BREAKPOINT}
        messages[i] = {"role": messages[i]["role"], "content": [*content[:-1], marked]}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    if (hosted := hosted_by(spec, NAME)) is not None:
        return hosted
    schema = {"type": "object"} | spec.parameters
    tool = {"name": spec.name, "description": spec.description, "input_schema": schema, "strict": spec.strict}
    return {key: value for key, value in tool.items() if value}


DIALECT: Dialect = Anthropic()
