"""The provider's server, and a line to it through each SDK."""

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from foveal import open_store
from foveal.stores import Store
from foveal.testing.provider import ScriptedProvider

from .lines import Line, anthropic_calls, chat_calls, gemini_calls, responses_calls

DIALECTS = ("openai_chat", "openai_responses", "anthropic", "gemini")


@pytest.fixture(scope="session")
def server() -> Iterator[ScriptedProvider]:
    with ScriptedProvider() as running:
        yield running


@pytest.fixture
def provider(server: ScriptedProvider) -> ScriptedProvider:
    server.begin()
    return server


@pytest.fixture(scope="session")
def sdk(server: ScriptedProvider) -> Iterator[Callable[[str], Any]]:
    """The client of an SDK, as a host would make it. Tests that need one that is missing are skipped."""
    made: dict[str, Any] = {}

    def find(name: str) -> Any:
        if name not in made:
            made[name] = _MAKERS[name](server.url)
        return made[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield find
    for client in made.values():
        client.close()


def _openai(url: str) -> Any:
    openai = pytest.importorskip("openai", reason="the OpenAI SDK is not installed")
    return openai.OpenAI(base_url=f"{url}/v1", api_key="test", max_retries=0)


def _anthropic(url: str) -> Any:
    anthropic = pytest.importorskip("anthropic", reason="the Anthropic SDK is not installed")
    return anthropic.Anthropic(base_url=url, api_key="test", max_retries=0)


def _gemini(url: str) -> Any:
    with warnings.catch_warnings():  # its source warns when it is compiled for the first time
        warnings.simplefilter("ignore")
        genai = pytest.importorskip("google.genai", reason="the Gemini SDK is not installed")
    return genai.Client(api_key="test", http_options={"base_url": url})


_MAKERS: dict[str, Callable[[str], Any]] = {"openai": _openai, "anthropic": _anthropic, "gemini": _gemini}


@pytest.fixture(scope="session")
def lines(sdk: Callable[[str], Any]) -> Callable[[str], Line]:
    """The line that speaks a dialect."""

    def find(dialect: str) -> Line:
        match dialect:
            case "openai_chat":
                client = sdk("openai")
                return Line(dialect, "gpt-4.1", "gpt-4o", client.chat.completions.create, chat_calls, {})
            case "openai_responses":
                return Line(dialect, "gpt-5", "gpt-5.1", sdk("openai").responses.create, responses_calls, {})
            case "anthropic":
                thinks = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
                client = sdk("anthropic")
                return Line(
                    dialect, "claude-opus-4-5", "claude-haiku-4-5", client.messages.create, anthropic_calls, thinks
                )
            case _:
                client = sdk("gemini")
                return Line(
                    dialect, "gemini-3-pro-preview", "gemini-2.5-pro", client.models.generate_content, gemini_calls, {}
                )

    return find


@pytest.fixture(params=DIALECTS)
def line(request: pytest.FixtureRequest, lines: Callable[[str], Line]) -> Line:
    return lines(request.param)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(tmp_path / "sessions.db")
    yield opened
    opened.close()
