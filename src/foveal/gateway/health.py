"""The health of a gateway: whether its store answers, for probes that have no token."""

import asyncio
from collections.abc import Callable

from foveal.stores.port import Store
from foveal.values.errors import StoreUnavailable

ANSWERS_S = 5.0
"""Seconds within which the store has to answer: half of the ten that the probes in docs/deploy.md wait."""


class StoreHealth:
    """Asks the store for its first session. Probes that come while it is asked wait for the same answer."""

    def __init__(self, store: Store, tell: Callable[[str], None]) -> None:
        self._store, self._tell = store, tell
        self._asked: asyncio.Task[object] | None = None
        self._told = ""

    async def check(self) -> None:
        """Return if the store answers, else raise `StoreUnavailable`. Its own words may name places: they go to the operator."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.ensure_future(asyncio.to_thread(self._store.page, limit=1))
            self._asked.add_done_callback(lambda asked: asked.cancelled() or asked.exception())  # perhaps nobody waits
        try:
            async with asyncio.timeout(ANSWERS_S):
                await asyncio.shield(self._asked)
        except TimeoutError:
            self._fail(f"the store did not answer within {ANSWERS_S:g} s")
        except Exception as error:  # of any kind: a store may be the operator's own
            self._fail(f"the store does not answer: {type(error).__name__}", str(error))
        self._told = ""

    def _fail(self, reason: str, words: str = "") -> None:
        if reason != self._told:
            self._told = reason
            self._tell(f"health: {reason}" + (f": {words}" if words else ""))
        raise StoreUnavailable(f"{reason}; the gateway's log says more" if words else reason) from None
