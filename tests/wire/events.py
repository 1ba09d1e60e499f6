"""A whole reply as the events in which a provider streams it."""

import json
from collections.abc import Callable, Iterator
from typing import Any

Spoken = Iterator[tuple[str, dict[str, Any] | str]]


def chat(reply: dict[str, Any]) -> Spoken:
    message = reply["choices"][0]["message"]
    head = {key: reply[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[str, dict[str, Any]]:
        return "", head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for letter in message["content"] or "":
        yield chunk({"content": letter})
    for i, call in enumerate(message.get("tool_calls", ())):
        arguments = call["function"]["arguments"]
        yield chunk(
            {"tool_calls": [{"index": i, **call, "function": {"name": call["function"]["name"], "arguments": ""}}]}
        )
        for half in (arguments[:5], arguments[5:]):
            yield chunk({"tool_calls": [{"index": i, "function": {"arguments": half}}]})
    yield chunk({}, reply["choices"][0]["finish_reason"])
    yield "", head | {"choices": [], "usage": reply["usage"]}
    yield "", "[DONE]"


def responses(reply: dict[str, Any]) -> Spoken:
    for i, (event, shown) in enumerate((("response.created", reply | {"output": []}), ("response.completed", reply))):
        yield event, {"type": event, "sequence_number": i, "response": shown}


def anthropic(reply: dict[str, Any]) -> Spoken:
    yield "message_start", {"type": "message_start", "message": reply | {"content": [], "stop_reason": None}}
    for i, block in enumerate(reply["content"]):
        begun, deltas = _pieces(block)
        yield "content_block_start", {"type": "content_block_start", "index": i, "content_block": begun}
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": i, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": i}
    delta = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": reply["usage"]}
    yield "message_stop", {"type": "message_stop"}


def _pieces(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            return block | {"text": ""}, [{"type": "text_delta", "text": letter} for letter in block["text"]]
        case "thinking":
            thought = {"type": "thinking_delta", "thinking": block["thinking"]}
            signed = {"type": "signature_delta", "signature": block["signature"]}
            return block | {"thinking": "", "signature": ""}, [thought, signed]
        case "tool_use":
            text = json.dumps(block["input"])
            pieces = [{"type": "input_json_delta", "partial_json": part} for part in (text[:5], text[5:])]
            return block | {"input": {}}, pieces
        case _:
            return block, []


SPOKEN: dict[str, Callable[[dict[str, Any]], Spoken]] = {
    "openai_chat": chat,
    "openai_responses": responses,
    "anthropic": anthropic,
}
