"""Entry by entry, all at once, and opened again from any store: the same prompt, byte for byte."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.session import journal
from foveal.session.model_setup import setup_for
from foveal.session.options import Model
from foveal.session.rebuild import prompt_at
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.stores.sqlite import SqliteStore
from foveal.testing import oracles
from foveal.testing.builders import MODELS, READ_TOOL, Asks, Move, Player, sends_at_most
from foveal.testing.strategies import histories
from foveal.values.errors import BadInput, OverBudget
from foveal.values.prompt import Prompt
from foveal.values.trace import Trace

DIALECTS = sorted(MODELS)
Seen = tuple[bytes, int, Trace] | str


def seen(prompt: Prompt) -> Seen:
    return oracles.body(prompt), prompt.tokens, prompt.trace


def asked(player: Player) -> Seen:
    """What the next prompt is, or why there is none."""
    try:
        return seen(player.session.prompt(player.tools))
    except (OverBudget, BadInput) as error:
        return f"{type(error).__name__}: {error}"


def play(store: Store, moves: list[Move], dialect: str, limit: int, *, reopen: bool = False) -> Player:
    player = Player(store, dialect=dialect, limit=limit, tools=[READ_TOOL])
    for move in moves:
        if isinstance(move, Asks):
            asked(player)
            if reopen:
                player.reopen()
        else:
            player.make(move)
    return player


@pytest.mark.parametrize("dialect", DIALECTS)
@given(moves=histories(unsendable=True), limit=st.sampled_from((700, 2_500, 12_000, 200_000)))
def test_a_session_opened_again_gives_the_same_prompt(dialect: str, moves: list[Move], limit: int) -> None:
    """Built from the whole log, from a snapshot, or kept all along: same request, same tokens, same trace."""
    player = play(MemoryStore(), moves, dialect, limit)
    kept = asked(player)
    player.reopen()
    assert asked(player) == kept
    if not isinstance(kept, str):
        optics = setup_for(Model(MODELS[player.dialect], player.dialect), sends_at_most(limit))
        assert seen(prompt_at(player.store, player.name, optics, None)) == kept


@pytest.mark.parametrize("dialect", DIALECTS)
@given(moves=histories(unsendable=True, size=8), limit=st.sampled_from((700, 2_500, 12_000, 200_000)))
def test_snapshots_change_nothing(dialect: str, moves: list[Move], limit: int) -> None:
    """With a snapshot after every entry, and the session opened again after every prompt, nothing is different."""
    plain = asked(play(MemoryStore(), moves, dialect, limit))
    every, journal.SNAPSHOT_EVERY = journal.SNAPSHOT_EVERY, 1
    try:
        assert asked(play(MemoryStore(), moves, dialect, limit)) == plain
        assert asked(play(MemoryStore(), moves, dialect, limit, reopen=True)) == plain
    finally:
        journal.SNAPSHOT_EVERY = every


@given(
    moves=histories(unsendable=True, size=6), dialect=st.sampled_from(DIALECTS), limit=st.sampled_from((900, 12_000))
)
def test_every_store_gives_the_same_prompt(
    tmp_path_factory: pytest.TempPathFactory, moves: list[Move], dialect: str, limit: int
) -> None:
    """A session in a file is the session in memory."""
    file = tmp_path_factory.mktemp("store") / "log.db"
    every, journal.SNAPSHOT_EVERY = journal.SNAPSHOT_EVERY, 3
    try:
        kept = asked(play(MemoryStore(), moves, dialect, limit))
        store = SqliteStore(file)
        player = play(store, moves, dialect, limit)
        assert asked(player) == kept
        last = player.dialect
        store.close()
        again = SqliteStore(file)
        assert asked(Player(again, dialect=last, limit=limit, tools=[READ_TOOL])) == kept
        again.close()
    finally:
        journal.SNAPSHOT_EVERY = every


SCRIPT = """
import hashlib, random
from foveal.values.entry import Message, Text, ToolCall, ToolResult, assistant, result, user
from foveal.testing import oracles
from foveal.testing.builders import MODELS, Asks, PinMove, Player, Rewinds, Switches
for seed in range(3):
    pick = random.Random(seed)
    for dialect in sorted(MODELS):
        player = Player(dialect=dialect, limit=3_000)
        player.append(user("Go on."))
        for i in range(60):
            calls = [ToolCall(pick.choice(["", "c1", f"k{i}"]), "read", '{"b": 1, "a": "x"}') for _ in range(pick.randint(0, 4))]
            player.append(assistant("Now.", *calls, model=MODELS[dialect]))
            for call in calls[: pick.randint(0, 4)]:
                player.append(result(call.id, "out " * pick.randint(1, 400)))
            player.make(pick.choice([Asks(), Asks(), PinMove(pick.randint(0, 99)), Switches(pick.choice(sorted(MODELS)))]))
        player.ask()
        print(*(hashlib.sha256(oracles.body(p) + repr(p.trace).encode()).hexdigest() for p in player.prompts))
"""


def test_another_process_gives_the_same_bytes(tmp_path: Path) -> None:
    """Nothing depends on the order of hashes, on the process or on the time zone."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    outputs = [
        subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": zone},
            capture_output=True,
            check=True,
        ).stdout
        for seed, zone in (("1", "UTC"), ("4242", "Asia/Tokyo"))
    ]
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"\n") == 12
