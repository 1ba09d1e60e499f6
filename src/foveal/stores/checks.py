"""What a store accepts, the same for every store, checked before anything is written."""

import re
from collections.abc import Sequence

from foveal.stores.port import Draft, Row
from foveal.values.errors import BadEntry, BadInput

NAME_BYTES = 512
"""Longest session name, entry id and author: far above any id in use, far below an SQLite page."""

_FORBIDDEN = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_INT64 = 1 << 63


def check_session(session: str) -> None:
    """`BadInput` unless this can name a session."""
    problem = _problem(session)
    if problem:
        raise BadInput(f"the session name {session!r:.80} {problem}")


def check_drafts(drafts: Sequence[Draft]) -> None:
    """`BadEntry` unless every draft can stand in a log."""
    for draft in drafts:
        problem = _problem(draft.id)
        if problem:
            raise BadEntry(f"the entry id {draft.id!r:.80} {problem}")
        if draft.parent is not None and (problem := _problem(draft.parent)):
            raise BadEntry(f"entry {draft.id}: the parent {draft.parent!r:.80} {problem}")
        if problem := _problem(draft.author):
            raise BadEntry(f"entry {draft.id}: the author {draft.author!r:.80} {problem}")
        if type(draft.time_ms) is not int or not -_INT64 <= draft.time_ms < _INT64:
            raise BadEntry(f"entry {draft.id}: the time {draft.time_ms!r:.80} is not a count of milliseconds")
        if type(draft.payload) is not bytes:
            raise BadEntry(f"entry {draft.id}: the payload is {type(draft.payload).__name__}, not bytes")


def check_repeat(known: Row, draft: Draft) -> None:
    """`BadEntry` unless the draft says the same once more. A retry may come later, from another head."""
    if known.payload != draft.payload:
        raise BadEntry(
            f"entry id {draft.id} is already in the log at place {known.seq} with other content; "
            "nothing was written. Give every new entry an id of its own."
        )


def _problem(name: object) -> str | None:
    if type(name) is not str:
        return f"is {type(name).__name__}, not text"
    if name.isascii() and name.isprintable() and 0 < len(name) <= NAME_BYTES:
        return None
    if not name:
        return "is empty"
    if _FORBIDDEN.search(name):
        return "holds control characters or lone surrogates"
    size = len(name.encode())
    return f"has {size} bytes; at most {NAME_BYTES} are allowed" if size > NAME_BYTES else None
