"""Conversations that go on under another key: a login that was refreshed, and nothing else.

The name of a conversation's session ends in the hash of the client's key, so that nobody else can reach it. A login has a new
token every few hours. The session is adopted under the new one if the client tells the whole of it: every message that the log
holds is in its list, a reply of the model among them. Who has all of that learns nothing by it.

The new name then is a session of one entry, which says where the conversation goes on. Only the gateway writes such an entry: it
is the first of its log, and no session has its author.
"""

import re
import time
from collections.abc import Sequence

from foveal.dialects.port import Dialect
from foveal.record.client_list import ListedMessage
from foveal.session.follow import tells_all, told_list
from foveal.stores import rows as log
from foveal.stores.port import SessionCard, Store
from foveal.values.entry import Entry, Note

_AUTHOR = "gateway-adoption"
_ID = "goes-on-in"
_TEXT = "the conversation goes on in session "
_KEYED = re.compile(r"(.+)-[0-9a-f]{16}\Z", re.DOTALL)

MOST_OF_A_NAME = 1_000
"""Sessions under one name and different keys among which the one that goes on is looked for."""
_MOST_COMPARED = 100
"""Sessions of them whose entries are compared with a client's list."""


def continued_in(store: Store, name: str) -> str:
    """Return the name of the session that a stored one goes on in: its own, unless it was made by an adoption."""
    if not store.cards(name):
        return name
    first = next((row for row in store.find(name, _ID) if row.id == _ID), None)
    if first is None or first.seq != 1 or first.author != _AUTHOR:
        return name
    body = log.to_entry(first, name).body
    target = body.text.removeprefix(_TEXT) if isinstance(body, Note) else ""
    return target if target and store.cards(target) else name


def adopt(store: Store, name: str, given: Sequence[ListedMessage], *, dialect: Dialect, model: str) -> str:
    """Return the name of the session for a client's list: that of the same conversation under another key, if the list holds
    all of it; else `name`, which is a session that the store does not have yet."""
    keyed = _KEYED.match(name)
    if keyed is None:
        return name
    cards = _same_names(store, keyed[1])
    ids = frozenset(told_list(given, dialect=dialect, model=model).entries) if cards else frozenset[str]()
    for card in cards:
        if tells_all(store, card.id, ids):
            _mark(store, name, card.id)
            return card.id
    return name


def _same_names(store: Store, conversation: str) -> list[SessionCard]:
    """Return the sessions of a conversation under all keys that were used last, the newest first, without those that only point
    to another. None of a name that too many bear: it names no conversation, and looking at all would take ever longer."""
    found = store.page(prefix=f"{conversation}-", limit=MOST_OF_A_NAME + 1)
    if len(found) > MOST_OF_A_NAME:
        return []
    begun = (
        card for card in found if card.entries > 1 and (keyed := _KEYED.match(card.id)) and keyed[1] == conversation
    )
    return sorted(begun, key=lambda card: -card.updated_ms)[:_MOST_COMPARED]


def _mark(store: Store, name: str, target: str) -> None:
    body, payload = log.encoded(Note(_TEXT + target))
    entry = Entry(_ID, None, time.time_ns() // 1_000_000, _AUTHOR, body)
    writer = store.acquire(name, takeover=True)
    try:
        writer.append([log.to_draft(entry, payload)])
    finally:
        writer.release()
