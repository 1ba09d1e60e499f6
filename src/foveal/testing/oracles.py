"""Judges of a prompt that know nothing of how it was built: is it valid, how large is it, does it continue another?"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, cast

import msgspec

from foveal.dialects.anthropic import rules as anthropic_rules
from foveal.dialects.gemini import rules as gemini_rules
from foveal.dialects.openai_chat import rules as openai_chat_rules
from foveal.dialects.openai_responses import rules as openai_responses_rules
from foveal.dialects.rules import RequestProblem
from foveal.models.counters import encoding
from foveal.text.stand_in import result_text
from foveal.values.entry import Message, Text, ToolResult
from foveal.values.prompt import Prompt

_SEALED = frozenset(
    {"signature", "thought_signature", "encrypted_content", "data", "inline_data", "image_url", "source"}
)
"""Keys of values that are not text: signatures, encrypted thought, bytes and addresses of media."""

_PIECE = 24
"""Characters of a line that are looked for: shorter ones are met by chance, longer ones are cut."""

_RULES: dict[str, Callable[[Mapping[str, Any]], list[RequestProblem]]] = {
    "openai_chat": openai_chat_rules.problems,
    "openai_responses": openai_responses_rules.problems,
    "anthropic": anthropic_rules.problems,
    "gemini": lambda request: gemini_rules.problems(request, signatures=True),
}


def problems(prompt: Prompt) -> list[RequestProblem]:
    """Return the problems for which the provider would refuse the whole request."""
    return _RULES[prompt.setup.dialect](prompt.request)


def body(prompt: Prompt) -> bytes:
    """Return the request as JSON."""
    return msgspec.json.encode(prompt.request)


def recount(prompt: Prompt) -> int:
    """Return the o200k tokens of all text in the request, with four for each message: a lower bound of the estimate."""
    request = prompt.request
    match prompt.setup.dialect:
        case "openai_chat":
            return _tools(request) + sum(map(_chat_message, request["messages"]))
        case "openai_responses":
            return _tools(request) + _count(request.get("instructions") or "") + sum(map(_item, request["input"]))
        case "anthropic":
            return (
                _tools(request) + _texts(request.get("system") or []) + sum(map(_turn("content"), request["messages"]))
            )
        case _:
            config = request["config"]
            return (
                _tools(config)
                + _count(config.get("system_instruction") or "")
                + sum(map(_turn("parts"), request["contents"]))
            )


def strings(value: object) -> Iterator[str]:
    """Yield every string of a request."""
    match value:
        case str():
            yield value
        case dict():
            for item in cast("dict[str, Any]", value).values():
                yield from strings(item)
        case list():
            for item in cast("list[Any]", value):
                yield from strings(item)
        case _:
            pass


def continues(before: Prompt, after: Prompt) -> bool:
    """Return whether everything the provider may have cached of `before` is where it was."""
    old, new = list(_blocks(before)), list(_blocks(after))
    prompts = _system(before), _system(after)
    same_head = prompts[0] == prompts[1] if old else prompts[1].startswith(prompts[0])
    return before.setup.tools == after.setup.tools and same_head and new[: len(old)] == old


def _system(prompt: Prompt) -> str:
    """Return the system prompt, wherever the dialect puts it."""
    request = prompt.request
    match prompt.setup.dialect:
        case "openai_chat":
            messages: list[dict[str, Any]] = request["messages"]
            texts = list(takewhile(lambda message: message["role"] == "system", messages))
        case "openai_responses":
            texts = request.get("instructions")
        case "anthropic":
            texts = [block["text"] for block in request.get("system") or ()]
        case _:
            texts = request["config"].get("system_instruction")
    return "\n\n".join(strings(texts))


def _blocks(prompt: Prompt) -> Iterator[tuple[str, object]]:
    """Return the conversation block by block: neighbours of one role may be merged into one message without moving anything."""
    for wire in prompt.wires:
        content = wire.get("content", wire.get("parts"))
        if prompt.setup.dialect in ("anthropic", "gemini") and isinstance(content, list):
            yield from ((wire["role"], block) for block in cast("list[object]", content))
        else:
            yield wire.get("role", ""), wire


def _count(text: str) -> int:
    return encoding("o200k_base").count(text)


def _json(value: object) -> int:
    return _count(msgspec.json.encode(value).decode())


def _tools(request: Mapping[str, Any]) -> int:
    tools = [{k: v for k, v in tool.items() if k != "cache_control"} for tool in request.get("tools") or ()]
    return _json(tools) if tools else 0


def _chat_message(message: Mapping[str, Any]) -> int:
    calls = _json(_unsealed(message["tool_calls"])) if message.get("tool_calls") else 0
    thought = _count(message.get("reasoning_content") or "")
    details = sum(_json(_unsealed(message[key])) for key in ("reasoning_details", "extra_content") if message.get(key))
    return 4 + _texts(message["content"]) + calls + thought + details + _count(message.get("tool_call_id") or "")


def _item(item: Mapping[str, Any]) -> int:
    match item["type"]:
        case "message":
            return 4 + _texts(item["content"])
        case "function_call":
            return _json({key: item[key] for key in ("call_id", "name", "arguments")})
        case "function_call_output":
            return 4 + _count(item["call_id"]) + _texts(item["output"])
        case _:
            return _json(_unsealed(item))


def _turn(key: str) -> Callable[[Mapping[str, Any]], int]:
    return lambda turn: 4 + sum(map(_block, turn[key]))


def _block(block: Mapping[str, Any]) -> int:
    if block.get("type") == "tool_use":
        return _json({key: block[key] for key in ("id", "name", "input")})
    if block.get("type") == "tool_result":
        return _count(block["tool_use_id"]) + _texts(block.get("content") or [])
    if block.get("type") == "document":
        text = block["source"]["data"] if block["source"]["type"] == "text" else ""
        return _count(block["title"]) + _count(text)
    if call := block.get("function_call"):
        return _json(call)
    if response := block.get("function_response"):
        return _count(response["id"]) + _count(response["name"]) + _texts(list(response["response"].values()))
    if isinstance(text := block.get("text", block.get("thinking")), str):
        return _count(text)
    return _json(_unsealed(block)) if block.get("type") not in ("image", "redacted_thinking") else 0


def _texts(content: object) -> int:
    match content:
        case str():
            return _count(content)
        case list():
            return sum(map(_texts, cast("list[object]", content)))
        case dict():
            part = cast("dict[str, Any]", content)
            if part.get("type") == "document":
                return _block(part)
            named = part.get("filename") or cast("dict[str, Any]", part.get("file") or {}).get("filename") or ""
            return _count(part.get("text") or named)
        case _:
            return 0


def _unsealed(value: object) -> object:
    match value:
        case dict():
            return {k: _unsealed(v) for k, v in cast("dict[str, Any]", value).items() if k not in _SEALED}
        case list():
            return [_unsealed(item) for item in cast("list[Any]", value)]
        case _:
            return value


def unseen_hidden(prompt: Prompt, *, unseen: Sequence[Message]) -> list[str]:
    """Return the results and requests that the model has not seen yet and of which this prompt shows nothing but a reference.

    `unseen` are the messages since the model's last reply, as they were recorded. A text is shown if a piece of a line is.
    """
    sent = _without_blanks("\n".join(strings(prompt.request)))
    texts = [
        (message.role, text)
        for message in unseen
        for part in message.parts
        for text in (
            [part.text] if isinstance(part, Text) else [result_text(part)] if isinstance(part, ToolResult) else []
        )
    ]
    return [f"{role}: {text[:80]!r}" for role, text in texts if text.strip() and not _is_seen(text, sent)]


def _is_seen(text: str, sent: str) -> bool:
    lines = [line for raw in text.splitlines() if (line := _without_blanks(raw))]
    steps = ((line, at) for line in lines for at in range(0, max(1, len(line) - _PIECE // 2), _PIECE // 2))
    return any(line[at : at + _PIECE] in sent for line, at in steps)


def _without_blanks(text: str) -> str:
    """Return the text as levels that set JSON and code anew leave it."""
    return "".join(text.split())
