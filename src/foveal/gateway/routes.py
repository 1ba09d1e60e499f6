"""The provider that a request goes to, and the conversation that it is a part of."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import dropwhile, takewhile
from typing import Any, cast
from urllib.parse import parse_qs

import msgspec

from foveal.dialects.json_values import JsonObject, elements, fields, string
from foveal.integrations.routes import Route, find_route, is_of_threads
from foveal.record.client_list import LISTS, is_reply

UPSTREAMS = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
"""The providers, by the names that `--upstream` takes."""

_COUNTS = {"/messages/count_tokens": "anthropic", "/responses/input_tokens": "openai_responses"}
_GEMINI_COUNT = re.compile(r"/models/([^/:]+):countTokens\Z")
_PROVIDER_PATH = re.compile(r"\A/api/|/v\d")
"""Paths of providers: with a version (`/v1/models`, `/openai/v1/files`, `/v1internal:…`), or below `/api` as of Ollama."""

KEY_HEADERS = ("authorization", "x-api-key", "x-goog-api-key", "api-key")
_KEY_CHARS = 16

_NAMED = (
    ("claude", ("x-claude-code-session-id", "x-claude-code-agent-id")),
    ("codex", ("thread-id",)),
    ("session", ("x-foveal-session",)),
    ("session", ("x-session-id",)),
    ("session", ("session_id",)),
)
"""Headers that name a conversation, most telling first. A session of Claude Code has several, one for each sub-agent."""

_NOTHING: JsonObject = {}

_CALLS = ("tool_use", "function_call", "custom_tool_call", "local_shell_call", "function", "custom")
"""Types of blocks and items that are calls of tools."""

_WITH_LANES = "session"
"""Names under which a client may have several conversations: title generators and sub-agents begin with other words."""


def find_count(path: str) -> Route | None:
    """Return the route of a path that counts the tokens of a request; None for all others."""
    found = next((name for end, name in _COUNTS.items() if path.endswith(end)), None)
    gemini = _GEMINI_COUNT.search(path)
    return Route(found) if found else Route("gemini", gemini[1]) if gemini else None


def provider_of(path: str, headers: Mapping[str, str]) -> str:
    """Return the name of the provider that a request goes to."""
    if "/v1beta" in path or "x-goog-api-key" in headers:
        return "gemini"
    is_anthropic = "/messages" in path and not is_of_threads(path)
    is_openai = path.partition("?")[0].endswith(("/chat/completions", "/responses")) or is_of_threads(path)
    is_named = "anthropic-version" in headers or ("x-api-key" in headers and not is_openai)
    return "anthropic" if is_anthropic or is_named else "openai"


def is_of_provider(path: str, headers: Mapping[str, str], query: str = "") -> bool:
    """Return whether a provider may have an address: by its path, or because the request names a key of one."""
    is_path = path == "/" or _PROVIDER_PATH.search(path) or find_route(path) or find_count(path)
    return bool(is_path) or "anthropic-version" in headers or has_key(headers, query)


def is_knock(method: str, path: str, headers: Mapping[str, str]) -> bool:
    """Return whether a request only asks if somebody is there: it names no provider, and none needs to hear of it."""
    return method == "HEAD" and path == "/" and not any(name in headers for name in (*KEY_HEADERS, "anthropic-version"))


def key_hash(headers: Mapping[str, str], query: str = "") -> str:
    """Return the hash of the keys that a request names, which ends the names of its sessions: 16 hexadecimal digits."""
    keys = [*(headers.get(name, "") for name in KEY_HEADERS), *parse_qs(query).get("key", ())]
    return sha256("\0".join(keys).encode()).hexdigest()[:_KEY_CHARS]


def has_key(headers: Mapping[str, str], query: str = "") -> bool:
    """Return whether a request names a key."""
    return any(headers.get(name) for name in KEY_HEADERS) or bool(parse_qs(query).get("key"))


def conversation_name(headers: Mapping[str, str], body: Mapping[str, Any], dialect: str, *, query: str = "") -> str:
    """Return the name of the session for a request: equal for requests of one conversation, and of one key.

    Never the session of a client alone: sub-agents share it, and run in parallel. A conversation without any name is known by its
    first words and, as soon as the client tells it, by its first reply: clients that begin alike are kept apart in every process,
    and only a first request has a session of its own.
    """
    key = key_hash(headers, query)
    for kind, names in _NAMED:
        told = [headers[name] for name in names if headers.get(name)]
        if told and names[0] in headers:
            return _name(kind, told, key, _first_words(body, dialect) if kind == _WITH_LANES else "")
    named = _named_in(body)
    if named:
        return _name(_WITH_LANES, [named], key, _first_words(body, dialect))
    begun = _first_words(body, dialect)
    return _name("client", [_digest(_system(body))], key, "-".join(filter(None, (begun, _first_reply(body, dialect)))))


def _named_in(body: Mapping[str, Any]) -> str:
    """Return the session that a body names."""
    user = string(fields(body.get("metadata")).get("user_id")) or ""
    told: object = None
    with suppress(msgspec.DecodeError):
        told = msgspec.json.decode(user) if user.startswith("{") else None
    return string(fields(told).get("session_id")) or string(body.get("prompt_cache_key")) or ""


def _system(body: Mapping[str, Any]) -> object:
    return body.get("system") or body.get("instructions") or body.get("systemInstruction") or ""


def _first_words(body: Mapping[str, Any], dialect: str) -> str:
    """Return a digest of the first message that is not the system prompt's."""
    said = (one for one in _listed(body, dialect) if one.get("role") not in ("system", "developer"))
    return _digest(_words(next(said, _NOTHING)))


def _listed(body: Mapping[str, Any], dialect: str) -> Iterator[JsonObject]:
    listed: object = body.get(LISTS[dialect])
    is_listed = isinstance(listed, Sequence) and not isinstance(listed, str)
    return map(fields, cast("Sequence[object]", listed) if is_listed else ())


def _words(message: JsonObject) -> list[object]:
    texts = message.get("content") or message.get("parts")
    return [texts] if isinstance(texts, str) else [fields(block).get("text") for block in elements(texts)]


def _first_reply(body: Mapping[str, Any], dialect: str) -> str:
    """Return a digest of the first reply, by the texts and the calls that every client tells of it; empty if none is told."""
    told = takewhile(is_reply, dropwhile(lambda one: not is_reply(one), _listed(body, dialect)))
    said = [found for one in told for found in (*_words(one), *map(_call, _blocks(one))) if found]
    return _digest([one.strip() if isinstance(one, str) else one for one in said]) if said else ""


def _blocks(one: JsonObject) -> Iterator[JsonObject]:
    """Yield a message or an item, and everything in it that may be a call."""
    yield one
    for key in ("content", "parts", "tool_calls"):
        yield from map(fields, elements(one.get(key)))


def _call(block: JsonObject) -> tuple[str, str] | None:
    """Return id and name of a call; None for any other block."""
    inner = fields(block.get("functionCall") or block.get("function_call") or block.get("function") or _NOTHING)
    if block.get("type") not in _CALLS and not inner:
        return None
    ids = (string(one.get(key)) for one in (block, inner) for key in ("call_id", "id"))
    return next(filter(None, ids), ""), string(block.get("name")) or string(inner.get("name")) or ""


def _digest(value: object) -> str:
    return sha256(msgspec.json.encode(value)).hexdigest()[:12]


def _name(kind: str, told: list[str], key: str, lane: str) -> str:
    plain = [re.sub(r"[^A-Za-z0-9_.-]", "_", one)[:64] for one in told]
    return "-".join(filter(None, (kind, *plain, lane, key)))
