"""An MCP server with which any client searches and recalls its own past: the sessions that were named, and no others."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from mcp.server import MCPServer

from foveal import recall as originals
from foveal.recall import tools as recall_tools
from foveal.stores.port import Store
from foveal.text.shorten.reference import as_text
from foveal.values.entry import ToolCall, ToolResult
from foveal.values.errors import FovealError, NotFound
from foveal.values.own_tools import RECALL_TOOL, SEARCH_TOOL

_INSTRUCTIONS = (
    "Search and read again what was seen in earlier work. `search` finds passages, each with a reference; `recall` reads the "
    "original behind a reference."
)


def memory_server(store: Store, sessions: Sequence[str]) -> MCPServer:
    """Return a server for these sessions of a store. Raise `NotFound` if one of them is not there."""
    for name in sessions:
        if not store.cards(name):
            raise NotFound(f"there is no session {name!r} in this store")
    server, reader = MCPServer("foveal", instructions=_INSTRUCTIONS), _NamedSessions(store, tuple(sessions))
    for tool in (reader.sessions, reader.search, reader.recall):
        server.add_tool(tool)
    return server


class _NamedSessions:
    """Answers about some sessions of a store. Its public methods are the tools, and their docstrings what the model reads."""

    def __init__(self, store: Store, names: tuple[str, ...]) -> None:
        self._store, self._names = store, names

    def sessions(self) -> list[dict[str, str | int]]:
        """List the sessions that can be searched."""
        cards = [card for name in self._names for card in self._store.cards(name)]
        return [{"name": card.id, "entries": card.entries, "updated_ms": card.updated_ms} for card in cards]

    def search(self, query: str, session: str | None = None, limit: int = 8) -> str:
        """Find passages in everything that the sessions ever saw; `session` names one of them."""
        return self._answer(SEARCH_TOOL, {"query": query, "limit": limit}, session)

    def recall(
        self, ref: str, session: str | None = None, offset: int = 0, limit: int = 200, pattern: str | None = None
    ) -> str:
        """Read the original text behind a reference, by lines; `pattern` is a regular expression that lines have to match."""
        asked = {"ref": ref, "offset": offset, "limit": limit, "pattern": pattern}
        return self._answer(RECALL_TOOL, asked, session)

    def _answer(self, tool: str, asked: Mapping[str, Any], session: str | None) -> str:
        if session is not None and session not in self._names:
            return f"there is no session {session!r} here; there are {', '.join(map(repr, self._names))}"
        told = [(name, self._one(tool, asked, name)) for name in ([session] if session else self._names)]
        found = [(name, text) for name, (text, is_found) in told if is_found] or [
            (name, text) for name, (text, _) in told[:1]
        ]
        return "\n\n".join(text if len(self._names) == 1 else f"[session {name}]\n{text}" for name, text in found)

    def _one(self, tool: str, asked: Mapping[str, Any], name: str) -> tuple[str, bool]:
        """Return the answer of one session, and whether it is more than an excuse. References into other sessions have none."""
        try:
            ref = str(asked.get("ref", "")).removeprefix("ref ")
            if ref and originals.named_original(self._store, name, ref).session != name:
                return f"{ref} belongs to a session that is not served here", False
        except FovealError as error:
            return str(error), False
        call = ToolCall("call", tool, msgspec.json.encode(asked).decode())
        parts = [one for one in recall_tools.answer(self._store, name, call).parts if isinstance(one, ToolResult)]
        text = "\n".join(as_text(part.content) for part in parts)
        return text, parts[0].status == "ok" and text != "[nothing found]"
