"""A provider to ask: a real HTTP server on this machine that gives the next answer of a script and keeps what it got."""

import json
import threading
from collections import deque
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Endpoint:
    """Answers by script: a status and a body each, or None to say nothing until the end of the test."""

    def __init__(self) -> None:
        self.script: deque[tuple[int, dict[str, Any]] | None] = deque()
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.released = threading.Event()
        endpoint = self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                endpoint._answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        self.bodies.append(json.loads(request.rfile.read(int(request.headers["content-length"]))))
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.paths.append(request.path)
        answer = self.script.popleft()
        if answer is None:
            self.released.wait(60)
            return
        status, body = answer
        data = json.dumps(body).encode()
        request.send_response(status)
        request.send_header("content-type", "application/json")
        request.send_header("content-length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)
