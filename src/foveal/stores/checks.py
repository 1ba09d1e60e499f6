"""The checks of names and drafts that every store makes before it writes."""

import re
from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence

from foveal.stores.format import ENVELOPE
from foveal.stores.port import Draft, KeptNote, Row
from foveal.values.errors import BadEntry, BadInput, SessionChanged, StoreError

NAME_BYTES = 512
"""Longest session name, entry id and author: far above any id in use, far below an SQLite page."""

SECRET_BYTES = 32
"""Length of a session's secret: as long as the hashes, so that nobody guesses it."""

NOTE_BYTES = 8_192
"""Longest note: two thousand tokens, of which a small share of every prompt must hold many."""

TITLE_BYTES = 1_024
"""Longest title of a session: a line or two."""

_SURROGATES = re.compile("[\ud800-\udfff]")
_FORBIDDEN = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_INT64 = 1 << 63
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LEAST_SEALED_BYTES = 12 + 16
"""Bytes of an encrypted text: its nonce and its tag, even if it is empty."""


def check_session(session: str) -> None:
    """Raise `BadInput` unless this can name a session."""
    problem = _problem(session)
    if problem:
        raise BadInput(f"the session name {session!r:.80} {problem}")


def check_scope(scope: str | None) -> None:
    """Raise `BadInput` unless this can name a scope, or is None."""
    problem = None if scope is None else _problem(scope)
    if problem:
        raise BadInput(f"the scope {scope!r:.80} {problem}")


def check_same_scope(session: str, known: str | None, wanted: str | None) -> None:
    """Raise `BadInput` if a session that is in one scope is to be in another."""
    if known is not None and wanted is not None and known != wanted:
        raise BadInput(
            f"session {session!r} is in the scope {known!r:.80} and cannot be moved to {wanted!r:.80}: what was said in one "
            "scope is not shown in another. Name the first scope, or open a new session."
        )


def check_title(title: str | None, secret: bytes = b"") -> None:
    """Raise `BadInput` unless this can be the title of a session that has this secret, or is None."""
    problem = None if title is None else _problem(title, _kept_bytes(TITLE_BYTES, secret))
    if problem:
        raise BadInput(f"the title {title!r:.80} {problem}")


def check_tag(tag: str) -> None:
    """Raise `BadInput` unless this can be a tag."""
    if problem := _problem(tag):
        raise BadInput(f"the tag {tag!r:.80} {problem}")


def check_note(note: KeptNote, secret: bytes = b"") -> None:
    """Raise `BadInput` unless this note of a session that has this secret can be kept."""
    for what, name in (("key", note.key), ("author", note.author)):
        if problem := _problem(name):
            raise BadInput(f"the {what} {name!r:.80} of a note {problem}")
    size = len(note.text.encode("utf-8", "surrogatepass"))
    most = _kept_bytes(NOTE_BYTES, secret)
    if not note.text.strip() or size > most:
        raise BadInput(
            f"the text of the note {note.key!r:.80} has {size:,} bytes; give 1 to {most:,}, and not only spaces"
        )
    if _SURROGATES.search(note.text):
        raise BadInput(f"the text of the note {note.key!r:.80} holds lone surrogates, which no store keeps")


def check_secret(secret: bytes | None) -> None:
    """Raise `BadInput` unless this can be the secret of a session: bytes enough to be unguessable, or those of an old session."""
    if secret and not 16 <= len(secret) <= NAME_BYTES:
        raise BadInput(f"a session's secret of {len(secret)} bytes; give 16 to {NAME_BYTES} random bytes, or none")


def check_sealed(session: str, secret: bytes, text: str | None) -> None:
    """Raise `StoreError` if a title or note in the clear is to be kept of an encrypted session: it could not be told from one
    that is encrypted, and whoever has the keys would find it unreadable."""
    if not secret.startswith(ENVELOPE) or text is None:
        return
    try:
        is_sealed = len(b64decode(text, validate=True)) >= _LEAST_SEALED_BYTES
    except ValueError:
        is_sealed = False
    if not is_sealed:
        raise StoreError(
            f"session {session!r} is encrypted; open the store with its keys (`keys`, or $FOVEAL_KEYS) to give it titles or notes"
        )


def _kept_bytes(most: int, secret: bytes) -> int:
    """Return the most bytes that a store keeps of a text: in base64, with nonce and tag, if the session is encrypted."""
    return -(-(most + _LEAST_SEALED_BYTES) // 3) * 4 if secret.startswith(ENVELOPE) else most


def is_artifact(name: str) -> bool:
    """Return whether this can be the name of an artifact."""
    return _SHA256.fullmatch(name) is not None


def check_artifact(sha256: str) -> None:
    """Raise `BadInput` unless this is the name of an artifact: nothing else is ever looked up."""
    if not is_artifact(sha256):
        raise BadInput(f"{sha256!r:.80} is not an artifact: its name is 64 hexadecimal digits in lower case")


def check_span(start: int) -> None:
    """Raise `BadInput` unless a span of an artifact begins at a place of it, or behind its end."""
    if start < 0:
        raise BadInput(f"a span of an artifact cannot begin at byte {start}; the first one is 0")


def children_span(session: str) -> tuple[str, str]:
    """Return the name from which on all children of a session have theirs, and the first name behind them."""
    return f"{session}/", f"{session}0"  # the sign after /


def check_seen(found: Mapping[str, int], names: Iterable[str], seen: Mapping[str, int]) -> None:
    """Raise `SessionChanged` unless the sessions that are to be deleted have as many entries as were seen, and no other child.

    `found` are their entries now, `names` those of all sessions, or of their children alone.
    """
    changed = [name for name, entries in found.items() if entries != seen.get(name)]
    children = [
        name
        for name in names
        if name not in found and any(sign == "/" and name[:at] in found for at, sign in enumerate(name))
    ]
    if changed or children:
        raise SessionChanged([*changed, *children])


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


def _problem(name: object, most_bytes: int = NAME_BYTES) -> str | None:
    if type(name) is not str:
        return f"is {type(name).__name__}, not text"
    if name.isascii() and name.isprintable() and 0 < len(name) <= most_bytes:
        return None
    if not name:
        return "is empty"
    if _FORBIDDEN.search(name):
        return "holds control characters or lone surrogates"
    size = len(name.encode())
    return f"has {size} bytes; at most {most_bytes} are allowed" if size > most_bytes else None
