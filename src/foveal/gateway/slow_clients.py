"""Clients that owe the rest of a request and do not send it: each would hold a connection for ever, since the server waits."""

from typing import Any

PATIENCE_S = 60.0
"""Seconds between two looks at a connection: one that owes the same at both is closed, so after one to two minutes, as other
servers do. A client of a thousand on one busy core took 46 seconds between the head of its request and the body."""

LEAST_BYTES = 1_000
"""Bytes of a body that must come between two looks. The slowest telephone line sends as many in a second."""


def impatient(protocol: Any) -> Any:
    """Return uvicorn's protocol of HTTP with an end to waiting: for the head of a request, and for a body that hardly comes.

    Replies are not looked at: a model thinks for minutes, and a client may read slowly. Nor is a body that nobody reads just now.
    """

    class ImpatientProtocol(protocol):
        """A connection that is looked at now and then."""

        _received = 0
        _begun_after: object = ()
        """The request after which a part of the next head has come."""

        def connection_made(self, transport: Any) -> None:
            """Begin to look."""
            super().connection_made(transport)  # pyright: ignore[reportUnknownMemberType] - uvicorn has two
            self._look(None, 0)

        def data_received(self, data: bytes) -> None:
            """Count the bytes."""
            self._received += len(data)
            super().data_received(data)  # pyright: ignore[reportUnknownMemberType]
            if self.cycle is not None and self.cycle.response_complete:
                self._begun_after = self.cycle

        def _look(self, before: tuple[str, object] | None, received: int) -> None:
            """Close the connection if its client owes the same as `before`, and look again later if not."""
            owed = self._owed()
            is_same = owed and before and owed[0] == before[0] and owed[1] is before[1]
            if owed and is_same and (owed[0] == "head" or self._received - received < LEAST_BYTES):
                self.transport.close()
            elif not self.transport.is_closing():
                self.loop.call_later(PATIENCE_S, self._look, owed, self._received)

        def _owed(self) -> tuple[str, object] | None:
            """Return the part of a request that the client owes, with the request before it or the one that it is of. After a
            reply it owes nothing until it begins another request."""
            cycle = self.cycle
            if cycle is None or cycle.response_complete:
                return ("head", cycle) if cycle is None or self._begun_after is cycle else None
            return ("body", cycle) if cycle.more_body and not self.flow.read_paused else None

    return ImpatientProtocol
