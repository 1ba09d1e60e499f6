"""The example for TypeScript and JavaScript runs with plain node against a gateway and the scripted provider."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from foveal import Policy, open_store
from foveal.stores import Store
from foveal.testing.provider import Call, ScriptedProvider, Turn

pytest.importorskip("uvicorn", reason="the gateway is not installed")
pytest.importorskip("httpx2", reason="the gateway is not installed")

from foveal.gateway.app import Gateway
from foveal.gateway.server import served

AGENT = Path(__file__).parents[2] / "examples" / "typescript" / "agent.mjs"
QUESTION = "What does notes.txt say?"
OLDEST_NODE = 18


class Running(NamedTuple):
    provider: ScriptedProvider
    store: Store
    url: str


def _node() -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    told = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(re.findall(r"\d+", told)[0]) < OLDEST_NODE:
        pytest.skip(f"node {told.strip()} has no fetch; {OLDEST_NODE} or newer has")
    return node


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    (tmp_path / "notes.txt").write_text("The tide turns at noon.\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    store = open_store()
    gateway = Gateway(store, Policy(max_context_tokens=20_000), token="t-1")
    with store, ScriptedProvider() as provider, served(gateway) as url:
        yield Running(provider, store, url)


def _run(running: Running, *words: str, key: str = "k-1") -> str:
    environment = os.environ | {
        "FOVEAL_URL": running.url,
        "FOVEAL_GATEWAY_TOKEN": "t-1",
        "OPENAI_BASE_URL": f"{running.provider.url}/v1",
        "OPENAI_API_KEY": key,
    }
    done = subprocess.run([_node(), str(AGENT), *words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_the_agent_runs_explains_finds_and_forgets(running: Running) -> None:
    """A loop without any package: prompts that the provider takes, tools that run, the trace, a search, a deletion."""
    provider = running.provider
    provider.script(Turn("", (Call("c1", "read_file", {"path": "notes.txt"}),)), Turn("The tide turns at noon."))
    shown = _run(running, QUESTION)
    assert shown.startswith("[reading notes.txt]\nThe tide turns at noon.\n")
    assert re.findall(r"^\S+ +(system|user|assistant|tool) +full", shown, re.M) == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert re.search(r"^\S+: .*notes\.txt", shown, re.M)
    assert provider.refused == []
    assert "x-foveal-token" not in provider.last.headers
    (card,) = running.store.cards()
    assert card.id.startswith("typescript-")

    provider.script(Turn("As I said."))
    assert "As I said.\n" in _run(running, QUESTION, "--forget")
    assert [message["role"] for message in provider.last.body["messages"]].count("user") == 1
    assert running.store.cards() == []


def test_another_key_has_another_session(running: Running) -> None:
    """The same program with the same question and another key sees nothing of the first one."""
    running.provider.script(Turn("One."), Turn("Two."))
    _run(running, QUESTION)
    assert "One." not in _run(running, QUESTION, key="k-2")
    assert len(running.store.cards()) == 2
