"""The log of a session as a stream of events: the entries that are there, then those that come.

The place of an entry is the id of its event, so that a client that lost its connection goes on where it was. Entries of other
processes come as well: the store is asked, and not the session.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable

from foveal.gateway.api_types import LoggedEntry
from foveal.gateway.json_reply import encoded_json
from foveal.gateway.session_api import SessionApi, lean_entry
from foveal.stores import rows as log
from foveal.values.errors import NotFound, StoreError

PING_S = 10.0
"""Seconds of silence after which a listener gets a sign of life."""

POLL_S = 0.25
"""Seconds between two looks at the store."""

_PING = b": ping\n\n"
_BATCH = 100
"""Entries that are read at once."""


async def event_stream(
    api: SessionApi, session: str, after: int, *, is_over: Callable[[], bool]
) -> AsyncGenerator[bytes]:
    """Yield the events of a stored session after a place of its log, until it is deleted or the gateway ends."""
    store = api.conversations.store

    def new(place: int) -> list[tuple[int, bytes]]:
        cards = store.cards(session)
        if not cards:
            raise NotFound(f"session {session!r} was deleted")
        if cards[0].entries <= place:
            return []
        rows = store.rows(session, after=place, upto=place + _BATCH)
        return [(row.seq, _event(LoggedEntry(row.seq, lean_entry(log.to_entry(row, session))))) for row in rows]

    yield b"retry: 1000\n\n"
    silent_s = 0.0
    while not is_over():
        try:
            events = await api.read(lambda place=after: new(place))
        except (NotFound, StoreError) as error:
            told = encoded_json({"type": type(error).__name__, "message": str(error)})
            yield b"event: end\ndata: " + told + b"\n\n"
            return
        for seq, event in events:
            after = seq
            yield event
        if events:
            silent_s = 0.0
            continue
        await asyncio.sleep(POLL_S)
        silent_s += POLL_S
        if silent_s >= PING_S:
            silent_s = 0.0
            yield _PING


def _event(logged: LoggedEntry) -> bytes:
    kind = logged.entry.body.__struct_config__.tag
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (logged.seq, str(kind).encode(), encoded_json(logged))
