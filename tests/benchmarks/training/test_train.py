"""From recordings to weights and an honest word about them, on small sessions that are made here."""

import msgspec
import pytest

from foveal.analysis.measurement.shares import Interval
from foveal.values.errors import BadInput
from foveal_bench.training import rows, trees
from foveal_bench.training import train as module
from foveal_bench.training.judgement import Figure
from foveal_bench.training.report import HEAD, advice, cells
from foveal_bench.training.train import LEAST_SESSIONS, _dealt, examples, sessions_of, train, trained

from .made import case, recording

BUDGET = 3_000
NAMES = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")


def shrink(patch):
    """What is learned from sessions of thousands of tokens, learned from small ones."""
    patch.setattr(rows, "LIMITS", (2_000,))
    patch.setattr(trees, "LEAST_HESSIAN", 2.0)
    patch.setattr(module, "LEAST_SESSIONS", 7)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    shrink(monkeypatch)


@pytest.fixture(scope="module")
def cases():
    return [case(name) for name in NAMES]


@pytest.fixture(scope="module")
def training(cases):
    with pytest.MonkeyPatch.context() as patch:
        shrink(patch)
        return train(cases, budget=BUDGET)


def made(training, over_shipped, over_recency=(0.1, 0.3)):
    """The training with these intervals."""
    low, high = over_shipped
    return msgspec.structs.replace(
        training,
        over_shipped=Figure((low + high) / 2, Interval(low, high)),
        over_recency=Figure(sum(over_recency) / 2, Interval(*over_recency)),
    )


def test_weights_are_learned_that_show_more_than_recency_on_sessions_held_aside(training):
    """What these agents need is the third line of each file, old or new."""
    assert training.own.value > training.recency.value
    assert training.own.value - training.recency.value == pytest.approx(training.over_recency.value)
    assert training.own.value - training.shipped.value == pytest.approx(training.over_shipped.value)
    assert (training.sessions, training.learned, training.judged) == (7, 7, 7)
    assert training.needed > 50


def test_the_same_sessions_give_the_same_bytes_in_two_processes_as_well(cases, training):
    """And the same figures."""
    again = train(cases, budget=BUDGET, jobs=2)
    assert again == training
    assert again.weights.to_json() == training.weights.to_json()


def test_a_session_is_judged_by_weights_that_have_not_seen_it(cases, monkeypatch):
    """Nor another recording of the same id."""
    seen = list[tuple[set[str], set[str]]]()

    def learn(sessions):
        seen.append(({one.id for one in sessions}, set()))
        return trained(sessions)

    def judge(aside, weights, **options):
        seen[-1][1].update(one.id for one in aside)
        return {name: [(1.0, 1.0)] * len(aside) for name in (module.OWN, module.PACKAGE, module.RECENCY)}

    monkeypatch.setattr(module, "trained", learn)
    monkeypatch.setattr(module, "replayed", judge)
    train([*cases, cases[0]], budget=BUDGET, folds=3)
    *folds, last = seen
    assert all(not learned & judged for learned, judged in folds)
    assert set().union(*(judged for _, judged in folds)) == set(NAMES)
    assert last == (set(NAMES), set())


def test_every_id_is_in_one_fold():
    """Whatever it is made of."""
    ids = {*NAMES, "\ud800", ""}
    assert sorted(one for fold in _dealt(ids, 4) for one in fold) == sorted(ids)


def test_all_sessions_are_in_the_weights_that_come_of_it(training):
    """Those that were judged were trained on fewer."""
    assert training.weights == trained(examples(sessions_of([recording(name) for name in NAMES])))


def test_too_few_sessions_are_refused_with_numbers(cases, monkeypatch):
    """Short ones do not count."""
    monkeypatch.setattr(module, "LEAST_SESSIONS", LEAST_SESSIONS)
    with pytest.raises(BadInput, match=rf"7 of 8 session.*longer.*{LEAST_SESSIONS} are the least.*Nothing was written"):
        train([*cases, case("short", steps=2)], budget=BUDGET)


def test_a_budget_that_most_sessions_fit_in_is_refused(cases):
    """Nothing is folded in them, and nothing can be said of the score."""
    with pytest.raises(BadInput, match=r"0 of 7 session.* are larger than the budget of 1,000,000 tokens"):
        train(cases, budget=1_000_000)


def test_sessions_that_never_look_back_are_refused():
    """Nothing can be learned from what nobody needed."""
    with pytest.raises(BadInput, match=r"nothing that 7 session.* folded was needed again"):
        train([case(name, back=99) for name in NAMES], budget=BUDGET)


def test_one_fold_is_refused():
    """Nothing would be held aside."""
    with pytest.raises(BadInput, match="folds is 1"):
        train([], budget=BUDGET, folds=1)


@pytest.mark.parametrize(
    ("over_shipped", "over_recency", "said"),
    [
        ((0.01, 0.05), (0.1, 0.3), "Use them"),
        ((-0.01, 0.05), (0.1, 0.3), "Do not use them: on sessions held aside they cannot be told from the package's"),
        ((-0.05, -0.01), (0.1, 0.3), "Do not use them: on sessions held aside they show less than the package's"),
        ((0.01, 0.05), (-0.1, 0.3), "Do not use them: on sessions held aside they cannot be told from recency"),
    ],
)
def test_weights_are_recommended_only_where_they_are_better(training, over_shipped, over_recency, said):
    """Than both, and not by chance."""
    judged = made(training, over_shipped, over_recency)
    assert advice(judged)[-1].startswith(said)
    assert judged.is_better == said.startswith("Use")


def test_the_measure_is_explained(training):
    """In one line, before the verdict."""
    assert advice(training)[0].startswith("Far grounding: of the names, paths, numbers and lines that the agent used")
    assert "at 3,000 tokens a call" in advice(training)[0]
    assert "7 of 7 sessions" in advice(training)[1]


def test_the_table_has_a_line_for_each_score(training):
    """With the difference and its interval."""
    lines = cells(training)
    assert [one[0] for one in lines] == ["trained here", "the package's", "recency"]
    assert all(len(one) == len(HEAD) for one in lines)
    assert lines[2][3] == f"{training.over_recency.value:+.3f}"
