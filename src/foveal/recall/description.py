"""What stands behind a reference, in a few words: which tool's result, whose words, which file."""

from foveal.recall.originals import located, range_blocks
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
"""Characters of a text or of a call's arguments: enough to recognise it by."""
_LOOKED_BACK = 64
"""Entries in which the call of a result is looked for: it stands right before it, or a few results away."""


def describe(store: Store, session: str, ref: str) -> str:
    """What a reference of this session names; `NotFound` if it names nothing."""
    if range_blocks(store, session, ref) is not None:
        return "a part of the conversation"
    part, row, role = located(store, session, ref)
    match part:
        case ToolResult(call_id):
            call = _call(store, session, call_id, row.seq)
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
    """The first line that says something, without the brackets of a line of ours."""
    return frame.safe_name(text.strip().partition("\n")[0].strip("[]"), _BEGINNING)


def _call(store: Store, session: str, call_id: str, seq: int) -> ToolCall | None:
    """The call that a result at this place answers."""
    found: ToolCall | None = None
    for row in store.rows(session, after=max(0, seq - _LOOKED_BACK), upto=seq):
        body = log.to_entry(row, session).body
        for part in body.parts if isinstance(body, Message) else ():
            if isinstance(part, ToolCall) and part.id == call_id:
                found = part
    return found
