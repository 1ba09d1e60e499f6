"""Names of tools as providers take them. MCP servers name tools with dots, colons, or more than 64 characters."""

import re
from hashlib import sha256

_USABLE = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_REFUSED = re.compile(r"[^a-zA-Z0-9_-]")
_MOST_CHARS = 64
_MARK_CHARS = 8

UNNAMED = "unknown_tool"
"""Sent for a call without any name."""


def is_usable(name: str) -> bool:
    """Return whether every provider takes this name of a tool."""
    return _USABLE.match(name) is not None


def sent_name(name: str) -> str:
    """Return the name under which a tool is offered and its calls are sent: itself, or a readable one that every provider takes.

    A mended name ends in a mark of the original, so that two tools that differ in refused characters alone stay two.
    """
    if is_usable(name):
        return name
    if not name.strip():
        return UNNAMED
    mark = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_MARK_CHARS]
    return f"{_REFUSED.sub('_', name[: _MOST_CHARS - _MARK_CHARS - 1])}_{mark}"
