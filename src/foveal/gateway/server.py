"""A gateway on a port: in the foreground, or in a thread of its own beside a client."""

import gc
import logging
import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn

from foveal.gateway.app import Gateway
from foveal.gateway.slow_clients import impatient
from foveal.values.errors import BadInput

_STARTS_S = 15.0

_CONFIG: dict[str, Any] = {
    "log_level": "warning",
    "access_log": False,
    "ws": "none",
    "server_header": False,  # the provider's own are passed on, and come once
    "date_header": False,
    "timeout_graceful_shutdown": 5,
    "timeout_keep_alive": 75,  # longer than clients keep idle connections: whoever closes first decides, and it should be they
}

_COLLECTED = (20_000, 20, 20)
"""Objects after which Python looks for garbage. A call decodes and drops thousands, and next to none of them are in circles:
looking after every 700, as is the default, took a seventh of all time."""

_EXPECTED = (
    "Unsupported upgrade request",
    "No supported WebSocket library",
    "ASGI callable returned without completing",
)
"""Beginnings of warnings about intended answers: WebSockets are told to use HTTP, and a reply that was cut has no end."""


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for a warning about an intended answer."""
    return not record.getMessage().startswith(_EXPECTED)


class _Server(uvicorn.Server):
    """A server that ends the gateway's own streams before it waits for all others."""

    def __init__(self, gateway: Gateway) -> None:
        config = uvicorn.Config(gateway.app, **_CONFIG)
        config.load()
        config.http_protocol_class = impatient(config.http_protocol_class)
        super().__init__(config)
        self._gateway = gateway

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the runs and streams of the gateway, then wait for all other requests."""
        await self._gateway.api.end()
        await super().shutdown(sockets)


def _server(gateway: Gateway) -> uvicorn.Server:
    server = _Server(gateway)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    return server


def serve(gateway: Gateway, listener: socket.socket) -> None:
    """Serve until the process is told to end."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECTED)
    with suppress(KeyboardInterrupt):  # raised again when everything is closed
        _server(gateway).run([listener])


@contextmanager
def served(gateway: Gateway, port: int = 0) -> Generator[str]:
    """Serve on a loopback port, by default a free one, until the block ends; the value is the address."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        server = _server(gateway)
        thread = threading.Thread(target=server.run, args=([listener],), name="foveal-gateway", daemon=True)
        thread.start()
        try:
            _await_start(server, thread)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(timeout=10)


def _await_start(server: uvicorn.Server, thread: threading.Thread) -> None:
    """Return when a server takes requests; `BadInput` if it does not after some seconds, or has ended."""
    deadline = time.monotonic() + _STARTS_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise BadInput(f"the gateway did not start within {_STARTS_S:.0f} seconds")
        time.sleep(0.01)
