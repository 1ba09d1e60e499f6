"""HTTP on a loopback port, from the standard library: one thread for each connection, kept alive between requests.

Requests are read and answers written by hand, because the library's own handler costs more than the rest of an answer. A stop
closes every connection, so that a client that stays connected holds nobody up.
"""

import selectors
import socket
import socketserver
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.client import responses as phrases
from typing import Any, NamedTuple
from zlib import MAX_WBITS, decompress
from zlib import error as zlib_error

_MOST_BODY_BYTES = 256 * 1024 * 1024  # eight times what any provider takes


class HttpRequest(NamedTuple):
    """A request as it came over the wire."""

    method: str
    target: str
    headers: Mapping[str, str]
    """Names in lower case."""
    raw: bytes
    """The body, unpacked."""

    @property
    def path(self) -> str:
        """The target without its query."""
        return self.target.partition("?")[0]


class Connection:
    """One client's connection."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._file = sock.makefile("rb", 65_536)
        self.is_open = True
        """Whether another request may follow."""
        self.status = 0
        """Status of the newest answer."""
        self.headers: dict[str, str] = {}
        """Headers of the newest answer."""
        self.sent: list[bytes] = []
        """Body of the newest answer as far as it was sent."""

    def receive(self) -> HttpRequest | None:
        """Return the next request; None when the client has gone or sends no HTTP."""
        line = self._file.readline(65_536).split()
        if len(line) != 3:
            return None
        headers: dict[str, str] = {}
        while field := self._file.readline(65_536).rstrip(b"\r\n"):
            name, _, value = field.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        self.is_open = headers.get("connection", "").lower() != "close" and line[2] != b"HTTP/1.0"
        if headers.get("expect", "").lower() == "100-continue":
            self._sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        raw = self._chunks() if headers.get("transfer-encoding", "").lower() == "chunked" else self._body(headers)
        if headers.get("content-encoding") in ("gzip", "deflate"):
            raw = decompress(raw, MAX_WBITS | 32)
        return HttpRequest(line[0].decode("latin-1"), line[1].decode("latin-1"), headers, raw)

    def _body(self, headers: Mapping[str, str]) -> bytes:
        size = int(headers.get("content-length") or 0)
        if size > _MOST_BODY_BYTES:
            raise ConnectionError(f"a body of {size} bytes")
        return self._file.read(size)

    def _chunks(self) -> bytes:
        pieces: list[bytes] = []
        while size := int(self._file.readline(100).partition(b";")[0], 16):
            pieces.append(self._file.read(size))
            self._file.readline(100)
        while self._file.readline(65_536).strip():
            pass
        return b"".join(pieces)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        """Send status and headers."""
        if not self.is_open:
            headers = {**headers, "connection": "close"}
        self.status, self.headers, self.sent = status, dict(headers), []
        lines = [
            f"HTTP/1.1 {status} {phrases.get(status, 'Scripted')}",
            *(f"{name}: {value}" for name, value in headers.items()),
            "",
            "",
        ]
        self._sock.sendall("\r\n".join(lines).encode("latin-1"))

    def send(self, status: int, headers: Mapping[str, str], data: bytes, *, cut: int | None = None) -> None:
        """Send a whole answer, or the beginning of one and hang up."""
        self.begin(status, {**headers, "content-length": str(len(data))})
        self.sent.append(data[:cut])
        self._sock.sendall(data[:cut])
        self.is_open = self.is_open and cut is None

    def send_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Send an answer without a body."""
        self.begin(status, {**headers, "content-length": "0"})

    def send_chunk(self, data: bytes) -> None:
        """Send a piece of a chunked body."""
        if data:
            self.sent.append(data)
            self._sock.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def end_chunks(self) -> None:
        """Send the end of a chunked body; a client can tell one that was cut off from a whole one."""
        self._sock.sendall(b"0\r\n\r\n")

    def wait(self, seconds: float | None) -> bool:
        """Wait, for ever if None, and return whether the client is still there."""
        until = None if seconds is None else time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._sock, selectors.EVENT_READ)
            if not selector.select(seconds):
                return True
        try:
            is_there = bool(self._sock.recv(1, socket.MSG_PEEK))
        except OSError:
            return False
        if is_there:  # the next request is here already
            time.sleep(60.0 if until is None else max(0.0, until - time.monotonic()))
        return is_there

    def hang_up(self) -> None:
        """End the connection, whatever it is doing."""
        self.is_open = False
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the connection back to the system."""
        self.hang_up()
        self._file.close()
        self._sock.close()


class LoopbackListener:
    """Listens on a loopback port and hands each request to a function."""

    def __init__(self, answer: Callable[[Connection, HttpRequest], None], port: int = 0) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._open: dict[Connection, threading.Thread] = {}
        self._is_stopped = False
        listener = self

        class Answering(socketserver.BaseRequestHandler):
            def handle(self) -> None:
                listener._serve(self.request)

        self._server = _LoopbackServer(("127.0.0.1", port), Answering)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and end every connection. Stopping twice is fine."""
        with self._lock:
            is_first, self._is_stopped = not self._is_stopped, True
            opened = dict(self._open)
        if not is_first:
            return
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
        for connection in opened:
            connection.hang_up()
        for thread in opened.values():
            thread.join(1.0)  # one that is held up by a callback is left behind

    def _serve(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(sock)
        with self._lock:
            if self._is_stopped:
                connection.close()
                return
            self._open[connection] = threading.current_thread()
        try:
            while connection.is_open and (request := _received(connection)):
                with suppress(ConnectionError):  # the client has gone
                    self._answer(connection, request)
        finally:
            with self._lock:
                del self._open[connection]
            connection.close()


def _received(connection: Connection) -> HttpRequest | None:
    try:
        return connection.receive()
    except (OSError, ValueError, zlib_error):  # the client has gone, or speaks something else
        return None


class _LoopbackServer(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 512  # many clients at once

    def shutdown_request(self, request: Any) -> None:
        """Leave the socket to its connection, which has closed it."""
