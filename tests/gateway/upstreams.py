"""An upstream that answers with given bytes, and keeps what it was asked: for all that the scripted provider does not say."""

import threading
from collections.abc import Callable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import NamedTuple


class SentRequest(NamedTuple):
    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    @property
    def named(self) -> Mapping[str, str]:
        return {name.lower(): value for name, value in self.headers}


class PlainAnswer(NamedTuple):
    status: int = 200
    headers: Sequence[tuple[str, str]] = (("content-type", "application/json"),)
    body: bytes = b"{}"
    declared: int | None = None
    """The length that is declared, if it is not the body's."""


class PlainUpstream:
    """Answers every request by `answer`."""

    def __init__(self, answer: Callable[[SentRequest], PlainAnswer]) -> None:
        self.requests: list[SentRequest] = []
        upstream = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"] or 0))
                asked = SentRequest(self.command, self.path, list(self.headers.items()), body)
                upstream.requests.append(asked)
                told = answer(asked)
                self.send_response_only(told.status)
                for name, value in told.headers:
                    self.send_header(name, value)
                self.send_header("content-length", str(len(told.body) if told.declared is None else told.declared))
                self.send_header("connection", "close")
                self.end_headers()
                self.close_connection = True
                if self.command != "HEAD":
                    self.wfile.write(told.body)

            do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = _serve  # noqa: N815 - the library's names

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> "PlainUpstream":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
