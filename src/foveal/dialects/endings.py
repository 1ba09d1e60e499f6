"""Why a provider ended a reply: because the model had said all, or earlier."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from foveal.dialects.gemini.read import either
from foveal.dialects.json_values import elements, fields

ReplyEnding: TypeAlias = Literal["whole", "length", "filter", "broken"]
"""`length`: at the limit of tokens, wherever that was, or paused to be gone on with. `filter`: by a rule of the provider's about
its content. `broken`: by a failure of the provider's, or in a call that it could not read."""

_LENGTH = (
    "length",
    "max_tokens",
    "max_output_tokens",
    "model_context_window_exceeded",
    "pause_turn",
    "MAX_TOKENS",
)
_FILTER = (
    "content_filter",
    "refusal",
    "SAFETY",
    "RECITATION",
    "BLOCKLIST",
    "PROHIBITED_CONTENT",
    "SPII",
    "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT",
)
_BROKEN = (
    "error",  # OpenRouter
    "insufficient_system_resource",  # DeepSeek
    "network_error",  # Z.ai
    "abort",  # SGLang
    "MALFORMED_FUNCTION_CALL",
    "UNEXPECTED_TOOL_CALL",
    "TOO_MANY_TOOL_CALLS",
    "MALFORMED_RESPONSE",
    "OTHER",
)


def reply_ending(dialect: str, body: Mapping[str, Any]) -> ReplyEnding:
    """Return why the provider ended this reply, an unstreamed one in the format of the dialect."""
    reason = _reason(dialect, body)
    if reason in _LENGTH:
        return "length"
    return "filter" if reason in _FILTER else "broken" if reason in _BROKEN else "whole"


def _reason(dialect: str, body: Mapping[str, Any]) -> object:
    match dialect:
        case "anthropic":
            return body.get("stop_reason")
        case "openai_responses":
            return fields(body.get("incomplete_details")).get("reason") if body.get("status") == "incomplete" else None
        case "gemini":
            if either(fields(either(body, "prompt_feedback")), "block_reason"):
                return "SAFETY"
            candidate = next(iter(elements(body.get("candidates"))), None)
            return either(fields(candidate), "finish_reason")
        case _:
            choice = next(iter(elements(body.get("choices"))), None)
            return fields(choice).get("finish_reason")
