"""The scorecard: its figures are clean, and each can fail."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "scorecard.py"


def scorecard(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "figures", ["R4 R7 R8", "V3 V5 V6", "V7 V8 V9", "S2 S4 S7", "G5 G9"], ids=lambda figures: figures.replace(" ", "-")
)
def test_a_figure_is_clean_and_has_teeth(figures: str) -> None:
    """No failure in the small run, and one with each planted bug. The other figures have tests of their own."""
    status, said = scorecard("--only", *figures.split(), "--share", "0.5")
    assert "MISSED" not in said, said
    assert status == 0, said


def test_a_bug_that_breaks_the_figure_itself_is_missed() -> None:
    """A planted bug counts as caught when the figure reports a failure, not when the run ends by an error of its own."""
    line = """
import sys
sys.path.insert(0, sys.argv[1])
import scorecard
from scorecard_parts import Figure
def found(_cases, _seed):
    return ["lost"] if bugs == ["real"] else []
bugs = []
figure = Figure("R7", "tried", found, 1, 1, {"real": lambda: bugs.append("real"), "broken": lambda: 1 / 0})
scorecard.result_of.__globals__["FIGURES"] = (figure,)
print(scorecard.measured(figure, 1, 1).caught)
"""
    done = subprocess.run([sys.executable, "-c", line, SCRIPT.parent], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "{'real': True, 'broken': False}"
