"""The listeners of a run: each has a queue of its own, so that none of them can make the run wait."""

import asyncio
import warnings
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress

import msgspec

from foveal.agent.run_events import PASSING, RunEvent, is_kept, passing_id
from foveal.session.options import now_ms

MOST_WAITING = 10_000
"""Events that wait for a slow listener before those that are not kept are left out."""


class EventHub:
    """Numbers the events of one session and hands them to everybody who listens. Used from one event loop."""

    def __init__(self) -> None:
        self._queues: list[asyncio.Queue[RunEvent | None]] = []
        self.last = 0
        """Id of the newest event."""
        self.is_closed = False
        self.relays: list[Callable[[RunEvent], None]] = []
        """Functions that are called with each event at once: the hub of the run above."""

    def publish(self, events: Iterable[RunEvent]) -> None:
        """Hand events on. One that is not kept gets its number here."""
        for event in events:
            if isinstance(event, PASSING):
                if self.is_closed:  # of a thread that was left behind
                    continue
                event = msgspec.structs.replace(event, id=passing_id(self.last), time_ms=now_ms())  # noqa: PLW2901
            self.last = max(self.last, event.id)
            for queue in self._queues:
                if is_kept(event) or queue.qsize() < MOST_WAITING:
                    queue.put_nowait(event)
            for relay in self.relays:
                relay(event)

    def tell(self, listener: Callable[[RunEvent], None]) -> None:
        """Call a listener of the program with each event from now on. Its failure is a warning, and no end of the run."""

        def relay(event: RunEvent) -> None:
            try:
                listener(event)
            except Exception as error:  # noqa: BLE001, RUF100 - of the program
                with suppress(RuntimeWarning):  # where warnings are errors
                    warnings.warn(f"on_event raised {type(error).__name__}: {error}", RuntimeWarning, stacklevel=2)

        self.relays.append(relay)

    def close(self) -> None:
        """End the streams of all listeners, after the events that wait for them."""
        self.is_closed = True
        for queue in self._queues:
            queue.put_nowait(None)

    def listen(self, past: Callable[[], Iterable[RunEvent]] = tuple) -> AsyncGenerator[RunEvent, None]:
        """Return a stream of the events from now on, behind those that `past` gives. It ends with `close`."""
        queue: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        self._queues.append(queue)
        if self.is_closed:
            queue.put_nowait(None)
        return self._listen(queue, past, self.last)

    async def _listen(
        self, queue: "asyncio.Queue[RunEvent | None]", past: Callable[[], Iterable[RunEvent]], upto: int
    ) -> AsyncGenerator[RunEvent, None]:
        """Yield the past up to the moment from which on the queue has everything."""
        try:
            for event in await asyncio.to_thread(lambda: list(past())):
                if event.id <= upto:
                    yield event
            while (event := await queue.get()) is not None:
                yield event
        finally:
            self._queues.remove(queue)
