"""Exchanges of several rounds: random replies with calls of both kinds, spelled and streamed as each provider does."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from foveal.dialects import find_dialect
from foveal.dialects.reply_filter import ReplyFilter
from foveal.dialects.sse import SseDecoder, sse_event
from foveal.testing.provider.streams import SPOKEN
from foveal.values.own_tools import CHECKPOINT_TOOL, RECALL_TOOL, SEARCH_TOOL

OWN = (RECALL_TOOL, SEARCH_TOOL, CHECKPOINT_TOOL)
NEAR = ("read", "recall", "r", "recall_contexts", "search_contex", "_context", "checkpoint_context_2")
"""Names of a client's tools; some begin as an own name does, or go on after it."""


@dataclass(frozen=True)
class Part:
    """One part of a reply: kind `text`, `thinking` or `call`."""

    kind: str
    text: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def is_own(self) -> bool:
        return self.kind == "call" and self.text in OWN


WORDS = st.text('ab é😀\n\\"<', min_size=1, max_size=6)
SAID = st.builds(Part, st.sampled_from(["text", "thinking"]), WORDS)
ARGUMENTS = st.dictionaries(st.sampled_from(["path", "ü"]), WORDS | st.integers(0, 9), max_size=2)
OWN_CALLS = st.builds(Part, st.just("call"), st.sampled_from(OWN), ARGUMENTS)
CLIENT_CALLS = st.builds(Part, st.just("call"), st.sampled_from(NEAR), ARGUMENTS)


def _settled(parts: Sequence[Part]) -> list[Part]:
    """Return the parts without texts beside texts, which no provider sends in one reply."""
    return [part for i, part in enumerate(parts) if i == 0 or part.kind == "call" or parts[i - 1].kind != part.kind]


def _inserted(drawn: tuple[list[Part], Part, int]) -> list[Part]:
    parts, call, place = drawn
    return [*parts[:place], call, *parts[place:]]


ASKS = st.tuples(st.lists(SAID | OWN_CALLS, max_size=4), OWN_CALLS, st.integers(0, 4)).map(_inserted).map(_settled)
"""Replies after which the model is asked again."""
MIXED = st.lists(SAID | OWN_CALLS | CLIENT_CALLS, min_size=1, max_size=6).map(_settled)
PLAIN = st.lists(SAID | CLIENT_CALLS, min_size=1, max_size=6).map(_settled)
EXCHANGES = st.tuples(st.lists(ASKS, max_size=2), MIXED).map(lambda drawn: [*drawn[0], drawn[1]])


def asks_again(parts: Sequence[Part]) -> bool:
    calls = [part for part in parts if part.kind == "call"]
    return bool(calls) and all(part.is_own for part in calls)


def spell(dialect: str, parts: Sequence[Part], number: int = 0) -> dict[str, Any]:
    """Return the parts as an unstreamed reply of the provider."""
    return _SPELLED[dialect](parts, number)


def _anthropic(parts: Sequence[Part], number: int) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    for i, part in enumerate(parts):
        match part.kind:
            case "text":
                content.append({"type": "text", "text": part.text})
            case "thinking":
                content.append({"type": "thinking", "thinking": part.text, "signature": f"c2ln{number}{i}"})
            case _:
                named = {"id": f"toolu_{number}_{i}", "name": part.text, "input": part.arguments}
                content.append({"type": "tool_use", **named})
    counted = {"input_tokens": 100 + number, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 7 * number}
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": content,
        "stop_reason": "tool_use" if any(part.kind == "call" for part in parts) else "end_turn",
        "stop_sequence": None,
        "usage": {**counted, "output_tokens": 5 + number},
    }


def _responses(parts: Sequence[Part], number: int) -> dict[str, Any]:
    output: list[dict[str, Any]] = []
    for i, part in enumerate(parts):
        name = f"{number}_{i}"
        match part.kind:
            case "text":
                content = [{"type": "output_text", "text": part.text, "annotations": [], "logprobs": []}]
                head = {"id": f"msg_{name}", "type": "message", "status": "completed", "role": "assistant"}
                output.append({**head, "content": content})
            case "thinking":
                summary = [{"type": "summary_text", "text": part.text}]
                output.append(
                    {"id": f"rs_{name}", "type": "reasoning", "summary": summary, "encrypted_content": "c2ln"}
                )
            case _:
                head = {"id": f"fc_{name}", "type": "function_call", "status": "completed", "call_id": f"call_{name}"}
                output.append({**head, "name": part.text, "arguments": json.dumps(part.arguments)})
    usage = {
        "input_tokens": 100 + number,
        "input_tokens_details": {"cached_tokens": 7 * number, "cache_write_tokens": 0},
        "output_tokens": 5 + number,
        "output_tokens_details": {"reasoning_tokens": number},
        "total_tokens": 105 + 2 * number,
    }
    tools = [{"type": "function", "name": name, "parameters": {}, "strict": False} for name in ("read", *OWN)]
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000 + number,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": "gpt",
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": tools if any(part.is_own for part in parts) else tools[:1],
        "top_p": 1.0,
        "usage": usage,
    }


def _chat(parts: Sequence[Part], number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    for key, kind in (("reasoning_content", "thinking"), ("content", "text")):
        if text := "".join(part.text for part in parts if part.kind == kind):
            message[key] = text
    calls = [
        {"id": f"call_{number}_{i}", "type": "function", "function": {"name": part.text, "arguments": arguments}}
        for i, part in enumerate(parts)
        if part.kind == "call"
        for arguments in (json.dumps(part.arguments),)
    ]
    if calls:
        message["tool_calls"] = calls
    usage = {
        "prompt_tokens": 100 + number,
        "completion_tokens": 5 + number,
        "total_tokens": 105 + 2 * number,
        "prompt_tokens_details": {"cached_tokens": 7 * number},
        "completion_tokens_details": {"reasoning_tokens": number},
    }
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1_700_000_000 + number,
        "model": "gpt",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
        "usage": usage,
    }


def _gemini(parts: Sequence[Part], number: int) -> dict[str, Any]:
    spelled: list[dict[str, Any]] = []
    for i, part in enumerate(parts):
        match part.kind:
            case "text":
                spelled.append({"text": part.text})
            case "thinking":
                spelled.append({"text": part.text, "thought": True})
            case _:
                call = {"id": f"fc_{number}_{i}", "name": part.text, "args": part.arguments}
                spelled.append({"functionCall": call, "thoughtSignature": "c2ln"})
    usage = {
        "promptTokenCount": 100 + number,
        "cachedContentTokenCount": 7 * number,
        "candidatesTokenCount": 5 + number,
        "thoughtsTokenCount": number,
        "candidatesTokensDetails": [{"modality": "TEXT", "tokenCount": 5 + number}],
        "totalTokenCount": 105 + 3 * number,
    }
    candidate = {"content": {"role": "model", "parts": spelled}, "finishReason": "STOP", "index": 0}
    return {"candidates": [candidate], "modelVersion": "gemini", "responseId": f"r{number}", "usageMetadata": usage}


_SPELLED = {
    "openai_chat": _chat,
    "openai_responses": _responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
}


def stream(dialect: str, reply: dict[str, Any]) -> list[bytes]:
    """Return the events of a reply as bytes."""
    events = SPOKEN[dialect](reply)
    return [sse_event(data.encode() if isinstance(data, str) else dump(data), name).raw for name, data in events]


def dump(data: object) -> bytes:
    return json.dumps(data, ensure_ascii=False).encode()


def split_names(events: Iterable[bytes], at: int) -> list[bytes]:
    """Return the chunks of OpenAI Chat with the name of every call in two of them."""
    split: list[bytes] = []
    for event in events:
        [decoded] = SseDecoder().feed(event)
        chunk = json.loads(decoded.data or b"") if decoded.data != b"[DONE]" else {}
        calls = [call for choice in chunk.get("choices", ()) for call in choice["delta"].get("tool_calls", ())]
        name = calls[0]["function"].get("name") if calls else None
        if not name:
            split.append(event)
            continue
        calls[0]["function"]["name"] = name[:at]
        split.append(decoded.with_data(dump(chunk)).raw)
        chunk["choices"][0]["delta"] = {"tool_calls": [{"index": calls[0]["index"], "function": {"name": name[at:]}}]}
        split.append(decoded.with_data(dump(chunk)).raw)
    return split


def in_pieces(data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """Return the bytes cut into pieces of these sizes, in turn."""
    pieces: list[bytes] = []
    start, turn = 0, 0
    while start < len(data):
        size = sizes[turn % len(sizes)]
        pieces.append(data[start : start + size])
        start, turn = start + size, turn + 1
    return pieces


def new_filter(dialect: str, own: Iterable[str] = OWN, *, wants_usage: bool = True) -> ReplyFilter:
    request = {"stream": True, "stream_options": {"include_usage": True}} if wants_usage else {"stream": True}
    return ReplyFilter(find_dialect(dialect).reader, frozenset(own), request)


def run(seen: ReplyFilter, pieces: Iterable[bytes]) -> bytes:
    """Return the bytes that the client gets of one round, its end included."""
    decoder = SseDecoder()
    sent: list[bytes] = []
    for piece in pieces:
        sent.extend(shown.raw for event in decoder.feed(piece) for shown in seen.feed(event))
    sent.extend(shown.raw for event in decoder.end() for shown in seen.feed(event))
    sent.extend(shown.raw for shown in seen.end_round().events)
    return b"".join(sent)


def decoded(data: bytes) -> list[dict[str, Any]]:
    """Return the JSON objects of a stream."""
    decoder = SseDecoder()
    events = [*decoder.feed(data), *decoder.end()]
    return [json.loads(event.data) for event in events if event.data and event.data != b"[DONE]"]
