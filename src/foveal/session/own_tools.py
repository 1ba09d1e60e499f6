"""Foveal's own tools: offered to the model, and answered by the session."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import msgspec

from foveal import recall
from foveal.recall import tools as recall_tools
from foveal.stores.port import Store
from foveal.text import guard
from foveal.values.entry import Message, ToolCall, result
from foveal.values.errors import FovealError
from foveal.values.own_tools import CHECKPOINT, CHECKPOINT_TOOL, REMEMBER, REMEMBER_TOOL, NoteRequest
from foveal.writers import checkpoint_tool

TOOLS: tuple[dict[str, Any], ...] = (*recall_tools.TOOLS, CHECKPOINT, REMEMBER)

_KEY_CHARS = 120


def _remember(store: Store, session: str, call: ToolCall, now_ms: int) -> Message:
    """Return the result of a call that keeps a note, or forgets one."""
    try:
        asked = msgspec.json.decode(guard.restore(call.arguments), type=NoteRequest)
        if asked.text.strip():
            note = recall.remember(store, session, asked.text, asked.key, author=recall.BY_AGENT, time_ms=now_ms)
            return result(call.id, f"[kept as {guard.safe_name(note.key, _KEY_CHARS)}]")
        recall.forget(store, session, asked.key or "")
        return result(call.id, f"[forgotten: {guard.safe_name(asked.key or '', _KEY_CHARS)}]")
    except (FovealError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return result(call.id, f"{error}", status="error")


_ANSWERS: dict[str, Callable[[Store, str, ToolCall, int], Message]] = {
    **dict.fromkeys(
        recall_tools.NAMES, lambda store, session, call, _now_ms: recall_tools.answer(store, session, call)
    ),
    CHECKPOINT_TOOL: lambda _store, _session, call, _now_ms: checkpoint_tool.answer(call),
    REMEMBER_TOOL: _remember,
}


@lru_cache(maxsize=64)
def ours(tools: str) -> frozenset[str]:
    """Return the names of Foveal's own tools that no tool of the host shadows, by the recorded tools of a prompt.

    The tool that keeps notes is among them only where it is offered: elsewhere there is nothing to keep them for.
    """
    listed = msgspec.json.decode(tools, type=list[dict[str, Any]])
    foreign = {tool.get("function", tool).get("name") for tool in listed if tool not in TOOLS}
    unknown = frozenset[str]() if REMEMBER in listed else frozenset((REMEMBER_TOOL,))
    return frozenset(_ANSWERS) - foreign - unknown


def answer(store: Store, session: str, call: ToolCall, now_ms: int) -> Message:
    """Return the result of a call to one of these tools at this time."""
    return _ANSWERS[call.name](store, session, call, now_ms)
