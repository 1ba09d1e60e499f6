"""The log of a session, or a run of an agent, as a stream of events: those that are there, then those that come.

An event of a session is an entry, and its place is the id; one of a run has an id of its own. A client that lost its connection
goes on where it was. Entries of other processes come as well: the store is asked, and not the session.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Container
from contextlib import aclosing

import msgspec

from foveal.agent.run_events import RunEvent, kind_of
from foveal.gateway.api_types import LoggedEntry
from foveal.gateway.json_reply import encoded_json
from foveal.gateway.run_api import RunApi
from foveal.gateway.session_api import SessionApi, lean_entry
from foveal.stores import rows as log
from foveal.values.errors import NotFound, StoreError

PING_S = 10.0
"""Seconds of silence after which a listener gets a sign of life."""

POLL_S = 0.25
"""Seconds between two looks at the store."""

_PING = b": ping\n\n"
_RETRY = b"retry: 1000\n\n"
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

    yield _RETRY
    silent_s = 0.0
    while not is_over():
        try:
            events = await api.read(lambda place=after: new(place))
        except (NotFound, StoreError) as error:
            yield _end(type(error).__name__, str(error))
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


async def run_stream(
    api: RunApi, run: str, after: int, *, kinds: Container[str], is_over: Callable[[], bool]
) -> AsyncGenerator[bytes]:
    """Yield the events of a run after an id, of these kinds, until it has ended. One that waits or rests is waited for."""
    yield _RETRY
    told_s = time.monotonic()
    try:
        async with aclosing(api.observed(run, after)) as events:
            async for event in events:
                if is_over():
                    return
                is_told = event is not None and kind_of(event) in kinds
                if not is_told and time.monotonic() - told_s < PING_S:
                    continue
                told_s = time.monotonic()
                yield _run_event(event) if event is not None and is_told else _PING
    except (NotFound, StoreError) as error:
        yield _end(type(error).__name__, str(error))
        return
    yield _end("RunEnded", f"run {run} has ended")


def _end(kind: str, message: str) -> bytes:
    return b"event: end\ndata: " + encoded_json({"type": kind, "message": message}) + b"\n\n"


def _run_event(event: RunEvent) -> bytes:
    try:
        told = encoded_json(msgspec.to_builtins(event, enc_hook=repr))  # a tool may hand any value to the program
    except Exception:  # noqa: BLE001, RUF100 - of such a value: nothing else of an event can fail
        told = encoded_json(msgspec.structs.replace(event, data="[a value that JSON cannot hold]"))
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (event.id, str(event.__struct_config__.tag).encode(), told)


def _event(logged: LoggedEntry) -> bytes:
    kind = logged.entry.body.__struct_config__.tag
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (logged.seq, str(kind).encode(), encoded_json(logged))
