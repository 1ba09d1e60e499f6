"""Clients that do not send the rest of a request: their connections end, and nobody else's."""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from foveal.gateway import server, slow_clients
from foveal.testing.provider import ScriptedProvider, Turn

from .conftest import Gateways, RunningGateway
from .requests import PATHS, post, said

HEAD = f"POST {PATHS['anthropic']} HTTP/1.1\r\nhost: localhost\r\nx-api-key: k\r\n"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_clients, "PATIENCE_S", 0.1)


@contextmanager
def connected(gateway: RunningGateway) -> Iterator[socket.socket]:
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port)), timeout=60) as line:
        yield line


@pytest.mark.parametrize(
    "sent",
    ["", "POST /v1", HEAD, f"{HEAD}content-length: 5000\r\n\r\n", f"{HEAD}transfer-encoding: chunked\r\n\r\n5\r\n{{"],
)
def test_a_request_that_does_not_end_is_given_up(start: Gateways, sent: str) -> None:
    """Whatever is missing, of the head or of the body, the connection is closed."""
    with connected(start()) as line:
        line.sendall(sent.encode())
        assert line.recv(1_000) == b""


@pytest.mark.parametrize("sent", ["POST /", f"{HEAD}content-length: 5000\r\n\r\n"], ids=["head", "body"])
def test_a_byte_now_and_then_is_not_enough(start: Gateways, sent: str) -> None:
    """A head must be whole in time, and a body must come at the rate of a slow line."""
    with connected(start()) as line:
        line.settimeout(0.02)
        line.sendall(sent.encode())
        for _ in range(3_000):
            try:
                assert line.recv(1_000) == b""
                break
            except TimeoutError:
                line.sendall(b"x")
            except ConnectionError:
                break
        else:
            pytest.fail("the connection is still open")


def test_a_reply_may_take_its_time(start: Gateways, provider: ScriptedProvider) -> None:
    """A model that thinks for longer than clients may be silent is waited for."""
    provider.script(Turn("Well.", delay_s=0.5))
    assert post(start(), said("Go.")).status_code == 200


def test_an_idle_connection_is_kept_for_the_next_request(start: Gateways) -> None:
    """An agent's tools may work for a while between two calls; half a request after a whole one is given up."""
    with connected(start()) as line:
        for _ in range(2):
            line.sendall(b"GET /nothing HTTP/1.1\r\nhost: localhost\r\n\r\n")
            time.sleep(0.5)
            assert line.recv(10_000).startswith(b"HTTP/1.1 404")
        line.sendall(b"GET /noth")
        assert line.recv(1_000) == b""


def test_idle_connections_outlast_those_of_clients() -> None:
    """One that both ends give up at the same moment costs the client an error: `httpx` and the SDKs keep them for 5 s."""
    assert server._CONFIG["timeout_keep_alive"] > 30


class Connection:
    """A connection of uvicorn's kind; `looks` are those that are due."""

    def __init__(self) -> None:
        self.transport, self.loop, self.cycle, self.flow = Mock(), Mock(), None, SimpleNamespace(read_paused=False)
        self.transport.is_closing.return_value = False

    def connection_made(self, transport: object) -> None: ...
    def data_received(self, data: bytes) -> None: ...


@pytest.mark.parametrize(
    ("owes", "comes", "is_paused", "is_closed"),
    [("body", 999, False, True), ("body", 1_000, False, False), ("body", 0, True, False), ("reply", 0, False, False)],
)
def test_a_body_must_come_as_fast_as_a_slow_line(owes: str, comes: int, is_paused: bool, is_closed: bool) -> None:
    """Too few bytes between two looks end a connection, unless nobody reads them; and a reply is not waited for in this way."""
    line = slow_clients.impatient(Connection)()
    line.cycle = SimpleNamespace(response_complete=False, more_body=owes == "body")
    line.flow.read_paused = is_paused
    line.connection_made(None)
    line.data_received(bytes(comes))
    _, look, *before = line.loop.call_later.call_args.args
    look(*before)
    assert line.transport.close.called == is_closed
    assert line.loop.call_later.call_count == (1 if is_closed else 2)
