"""The policies of the benchmark: baselines, the engine and its parts, the oracle."""

import pytest

from foveal.analysis.replay.case import chat_text
from foveal.analysis.replay.measure import Job, Looks, measure
from foveal.analysis.replay.suite import RUNNERS, own_runner
from foveal.values.errors import BadInput

from .sessions import case, rereading

BUDGET = 2_500
FITS = [name for name in RUNNERS if name != "full history"]


@pytest.fixture(scope="module")
def one():
    return case(turns=40, uses={30: "secret_1_name", 35: "src/file_2.py", 39: "secret_37_name"})


@pytest.mark.parametrize("name", FITS)
def test_every_policy_keeps_the_budget_and_the_rules(one, name):
    """On a session of small results, every policy sends valid prompts within the budget and with the task."""
    figures = measure(one, Job(name, BUDGET), RUNNERS[name]).figures
    assert (figures.over, figures.invalid, figures.refused, figures.task_lost) == (0, 0, 0, 0)
    assert figures.calls == len(one.calls)


@pytest.mark.parametrize("name", RUNNERS)
def test_nothing_is_folded_that_fits(one, name):
    """Under a budget that holds everything, the prefix never moves and nothing is missing; each turn's masking apart."""
    figures = measure(one, Job(name, 100_000), RUNNERS[name]).figures
    if name != "mask last 10, each turn":
        assert (figures.moves, figures.far_shown) == (0, figures.far)


def test_the_oracle_shows_what_will_be_used(one):
    """Knowing the future, the digest misses nothing that has a line."""
    figures = measure(one, Job("oracle", BUDGET), RUNNERS["oracle"]).figures
    assert figures.far > 0
    assert figures.far_shown == figures.far


def test_everything_that_foveal_folds_is_on_offer(one):
    """Far clues stand in the prompt or behind a reference that it names."""
    figures = measure(one, Job("foveal", BUDGET), RUNNERS["foveal"]).figures
    assert figures.far_offered == figures.far


@pytest.mark.parametrize(("name", "can_recall"), [("foveal", True), ("foveal, no recall tools", False)])
def test_without_recall_tools_nothing_is_on_offer(one, name, can_recall):
    """A reference that nobody can follow offers nothing."""
    *_, last = RUNNERS[name](one, BUDGET)
    assert bool(list(last.offered())) is can_recall


@pytest.mark.parametrize(("name", "has_ledger"), [("foveal", True), ("foveal, no ledger", False)])
def test_without_its_ledger_a_summary_is_lines_alone(one, name, has_ledger):
    """Files that were read stand in the ledger; the lines of results stand below it, with or without."""
    *_, last = RUNNERS[name](one, BUDGET)
    (summary,) = [text for text in map(chat_text, last.messages) if "[Summary of" in text]
    assert ("## Files read" in summary) is has_ledger
    assert "of the file with number" in summary


def test_early_folds_can_be_switched_off():
    """Reading a file again makes the reads before it stale: folded early by default, and never where everything fits."""
    moves = [
        measure(rereading(), Job(name, 200_000), RUNNERS[name]).figures.moves
        for name in ("foveal", "foveal, no early folds")
    ]
    assert moves[0] > 0
    assert moves[1] == 0


def test_who_measures_several_budgets_may_look_once(one):
    """Shared looks change no figure."""
    looks = Looks(one)
    for budget in (BUDGET, 2 * BUDGET):
        job = Job("mask last 10, batched", budget)
        found = [measure(one, job, RUNNERS[job.policy], looks=own) for own in (looks, None)]
        for outcome in found:
            outcome.figures.cpu_s = 0.0
        assert found[0] == found[1]


def test_a_window_in_batches_moves_less_often_than_one_at_each_turn(one):
    """The cost of a window is how often it moves."""
    moves = [
        measure(one, Job(name, BUDGET), RUNNERS[name]).figures.moves for name in RUNNERS if name.startswith("window")
    ]
    each_turn, batched = moves
    assert batched < each_turn


def test_an_unknown_policy_is_refused_by_name():
    """The error names what there is."""
    with pytest.raises(BadInput, match=r"no policy 'windows'.*full history"):
        own_runner("windows")
