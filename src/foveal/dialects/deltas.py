"""Words in the events of a streamed reply, for those who show them as they come; and requests that allow no more calls."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from foveal.dialects.json_values import fields, sequence


class SpokenDelta(NamedTuple):
    """The words that one event adds to a reply."""

    text: str = ""
    thinking: str = ""


_NOTHING = SpokenDelta()
_THINKING_EVENTS = ("response.reasoning_text.delta", "response.reasoning_summary_text.delta")


def spoken(dialect: str, event: Mapping[str, Any]) -> SpokenDelta:
    """Return the words of an event in the format of this dialect; both are empty for events of any other kind."""
    match dialect:
        case "anthropic":
            delta = fields(event.get("delta") if event.get("type") == "content_block_delta" else None)
            return SpokenDelta(_text(delta.get("text")), _text(delta.get("thinking")))
        case "openai_responses":
            words, kind = _text(event.get("delta")), event.get("type")
            if kind in ("response.output_text.delta", "response.refusal.delta"):
                return SpokenDelta(words)
            return SpokenDelta("", words) if kind in _THINKING_EVENTS else _NOTHING
        case "gemini":
            candidates = sequence(event.get("candidates")) or ()
            content = fields(fields(candidates[0] if candidates else None).get("content"))
            parts = [fields(part) for part in sequence(content.get("parts")) or ()]
            said = "".join(_text(part.get("text")) for part in parts if not part.get("thought"))
            return SpokenDelta(said, "".join(_text(part.get("text")) for part in parts if part.get("thought")))
        case _:
            choices = [fields(one) for one in sequence(event.get("choices")) or ()]
            delta = next((fields(one.get("delta")) for one in choices if not one.get("index")), fields(None))
            return SpokenDelta(
                _text(delta.get("content")), _text(delta.get("reasoning_content") or delta.get("reasoning"))
            )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def without_calls(dialect: str, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request with its tools, so that the prefix stays cached as far as may be, and no leave to call one."""
    if dialect == "gemini":
        config = fields(request.get("config"))
        mode = {"function_calling_config": {"mode": "NONE"}}
        return {**request, "config": {**config, "tool_config": mode}} if config.get("tools") else dict(request)
    if not request.get("tools"):
        return dict(request)
    return {**request, "tool_choice": {"type": "none"} if dialect == "anthropic" else "none"}
