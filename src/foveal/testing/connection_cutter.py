"""A relay between a store and its database that cuts a connection at a chosen moment: before a message arrives, or after the
database has answered it and before the answer arrives."""

import socket
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PIECE = 1 << 16


class _Order(NamedTuple):
    marker: bytes
    is_after: bool


class ConnectionCutter:
    """A relay from a Unix socket to another. Connections that are open when it is closed are cut."""

    def __init__(self, place: Path, target: Path) -> None:
        self._target = target
        self._orders: list[_Order] = []
        self.cuts = 0
        """Connections that were cut."""
        self._sockets: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(place))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self, marker: bytes, *, is_after: bool) -> None:
        """Cut the next connection whose client sends these bytes: before they arrive, or after their answer was given."""
        self._orders.append(_Order(marker, is_after))

    def close(self) -> None:
        """Cut everything."""
        for one in (self._listener, *self._sockets):
            _close(one)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                try:
                    server.connect(str(self._target))
                except OSError:
                    _close(client)
                    continue
                self._sockets += [client, server]
                threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        """Carry everything to the server, and its answers back, until an order says to cut."""
        is_cut = threading.Event()
        threading.Thread(target=self._answer, args=(client, server, is_cut), daemon=True).start()
        with suppress(OSError):
            while piece := client.recv(_PIECE):
                order = next((one for one in self._orders if one.marker in piece), None)
                if order is not None:
                    self._orders.remove(order)
                    self.cuts += 1
                    is_cut.set()
                    if not order.is_after:
                        break
                server.sendall(
                    piece
                )  # also the rest of a message after an order: the other thread cuts once it is answered
        _close(client)
        _close(server)

    def _answer(self, client: socket.socket, server: socket.socket, is_cut: threading.Event) -> None:
        with suppress(OSError):
            while piece := server.recv(_PIECE):
                if is_cut.is_set():
                    break
                client.sendall(piece)
        _close(client)
        _close(server)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
