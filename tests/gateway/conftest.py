"""A gateway between the SDKs and the scripted provider."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from foveal import Policy, open_store
from foveal.stores import Store
from foveal.testing.provider import ScriptedProvider

pytest.importorskip("uvicorn", reason="the gateway is not installed")
pytest.importorskip("httpx2", reason="the gateway is not installed")

from foveal.gateway.app import Gateway
from foveal.gateway.server import served

from .clients import OPEN


class RunningGateway:
    """A gateway on a port, and the lines that it told."""

    def __init__(self, gateway: Gateway, url: str, lines: list[str]) -> None:
        self.gateway, self.url, self.lines = gateway, url, lines

    @property
    def figures(self) -> Any:
        return self.gateway.conversations.figures


Gateways = Callable[..., RunningGateway]


@pytest.fixture(scope="session")
def server() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as running:
        yield running


@pytest.fixture
def provider(server: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedProvider]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    server.begin()
    yield server
    server.improvise, server.window, server.is_strict = None, None, True


@pytest.fixture(autouse=True)
def close_clients() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()


@pytest.fixture
def store() -> Iterator[Store]:
    opened = open_store()
    yield opened
    opened.close()


@pytest.fixture
def start(provider: ScriptedProvider, store: Store) -> Iterator[Gateways]:
    """Start gateways, by default in front of the scripted provider and with a budget of 10,000 tokens."""
    with ExitStack() as stack:

        def run(
            tokens: int | None = 10_000, *, upstream: str = "", on: Store | None = None, **more: Any
        ) -> RunningGateway:
            lines: list[str] = []
            address = upstream or provider.url
            policy = more.pop("policy", None) or Policy(max_context_tokens=tokens)
            gateway = Gateway(
                on or store,
                policy,
                upstreams=dict.fromkeys(("anthropic", "openai", "gemini"), address),
                tell=lines.append,
                **more,
            )
            return RunningGateway(gateway, stack.enter_context(served(gateway)), lines)

        yield run
