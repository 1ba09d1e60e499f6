"""Windows over tool history, and what they never do."""

from typing import Any

import pytest

from foveal.fit.scene import Scene
from foveal.session.policy import BudgetTable, History, Policy, Shorten, policy_from
from foveal.session.session import Session
from foveal.testing import oracles
from foveal.testing.builders import open_session
from foveal.values.entry import Message, PartFold, Pin, RangeFold, Text, ToolCall, ToolResult, assistant, result, user
from foveal.values.errors import BadPolicy
from foveal.values.shown import NOTHING
from foveal_bench.oldest import Oldest

OLDEST: Any = Oldest()  # untyped: benchmarks alone use it, and no policy names it
LONG = "a line of output that is long enough to matter\n" * 30


def session(runs: int, pairs: int, *, text: str = LONG, policy: Policy | None = None) -> Session:
    """Runs of as many pairs each, closed by an answer except in the last."""
    made = open_session(policy=policy)
    for run in range(runs):
        made.append(user(f"request {run}"))
        for pair in range(pairs):
            made.append(assistant("", ToolCall(f"r{run}p{pair}", "bash", '{"command": "make"}')))
            made.append(result(f"r{run}p{pair}", text))
        if run < runs - 1:
            made.append(assistant(f"answer {run}"))
    return made


def proposed(made: Session, stage: History):
    return list(stage(Scene(made.view, 10_000, NOTHING)))


def covered(made: Session, stage: History) -> list[str]:
    """The calls that ranges would cover."""
    view, calls = made.view, list[str]()
    for fold in proposed(made, stage):
        assert isinstance(fold, RangeFold)
        first, last = view.place(fold.first), view.place(fold.last)
        assert first is not None and last is not None  # noqa: PT018 - one fact
        for atom in view.atoms[first : last + 1]:
            calls += [s.part.id for item in atom.items for s in item.shown if isinstance(s.part, ToolCall)]
    return calls


def test_runs_outside_the_window_are_dropped_whole() -> None:
    """Per run, the pairs of all but the newest runs go; requests and answers stay."""
    assert covered(session(3, 2), History(keep=1)) == ["r0p0", "r0p1", "r1p0", "r1p1"]
    assert covered(session(3, 2), History(keep=2)) == ["r0p0", "r0p1"]
    assert covered(session(3, 2), History(keep=9)) == []


def test_pairs_outside_the_window_are_dropped() -> None:
    """Per pair, the newest pairs stay wherever they are, and those of the current run in any case."""
    assert covered(session(2, 2), History(window="per_pair", keep=3)) == ["r0p0"]
    assert covered(session(2, 3), History(window="per_pair", keep=1)) == ["r0p0", "r0p1", "r0p2"]


def test_the_current_run_is_never_dropped() -> None:
    """With nothing to keep at all, what came since the latest request stays."""
    for stage in (History(keep=0), History(window="per_pair", keep=0), History(max_pairs=0)):
        assert covered(session(1, 5), stage) == []


def test_without_a_window_only_the_limits_count() -> None:
    """`none` drops nothing but what `max_pairs` does not allow."""
    assert covered(session(3, 2), History(window="none", max_pairs=None)) == []
    assert covered(session(3, 2), History(window="none", max_pairs=5)) == ["r0p0"]


def test_too_many_pairs_fail_fast_if_wanted() -> None:
    """The error counts them and says what to change."""
    with pytest.raises(BadPolicy, match=r"6 pairs are inside the window, 5 are allowed"):
        proposed(session(3, 2), History(window="none", max_pairs=5, overflow="fail_fast"))
    assert proposed(session(3, 2), History(window="none", max_pairs=6, overflow="fail_fast")) == []


def test_compressing_keeps_the_pair_and_its_call() -> None:
    """Results become references; the calls stay."""
    folds = proposed(session(2, 2), History(mode="compress"))
    assert [(type(fold), fold.level) for fold in folds] == [(PartFold, "reference")] * 2


def test_a_large_pair_is_trimmed_inside_the_window_too() -> None:
    """A pair above its limit is brought to it; the newest pair, which nobody has read yet, is not."""
    made = session(1, 3)
    folds = proposed(made, History(max_pair_tokens=150))
    assert [fold.level for fold in folds] == ["trimmed"] * 2
    view = made.view.copy()
    view.transcript.apply(folds)
    assert [atom.size.tokens <= 150 for atom in view.atoms if atom.kind == "tools"] == [True, True, False]


def test_small_results_of_a_large_pair_stay_whole() -> None:
    """What is cut is what makes the pair large."""
    made = open_session()
    made.append(user("go"))
    made.append(assistant("", *(ToolCall(f"c{i}", "bash", "{}") for i in range(3))))
    made.append(Message("tool", tuple(ToolResult(f"c{i}", (Text(LONG if i == 1 else "short"),)) for i in range(3))))
    made.append(assistant("", ToolCall("d", "bash", "{}")))
    made.append(result("d", "ok"))
    (fold,) = proposed(made, History(max_pair_tokens=250))
    assert isinstance(fold, PartFold)
    assert fold.part == 1


def test_forty_parallel_calls_stand_and_fall_together() -> None:
    """A pair has as many calls as the reply made; none of them is lost from the current run, and none is left behind."""
    for runs in (1, 2):
        budget = BudgetTable(limit=2_500, target=2_000, reserve=0)
        made = open_session(policy=Policy(budget=budget, stages=(History(), OLDEST)))
        for run in range(runs):
            made.append(user(f"request {run}"))
            made.append(assistant("", *(ToolCall(f"r{run}c{i}", "bash", "{}") for i in range(40))))
            for i in range(40):
                made.append(result(f"r{run}c{i}", f"{i} done"))
        prompt = made.prompt()
        assert oracles.problems(prompt) == []
        calls = [call["id"] for wire in prompt.wires for call in wire.get("tool_calls") or ()]
        assert calls == [f"r{runs - 1}c{i}" for i in range(40)]


def test_the_current_run_stays_within_the_budget() -> None:
    """One run of sixty calls is sent within its limit: what the window keeps, the stages after it fold."""
    policy = Policy(budget=BudgetTable(limit=6_000, reserve=0), stages=(History(), Shorten(), OLDEST))
    made = session(1, 60, policy=policy)
    assert made.prompt().tokens <= 6_000


def test_the_window_does_not_move_while_there_is_room() -> None:
    """Requests come and go; the prefix stays until the view is over its limit, and moves rarely after that."""
    made = open_session(
        policy=Policy(budget=BudgetTable(limit=8_000, reserve=0), stages=(History(), Shorten(), OLDEST))
    )
    before, folds, moved = None, 0, 0
    for run in range(40):
        made.append(user(f"request {run}"))
        made.append(assistant("", ToolCall(f"c{run}", "bash", "{}")))
        made.append(result(f"c{run}", LONG))
        prompt = made.prompt()
        folds += prompt.fold is not None
        moved += before is not None and not oracles.continues(before, prompt)
        before = prompt
    assert moved == folds
    assert 0 < folds <= 6


def test_pinned_pairs_stay() -> None:
    """A pin is stronger than a window."""
    made = session(2, 1)
    made.append(Pin(made.view.atoms[1].items[1].id))
    assert proposed(made, History()) == []


@pytest.mark.parametrize(
    "wrong", [{"keep": -1}, {"max_pairs": -1}, {"max_pair_tokens": 0}, {"window": "per-week"}, {"kep": 3}]
)
def test_an_option_that_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    """Read from a file, a wrong value is an error that names it."""
    with pytest.raises(BadPolicy):
        policy_from({"stages": [{"fold": "history", **wrong}]})
