"""However a session came to its view, another one built from the whole log gives the same prompt, byte for byte."""

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.dialects.renderer import Renderer
from foveal.dialects.tools import read_tools
from foveal.project import snapshot
from foveal.project.view import View
from foveal.session.branch import BranchReader
from foveal.session.rebuild import build, view_after, view_of
from foveal.stores import rows as log
from foveal.testing import oracles
from foveal.testing.builders import READ_TOOL, Asks, Move, Player
from foveal.testing.strategies import histories
from foveal.values.entry import Pin, Unpin
from foveal.values.errors import BadEntry, BadInput, FovealError

LIMITS = st.sampled_from((500, 700, 900, 1_500, 2_500, 6_000))
RETENTION: tuple[dict[str, Any], ...] = (
    {"mode": "summary", "limit_tokens": 20},
    {"mode": "reference"},
    {"mode": "pin"},
    {"mode": "full", "floor": "reference"},
)


class Declares(msgspec.Struct, frozen=True):
    """The move of offering the tool with this retention from now on."""

    retention: dict[str, Any]


class PinsTool(msgspec.Struct, frozen=True):
    tool: str
    is_pinned: bool


class PinsPassage(msgspec.Struct, frozen=True):
    at: int
    text: str
    is_pinned: bool


def changes() -> st.SearchStrategy[Any]:
    tools = st.builds(PinsTool, st.sampled_from(("read", "bash")), st.booleans())
    passages = st.builds(PinsPassage, st.integers(0, 200), st.sampled_from(("a", "e", "line")), st.booleans())
    return st.one_of(st.sampled_from(RETENTION).map(Declares), tools, passages)


def programs() -> st.SearchStrategy[list[Any]]:
    """Draw the moves of a session, with changes of pins and retention strewn in."""
    strewn = st.lists(st.tuples(st.integers(0, 80), changes()), max_size=5)

    def mixed(drawn: tuple[list[Move], list[Move], list[tuple[int, Any]]]) -> list[Any]:
        moves: list[Any] = [*drawn[0], *drawn[1]]
        for at, change in drawn[2]:
            moves.insert(at % (len(moves) + 1), change)
        return [*moves, Asks()]

    return st.tuples(histories(size=12), histories(size=6), strewn).map(mixed)


def play(player: Player, moves: list[Any]) -> Iterator[object]:
    for move in moves:
        match move:
            case Declares(retention):
                player.tools = ({**READ_TOOL, "retention": retention},)
            case PinsTool(tool, is_pinned):
                player.session.append(Pin(tool=tool) if is_pinned else Unpin(tool=tool))
            case PinsPassage(at, text, is_pinned):
                if player.entries:
                    entry = player.entries[at % len(player.entries)]
                    with suppress(BadEntry):  # the entry has no such passage
                        player.session.append(Pin(entry, text=text) if is_pinned else Unpin(entry, text=text))
            case Asks():
                try:
                    player.ask()
                except BadInput:
                    yield move
            case _:
                player.make(move)
        yield move


def seen(player: Player, view: View) -> object:
    """The prompt of a view as it is, its size and its trace; or why there is none."""
    setup = player.session._journal.setup
    specs = read_tools(msgspec.json.decode(view.facts.setup.tools)) if view.facts.setup else ()
    try:
        prompt = build(player.name, view, setup, specs, Renderer(setup.dialect))
    except FovealError as error:  # a view whose model changed since its last prompt need not be valid yet
        return f"{type(error).__name__}: {error}", view.size
    facts = msgspec.structs.replace(view.facts, raw_tokens=0, summary=view.facts.summary.packed)
    return oracles.body(prompt), prompt.tokens, prompt.trace, view.size, facts, view.transcript.opaque


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic"])
@given(moves=programs(), limit=LIMITS)
def test_any_program_gives_the_prompts_of_its_whole_log(dialect: str, moves: list[Any], limit: int) -> None:
    """Kept all along, built from the newest fold, or read from the first entry on: one log, one prompt, one trace."""
    player = Player(dialect=dialect, limit=limit, tools=[READ_TOOL])
    every, snapshot.STATE_EVERY = snapshot.STATE_EVERY, 2
    try:
        for _ in play(player, moves):
            pass
    finally:
        snapshot.STATE_EVERY = every
    kept = seen(player, player.session.view)
    setup, rows = player.session._journal.setup, list(player.store.rows(player.name))
    if not rows:
        return
    assert seen(player, view_of(log.branch(rows), player.name, setup, player.store.artifacts)) == kept
    branch = BranchReader(player.store, player.name, player.store.artifacts)
    assert seen(player, view_after(rows[-1], branch, setup)) == kept
