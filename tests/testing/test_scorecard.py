"""The scorecard: its figures are clean, and each can fail."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "scorecard.py"
ELSEWHERE = frozenset(
    [
        "R1",
        "R3",
        "R5",
        "R6",
        "R9",
        "V1",
        "V2",
        "V7",
        "V8p",
        "S2p",
        "R8p",
        "F1",
        "N1",
        "S1",
        "S5",
        "G1",
        "G2",
        "G4",
        "G7",
        "Q1",
    ]
)
"""Figures whose promise a test of its own holds, a server, a browser or a minute: `make scorecard` runs them."""
HERE = ("R2 R4 R7 R8 V3 V5 V6 V8 V9", "S2 S3 S4 S6 S7 S8 G3 G5 G6 G8 G9 Q2")


def scorecard(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The page of the scorecard, without its figures."""
    monkeypatch.syspath_prepend(str(SCRIPT.parent))
    return import_module("scorecard_page")


@pytest.mark.parametrize("figures", HERE, ids=("logs", "strangers"))
def test_a_figure_is_clean_and_has_teeth(figures: str) -> None:
    """No failure in the small run, and one with each planted bug. The other figures have tests of their own."""
    status, said = scorecard("--only", *figures.split(), "--share", "0.5")
    assert "MISSED" not in said, said
    assert status == 0, said


def test_a_bug_that_breaks_the_figure_itself_is_missed() -> None:
    """A planted bug counts as caught when the figure reports a failure that shows it: not when the run ends by an error of its
    own, when the failure is another one, or when it is there without the bug. A figure that tried nothing is broken."""
    line = """
import sys
sys.path.insert(0, sys.argv[1])
import scorecard
from scorecard_parts import Figure, Plant, Tried
def found(cases, _seed):
    return Tried(min(cases, 7), {"real": ["3 lost"], "old": ["a TypeError"]}.get("".join(bugs), []), there_are=7, told="3 kept")
bugs = []
plants = {"real": lambda: bugs.append("real"), "old": lambda: bugs.append("old"), "broken": lambda: 1 / 0}
figure = Figure("R7", "tried", found, 1, 9, {name: Plant(bug, "[0-9] lost") for name, bug in plants.items()})
empty = figure._replace(name="R8", run=lambda *_: Tried(0, []))
red = figure._replace(name="R9", run=lambda *_: ["7 lost"])
names = {one.name for one in scorecard.FIGURES}
scorecard.result_of.__globals__["FIGURES"] = (figure, empty, red)
line = scorecard.measured(figure, 9, 1)
print(line.caught, line.cases, line.whole, scorecard.paced(figure, 1)._replace(seconds=6.0).minutes, line.what)
print(*line.examples, sep="; ")
line = scorecard.measured(empty, 9, 1)
print(line.is_broken, line.is_good, line.examples[0])
print(scorecard.measured(red, 9, 1).caught["real"])
print(*sorted(names))
"""
    done = subprocess.run([sys.executable, "-c", line, SCRIPT.parent], capture_output=True, text=True, check=True)
    told, missed, empty, is_red_caught, names = done.stdout.splitlines()
    assert told == "{'real': True, 'old': False, 'broken': False} 7 7 0.175 tried: 3 kept"
    assert missed == "old is not shown by a TypeError; broken is not shown by ZeroDivisionError: division by zero"
    assert empty == "True False RuntimeError: R8 tried nothing"
    assert is_red_caught == "False"
    assert set(names.split()) == ELSEWHERE | set(" ".join(HERE).split())


def line_of(scripts: Any, name: str, **changed: Any) -> Any:
    plain = scripts.Line(name, "a kill", 40, 1_000, 0, [], {"early": True}, 3.2)
    return plain._replace(**changed)


def test_a_row_tells_the_cases_that_it_had(scripts: Any) -> None:
    """Fewer cases than the published number are told with it; a figure that broke has no number of failures."""
    assert line_of(scripts, "R2").row("2026-01-02", "abc") == (
        "| R2 | a kill | 40 of 1,000 | 0 | 1 of 1: early | 3 | 2026-01-02 | abc |"
    )
    whole = line_of(scripts, "R2", cases=1_000, is_broken=True, caught={"early": False}).row("2026-01-02", "abc")
    assert whole == "| R2 | a kill | 1,000 | broken | 0 of 1: early: MISSED | 3 | 2026-01-02 | abc |"


def test_rows_of_other_runs_stay(scripts: Any) -> None:
    """A run writes the rows of its figures; others stay if they tell their commit, in the order of the scorecard."""
    first = {name: line_of(scripts, name).row("2026-01-02", "abc") for name in ("R1", "R3")}
    before = scripts.with_rows("", first, ["R1", "R2", "R3"])
    untold = before + "| R9 | an old row | 1 | 0 | 1 of 1: x | 3 |\n"
    new = line_of(scripts, "R2", cases=1_000).row("2026-02-03", "def+")
    again = line_of(scripts, "R3", cases=7).row("2026-02-03", "def+")
    page = scripts.with_rows(untold, {"R2": new, "R3": again}, ["R1", "R2", "R3", "R9"])
    assert page.splitlines()[-3:] == [first["R1"], new, again]


def test_a_plan_begins_with_what_takes_least(scripts: Any) -> None:
    """Each figure's minutes come from its small run, and a number of minutes has its largest number of cases."""
    slow, fast = scripts.Pace("R1", 10, 6_000, 2.0), scripts.Pace("V1", 100, 3_000, 1.0)
    assert (slow.minutes, fast.minutes) == (20.0, 0.5)
    assert (slow.cases_in(5), fast.cases_in(5)) == (1_500, 3_000)
    assert [line.split("|")[1].strip() for line in scripts.plan_table([slow, fast]).splitlines()[2:]] == ["V1", "R1"]


def test_a_page_tells_the_minutes_of_its_figures(scripts: Any) -> None:
    """A row of fewer cases than the published number tells its speed, and so the minutes of all."""
    rows = {"R1": line_of(scripts, "R1", seconds=30.0), "R2": line_of(scripts, "R2", cases=1_000, seconds=90.0)}
    page = scripts.with_rows("", {name: line.row("2026-01-02", "abc") for name, line in rows.items()}, rows)
    assert scripts.minutes_told(page) == {"R1": 12.5, "R2": 1.5}


def test_figures_run_side_by_side_but_for_those_that_measure_the_machine() -> None:
    """Two figures wait for each other, which only two at once can; one that is alone meets nobody, and comes first."""
    line = """
import multiprocessing, sys, time
sys.path.insert(0, sys.argv[1])
import scorecard
from scorecard_parts import Figure
both, there = multiprocessing.Barrier(2), multiprocessing.Value("i", 0)
def meets(cases, _seed):
    with there.get_lock():
        there.value += 1
    both.wait(60)
    return []
figures = [Figure(name, "tried", meets, 1, 9, {}) for name in ("one", "two")]
figures += [Figure("lone", "tried", lambda *_: [str(there.value)] if there.value else [], 1, 9, {}, is_alone=True)]
figures += [Figure("dies", "tried", lambda *_: sys.exit(3), 1, 9, {})]
scorecard.result_of.__globals__["FIGURES"] = figures
lines = list(scorecard.side_by_side(2, figures, dict.fromkeys(("one", "two", "lone", "dies"), 1), 1))
print(lines[0].name, *sorted(line.name for line in lines if line.is_good))
"""
    done = subprocess.run([sys.executable, "-c", line, SCRIPT.parent], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["lone", "lone", "one", "two"]
