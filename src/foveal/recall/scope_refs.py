"""References to originals in other sessions of the same scope.

    memory:4f9c0a21be:k3v9x2m1qa.1        part 1 of an entry of the session whose name hashes to 4f9c0a21be
    memory:4f9c0a21be:FIRST..LAST         a range of its entries

Such a reference is looked up among the sessions of the asking session's own scope and nowhere else: to a session in another
scope, or in none, it names nothing, whoever guesses it. That a session was deleted is said only where the reference was shown.
"""

from datetime import UTC, datetime

import msgspec

from foveal.recall.originals import NOTHING_THERE, locate, range_blocks
from foveal.stores import rows as log
from foveal.stores.chain import seed
from foveal.stores.port import Store
from foveal.values.entry import Fence, PromptContext
from foveal.values.errors import NotFound

MEMORY = "memory:"
"""Prefix of a reference to another session of the scope."""

_HANDLE_DIGITS = 10


class NamedOriginal(msgspec.Struct, frozen=True):
    """The session and the reference by which an original is read, and the day on which it was recorded."""

    session: str
    ref: str
    day: str
    """Empty for an original of the asking session itself."""


def memory_ref(session: str, ref: str) -> str:
    """Return the reference by which other sessions of the scope recall an original of a session."""
    return f"{MEMORY}{_handle(session)}:{ref}"


def day_of(time_ms: int) -> str:
    """Return the day of a time, in UTC."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).date().isoformat()
    except (OverflowError, OSError, ValueError):
        return "an unknown day"


def named_original(store: Store, session: str, ref: str) -> NamedOriginal:
    """Return where the original of a reference is: in the session itself, or in another one of its scope. Raise `NotFound` if it
    is in none of them."""
    handle, _, there = ref.removeprefix(MEMORY).partition(":")
    if not ref.startswith(MEMORY) or not there or store.find(session, ref[:512]):
        return NamedOriginal(session, ref, "")
    card = next(iter(store.cards(session)), None)
    if card is None:
        raise NotFound(f"there is no session {session!r}")
    others = store.scope(card.scope).sessions() if card.scope is not None else []
    for other in others:
        if other.id != session and _handle(other.id) == handle:
            return NamedOriginal(other.id, there, day_of(_time_of(store, other.id, there)))
    if _was_shown(store, session, ref):
        raise NotFound(f"the session that {ref[:120]!r} was shown from has been deleted, and its originals with it")
    raise NotFound(NOTHING_THERE.format(session=session, ref=ref[:120]))


def _handle(session: str) -> str:
    return seed(session).hex()[:_HANDLE_DIGITS]


def _time_of(store: Store, session: str, ref: str) -> int:
    """Return the time of the first entry that a reference names."""
    first = ref.partition("..")[0]
    named = store.find(session, first) if range_blocks(store, session, ref) is not None else []
    seq = named[0].seq if named else locate(store, session, ref).seq
    return store.rows_at(session, [seq])[seq].time_ms


def _was_shown(store: Store, session: str, ref: str) -> bool:
    """Return whether a prompt of the session showed this reference: its fences and blocks are in the log."""
    for row in store.rows(session):
        match log.to_entry(row, session).body:
            case Fence(text=text) if ref in text:
                return True
            case PromptContext(blocks=blocks) if any(ref in block.text for block in blocks):
                return True
            case _:
                pass
    return False
