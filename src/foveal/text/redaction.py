"""Redaction of secrets in messages, before they are recorded: what is taken out here is in no log, prompt, trace or index.

The rules know secrets by their shape. They find the common ones and miss others; a host that knows its own secrets gives a
function of its own, which may call `redact_secrets` first.
"""

import re
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from foveal.values.entry import Content, Message, Part, Text, Thinking, ToolCall, ToolResult

Redactor: TypeAlias = Callable[[str], str]
"""Returns a text without its secrets: the same for the same text, and the text itself if it has none."""

_RULES = (
    (
        "private key",
        r"-----BEGIN (?:[A-Z]{1,12} ){0,3}PRIVATE KEY-----[A-Za-z0-9+/=\s:,.\\-]{1,20000}?-----END [A-Z ]{1,40}-----",
    ),
    ("AWS key", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9_]{22,255})\b"),
    ("API key", r"\b(?:sk|rk|pk)[-_](?:[a-z]{2,10}[-_]){0,3}[A-Za-z0-9_-]{20,255}"),
    ("Slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,255}"),
    ("Google key", r"\bAIza[A-Za-z0-9_-]{35}"),
    ("token", r"\beyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,1000}"),
    ("token", r"(?<=[Bb]earer )[A-Za-z0-9._~+/-]{20,4000}=*"),
    ("password", r"(?<=://)(?P<user>[A-Za-z0-9._%+-]{0,64}):[^\s@/:\"']{1,256}(?=@)"),
    (
        "secret",
        r"(?P<name>(?i:password|passwd|secret|api_?key|access_?key|auth_?token)[\"']?\s{0,4}[:=]\s{0,4}[\"']?)"
        r"(?!\[redacted)[^\s\"',;}{\[\]()<>]{8,256}",
    ),
)
_PATTERNS = tuple((kind, re.compile(pattern)) for kind, pattern in _RULES)


def redact_secrets(text: str) -> str:
    """Return the text with keys, tokens and passwords of well-known shapes replaced by `[redacted: KIND]`."""
    for kind, pattern in _PATTERNS:
        text = pattern.sub(lambda found, kind=kind: f"{_kept(found)}[redacted: {kind}]", text)
    return text


def redacted(message: Message, redact: Redactor) -> Message:
    """Return the message with its texts, results and arguments of calls redacted. Parts that the provider signed stay as they
    are, since it would refuse them. A malformed message is returned unchanged, for the check to refuse."""
    if not isinstance(message.parts, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]
        return message
    return msgspec.structs.replace(message, parts=tuple(_redacted_part(part, redact) for part in message.parts))


def _redacted_part(part: Part, redact: Redactor) -> Part:
    match part:
        case ToolResult(content=tuple(), summary=str()):
            content = tuple(_redacted_text(item, redact) for item in part.content)
            return msgspec.structs.replace(part, content=content, summary=redact(part.summary))
        case ToolCall(arguments=str(), signature=None):
            return msgspec.structs.replace(part, arguments=redact(part.arguments))
        case Thinking(text=str(), signature=None):
            return msgspec.structs.replace(part, text=redact(part.text))
        case Text():
            return _redacted_text(part, redact)
        case _:
            return part


def _redacted_text(item: Content, redact: Redactor) -> Content:
    match item:
        case Text(text=str(), signature=None):
            return msgspec.structs.replace(item, text=redact(item.text))
        case _:
            return item


def _kept(found: "re.Match[str]") -> str:
    """Return the part of a match that tells what the secret is for."""
    names = found.groupdict()
    return names.get("name") or (f"{names['user']}:" if "user" in names else "")
