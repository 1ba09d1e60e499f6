"""Paths: which provider an address belongs to, and the answers beside the conversation (models, token counts, unknown paths)."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from foveal.testing.provider.listener import HttpRequest

MODELS = (
    "claude-opus-4-5",
    "claude-sonnet-4-5",
    "gpt-5",
    "gpt-5-codex",
    "gpt-4.1",
    "gemini-2.5-pro",
    "gemini-3-pro-preview",
)
"""Models that the lists of models name. Any other is answered too."""

_PATHS = (
    (re.compile(r"/chat/completions$"), "openai_chat"),
    (re.compile(r"/responses(?P<verb>/input_tokens)?$"), "openai_responses"),
    (re.compile(r"/messages(?P<verb>/count_tokens)?$"), "anthropic"),
    (re.compile(r"/models/(?P<model>[^/:]+):(?P<verb>generateContent|streamGenerateContent|countTokens)$"), "gemini"),
)
_COUNTS = ("/input_tokens", "/count_tokens", "countTokens")
_LIST = re.compile(r"/models(?:/(?P<model>[^/:]+))?$")


class ModelPath(NamedTuple):
    """The place that an address leads to."""

    dialect: str
    model: str = ""
    """Named by the address for Gemini alone."""
    verb: str = ""

    @property
    def is_count(self) -> bool:
        """Whether a count is asked for in place of a reply."""
        return self.verb in _COUNTS


def find_place(request: HttpRequest) -> ModelPath | None:
    """Return the place of a request to a model; None for any other request."""
    if request.method != "POST":
        return None
    for pattern, dialect in _PATHS:
        if found := pattern.search(request.path):
            fields = found.groupdict()
            return ModelPath(dialect, fields.get("model") or "", fields.get("verb") or "")
    return None


def spell_count(dialect: str, tokens: int) -> dict[str, Any]:
    """Return a count of tokens in the form of this provider."""
    match dialect:
        case "gemini":
            return {"totalTokens": tokens}
        case "openai_responses":
            return {"object": "response.input_tokens", "input_tokens": tokens}
        case _:
            return {"input_tokens": tokens}


def guess_dialect(request: HttpRequest) -> str:
    """Return the dialect whose provider a request without a known path was probably meant for."""
    if "anthropic-version" in request.headers or "/messages" in request.path:
        return "anthropic"
    if "x-goog-api-key" in request.headers or request.path.startswith("/v1beta"):
        return "gemini"
    return "openai_responses"


def list_models(request: HttpRequest) -> Mapping[str, Any] | None:
    """Return the list of models, or the one that is named, in the provider's form; None where another thing is asked for."""
    found = _LIST.search(request.path) if request.method == "GET" else None
    if found is None:
        return None
    dialect, one = guess_dialect(request), found["model"]
    rows = [_model(dialect, name) for name in ([one] if one else MODELS)]
    if one:
        return rows[0]
    match dialect:
        case "anthropic":
            return {"data": rows, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}
        case "gemini":
            return {"models": rows}
        case _:
            return {"object": "list", "data": rows}


def _model(dialect: str, name: str) -> dict[str, Any]:
    match dialect:
        case "anthropic":
            return {"type": "model", "id": name, "display_name": name, "created_at": "2026-01-01T00:00:00Z"}
        case "gemini":
            methods = ["generateContent", "countTokens"]
            return {"name": f"models/{name}", "displayName": name, "supportedGenerationMethods": methods}
        case _:
            return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "scripted"}


def is_upgrade(request: HttpRequest) -> bool:
    """Return whether the client wants a WebSocket in place of a reply."""
    return request.headers.get("upgrade", "").lower() == "websocket"
