"""Two gateways in processes of their own on one PostgreSQL, as behind a load balancer that minds no conversation."""

import itertools
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

from foveal import open_store
from foveal.stores.examination import examine_store
from foveal.stores.rows import to_entry
from foveal.testing.postgres_server import PostgresServer, find_postgres
from foveal.testing.provider import ScriptedProvider
from foveal.values.entry import Message, ToolCall, ToolResult

from .clients import AGENTS, Reading


class Fleet:
    """Processes of `foveal serve` on one store."""

    def __init__(self, place: str, upstream: str, stack: ExitStack) -> None:
        self._words = ["--store", place, "--upstream", f"anthropic={upstream}", "--budget", "8000", "--port", "0"]
        self._stack = stack
        self.errors: list[Path] = []

    def serve(self, folder: Path) -> tuple[str, subprocess.Popen[str]]:
        """Start a gateway, and return its address and its process once it answers."""
        self.errors.append(folder / f"errors-{len(self.errors)}")
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-m", "foveal", "serve", *self._words],
                stdout=subprocess.PIPE,
                stderr=self._stack.enter_context(self.errors[-1].open("w")),
                text=True,
                env={**os.environ, "NO_PROXY": "127.0.0.1"},
            )
        )
        self._stack.callback(process.kill)
        assert process.stdout
        line = process.stdout.readline()
        return line.removeprefix("gateway on ").partition(",")[0], process


@pytest.fixture
def place(tmp_path: Path) -> Iterator[str]:
    programs = find_postgres()
    if programs is None:
        pytest.skip("no PostgreSQL server is installed")
    server = PostgresServer(programs).start()
    yield f"{server.url}&foveal_cache={tmp_path / 'cache'}"
    server.remove()


def test_a_conversation_moves_between_gateways_and_survives_one(
    place: str, provider: ScriptedProvider, tmp_path: Path
) -> None:
    """Requests reach now one gateway, now another; then one is killed while it holds the session, and a third takes its place.
    The conversation is one session, every call and result of which is in the log once; each prompt begins with the one before,
    but for folds."""
    provider.improvise = Reading(24)
    with ExitStack() as stack:
        fleet = Fleet(place, provider.url, stack)
        (first, doomed), (second, _) = fleet.serve(tmp_path), fleet.serve(tmp_path)
        agent = AGENTS["anthropic"](first, stream=False)
        clients = [agent.client, agent.connect(second, "k-1234567890")]
        agent.say("Read the modules.")

        def work(steps: int) -> None:
            for number in range(steps):
                agent.client = clients[number % 2]
                agent.answer(agent.step())

        work(9)  # the last one through the first gateway
        doomed.kill()
        doomed.wait()
        clients[0] = clients[1]
        work(4)
        clients[0] = agent.connect(fleet.serve(tmp_path)[0], "k-1234567890")
        work(8)

    assert provider.refused == []
    told = "".join(file.read_text() for file in fleet.errors)
    assert "passed on as it came" not in told, told
    sent = [request.body["messages"] for request in provider.requests]
    assert len(sent) == 21
    moved = sum(after[: len(before)] != before for before, after in itertools.pairwise(sent))
    with open_store(place) as store:
        card, _ = store.cards()  # the first request, before any reply, has a name of its own
        assert examine_store(store, place).damage == ()
        bodies = [to_entry(row, card.id).body for row in store.rows(card.id)]
    parts = [part for body in bodies if isinstance(body, Message) for part in body.parts]
    assert Counter(part.id for part in parts if isinstance(part, ToolCall)) == Counter(
        f"call_{n}" for n in range(1, 22)
    )
    # The results of the last calls were never sent.
    assert Counter(part.call for part in parts if isinstance(part, ToolResult)) == Counter(
        f"call_{n}" for n in range(1, 21)
    )
    folds = sum(type(body).__name__ == "Fold" for body in bodies)
    assert 0 < moved <= folds
