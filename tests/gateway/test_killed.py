"""Gateways that are killed, and others that go on from the log."""

import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import anthropic
import httpx2
import msgspec

from foveal import open_store
from foveal.testing.provider import ScriptedProvider, Turn

from .clients import AGENTS, Reading
from .conftest import Gateways

CHILD = """
import sys, threading
from foveal import Policy, open_store
from foveal.gateway.app import Gateway
from foveal.gateway.server import served
path, upstream = sys.argv[1:]
gateway = Gateway(open_store(path), Policy(max_context_tokens=8000), upstreams={"anthropic": upstream})
with served(gateway) as url:
    print(url, flush=True)
    threading.Event().wait()
"""


@contextmanager
def _child(path: Path, upstream: str) -> Iterator[tuple[str, int]]:
    """Run a gateway in a process of its own."""
    words = [sys.executable, "-c", CHILD, str(path), upstream]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**os.environ, "NO_PROXY": "127.0.0.1"}) as one:
        assert one.stdout
        try:
            yield one.stdout.readline().strip(), one.pid
        finally:
            one.kill()


def _messages(body: bytes) -> bytes:
    return bytes(msgspec.json.decode(body, type=dict[str, msgspec.Raw])["messages"])


def test_a_gateway_that_was_killed_in_a_stream_is_followed_by_another(
    start: Gateways, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """After SIGKILL in the middle of a stream, another gateway on the same store sends what the first would have sent: the
    same bytes for the same list, and the same prefix after it."""
    model = Reading(12)
    provider.improvise = model
    path = tmp_path / "sessions.db"
    store = open_store(path)
    other = start(8_000, on=store)  # runs beside the first from the beginning
    with _child(path, provider.url) as (url, pid):
        agent = AGENTS["anthropic"](url, stream=True)
        agent.say("Read the modules.")
        for _ in range(11):
            agent.answer(agent.step())
        provider.script(Turn("A reply that nobody will hear the end of.", stall_after=6))
        stream = agent.client.messages.create(
            **{**provider.last.body, "messages": agent.list, "tools": provider.requests[0].body["tools"]}
        )
        pieces = iter(stream)
        next(pieces)
        os.kill(pid, signal.SIGKILL)
        with suppress(httpx2.HTTPError, anthropic.APIError):
            for _ in pieces:
                pass
    cut = provider.last
    assert len(cut.body["messages"]) < len(agent.list)  # it was folded

    agent.client = agent.connect(other.url, "k-1234567890")
    agent.answer(agent.step())

    assert provider.last.body == cut.body
    assert _messages(provider.last.raw) == _messages(cut.raw)
    agent.step()
    assert provider.last.body["messages"][: len(cut.body["messages"])] == cut.body["messages"]
    assert (provider.refused, other.figures.unmanaged) == ([], 0), other.lines
    store.close()


def test_two_gateways_on_one_store_take_turns(start: Gateways, provider: ScriptedProvider, tmp_path: Path) -> None:
    """A client whose requests reach now one gateway, now another, is managed by both, and its prefix grows."""
    provider.improvise = Reading(14)
    stores = [open_store(tmp_path / "sessions.db") for _ in range(2)]
    gateways = [start(8_000, on=store) for store in stores]
    agent = AGENTS["anthropic"](gateways[0].url, stream=False)
    clients = [agent.client, agent.connect(gateways[1].url, "k-1234567890")]
    agent.say("Read the modules.")
    for number in range(14):
        agent.client = clients[number % 2]
        agent.answer(agent.step())

    assert provider.refused == []
    assert [gateway.figures.unmanaged for gateway in gateways] == [0, 0], [gateway.lines for gateway in gateways]
    sent = [request.body["messages"] for request in provider.requests]
    moved = sum(after[: len(before)] != before for before, after in itertools.pairwise(sent))
    assert moved == sum(gateway.figures.folds for gateway in gateways)
    for store in stores:
        store.close()
