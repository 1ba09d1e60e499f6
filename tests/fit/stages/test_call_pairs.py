"""Runs of neighbouring atoms."""

from typing import Any

from foveal.fit.scene import Scene
from foveal.fit.stages.call_pairs import neighbours
from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.testing.builders import open_session
from foveal.values.entry import Pin, RangeFold, assistant, user
from foveal.values.shown import NOTHING
from foveal_bench.oldest import Oldest

OLDEST: Any = Oldest(keep=0.0)  # untyped: benchmarks alone use it, and no policy names it


def with_a_pin_between(*, policy: Policy | None = None) -> Session:
    """A request, ten answers, a pinned note, ten more answers, a request."""
    session = open_session(policy=policy)
    session.append(user("The task."))
    for half in range(2):
        for i in range(10):
            session.append(assistant(f"answer {i} of half {half} " * 12))
        if not half:
            session.append(Pin(session.append(user("Remember this.")).id))
    session.append(user("Go on."))
    return session


def test_a_run_is_not_split_by_the_fold_of_the_run_before_it() -> None:
    """Folds are applied while the stage still proposes; the places of what is left to propose are those of the beginning."""
    policy = Policy(budget=BudgetTable(limit=900, target=150, reserve=0), stages=(OLDEST,))
    prompt = with_a_pin_between(policy=policy).prompt()
    assert prompt.fold
    assert [type(item) for item in prompt.fold.items] == [RangeFold, RangeFold]
    assert [line.entries for line in prompt.trace.lines if line.kind == "range"] == [10, 10]


def test_neighbours_are_told_by_their_places_in_the_view() -> None:
    """What stands between two atoms parts them, whether it is handed over or not."""
    view = with_a_pin_between().view
    scene = Scene(view, 10_000, NOTHING)
    answers = [atom for atom in view.atoms if atom.kind != "user"]
    assert [len(run) for run in neighbours(scene, answers)] == [10, 10]
    assert list(neighbours(scene, [])) == []
