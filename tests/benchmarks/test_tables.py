"""Tables, the document and the picture."""

import json

import pytest

from foveal.analysis.measurement.outcome import Job
from foveal.analysis.measurement.suite import run
from foveal_bench.frontier import frontier
from foveal_bench.runners import own_runner
from foveal_bench.tables import ALL, HEAD, cells, document, report, rows_of

from ..analysis.measurement.sessions import case

BUDGETS = (2_000, 3_000, 4_000)


@pytest.fixture(scope="module")
def outcomes():
    cases = [case(turns=30, name=name, uses={25: "secret_1_name"}) for name in ("a", "b<&>")]
    work = [Job(name, budget) for name in ("full history", "window, batched to 0.5", "oracle") for budget in BUDGETS]
    return list(run(cases, work, find=own_runner))


def test_every_policy_and_budget_has_a_row_for_its_set_and_for_all(outcomes):
    """Three policies, three budgets, one set and all of them."""
    rows = rows_of(outcomes)
    assert len(rows) == 3 * 3 * 2
    assert {row.sessions for row in rows} == {2}


def test_cells_stand_under_the_head(outcomes):
    """One cell a column."""
    assert len(cells(rows_of(outcomes)[0])) == len(HEAD)


def test_the_report_shows_violations(outcomes):
    """The whole history is over the budget, and the table says how often."""
    rows = rows_of(outcomes)
    row = next(row for row in rows if row.policy == "full history" and row.budget == 2_000 and row.group == ALL)
    line = next(line for line in report(rows).splitlines() if line.startswith("| full history | 1.000"))
    assert row.figures.over > 0
    assert f"| {row.figures.over:,} |" in line


def test_the_document_is_json_with_every_session(outcomes):
    """So that others can draw sessions anew."""
    found = json.loads(json.dumps(document(outcomes, rows_of(outcomes))))
    assert len(found["sessions"]) == len(outcomes)
    assert {len(one) for one in found["sessions"]} == {len(found["session_columns"])}
    assert {one[found["session_columns"].index("session")] for one in found["sessions"]} == {"a", "b<&>"}


def test_there_is_a_chart_of_curves_and_one_a_budget(outcomes):
    """Every budget has its chart besides the curves, and every point of it a row in the table."""
    report, rows = frontier(rows_of(outcomes)), [row for row in rows_of(outcomes) if row.policy != "full history"]
    titles = ["from 2,000 to 4,000 tokens a call", *(f"{budget:,} tokens a call" for budget in BUDGETS)]
    assert [chart.title for chart in report.charts] == titles
    assert len(report.tables[0].rows) == len([row for row in rows if row.group == ALL])


def test_a_policy_has_one_number_in_all_charts(outcomes):
    """The two that others are compared with go by name, the others by number; the table says which is which."""
    report = frontier(rows_of(outcomes))
    numbers = {row[0]: row[1] for row in report.tables[0].rows}
    assert numbers["window, batched to 0.5"] == "1"
    assert [sum(mark.label == "1" for mark in chart.marks) for chart in report.charts] == [1] * (len(BUDGETS) + 1)
