"""Power cuts: states that a disk may be left in lose nothing, and a store that syncs too little is found out."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "power_cut.py"

pytestmark = pytest.mark.skipif(not shutil.which("strace"), reason="strace records the writer; it is not installed")


def power_cut(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    if "ptrace" in done.stderr:
        pytest.skip(f"strace may not trace here: {done.stderr[:100]}")
    return done.returncode, done.stdout + done.stderr


def test_cuts_lose_nothing() -> None:
    """Forty states: everything acknowledged is there, nothing is torn, the store always opens."""
    status, said = power_cut("--states", "40", "--seed", "3")
    assert "states 40 lost 0 torn 0 unopenable 0" in said, said
    assert status == 0


@pytest.mark.parametrize(
    ("sabotage", "found"), [("lazy-commit", r"lost [1-9]"), ("lazy-artifacts", r"unopenable [1-9]")]
)
def test_a_store_that_syncs_too_little_is_caught(sabotage: str, found: str) -> None:
    """The model has teeth: commits that are not synced lose entries, artifacts that are not synced are missed."""
    status, said = power_cut("--states", "15", "--seed", "3", "--sabotage", sabotage)
    assert re.search(found, said), said
    assert status == 1
