"""The scorecard: its figures are clean, and each can fail."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "scorecard.py"


def scorecard(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("figure", ["R7", "R8", "V5", "V6", "V7"])
def test_a_figure_is_clean_and_has_teeth(figure: str) -> None:
    """No failure in the small run, and one with each planted bug. The other figures have tests of their own."""
    status, said = scorecard("--only", figure, "--share", "0.5")
    assert "MISSED" not in said, said
    assert status == 0, said
