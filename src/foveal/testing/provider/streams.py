"""Streams: a whole reply as the events in which its provider sends it."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, TypeAlias

StreamEvents: TypeAlias = Iterator[tuple[str, dict[str, Any] | str]]


def chat(reply: dict[str, Any]) -> StreamEvents:
    """Yield the events of OpenAI Chat."""
    message = reply["choices"][0]["message"]
    head = {key: reply[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[str, dict[str, Any]]:
        return "", head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": ""})
    for half in _halves(message.get("reasoning_content") or ""):
        yield chunk({"reasoning_content": half})
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


def responses(reply: dict[str, Any]) -> StreamEvents:
    """Yield the events of OpenAI Responses."""
    numbers = count()

    def event(kind: str, **fields: Any) -> tuple[str, dict[str, Any]]:
        return kind, {"type": kind, "sequence_number": next(numbers), **fields}

    yield event("response.created", response=reply | {"output": [], "status": "in_progress", "usage": None})
    for i, item in enumerate(reply["output"]):
        begun, deltas = _item_pieces(item)
        place = {"output_index": i, "item_id": item["id"]}
        yield event("response.output_item.added", output_index=i, item=begun)
        for kind, fields in deltas:
            yield event(kind, **place, **fields)
        yield event("response.output_item.done", output_index=i, item=item)
    yield event("response.completed", response=reply)


def _item_pieces(item: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    match item["type"]:
        case "message":
            part: dict[str, Any] = {"content_index": 0}
            empty: dict[str, Any] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            begun = ("response.content_part.added", part | {"part": empty})
            letters = item["content"][0]["text"]
            deltas: list[tuple[str, dict[str, Any]]] = [
                ("response.output_text.delta", part | {"delta": one, "logprobs": []}) for one in letters
            ]
            return item | {"content": [], "status": "in_progress"}, [begun, *deltas]
        case "function_call":
            text = item["arguments"]
            pieces = [("response.function_call_arguments.delta", {"delta": half}) for half in (text[:5], text[5:])]
            return item | {"arguments": "", "status": "in_progress"}, pieces
        case "reasoning":
            part = {"summary_index": 0}
            begun = ("response.reasoning_summary_part.added", part | {"part": {"type": "summary_text", "text": ""}})
            words = item["summary"][0]["text"]
            told = ("response.reasoning_summary_text.delta", part | {"delta": words})
            return item | {"summary": [], "encrypted_content": ""}, [begun, told]
        case _:
            return item, []


def anthropic(reply: dict[str, Any]) -> StreamEvents:
    """Yield the events of Anthropic Messages."""
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


def _halves(text: str) -> list[str]:
    return [half for half in (text[:1], text[1:]) if half]


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


def gemini(reply: dict[str, Any]) -> StreamEvents:
    """Yield the events of Gemini: one a letter of text that is not signed, one for any other part; the last has the reason."""
    candidate = reply["candidates"][0]
    pieces: list[dict[str, Any]] = []
    for part in candidate["content"]["parts"]:
        whole = "text" not in part or "thoughtSignature" in part
        pieces.extend([part] if whole else [part | {"text": letter} for letter in part["text"]])
    frame = {key: reply[key] for key in ("modelVersion", "responseId")}
    for piece in pieces:
        yield "", frame | {"candidates": [{"content": {"role": "model", "parts": [piece]}, "index": 0}]}
    last: dict[str, Any] = {
        "content": {"role": "model", "parts": []},
        "finishReason": candidate["finishReason"],
        "index": 0,
    }
    yield "", frame | {"candidates": [last], "usageMetadata": reply["usageMetadata"]}


SPOKEN: dict[str, Callable[[dict[str, Any]], StreamEvents]] = {
    "openai_chat": chat,
    "openai_responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
}
