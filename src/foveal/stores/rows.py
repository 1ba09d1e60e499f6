"""Entries as the rows of a store, and rows as entries: each body is encoded once on its way into a log."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec

from foveal.stores.format import ENCRYPTED, ENVELOPE
from foveal.stores.port import Draft, Row, SessionCard, Store
from foveal.values import codec
from foveal.values.entry import Body, Entry, File, Fold, Image, Message, RangeFold, Role, ToolResult
from foveal.values.errors import BadEntry, KeyMissing, NotFound, StoreCorrupt

UNREADABLE = "[unreadable: its key is not at hand]"
"""The title, or the text of a note, that cannot be opened with the keys at hand."""


class EncodedBody(NamedTuple):
    """A body, and the bytes that a log keeps of it."""

    body: Body
    payload: bytes


def encoded(body: Body | EncodedBody) -> EncodedBody:
    """Return a body with its bytes. The bytes of a checked body are there already; a body of Foveal's own needs no check."""
    return body if isinstance(body, EncodedBody) else EncodedBody(body, codec.encode(_lean(body)))


def to_draft(entry: Entry, payload: bytes) -> Draft:
    """Return the draft of an entry whose body was encoded as `payload`."""
    return Draft(entry.id, entry.parent, entry.time_ms, entry.author, payload)


def _lean(body: Body) -> Body:
    """Return the body without the state of its summaries, which can be made again from the log."""
    if not isinstance(body, Fold) or not any(isinstance(item, RangeFold) and item.state for item in body.items):
        return body
    items = (msgspec.structs.replace(item, state="") if isinstance(item, RangeFold) else item for item in body.items)
    return msgspec.structs.replace(body, items=tuple(items))


def readable_titles(store: Store, cards: Sequence[SessionCard]) -> list[SessionCard]:
    """Return the cards of a store that was opened without keys and without a tenant: an encrypted title is not shown as it is."""
    secrets = store.secrets([card.id for card in cards if card.title is not None])
    hidden = {name for name, secret in secrets.items() if secret.startswith(ENVELOPE)}
    return [msgspec.structs.replace(card, title=UNREADABLE) if card.id in hidden else card for card in cards]


def check_readable(store: Store, session: str) -> None:
    """Raise `KeyMissing` if a session is encrypted and the store was opened without keys."""
    if store.secret(session).startswith(ENVELOPE):
        raise _encrypted(session)


def _encrypted(session: str) -> KeyMissing:
    return KeyMissing(f"session {session!r} is encrypted; open the store with its keys (`keys`, or $FOVEAL_KEYS)")


def to_entry(row: Row, session: str) -> Entry:
    """Return the entry of a row; `StoreCorrupt` if its payload is not a body, `KeyMissing` if it is encrypted."""
    if row.payload.startswith(ENCRYPTED):
        raise _encrypted(session)
    try:
        return Entry(row.id, row.parent, row.time_ms, row.author, codec.decode(row.payload))
    except BadEntry as error:
        raise StoreCorrupt(f"session {session!r}, entry {row.seq}", str(error)) from error


def branch(rows: Iterable[Row], head: str | None = None) -> list[Row]:
    """Return the rows from the first to `head` (the last row, if not given) along the parents."""
    listed = list(rows)
    straight = all(after.parent == before.id for before, after in pairwise(listed))
    if not listed or (straight and head in (None, listed[-1].id)):
        return listed
    by_id = {row.id: row for row in listed}
    at = by_id.get(head) if head else listed[-1]
    if at is None:
        raise NotFound(f"no entry {head!r} in this log")
    path = [at]
    while at.parent is not None:
        parent = by_id.get(at.parent)
        if parent is None:
            raise StoreCorrupt(f"entry {at.seq} ({at.id})", f"its parent {at.parent!r} is not in the log")
        at = parent
        path.append(at)
    return path[::-1]


def heads(store: Store, session: str) -> list[str]:
    """Return the ids at which branches end, the current one last."""
    rows = list(store.rows(session))
    parents = {row.parent for row in rows}
    return [row.id for row in rows if row.id not in parents]


_PARTS_OF_ROLE: dict[Role, str] = {
    "system": "Text Stored",
    "user": "Text Image File Stored Opaque",
    "assistant": "Text Thinking RedactedThinking ToolCall Image File Opaque",
    "tool": "ToolResult",
}


def checked_body(body: Body) -> EncodedBody:
    """Return the body as the log will return it, with its bytes; `BadEntry` if it holds a value that no log can."""
    try:
        payload = codec.encode(body)
        kept = codec.decode(payload)
    except BadEntry as error:
        raise BadEntry(f"this {type(body).__name__} cannot be kept: {error}") from None
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadEntry(f"this {type(body).__name__} cannot be kept: {error}") from error
    # Equal bodies have equal bytes: a body that was built of other types, and a fold with its state, is written anew.
    return EncodedBody(kept, payload) if kept == body and not isinstance(kept, Fold) else encoded(kept)


def checked_message(message: Message) -> EncodedBody:
    """Check a message like any body, and refuse parts that its role cannot have: better here than in a prompt that cannot
    be built."""
    allowed = _PARTS_OF_ROLE.get(message.role)
    if allowed is None:
        raise BadEntry(f"the role {message.role!r} is not one of {', '.join(_PARTS_OF_ROLE)}")
    for part in message.parts:
        if type(part).__name__ not in allowed.split():
            raise BadEntry(
                f"a message of role {message.role!r} cannot hold a {type(part).__name__}; it can hold {allowed}"
            )
    kept = checked_body(message)
    for item in _media(message):
        if isinstance(item.data, str):  # the log would take it for base64
            raise BadEntry(f"the data of a {type(item).__name__} is {type(item.data).__name__} where bytes belong")
    return kept


def _media(message: Message) -> Iterator[Image | File]:
    for part in message.parts:
        content = part.content if isinstance(part, ToolResult) else (part,)
        yield from (item for item in content if isinstance(item, Image | File))
