"""The lease of a store handle in PostgreSQL: one row for all the sessions that it holds, by the clock of the database.

A thread renews it, not the commits: it must be renewed while nobody writes, and a process that sleeps loses it. Losing it lets
others in and no more; the epoch of each session is the fence. Sessions are never held by advisory locks: those block for ever
behind a process that sleeps, are lost in silence with a connection, and do not survive a pooler.
"""

import threading
import time
from contextlib import suppress

import psycopg

from foveal.stores.lease import new_token, pack, this_process
from foveal.stores.postgres.connections import Bindings, Connections
from foveal.values.errors import StoreError

_RENEW = (
    "INSERT INTO @leases (token, holder, until) VALUES (%s, %s, clock_timestamp() + %s * interval '1 ms') ON CONFLICT (token)"
    " DO UPDATE SET until = excluded.until"
)


class PostgresLease:
    """The lease of one handle. It is taken with the first session, by the same round trip, and renewed from then on."""

    def __init__(self, connections: Connections, lease_s: float) -> None:
        self.token = new_token()
        self._holder = pack(this_process(time.time_ns() // 1_000_000, self.token))
        self._connections, self._lease_s = connections, lease_s
        self._thread: threading.Thread | None = None
        self._is_over = threading.Event()
        self._gate = threading.Lock()

    def renewal(self) -> tuple[str, Bindings]:
        """Return the statement that takes or renews the lease."""
        return _RENEW, (self.token, self._holder, round(self._lease_s * 1000))

    @property
    def is_taken(self) -> bool:
        """Whether the lease is kept alive."""
        return self._thread is not None

    def keep_alive(self) -> None:
        """Begin to renew the lease, if nobody has."""
        with self._gate:
            if self._thread is None and not self._is_over.is_set():
                self._thread = threading.Thread(target=self._renew, name="foveal lease", daemon=True)
                self._thread.start()

    def stop(self) -> None:
        """Renew the lease no longer."""
        self._is_over.set()

    def close(self) -> None:
        """Release all sessions of the handle, and end its lease."""
        self.stop()
        thread = self._thread
        if thread is None:
            return
        thread.join()
        with suppress(psycopg.Error, StoreError), self._connections.link() as link:  # else the lease ends by itself
            link.ask_all(
                [
                    ("UPDATE @sessions SET token = NULL WHERE token = %s", (self.token,)),
                    ("DELETE FROM @leases WHERE token = %s", (self.token,)),
                ]
            )

    def _renew(self) -> None:
        while not self._is_over.wait(self._lease_s / 3):
            with suppress(psycopg.Error, StoreError), self._connections.link() as link:
                link.ask(*self.renewal())
