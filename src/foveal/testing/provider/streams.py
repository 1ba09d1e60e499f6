"""Streams: a whole reply as the events in which its provider sends it."""

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, TypeAlias

from foveal.testing.provider.replies import Refusal, spell_refusal

MOST_PIECES = 64
"""Pieces of a text in one stream: short texts come letter by letter, and long ones do not cost an event for each letter."""

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
    for piece in _text_pieces(message["content"] or ""):
        yield chunk({"content": piece})
    for i, call in enumerate(message.get("tool_calls", ())):
        kind, told = ("custom", "input") if call["type"] == "custom" else ("function", "arguments")
        arguments = call[kind][told]
        yield chunk({"tool_calls": [{"index": i, **call, kind: {"name": call[kind]["name"], told: ""}}]})
        for half in (arguments[:5], arguments[5:]):
            yield chunk({"tool_calls": [{"index": i, kind: {told: half}}]})
    yield chunk({}, reply["choices"][0]["finish_reason"])
    yield "", head | {"choices": [], "usage": reply["usage"]}
    yield "", "[DONE]"


def responses(reply: dict[str, Any]) -> StreamEvents:
    """Yield the events of OpenAI Responses."""
    numbers = count()

    def event(kind: str, **fields: Any) -> tuple[str, dict[str, Any]]:
        return kind, {"type": kind, "sequence_number": next(numbers), **fields}

    begun: dict[str, Any] = reply | {"output": [], "status": "in_progress", "usage": None}
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for i, item in enumerate(reply["output"]):
        begun, deltas = _item_pieces(item)
        place = {"output_index": i, "item_id": item["id"]}
        yield event("response.output_item.added", output_index=i, item=begun)
        for kind, fields in deltas:
            yield event(kind, **place, **fields)
        yield event("response.output_item.done", output_index=i, item=item)
    yield event(f"response.{reply['status']}", response=reply)


def _item_pieces(item: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]:
    match item["type"]:
        case "message":
            part: dict[str, Any] = {"content_index": 0}
            empty: dict[str, Any] = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            begun = ("response.content_part.added", part | {"part": empty})
            text = item["content"][0]["text"]
            deltas: list[tuple[str, dict[str, Any]]] = [
                ("response.output_text.delta", part | {"delta": one, "logprobs": []}) for one in _text_pieces(text)
            ]
            spoken: dict[str, Any] = {"text": text, "logprobs": []}
            said = ("response.output_text.done", part | spoken)
            ended = ("response.content_part.done", part | {"part": item["content"][0]})
            return item | {"content": [], "status": "in_progress"}, [begun, *deltas, said, ended]
        case "function_call" | "custom_tool_call":
            is_custom = item["type"] == "custom_tool_call"
            kind, key = ("custom_tool_call_input", "input") if is_custom else ("function_call_arguments", "arguments")
            text = item[key]
            pieces: list[tuple[str, dict[str, Any]]] = [
                (f"response.{kind}.delta", {"delta": half}) for half in (text[:5], text[5:])
            ]
            named = {} if is_custom else {"name": item["name"]}
            pieces.append((f"response.{kind}.done", {key: text, **named}))
            return item | {key: "", "status": "in_progress"}, pieces
        case "reasoning":
            part = {"summary_index": 0}
            begun = ("response.reasoning_summary_part.added", part | {"part": {"type": "summary_text", "text": ""}})
            words = item["summary"][0]["text"]
            told = ("response.reasoning_summary_text.delta", part | {"delta": words})
            said = ("response.reasoning_summary_text.done", part | {"text": words})
            ended = ("response.reasoning_summary_part.done", part | {"part": item["summary"][0]})
            return item | {"summary": [], "encrypted_content": ""}, [begun, told, said, ended]
        case _:
            return item, []


def anthropic(reply: dict[str, Any]) -> StreamEvents:
    """Yield the events of Anthropic Messages."""
    usage = reply["usage"] | {"output_tokens": 1}  # the last event counts
    begun: dict[str, Any] = {**reply, "content": [], "stop_reason": None, "usage": usage}
    yield "message_start", {"type": "message_start", "message": begun}
    yield "ping", {"type": "ping"}
    for i, block in enumerate(reply["content"]):
        block_begun, deltas = _pieces(block)
        yield "content_block_start", {"type": "content_block_start", "index": i, "content_block": block_begun}
        for delta in deltas:
            yield "content_block_delta", {"type": "content_block_delta", "index": i, "delta": delta}
        yield "content_block_stop", {"type": "content_block_stop", "index": i}
    delta = {"stop_reason": reply["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": delta, "usage": reply["usage"]}
    yield "message_stop", {"type": "message_stop"}


def _text_pieces(text: str) -> list[str]:
    size = -(-len(text) // MOST_PIECES) or 1
    return [text[start : start + size] for start in range(0, len(text), size)]


def _halves(text: str) -> list[str]:
    return [half for half in (text[:1], text[1:]) if half]


def _pieces(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            return block | {"text": ""}, [{"type": "text_delta", "text": one} for one in _text_pieces(block["text"])]
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
    """Yield the events of Gemini: one for each piece of unsigned text and for any other part; the last has the reason."""
    candidate = reply["candidates"][0]
    pieces: list[dict[str, Any]] = []
    for part in candidate["content"]["parts"]:
        whole = "text" not in part or "thoughtSignature" in part
        pieces.extend([part] if whole else [part | {"text": one} for one in _text_pieces(part["text"])])
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


def error_event(dialect: str, refusal: Refusal, reply: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the event with which a stream of this provider tells of an error."""
    match dialect:
        case "anthropic":
            return "error", spell_refusal(dialect, refusal)
        case "openai_responses":
            code = refusal.code or {429: "rate_limit_exceeded"}.get(refusal.status, "server_error")
            error = {"code": code, "message": refusal.message}
            failed: dict[str, Any] = reply | {"status": "failed", "error": error, "output": [], "usage": None}
            return "response.failed", {"type": "response.failed", "sequence_number": 2, "response": failed}
        case _:
            return "", spell_refusal(dialect, refusal)


def ping(dialect: str) -> bytes:
    """Return a sign of life between the events of a stream."""
    match dialect:
        case "anthropic":
            return b'event: ping\ndata: {"type": "ping"}\n\n'
        case "gemini":
            return b"\n"  # its SDK takes a comment for data and fails
        case _:
            return b": ping\n\n"
