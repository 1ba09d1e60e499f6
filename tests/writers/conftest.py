"""The server that stands for a provider."""

from collections.abc import Iterator

import pytest

from foveal.testing.provider import ScriptedProvider


@pytest.fixture
def endpoint(monkeypatch) -> Iterator[ScriptedProvider]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-of-the-environment")
    with ScriptedProvider() as running:
        yield running
