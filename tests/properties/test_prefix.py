"""The prefix only grows between folds, and folds are rare."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from foveal.testing import oracles
from foveal.testing.builders import (
    MODELS,
    READ_TOOL,
    Asks,
    Move,
    PinMove,
    Player,
    Rewinds,
    Switches,
    Unpins,
    open_session,
)
from foveal.testing.strategies import histories
from foveal.values.entry import Message, assistant, result, user
from foveal.values.entry import ToolCall as Call
from foveal.values.own_tools import RECALL_TOOL
from foveal.values.prompt import Prompt

DIALECTS = sorted(MODELS)


def _waits(prompt: Prompt) -> bool:
    """Whether a call of the newest reply with calls has no result yet: what comes next may take its place."""
    for atom in reversed(prompt.atoms):
        if atom.kind in ("tools", "hidden") and atom.wire_ids:
            return None in atom.answers
        if atom.kind == "assistant":
            return False
    return False


@pytest.mark.parametrize("dialect", DIALECTS)
@given(moves=histories(), limit=st.sampled_from((1_200, 6_000, 200_000)))
def test_the_prefix_only_grows_between_folds(dialect: str, moves: list[Move], limit: int) -> None:
    """Unless a fold was recorded, or what was said before was changed, a prompt begins with all of the one before."""
    player, before, moved = Player(dialect=dialect, limit=limit, tools=[READ_TOOL]), None, False
    for move in moves:
        match move:
            case PinMove() | Unpins() | Rewinds() | Switches():
                moved = True
            case Message(role="tool" | "assistant") if before and _waits(before):
                moved = True
            case Asks():
                try:
                    prompt = player.ask()
                except ValueError:  # nothing to send yet
                    continue
                if prompt is None:
                    moved = True  # a refused prompt may have been preceded by a fold that was recorded
                    continue
                if before and prompt.setup.tools != before.setup.tools:
                    # A result too large for the log came: the tools by which to read it are offered from now on.
                    assert moved or prompt.fold or RECALL_TOOL not in before.setup.tools
                elif before and not moved and prompt.fold is None:
                    assert oracles.continues(before, prompt)
                before, moved = prompt, False
                continue
            case _:
                pass
        player.make(move)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_small_messages_do_not_fold_at_every_call(dialect: str) -> None:
    """Over a long run of small messages there is at most one fold for each half of the room that a fold makes."""
    session = open_session(dialect=dialect, limit=6_000)
    session.append(user("Count the files."))
    folds, grown, before = [], 0, 0
    for i in range(600):
        session.append(assistant(f"Step {i}.", Call(f"c{i}", "read", f'{{"path": "{i}.py"}}'), model=MODELS[dialect]))
        session.append(result(f"c{i}", f"file {i} has {i * 31 % 977} lines"))
        before = session.view.size.tokens
        prompt = session.prompt([READ_TOOL])
        if prompt.fold:
            folds.append(prompt.fold)
            grown += prompt.fold.before - prompt.fold.after
    assert folds
    assert before <= 6_000
    room = min(fold.before - fold.after for fold in folds)
    assert room > 6_000 * 0.2 / 1.45, "a fold that frees little is followed by another"
    assert len(folds) <= 1 + grown // room


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_fold_is_what_the_plan_said(dialect: str) -> None:
    """What the recorded fold says of its sizes is what the view and the prompt have afterwards."""
    session = open_session(dialect=dialect, limit=5_000)
    session.append(user("Go."))
    for i in range(40):
        session.append(assistant("", Call(f"c{i}", "read", "{}"), model=MODELS[dialect]))
        session.append(result(f"c{i}", f"line {i}\n" * 120))
        before = session.view.size.tokens
        fold = session.prompt().fold
        if fold:
            assert (fold.before, fold.after) == (before, session.view.size.tokens)
            assert 0 < fold.rebilled <= fold.after
