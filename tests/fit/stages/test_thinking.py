"""Thinking of finished loops goes whole; that of the running loop is never touched."""

from typing import Any

import pytest

from foveal.fit.scene import Scene
from foveal.session.policy import BudgetTable, Policy, ThinkingWindow
from foveal.session.session import Session
from foveal.testing import oracles
from foveal.testing.builders import MODELS, open_session
from foveal.values.entry import Message, RedactedThinking, Text, Thinking, ToolCall, result, user
from foveal.values.errors import BadPolicy
from foveal.values.shown import NOTHING
from foveal_bench.oldest import Oldest

OLDEST: Any = Oldest()  # untyped: benchmarks alone use it, and no policy names it
CLAUDE = MODELS["anthropic"]


def session(loops: int, steps: int, *, policy: Policy | None = None, answered: bool = False) -> Session:
    """Loops of as many steps, each with thinking and a call; all but the last end with an answer, if so wanted."""
    made = open_session(dialect="anthropic", policy=policy)
    for loop in range(loops):
        made.append(user(f"request {loop}"))
        for step in range(steps):
            thought = Thinking("what to do next " * 30, "c2ln") if step % 2 == 0 else RedactedThinking("ZGF0YQ==" * 90)
            call = ToolCall(f"l{loop}s{step}", "bash", "{}")
            made.append(Message("assistant", (thought, Text("next"), call), CLAUDE))
            made.append(result(f"l{loop}s{step}", "done"))
        if answered and loop < loops - 1:
            made.append(Message("assistant", (Text(f"answer {loop}"),), CLAUDE))
    return made


def cleared(made: Session, stage: ThinkingWindow) -> list[int]:
    """The loops whose thinking would go, once for each part."""
    folds = list(stage(Scene(made.view, 10_000, NOTHING)))
    assert {fold.text for fold in folds} <= {""}
    places = [made.view.place(fold.entry) for fold in folds]
    requests = [i for i, atom in enumerate(made.view.atoms) if atom.kind == "user"]
    return [sum(at < place for at in requests) - 1 for place in places if place is not None]


def test_thinking_of_finished_loops_goes_and_the_running_loop_stays() -> None:
    """By default only the running loop keeps its thinking, redacted or not."""
    assert cleared(session(3, 2), ThinkingWindow()) == [0, 0, 1, 1]


def test_as_many_loops_as_wanted_are_kept() -> None:
    """The running loop counts as the newest."""
    assert cleared(session(3, 2), ThinkingWindow(keep_loops=2)) == [0, 0]
    assert cleared(session(3, 2), ThinkingWindow(keep_loops=9)) == []


def test_a_number_of_parts_keeps_whole_loops() -> None:
    """Three parts with two a loop: two loops stay whole, because none is cut."""
    assert cleared(session(4, 2), ThinkingWindow(keep=3)) == [0, 0, 1, 1]
    assert cleared(session(4, 2), ThinkingWindow(keep=0)) == [0, 0, 1, 1, 2, 2]


def test_one_long_loop_is_never_touched() -> None:
    """Step after step of one loop, the thinking stays in place and the prefix grows."""
    policy = Policy(budget=BudgetTable(limit=50_000, reserve=0), stages=(ThinkingWindow(), OLDEST))
    made = open_session(dialect="anthropic", policy=policy)
    made.append(user("go"))
    before = None
    for step in range(10):
        prompt = made.prompt()
        assert before is None or oracles.continues(before, prompt)
        before = prompt
        made.append(
            Message("assistant", (Thinking(f"step {step}", "c2ln"), ToolCall(f"c{step}", "bash", "{}")), CLAUDE)
        )
        made.append(result(f"c{step}", "done"))
    assert cleared(made, ThinkingWindow(keep=0)) == []


def test_a_loop_is_cleared_whole_even_if_less_would_do() -> None:
    """After a fold no finished loop shows some of its thinking without the rest."""
    limit = 3_000
    made = session(4, 4, policy=Policy(budget=BudgetTable(limit=limit, reserve=0), stages=(ThinkingWindow(), OLDEST)))
    prompt = made.prompt()
    assert prompt.fold is not None
    assert oracles.problems(prompt) == []
    left = [
        made.view.place(item.id)
        for atom in prompt.atoms
        for item in atom.items
        if any(isinstance(s.part, Thinking) for s in item.shown)
    ]
    latest = made.view.place(made.view.facts.last_user or "")
    assert latest is not None
    assert all(place is not None and place > latest for place in left)


def loops_with_thinking(made: Session) -> list[int]:
    """The loops of which thinking is shown."""
    requests = [i for i, atom in enumerate(made.view.atoms) if atom.kind == "user"]
    found = {
        sum(at < place for at in requests) - 1
        for place, atom in enumerate(made.view.atoms)
        if any(isinstance(s.part, Thinking | RedactedThinking) for item in atom.items for s in item.shown)
    }
    return sorted(found)


@pytest.mark.parametrize("wide", [ThinkingWindow(keep_loops=2), ThinkingWindow(keep=5)])
def test_a_wider_window_holds_when_the_prefix_moves(wide: ThinkingWindow) -> None:
    """Whoever asks for two loops has two loops after the fold, and none of an older one."""
    policy = Policy(budget=BudgetTable(limit=4_000, reserve=0), stages=(wide,))
    made = session(4, 4, policy=policy, answered=True)
    prompt = made.prompt()
    assert prompt.fold is not None
    assert oracles.problems(prompt) == []
    assert loops_with_thinking(made) == [2, 3]


def test_the_default_window_lets_finished_loops_go() -> None:
    """Signatures may be bound to the prefix that a fold moves; only who asks for more runs that risk."""
    policy = Policy(budget=BudgetTable(limit=4_000, reserve=0), stages=(ThinkingWindow(),))
    made = session(4, 4, policy=policy, answered=True)
    assert made.prompt().fold is not None
    assert loops_with_thinking(made) == [3]


@pytest.mark.parametrize("wrong", [{"keep_loops": 0}, {"keep": -1}, {"keep": 2, "keep_loops": 2}])
def test_an_option_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    """The running loop cannot be given up, and one unit at a time is counted in."""
    with pytest.raises(BadPolicy, match="thinking"):
        ThinkingWindow(**wrong)
