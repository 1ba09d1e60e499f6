"""Large bodies: requests up to a limit, and uploads that are never held as a whole."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx2
import pytest

from foveal.testing.provider import ScriptedProvider, Turn

from .conftest import Gateways
from .requests import PATHS, said
from .upstreams import PlainAnswer, PlainUpstream

MEGABYTE = 1_000_000
EVERY = pytest.mark.parametrize("dialect", PATHS)


@EVERY
@pytest.mark.parametrize("is_declared", [True, False], ids=["declared", "in chunks"])
def test_a_request_above_the_limit_is_refused(start: Gateways, dialect: str, is_declared: bool) -> None:
    """It is a 413 in the provider's form, which names the limit and the option that raises it."""
    with PlainUpstream(lambda request: PlainAnswer()) as upstream:
        gateway = start(upstream=upstream.url, most_body_mb=1)
        body = b'{"text": "' + b"x" * MEGABYTE + b'"}'
        content = body if is_declared else iter([body[:MEGABYTE], body[MEGABYTE:]])
        headers = {"x-goog-api-key" if dialect == "gemini" else "x-api-key": "k"}

        reply = httpx2.post(gateway.url + PATHS[dialect], content=content, headers=headers)

        assert reply.status_code == 413
        message = reply.json()["error"]["message"]
        assert "1 MB" in message
        assert "--max-body" in message
        assert upstream.requests == []
        assert message in gateway.lines


def test_a_request_below_the_limit_is_managed(start: Gateways, provider: ScriptedProvider) -> None:
    """However it is sent."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start(400_000, most_body_mb=1)
    body = said("Go. " + "x" * 900_000)
    for content in (body, iter([body[:1_000], body[1_000:]])):
        reply = httpx2.post(gateway.url + PATHS["anthropic"], content=content, headers={"x-api-key": "k"}, timeout=60)
        assert reply.status_code == 200
        assert provider.last.raw == body
    assert gateway.figures.unmanaged == 0, gateway.lines


@pytest.mark.parametrize("is_declared", [True, False], ids=["declared", "in chunks"])
def test_an_upload_is_passed_on_as_it_comes(start: Gateways, is_declared: bool) -> None:
    """The provider has the first piece before the client has sent the second one, and all bytes in the end."""
    began, got = threading.Event(), bytearray()
    heads: list[dict[str, str]] = []

    class Taking(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            heads.append({name.lower(): value for name, value in self.headers.items()})
            while len(got) < 3 * MEGABYTE:
                size = MEGABYTE if is_declared else int(self.rfile.readline(), 16)
                got.extend(self.rfile.read(size))
                if not is_declared:
                    self.rfile.readline()
                began.set()
            self.send_response_only(200)
            self.send_header("content-length", "2")
            self.send_header("connection", "close")
            self.end_headers()
            self.wfile.write(b"{}")
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
            """Say nothing."""

    def pieces() -> Iterator[bytes]:
        yield b"a" * MEGABYTE
        assert began.wait(10)
        yield b"b" * (2 * MEGABYTE)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Taking)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        gateway = start(upstream=f"http://127.0.0.1:{server.server_address[1]}", most_body_mb=1)
        headers = {"content-length": str(3 * MEGABYTE)} if is_declared else {}
        reply = httpx2.post(f"{gateway.url}/v1/files", content=pieces(), headers=headers, timeout=30)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

    assert (reply.status_code, reply.content) == (200, b"{}")
    assert bytes(got) == b"a" * MEGABYTE + b"b" * (2 * MEGABYTE)
    assert heads[0].get("content-length") == (str(3 * MEGABYTE) if is_declared else None)
