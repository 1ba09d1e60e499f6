"""Foveal's own tools: offered to the model, and answered by the session."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from foveal import recall
from foveal.recall import search
from foveal.recall import tools as recall_tools
from foveal.stores.port import Store
from foveal.text import guard
from foveal.values.entry import Message, ToolCall, result
from foveal.values.errors import FovealError
from foveal.values.own_tools import CHECKPOINT, CHECKPOINT_TOOL, REMEMBER, REMEMBER_TOOL, NoteRequest
from foveal.writers import checkpoint_tool

TOOLS: tuple[dict[str, Any], ...] = (*recall_tools.TOOLS, *recall_tools.SCOPE_TOOLS, CHECKPOINT, REMEMBER)

_KEY_CHARS = 120


class ToolSession(NamedTuple):
    """The session that answers a call, and the time at which it does."""

    store: Store
    name: str
    now_ms: int
    scope: str | None
    """The scope that its policy names."""


def _recall(session: ToolSession, call: ToolCall) -> Message:
    """Return the result of a call that recalls or searches."""
    scope = session.scope
    moment = None if scope is None else search.Moment(scope, session.name, session.now_ms)
    return recall_tools.answer(session.store, session.name, call, moment)


def _remember(session: ToolSession, call: ToolCall) -> Message:
    """Return the result of a call that keeps a note, or forgets one."""
    try:
        asked = msgspec.json.decode(guard.restore(call.arguments), type=NoteRequest)
        if asked.text.strip():
            author, now_ms = recall.BY_AGENT, session.now_ms
            note = recall.remember(session.store, session.name, asked.text, asked.key, author=author, time_ms=now_ms)
            return result(call.id, f"[kept as {guard.safe_name(note.key, _KEY_CHARS)}]")
        recall.forget(session.store, session.name, asked.key or "")
        return result(call.id, f"[forgotten: {guard.safe_name(asked.key or '', _KEY_CHARS)}]")
    except (FovealError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return result(call.id, f"{error}", status="error")


_ANSWERS: dict[str, Callable[[ToolSession, ToolCall], Message]] = {
    **dict.fromkeys(recall_tools.NAMES, _recall),
    CHECKPOINT_TOOL: lambda _session, call: checkpoint_tool.answer(call),
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


def answer(session: ToolSession, call: ToolCall) -> Message:
    """Return the result of a call to one of these tools."""
    return _ANSWERS[call.name](session, call)
