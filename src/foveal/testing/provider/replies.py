"""Answers of a scripted provider, written once and spelled in the format of each provider."""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Literal

SEAL = b64encode(bytes(range(256))).decode("ascii")
"""Signature of a reply's thinking: every byte value, so that both letters that base64 alphabets differ in occur."""

OTHER_SEAL = b64encode(bytes(range(255, -1, -1))).decode("ascii")


@dataclass(frozen=True)
class Call:
    """A tool call of a reply."""

    id: str
    name: str = "read"
    arguments: dict[str, Any] | str = field(default_factory=lambda: {"path": "a.py"})
    """A text is the input of a tool that takes no JSON."""
    namespace: str = ""
    """Namespace of the tool, where the format knows them (Responses)."""


@dataclass(frozen=True)
class Turn:
    """One reply of the model."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    seal: str = SEAL
    counted: int | None = None
    """Size of the prompt as the usage reports it; None for the provider's own count."""
    cached: int | None = None
    """Tokens of the prompt that the usage reports as read from the cache; None for the model of the cache."""
    written: int = 0
    """Tokens that the usage reports as written to the cache, where `cached` is given."""
    delay_s: float = 0.0
    """Seconds before the answer begins."""
    cut_after: int | None = None
    """Break the connection after this many events of a stream, or in the middle of an unstreamed reply."""
    stall_after: int | None = None
    """Send nothing more after this many events of a stream, and keep the connection open."""
    stall_s: float | None = None
    """Seconds after which a stalled stream goes on; None for never."""
    stall_until: Event | None = None
    """Goes on with a stalled stream when it is set, however long that takes."""
    ping_s: float = 0.0
    """Seconds between the pings of a stalled stream; 0 for none."""
    ends: Literal["whole", "length", "filter"] = "whole"
    """Why the reply ends: all is said, the limit of tokens is reached, or the content was filtered."""
    fails: "Refusal | TooLong | None" = None
    """Error with which the stream ends, as an event, after `cut_after` events (two where it is None)."""

    @property
    def is_whole(self) -> bool:
        """Whether all of the reply is sent."""
        is_stuck = self.stall_after is not None and self.stall_s is None and self.stall_until is None
        return self.cut_after is None and self.fails is None and not is_stuck


@dataclass(frozen=True)
class Refusal:
    """An error, worded as the provider words it."""

    status: int
    message: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    code: str | None = None


@dataclass(frozen=True)
class TooLong:
    """A refusal because the prompt is longer than the model's window."""

    limit: int
    counted: int | None = None
    """Size of the prompt in the provider's words; None for one that is a tenth over the limit."""

    def refusal(self, dialect: str) -> Refusal:
        """Return the refusal in the words of this provider."""
        counted = self.counted if self.counted is not None else self.limit * 11 // 10
        match dialect:
            case "anthropic":
                return Refusal(400, f"prompt is too long: {counted} tokens > {self.limit} maximum")
            case "gemini":
                words = f"exceeds the maximum number of tokens allowed ({self.limit})."
                return Refusal(400, f"The input token count ({counted}) {words}")
            case "openai_responses":
                words = "Your input exceeds the context window of this model. Please adjust your input and try again."
                return Refusal(400, words, code="context_length_exceeded")
            case _:
                words = (
                    f"This model's maximum context length is {self.limit} tokens. However, your messages resulted in "
                )
                words += f"{counted} tokens. Please reduce the length of the messages."
                return Refusal(400, words, code="context_length_exceeded")


@dataclass(frozen=True)
class RawReply:
    """A status and a body, sent as they are."""

    status: int
    body: Mapping[str, Any]
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class Silence:
    """No answer, until the client hangs up or the provider stops."""


_KINDS = {
    400: ("invalid_request_error", "INVALID_ARGUMENT"),
    401: ("authentication_error", "UNAUTHENTICATED"),
    403: ("permission_error", "PERMISSION_DENIED"),
    404: ("not_found_error", "NOT_FOUND"),
    413: ("request_too_large", "INVALID_ARGUMENT"),
    426: ("invalid_request_error", "FAILED_PRECONDITION"),
    429: ("rate_limit_error", "RESOURCE_EXHAUSTED"),
    529: ("overloaded_error", "UNAVAILABLE"),
}


def spell_refusal(dialect: str, refusal: Refusal) -> dict[str, Any]:
    """Return the body of an error in the form of this provider."""
    kind, status = _KINDS.get(refusal.status, ("api_error", "INTERNAL"))
    match dialect:
        case "anthropic":
            return {"type": "error", "error": {"type": kind, "message": refusal.message}}
        case "gemini":
            return {"error": {"code": refusal.status, "message": refusal.message, "status": status}}
        case _:
            return {"error": {"message": refusal.message, "type": kind, "param": None, "code": refusal.code}}


def chat(turn: Turn, model: str, number: int, counted: int) -> dict[str, Any]:
    """Return the reply as OpenAI Chat spells it."""
    message: dict[str, Any] = {"role": "assistant", "content": turn.text or None, "refusal": None, "annotations": []}
    if turn.thinking:
        message["reasoning_content"] = turn.thinking
    if turn.calls:
        message["tool_calls"] = [_chat_call(call) for call in turn.calls]
    finish = {"length": "length", "filter": "content_filter"}.get(turn.ends) or ("tool_calls" if turn.calls else "stop")
    usage = {
        "prompt_tokens": counted,
        "completion_tokens": 7,
        "total_tokens": counted + 7,
        "prompt_tokens_details": {"cached_tokens": turn.cached or 0, "audio_tokens": 0},
    }
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": f"{model}-2026-01-01",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": finish}],
        "usage": usage,
    }


def _chat_call(call: Call) -> dict[str, Any]:
    if isinstance(call.arguments, str):
        return {"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}}
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def responses(turn: Turn, model: str, number: int, counted: int) -> dict[str, Any]:
    """Return the reply as OpenAI Responses spells it."""
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
        content: list[dict[str, Any]] = [{"type": "output_text", "text": turn.text, "annotations": [], "logprobs": []}]
        output.append(
            {"id": f"msg_{number}", "type": "message", "status": "completed", "role": "assistant", "content": content}
        )
    output.extend(_responses_call(call, f"{number}_{i}") for i, call in enumerate(turn.calls))
    usage = {
        "input_tokens": counted,
        "input_tokens_details": {"cached_tokens": turn.cached or 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counted + 7,
    }
    return responses_body(output, model, number) | _incomplete(turn) | {"usage": usage}


def _incomplete(turn: Turn) -> dict[str, Any]:
    if turn.ends == "whole":
        return {}
    reason = "max_output_tokens" if turn.ends == "length" else "content_filter"
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}


def _responses_call(call: Call, number: str) -> dict[str, Any]:
    shared = {"status": "completed", "call_id": call.id, "name": call.name}
    if isinstance(call.arguments, str):
        return {"id": f"ctc_{number}", "type": "custom_tool_call", **shared, "input": call.arguments}
    item = {"id": f"fc_{number}", "type": "function_call", **shared, "arguments": json.dumps(call.arguments)}
    return item | ({"namespace": call.namespace} if call.namespace else {})


def responses_body(output: list[dict[str, Any]], model: str, number: int = 0) -> dict[str, Any]:
    """Return the body of a reply of OpenAI Responses with this content."""
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
    """Return the reply as Anthropic Messages spells it."""
    content: list[dict[str, Any]] = []
    if turn.thinking:
        content.append({"type": "thinking", "thinking": turn.thinking, "signature": turn.seal})
        content.append({"type": "redacted_thinking", "data": OTHER_SEAL})
    if turn.text:
        content.append({"type": "text", "text": turn.text, "citations": None})
    content.extend({"type": "tool_use", "id": c.id, "name": c.name, "input": _object(c)} for c in turn.calls)
    usage = {
        "input_tokens": counted - (turn.cached or 0) - turn.written,
        "cache_read_input_tokens": turn.cached or 0,
        "cache_creation_input_tokens": turn.written,
        "output_tokens": 7,
    }
    stop = {"length": "max_tokens", "filter": "refusal"}.get(turn.ends) or ("tool_use" if turn.calls else "end_turn")
    return anthropic_body(content, model, number) | {"stop_reason": stop, "usage": usage}


def anthropic_body(content: list[dict[str, Any]], model: str, number: int = 0) -> dict[str, Any]:
    """Return the body of a reply of Anthropic Messages with this content."""
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


def _object(call: Call) -> dict[str, Any]:
    """Return the arguments for a format in which they are always an object."""
    return {"input": call.arguments} if isinstance(call.arguments, str) else call.arguments


def gemini(turn: Turn, model: str, number: int, counted: int) -> dict[str, Any]:
    """Return the reply as Gemini spells it."""
    parts: list[dict[str, Any]] = []
    # Gemini 3 signs its calls whether or not it shows its thinking, and refuses them without the signature.
    is_sealed = bool(turn.thinking) or (bool(turn.calls) and "gemini-3" in model)
    sealed = {"thoughtSignature": turn.seal} if is_sealed else {}
    if turn.thinking:
        parts.append({"text": turn.thinking, "thought": True})
    if turn.text:
        parts.append({"text": turn.text} | ({} if turn.calls else sealed))
    for i, call in enumerate(turn.calls):
        named = {"id": call.id} if call.id else {}
        part = {"functionCall": named | {"name": call.name, "args": _object(call)}}
        parts.append(part if i else part | sealed)
    usage = {"promptTokenCount": counted, "candidatesTokenCount": 5, "thoughtsTokenCount": 2}
    if turn.cached:
        usage["cachedContentTokenCount"] = turn.cached
    body = gemini_body(parts, model, number)
    body["candidates"][0]["finishReason"] = {"length": "MAX_TOKENS", "filter": "SAFETY"}.get(turn.ends, "STOP")
    return body | {"usageMetadata": usage | {"totalTokenCount": counted + 7}}


def gemini_body(parts: list[dict[str, Any]], model: str, number: int = 0) -> dict[str, Any]:
    """Return the body of a reply of Gemini with this content."""
    candidate = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "modelVersion": f"{model}-001", "responseId": f"r{number}"}


SPELLED: dict[str, Callable[[Turn, str, int, int], dict[str, Any]]] = {
    "openai_chat": chat,
    "openai_responses": responses,
    "anthropic": anthropic,
    "gemini": gemini,
}
