"""What a model answers, written once and spelled in the format of each provider."""

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

SEAL = b64encode(bytes(range(256))).decode("ascii")
"""Stands for a signature: every byte value, so that both letters that base64 alphabets differ in occur."""

OTHER_SEAL = b64encode(bytes(range(255, -1, -1))).decode("ascii")


@dataclass(frozen=True)
class Call:
    id: str
    name: str = "read"
    arguments: dict[str, Any] = field(default_factory=lambda: {"path": "a.py"})


@dataclass(frozen=True)
class Turn:
    """One reply. `counted` is the size of the prompt as the provider reports it, `cached` the share read from its cache."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    seal: str = SEAL
    counted: int | None = None
    cached: int = 0


def read_calls(prefix: str, number: int) -> tuple[Call, ...]:
    return tuple(Call(f"{prefix}_{i}", arguments={"path": f"{prefix}/{i}.py"}) for i in range(number))


def chat(turn: Turn, model: str, number: int, counted: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None, "annotations": []}
    if turn.thinking:
        message["reasoning_content"] = turn.thinking
    if turn.calls:
        message["tool_calls"] = [
            {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": json.dumps(c.arguments)}}
            for c in turn.calls
        ]
    finish = "tool_calls" if turn.calls else "stop"
    usage = {
        "prompt_tokens": counted,
        "completion_tokens": 7,
        "total_tokens": counted + 7,
        "prompt_tokens_details": {"cached_tokens": turn.cached, "audio_tokens": 0},
    }
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": f"{model}-2026-01-01",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": usage,
    }


def responses(turn: Turn, model: str, number: int, counted: int) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    if turn.thinking:
        summary = [{"type": "summary_text", "text": turn.thinking}]
        output.append(
            {
                "id": f"rs_{number}",
                "type": "reasoning",
                "summary": summary,
                "encrypted_content": turn.seal,
                "status": None,
            }
        )
    if turn.text:
        content = [{"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}]
        output.append(
            {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant", "content": content}
        )
    output.extend(
        {
            "id": f"fc_{number}_{i}",
            "type": "function_call",
            "status": "completed",
            "call_id": call.id,
            "name": call.name,
            "arguments": json.dumps(call.arguments),
        }
        for i, call in enumerate(turn.calls)
    )
    usage = {
        "input_tokens": counted,
        "input_tokens_details": {"cached_tokens": turn.cached},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counted + 7,
    }
    return responses_body(output, model, number) | {"usage": usage}


def responses_body(output: list[dict[str, Any]], model: str, number: int = 0) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": f"{model}-2026-01-01",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
    }


def anthropic(turn: Turn, model: str, number: int, counted: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if turn.thinking:
        content.append({"type": "thinking", "thinking": turn.thinking, "signature": turn.seal})
        content.append({"type": "redacted_thinking", "data": OTHER_SEAL})
    if turn.text:
        content.append({"type": "text", "text": turn.text, "citations": None})
    content.extend({"type": "tool_use", "id": c.id, "name": c.name, "input": c.arguments} for c in turn.calls)
    usage = {
        "input_tokens": counted - turn.cached,
        "cache_read_input_tokens": turn.cached,
        "cache_creation_input_tokens": 0,
        "output_tokens": 7,
    }
    stop = "tool_use" if turn.calls else "end_turn"
    return anthropic_body(content, model, number) | {"stop_reason": stop, "usage": usage}


def anthropic_body(content: list[dict[str, Any]], model: str, number: int = 0) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": f"{model}-20260101",
        "content": content,
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 100, "output_tokens": 7},
    }


def gemini(turn: Turn, model: str, number: int, counted: int) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    sealed = {"thoughtSignature": turn.seal} if turn.thinking else {}
    if turn.thinking:
        parts.append({"text": turn.thinking, "thought": True})
    if turn.text:
        parts.append({"text": turn.text} | ({} if turn.calls else sealed))
    for i, call in enumerate(turn.calls):
        named = {"id": call.id} if call.id else {}
        part = {"functionCall": named | {"name": call.name, "args": call.arguments}}
        parts.append(part if i else part | sealed)
    usage = {"promptTokenCount": counted, "candidatesTokenCount": 5, "thoughtsTokenCount": 2}
    if turn.cached:
        usage["cachedContentTokenCount"] = turn.cached
    return gemini_body(parts, model, number) | {"usageMetadata": usage | {"totalTokenCount": counted + 7}}


def gemini_body(parts: list[dict[str, Any]], model: str, number: int = 0) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "modelVersion": f"{model}-001", "responseId": f"r{number}"}


SPELLED: dict[str, Callable[[Turn, str, int, int], dict[str, Any]]] = {
    "openai_chat": chat,
    "openai_responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
}
