"""The server that stands for a provider."""

from collections.abc import Iterator

import pytest

from .endpoint import Endpoint


@pytest.fixture
def endpoint(monkeypatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-environment")
    running = Endpoint()
    running.start()
    yield running
    running.stop()
