"""Routes of requests with a conversation: the format that one is in, and whether it holds the whole of it."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

_PATHS: dict[str, str] = {
    "/messages": "anthropic",
    "/chat/completions": "openai_chat",
    "/responses": "openai_responses",
}
_GEMINI = re.compile(r"/models/([^/:]+):(?:stream)?[gG]enerateContent\Z")


class Route(NamedTuple):
    """The format of a request, and the model, where the address names it."""

    dialect: str
    model: str = ""


def find_route(path: str) -> Route | None:
    """Return the route of a path with a conversation; None for all others, which are passed through."""
    found = next((name for end, name in _PATHS.items() if path.endswith(end)), None)
    if found and not is_of_threads(path):
        return Route(found)
    gemini = _GEMINI.search(path)
    return Route("gemini", gemini[1]) if gemini else None


def kept_elsewhere(body: Mapping[str, Any], path: str, dialect: str) -> str:
    """Return why a request cannot be managed although it is well-formed: the provider holds a part of it. Empty if it can."""
    for field in ("previous_response_id", "conversation", "background", "cachedContent", "cached_content"):
        if body.get(field):
            return f"{field} is set: the provider holds a part of the conversation"
    if dialect == "gemini" and ":stream" in path and "alt=sse" not in path:
        return "a stream as a JSON array; ask with alt=sse to have it managed"
    return ""


def is_of_threads(path: str) -> bool:
    """Return whether a path belongs to OpenAI's threads, which have messages too."""
    return "/threads/" in path
