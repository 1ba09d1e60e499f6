"""A relay that passes bytes on as they come. A client that survives its death survives that of any process between."""

import socket
import threading
from contextlib import suppress

_PIECE_BYTES = 65_536


class PlainRelay:
    """Listens on a port of this machine and passes bytes on to another, until it is killed."""

    def __init__(self, target: str, port: int = 0) -> None:
        host, _, number = target.rpartition("/")[2].partition(":")
        self._target = (host, int(number))
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def kill(self) -> None:
        """Stop listening and close every connection, in the middle of whatever it carries."""
        for one in (self._listener, *self._open):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                upstream = socket.create_connection(self._target)
                self._open += [client, upstream]
                for source, sink in ((client, upstream), (upstream, client)):
                    threading.Thread(target=_pump, args=(source, sink), daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(_PIECE_BYTES):
            sink.sendall(piece)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
