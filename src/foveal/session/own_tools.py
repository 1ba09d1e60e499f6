"""Foveal's own tools: offered to the model, and answered by the session."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from foveal.recall import tools as recall_tools
from foveal.stores.port import Store
from foveal.values.entry import Message, ToolCall
from foveal.values.own_tools import CHECKPOINT, CHECKPOINT_TOOL
from foveal.writers import checkpoint_tool

TOOLS: tuple[dict[str, Any], ...] = (*recall_tools.TOOLS, CHECKPOINT)

_ANSWERS: dict[str, Callable[[Store, str, ToolCall], Message]] = {
    **dict.fromkeys(recall_tools.NAMES, recall_tools.answer),
    CHECKPOINT_TOOL: lambda _store, _session, call: checkpoint_tool.answer(call),
}


@lru_cache(maxsize=64)
def ours(tools: str) -> frozenset[str]:
    """Return the names of Foveal's own tools that no tool of the host shadows, by the recorded tools of a prompt."""
    own = msgspec.json.decode(tools, type=list[dict[str, Any]])
    foreign = {tool.get("function", tool).get("name") for tool in own if tool not in TOOLS}
    return frozenset(_ANSWERS) - foreign


def answer(store: Store, session: str, call: ToolCall) -> Message:
    """Return the result of a call to one of these tools."""
    return _ANSWERS[call.name](store, session, call)
