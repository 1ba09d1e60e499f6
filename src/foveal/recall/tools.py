"""The two tools that let the model look again: one fetches by reference, one searches everything the session ever saw.

They are offered only while something is shown below full, and answered by `Session.serve`. The arguments of a call are data: a
bad reference, pattern or number is answered with a sentence about it, and the session goes on. The log holds texts as they came,
while the model sees and copies neutralised ones: its arguments are restored before anything is looked up.
"""

from typing import Any, Literal

import msgspec

from foveal import recall
from foveal.recall import search
from foveal.stores.port import Store
from foveal.text import guard as frame
from foveal.values.entry import Message, ToolCall, result
from foveal.values.errors import FovealError
from foveal.values.own_tools import RECALL_TOOL, SEARCH_TOOL
from foveal.values.shown import short_ref

RECALL = RECALL_TOOL
SEARCH = SEARCH_TOOL
NAMES = frozenset({RECALL, SEARCH})

MOST_CHARACTERS = 12_000
"""Most characters of one answer, about 3 000 tokens: enough for a file, and the rest is one call further."""

_NAME_CHARS = 120
"""Characters of references and tools' names in Foveal's own lines. The text after them is guarded like any other result."""

TOOLS: tuple[dict[str, Any], ...] = (
    {
        "type": "function",
        "function": {
            "name": RECALL,
            "description": "Read the original text behind a reference (`ref …`) that is shown in place of it.",
            "parameters": {
                "type": "object",
                "properties": {
                    "ref": {"type": "string"},
                    "offset": {"type": "integer", "description": "first line, from 0"},
                    "limit": {"type": "integer", "description": "number of lines"},
                    "unit": {"type": "string", "enum": ["lines", "characters"]},
                    "pattern": {"type": "string", "description": "regular expression: only matching lines"},
                },
                "required": ["ref"],
            },
        },
    },
    {
        "type": "function",
        "function": {
            "name": SEARCH,
            "description": "Search everything seen in this session, also what is no longer shown.",
            "parameters": {
                "type": "object",
                "properties": {"query": {"type": "string"}, "limit": {"type": "integer"}},
                "required": ["query"],
            },
        },
    },
)


SCOPE_TOOLS: tuple[dict[str, Any], ...] = (
    TOOLS[0],
    {
        "type": "function",
        "function": {
            **TOOLS[1]["function"],
            "description": "Search everything seen in this session, and what was said in earlier ones.",
        },
    },
)
"""The two tools of a session with a memory."""


class _Recall(msgspec.Struct, frozen=True):
    ref: str
    offset: int = 0
    limit: int = 200
    pattern: str | None = None
    unit: Literal["lines", "characters"] = "lines"


class _Search(msgspec.Struct, frozen=True):
    query: str
    limit: int = 8


def answer(store: Store, session: str, call: ToolCall, moment: "search.Moment | None" = None) -> Message:
    """Return the result of a call to one of the two tools. Other sessions are searched if a `moment` of the scope is given."""
    try:
        text = _recall(store, session, call) if call.name == RECALL else _search(store, session, call, moment)
    except (FovealError, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return result(call.id, f"{error}", status="error")
    return result(call.id, text)


def _recall(store: Store, session: str, call: ToolCall) -> str:
    asked = msgspec.json.decode(frame.restore(call.arguments), type=_Recall)
    there = recall.named_original(store, session, asked.ref.removeprefix("ref "))
    wanted = recall.Fetch(there.ref, asked.offset, asked.limit, asked.unit, asked.pattern)
    found = recall.fetch(store, there.session, wanted, most=MOST_CHARACTERS)
    matches = f", {found.matches} matching" if found.matches is not None else ""
    more = f"; go on with offset {found.next.offset}, unit {found.next.unit}" if found.next else ""
    ref = frame.safe_name(asked.ref, _NAME_CHARS)
    source = f", session {frame.safe_name(there.session, _NAME_CHARS)}, {there.day}" if there.day else ""
    return f"[{ref}{source}: {found.unit} {found.first}-{found.last} of {found.total}{matches}{more}]\n{found.text}"


def _search(store: Store, session: str, call: ToolCall, moment: "search.Moment | None") -> str:
    asked = msgspec.json.decode(frame.restore(call.arguments), type=_Search)
    hits = search.search(store, session, asked.query, limit=asked.limit, without=NAMES)
    earlier = search.search_earlier(store, moment, asked.query, limit=asked.limit) if moment else []
    return "\n".join(filter(None, (_hits_text(hits), _earlier_text(earlier)))) or "[nothing found]"


def _earlier_text(found: "list[search.EarlierPassage]") -> str:
    def line(one: "search.EarlierPassage") -> str:
        ref = recall.memory_ref(one.session, short_ref(one.passage.entry, one.passage.part))
        where = f"session {frame.safe_name(one.session, _NAME_CHARS)}, {recall.day_of(one.time_ms)}"
        shown = frame.safe_name(ref, _NAME_CHARS)
        return f"[ref {shown}, {one.passage.role}, {where}, line {one.passage.line}]\n{one.passage.text}"

    return "\n".join(map(line, found))


def _hits_text(hits: "list[search.Hit]") -> str:
    named = ((frame.safe_name(hit.ref, _NAME_CHARS), frame.safe_name(hit.kind, _NAME_CHARS), hit) for hit in hits)
    return "\n".join(f"[ref {ref}, {kind}, line {hit.line}]\n{hit.snippet}" for ref, kind, hit in named)
