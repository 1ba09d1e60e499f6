"""The tools that a host offers, read once for as long as they are the same: agents offer the same ones with every call."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from foveal.context.tool_retention import split_retention
from foveal.dialects.tools import read_tools
from foveal.values.retention import RetentionRule

Tools: TypeAlias = Sequence[Mapping[str, Any]]


class OfferedTools(msgspec.Struct, frozen=True):
    """The tools of a prompt without their retention, and the retention that they declare."""

    tools: Tools
    declared: dict[str, RetentionRule]
    key: bytes | None
    """Equal for two lists of the same tools; None if they are no plain JSON, and are read anew each time."""


class ToolList:
    """Reads the tools of one session. A child is offered those that it may have."""

    def __init__(self, allowed: frozenset[str] | None) -> None:
        self._allowed = allowed
        self._known: tuple[bytes | None, OfferedTools] | None = None
        self._permitted: tuple[bytes | None, Tools] | None = None

    def read(self, given: Tools, add: Callable[[Tools], Tools]) -> OfferedTools:
        """Return the tools of a prompt: those that the host gave, and those that `add` adds to them."""
        key = _key_of(given)
        if key is None or self._permitted is None or self._permitted[0] != key:
            self._permitted = key, self._allowed_of(given)
        permitted = self._permitted[1]
        tools = add(permitted)
        if tools is not permitted:
            added = _key_of(tools[len(permitted) :])
            key = None if key is None or added is None else b"\0".join((key, added))
        if key is None or self._known is None or self._known[0] != key:
            plain, declared = split_retention(tools)
            self._known = key, OfferedTools(plain, declared, key)
        return self._known[1]

    def _allowed_of(self, given: Tools) -> Tools:
        if self._allowed is None:
            return given
        return [tool for tool in given if read_tools([split_retention([tool])[0][0]])[0].name in self._allowed]


def _key_of(tools: Tools) -> bytes | None:
    try:
        return msgspec.json.encode(tools)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError):
        return None
