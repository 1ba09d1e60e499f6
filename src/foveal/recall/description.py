"""The description of a reference in a few words: the tool of a result, the role of a text, the name of a file."""

from foveal.recall.originals import locate, range_blocks
from foveal.stores import rows as log
from foveal.stores.port import Store
from foveal.text import guard as frame
from foveal.text.shorten.reference import as_text
from foveal.values.entry import (
    File,
    Image,
    Message,
    Opaque,
    RedactedThinking,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

_BEGINNING = 120
"""Characters shown of a text or of a call's arguments: enough to recognise it."""
_LOOKED_BACK = 64
"""Entries in which the call of a result is looked for: it is right before the result, or a few results away."""


def describe(store: Store, session: str, ref: str) -> str:
    """Return a description of the original that a reference of this session names; `NotFound` if it names nothing."""
    if range_blocks(store, session, ref) is not None:
        return "a part of the conversation"
    part, _, seq, role = locate(store, session, ref)
    match part:
        case ToolResult(call_id):
            call = _call(store, session, call_id, seq)
            return f"result of {_called(call)}" if call else "result of a tool"
        case ToolCall():
            return f"call of {_called(part)}"
        case Stored(shown=shown, head=head):
            return _beginning(shown or head)
        case Text(text):
            return f"{role}: {_beginning(text)}"
        case Thinking():
            return "thinking"
        case Image() | File():
            return as_text((part,))
        case Opaque() | RedactedThinking():
            return "a part that only its provider reads"


def _called(call: ToolCall) -> str:
    return f"{frame.safe_name(call.name, _BEGINNING)} {frame.safe_name(call.arguments, _BEGINNING)}"


def _beginning(text: str) -> str:
    """Return the first line that is not blank, without the brackets that Foveal writes around its own lines."""
    return frame.safe_name(text.strip().partition("\n")[0].strip("[]"), _BEGINNING)


def _call(store: Store, session: str, call_id: str, seq: int) -> ToolCall | None:
    """Return the call that a result at this place answers."""
    found: ToolCall | None = None
    for row in store.rows(session, after=max(0, seq - _LOOKED_BACK), upto=seq):
        body = log.to_entry(row, session).body
        for part in body.parts if isinstance(body, Message) else ():
            if isinstance(part, ToolCall) and part.id == call_id:
                found = part
    return found
