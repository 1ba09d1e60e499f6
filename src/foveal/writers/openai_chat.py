"""A summariser at any endpoint that speaks OpenAI's chat format, through OpenAI's own SDK."""

from collections.abc import Mapping
from typing import Any

from foveal.dialects import find_dialect
from foveal.summary.question import Question, appended_instruction, messages_of
from foveal.writers.endpoint import CUT_OFF, Endpoint, require, text_reply
from foveal.writers.port import Reply, Unanswered


class OpenAISummariser:
    """A summariser that asks `model`, without a `base_url` at OpenAI itself. The key comes from OPENAI_API_KEY unless given.

    `thinking_tokens` is the room for a reasoning model's thinking, which counts against the same limit as the answer.
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 120.0,
        thinking_tokens: int = 4_096,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        require("openai", "A summariser at an OpenAI-compatible endpoint")
        self.model = model
        self._endpoint = Endpoint(base_url, api_key, timeout_s)
        self._thinking_tokens = thinking_tokens
        self._options = dict(options or {})

    def __repr__(self) -> str:
        return f"OpenAIChat({self.model!r}, {self._endpoint})"

    def __call__(self, question: Question) -> Reply:
        import openai  # noqa: PLC0415 - an extra, and slow to load

        request = self._request(question)
        return chat_reply(self._endpoint.post(openai.OpenAI, openai.OpenAIError, "chat.completions.create", request))

    def _request(self, question: Question) -> dict[str, Any]:
        # Compatible servers know the old name of the limit; OpenAI's newer models know the new one only.
        limit = "max_tokens" if self._endpoint.base_url else "max_completion_tokens"
        body: dict[str, Any] = {"model": self.model, limit: question.tokens + self._thinking_tokens} | self._options
        own = question.prefix_for(self.model, "openai_chat")
        if own is None:
            return body | {"messages": messages_of(question)}
        # The provider's cache knows the same tools and messages, byte for byte; only the end is new.
        appended = {"role": "user", "content": appended_instruction(question)}
        choice = {"tool_choice": "none"} if own.get("tools") else {}
        kept = {key: own[key] for key in ("tools", "prompt_cache_key", "reasoning_effort") if key in own}
        return body | kept | choice | {"messages": [*own["messages"], appended]}


def chat_reply(body: Mapping[str, Any]) -> Reply:
    """Return the text of the first choice; raise `Unanswered` if the answer was cut off, filtered or declined."""
    message, usage = find_dialect("openai_chat").reader.reply(body)
    match body["choices"][0].get("finish_reason"):
        case "length":
            raise Unanswered("cut_off", CUT_OFF, usage)
        case "content_filter":
            raise Unanswered("refusal", "The provider's filter stopped the answer.", usage)
        case _:
            pass
    if declined := body["choices"][0]["message"].get("refusal"):
        raise Unanswered("refusal", f"The model declined: {declined}", usage)
    return text_reply(message, usage)
