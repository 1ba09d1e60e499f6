"""Notes: texts that the agent or the host asks to keep for the later sessions of a scope."""

from hashlib import sha256
from typing import TYPE_CHECKING

from foveal.stores.port import KeptNote, Scope, Store
from foveal.values.errors import BadInput, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

BY_AGENT, BY_HOST = "agent", "host"

MOST_NOTES = 500
"""Notes of one scope. More are no notes but a log, and what was said is found without them."""


def remember(store: Store, session: str, text: str, key: str | None, *, author: str, time_ms: int) -> KeptNote:
    """Keep a note in the scope of a session, in the place of the one with the same key. Without a key, its text gives it one."""
    scope = scope_of(store, session)
    key = (
        key.strip()
        if key and key.strip()
        else f"note-{sha256(text.strip().encode('utf-8', 'replace')).hexdigest()[:8]}"
    )
    known: Sequence[KeptNote] = scope.notes()
    if len(known) >= MOST_NOTES and all(note.key != key for note in known):
        raise BadInput(
            f"the scope has {len(known)} notes, and {MOST_NOTES} is the most; forget some, or use a key again"
        )
    note = KeptNote(key, text.strip(), session, author, time_ms)
    scope.keep(note)
    return note


def forget(store: Store, session: str, key: str) -> None:
    """Remove the note of this key from the scope of a session; `NotFound` if there is none."""
    if not scope_of(store, session).forget(key.strip()):
        raise NotFound(f"there is no note {key[:120]!r} to forget")


def scope_of(store: Store, session: str) -> Scope:
    """Return the scope that a session is in; `BadInput` if it is in none."""
    card = next(iter(store.cards(session)), None)
    if card is None or card.scope is None:
        raise BadInput(
            f"session {session!r} is in no scope, so that nothing can be remembered; set memory in its policy"
        )
    return store.scope(card.scope)
