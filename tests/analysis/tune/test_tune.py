"""From sessions to a file, on small ones that are made here."""

import tomllib

import msgspec
import pytest

from foveal.analysis.measurement.outcome import Job, measure
from foveal.analysis.tune import GRIDS, PickRule, Variant, advice, curve, document, policy_file, price_list, tune
from foveal.analysis.tune.report import HEAD, cells
from foveal.session.policy_file import read_policy
from foveal.values.errors import BadInput
from foveal_bench.ablations import foveal

from .traffic import BUDGET, cases_of, written

PRICES = price_list("claude-sonnet-4-5")
FEW = (Variant(), Variant(arrival=0.1), Variant(share=0.2))


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    return cases_of(written(tmp_path_factory.mktemp("tune") / "made.jsonl", "alpha", "beta"))


@pytest.fixture(scope="module")
def tuning(cases):
    return tune(cases, budget=BUDGET, prices=PRICES, variants=FEW)


def test_the_default_is_measured_as_the_benchmark_measures_it(cases, tuning):
    """The same replay, the same figures."""
    for place, case in enumerate(sorted(cases, key=lambda case: -sum(case.raw))):
        figures = measure(case, Job("foveal", BUDGET), foveal()).figures
        cell = tuning.default.cells[place]
        assert cell.grounding == (figures.far_shown, figures.far)
        assert cell.short_range == (figures.near_shown, figures.near)
        assert figures.far > 0


def test_every_variant_is_measured_on_every_session(tuning):
    """And is told apart from the others."""
    assert [tried.variant for tried in tuning.tried] == list(FEW)
    assert all(len(tried.cells) == 2 for tried in tuning.tried)
    assert len({tried.point for tried in tuning.tried}) == 3
    assert tuning.long == 2


def test_the_default_is_always_tried(cases):
    """Without it nothing could be said of any other."""
    tuning = tune(cases[:1], budget=BUDGET, prices=PRICES, variants=(Variant(target=0.8),))
    assert [tried.variant for tried in tuning.tried] == [Variant(), Variant(target=0.8)]


def test_two_processes_find_the_same(cases, tuning):
    """Outcomes come in the order of the sessions, whoever measured them."""
    assert tune(cases, budget=BUDGET, prices=PRICES, variants=FEW, jobs=2) == tuning


def test_progress_counts_every_call(cases):
    """Of every variant."""
    done = list[int]()
    tune(cases, budget=BUDGET, prices=PRICES, variants=FEW[:2], tick=done.append)
    assert sum(done) == 2 * sum(len(case.calls) for case in cases)


def test_sessions_that_fit_are_refused_with_numbers(cases):
    """Nothing is folded in them, so nothing can be learned."""
    longest = max(max(case.raw) for case in cases)
    with pytest.raises(BadInput, match=f"longest of 2 session.*{longest:,} tokens.*budget is 1,000,000"):
        tune(cases, budget=1_000_000, prices=PRICES)


def test_no_session_is_refused():
    """An empty file is no traffic."""
    with pytest.raises(BadInput, match="no session with a model call"):
        tune([], budget=BUDGET, prices=PRICES)


def test_one_fold_is_refused(cases):
    """Nothing would be held out."""
    with pytest.raises(BadInput, match="folds is 1"):
        tune(cases, budget=BUDGET, prices=PRICES, folds=1)


def test_sessions_that_never_look_back_are_refused(tmp_path):
    """Every policy would ground all of nothing."""
    made = cases_of(written(tmp_path / "short.jsonl", "gamma", steps=8, lines=100))
    with pytest.raises(BadInput, match="uses anything that it saw"):
        tune(made, budget=2_000, prices=PRICES)


@pytest.mark.parametrize(
    ("rule", "said"), [(PickRule(at_most=0.01), "at most 0.01"), (PickRule(at_least=1.1), "at least 1.1")]
)
def test_what_no_policy_does_is_refused_with_the_nearest(cases, rule, said):
    """A file that does not do what was asked for is not written."""
    with pytest.raises(BadInput, match=rf"{said}.*nearest is .*cost 0\.\d+"):
        tune(cases[:1], budget=BUDGET, prices=PRICES, variants=FEW[:2], rule=rule)


@pytest.mark.parametrize("variant", GRIDS["full"], ids=lambda variant: variant.name)
def test_the_file_is_read_back_as_the_policy(tuning, variant, tmp_path):
    """To the last number, whichever is recommended."""
    choice = msgspec.structs.replace(tuning.choice, recommended=variant)
    tried = (msgspec.structs.replace(tuning.default, variant=variant), *tuning.tried)
    text = policy_file(msgspec.structs.replace(tuning, choice=choice, tried=tried))
    (tmp_path / "policy.toml").write_text(text, encoding="utf-8")
    assert read_policy(tmp_path / "policy.toml") == variant.policy(BUDGET)


def test_the_file_says_what_it_was_chosen_for(tuning):
    """Sessions, budget, prices, figures: in comments."""
    head = [line for line in policy_file(tuning).splitlines() if line.startswith("#")]
    said = "\n".join(head)
    assert "2 sessions, 62 model calls, at 4,000 tokens a call and the prices of claude-sonnet-4-5" in said
    assert f"cost {tuning.recommended.point.cost:.3f}" in said
    assert f"far grounding {tuning.recommended.point.grounding:.3f}" in said


def test_a_name_cannot_break_out_of_a_comment(tuning):
    """A model is named on the command line; line breaks and control characters in it change nothing."""
    named = msgspec.structs.replace(tuning, prices='x\narrival = 0.5\r\x00\ud800"')
    assert tomllib.loads(policy_file(named).encode().decode()) == tomllib.loads(policy_file(tuning))
    assert "\x00" not in curve(named).title


def test_the_advice_says_that_two_sessions_are_too_few(tuning):
    """Whatever was found, unless the default is best anyway."""
    other = msgspec.structs.replace(tuning.choice, best=FEW[1], reason="few")
    said = " ".join(advice(msgspec.structs.replace(tuning, choice=other)))
    assert "Keep the default. arrival 0.1 grounds best within 5 %" in said
    assert "2 sessions longer than the budget cannot tell the two apart; give 6 or more" in said


@pytest.mark.parametrize("reason", ["best", "few", "same", "better", "asked"])
def test_every_reason_has_words(tuning, reason):
    """That begin with what to do."""
    said = advice(msgspec.structs.replace(tuning, choice=msgspec.structs.replace(tuning.choice, reason=reason)))
    assert said[1].startswith(("Keep the default", "Take "))


def test_one_session_is_said_not_to_be_cross_validated(cases):
    """And has no intervals: a session drawn from itself is itself."""
    alone = tune(cases[:1], budget=BUDGET, prices=PRICES, variants=FEW[:2])
    assert any("Not cross-validated: with 1 session longer" in line for line in advice(alone))
    assert cells(alone, alone.default)[HEAD.index("95 %")] == "–"


def test_sessions_that_fit_are_counted_and_said(cases, tmp_path):
    """They are part of the traffic."""
    short = cases_of(written(tmp_path / "short.jsonl", "gamma", steps=2, lines=5))
    said = advice(tune([*cases[:1], *short], budget=BUDGET, prices=PRICES, variants=FEW[:1]))
    assert any(line.startswith("1 session of these never took more than 4,000 tokens") for line in said)


def test_the_recommended_is_marked_in_the_table(tuning):
    """Once."""
    rows = [cells(tuning, tried) for tried in tuning.tried]
    assert sum("recommended" in row[-1] for row in rows) == 1
    assert all(len(row) == len(HEAD) for row in rows)


def test_the_document_holds_every_session_of_every_policy(tuning):
    """As plain data."""
    found = msgspec.json.decode(msgspec.json.encode(document(tuning)))
    assert len(found["tried"]) == 3
    assert all(len(tried["cells"]) == len(found["sessions"]) for tried in found["tried"])
    assert found["policies"]["arrival 0.1"]["arrival"] == 0.1


def test_the_curve_has_a_mark_for_each_policy(tuning):
    """One is ringed, one is the default, and the frontier is a line from the cheapest on."""
    chart = curve(tuning)
    assert [(mark.x, mark.y) for mark in chart.marks] == [
        (tried.point.cost, tried.point.grounding) for tried in tuning.tried
    ]
    assert sum(mark.is_ringed for mark in chart.marks) == sum(mark.kind == "best" for mark in chart.marks) == 1
    (front,) = chart.lines
    assert {tuning.tried[place].variant for place in front} == {one.variant for one in tuning.tried if one.is_frontier}
    assert sorted(chart.marks[place].x for place in front) == [chart.marks[place].x for place in front]
