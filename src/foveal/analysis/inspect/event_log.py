"""The kept events of a stored session, read from its log: those that are there, and those to come.

Any process that can open the store may read them, while another one writes: the store is asked, and not the session.
"""

import time
from collections.abc import Iterator

import msgspec

from foveal.session.session_events import LogEvents
from foveal.stores import rows as log
from foveal.stores.port import Store
from foveal.values.errors import NotFound
from foveal.values.events import Event

POLL_S = 0.25
"""Seconds between two looks at the store."""


class LoggedEvent(msgspec.Struct, frozen=True):
    """An event, and the entry that tells of it."""

    seq: int
    """The place of the entry in the log: to go on from here, ask for the events after it."""
    entry: str
    time_ms: int
    event: Event


def events(store: Store, session: str, *, after: int = 0) -> Iterator[LoggedEvent]:
    """Yield the kept events of a stored session after a place of its log, in their order."""
    yield from _read(store, session, LogEvents(session), after)


def tail(store: Store, session: str, *, after: int = 0, poll_s: float = POLL_S) -> Iterator[LoggedEvent | None]:
    """Yield the kept events after a place of the log, then each new one as it comes; None after a look that found nothing.

    Ends with `NotFound` when the session is deleted.
    """
    reader, place = LogEvents(session), after
    while True:
        if not (cards := store.cards(session)):
            raise NotFound(f"this store has no session {session!r}")
        if (entries := cards[0].entries) <= place:
            yield None
            time.sleep(poll_s)
            continue
        yield from _read(store, session, reader, place, entries)
        place = entries


def _read(store: Store, session: str, reader: LogEvents, after: int, upto: int | None = None) -> Iterator[LoggedEvent]:
    """Yield the events of the entries between two places."""
    for row in store.rows(session, after=after, upto=upto):
        entry = log.to_entry(row, session)
        for event in reader.read(entry):
            yield LoggedEvent(row.seq, entry.id, entry.time_ms, event)
