"""The checks of names and drafts that every store makes before it writes."""

import re
from collections.abc import Sequence

from foveal.stores.port import Draft, Row
from foveal.values.errors import BadEntry, BadInput

NAME_BYTES = 512
"""Longest session name, entry id and author: far above any id in use, far below an SQLite page."""

SECRET_BYTES = 32
"""Length of a session's secret: as long as the hashes, so that nobody guesses it."""

_FORBIDDEN = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_INT64 = 1 << 63
_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_session(session: str) -> None:
    """Raise `BadInput` unless this can name a session."""
    problem = _problem(session)
    if problem:
        raise BadInput(f"the session name {session!r:.80} {problem}")


def check_secret(secret: bytes | None) -> None:
    """Raise `BadInput` unless this can be the secret of a session: bytes enough to be unguessable, or those of an old session."""
    if secret and not 16 <= len(secret) <= NAME_BYTES:
        raise BadInput(f"a session's secret of {len(secret)} bytes; give 16 to {NAME_BYTES} random bytes, or none")


def check_artifact(sha256: str) -> None:
    """Raise `BadInput` unless this is the name of an artifact: nothing else is ever looked up."""
    if not _SHA256.fullmatch(sha256):
        raise BadInput(f"{sha256!r:.80} is not an artifact: its name is 64 hexadecimal digits in lower case")


def check_drafts(drafts: Sequence[Draft]) -> None:
    """Raise `BadEntry` unless every draft can be a row of a log."""
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
    """Raise `BadEntry` unless the draft has the payload of the known row. A retry may come later, from another head."""
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
