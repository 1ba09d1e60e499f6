"""The crash test itself: clean for the store, and able to see a store that is not."""

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[3] / "scripts" / "crash_test.py"


def crash_test(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_kills_lose_nothing() -> None:
    """A hundred and fifty kill -9 at random moments: nothing lost, nothing torn, always openable."""
    status, said = crash_test("--kills", "150", "--seed", "1")
    assert "kills 150 lost 0 torn 0 unopenable 0" in said, said
    assert status == 0


def test_an_acknowledgement_before_the_commit_is_caught() -> None:
    """The audit has teeth: a writer that answers too early is found out."""
    status, said = crash_test("--kills", "60", "--seed", "1", "--sabotage", "ack-before-commit")
    assert re.search(r"lost [1-9]", said), said
    assert status == 1
