"""A summariser at Anthropic's endpoint, or one that speaks its format, through Anthropic's own SDK."""

from collections.abc import Mapping
from typing import Any

from foveal.dialects import find_dialect
from foveal.summary.question import Question, appended_instruction, messages_of
from foveal.writers.endpoint import CUT_OFF, Endpoint, require, text_reply
from foveal.writers.port import Reply, Unanswered

_SAME_PREFIX = ("system", "tools", "thinking", "tool_choice")
"""Keys of a request that the cache compares besides the messages. Anthropic's cache drops the messages when the choice of tools
changes, so that even a request for text alone must repeat it; an answer that is a tool call is refused instead."""


class AnthropicSummariser:
    """A summariser that asks `model`. The key comes from ANTHROPIC_API_KEY unless given."""

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 120.0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        require("anthropic", "A summariser at Anthropic's endpoint")
        self.model = model
        self._endpoint = Endpoint(base_url, api_key, timeout_s)
        self._options = dict(options or {})

    def __repr__(self) -> str:
        return f"Anthropic({self.model!r}, {self._endpoint})"

    def __call__(self, question: Question) -> Reply:
        import anthropic  # noqa: PLC0415 - an extra, and slow to load

        request = self._request(question)
        return _reply(self._endpoint.post(anthropic.Anthropic, anthropic.AnthropicError, "messages.create", request))

    def _request(self, question: Question) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self.model, "max_tokens": question.tokens} | self._options
        own = question.prefix_for(self.model, "anthropic")
        if own is None:
            rules, asked = messages_of(question)
            return body | {"system": rules["content"], "messages": [asked]}
        kept = {key: own[key] for key in _SAME_PREFIX if key in own}
        thinking: dict[str, Any] = kept.get("thinking") or {}
        limit = question.tokens + (thinking.get("budget_tokens") or 0)  # thinking counts against the same limit
        appended = {"role": "user", "content": appended_instruction(question)}
        return body | kept | {"max_tokens": limit, "messages": [*own["messages"], appended]}


def _reply(body: Mapping[str, Any]) -> Reply:
    """Return the text blocks; raise `Unanswered` if the answer was cut off or refused."""
    message, usage = find_dialect("anthropic").reader.reply(body)
    match body.get("stop_reason"):
        case "max_tokens" | "model_context_window_exceeded":
            raise Unanswered("cut_off", CUT_OFF, usage)
        case "refusal":
            raise Unanswered("refusal", "The model declined.", usage)
        case _:
            return text_reply(message, usage)
