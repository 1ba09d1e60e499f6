"""The kill test itself: clean for the store, and able to see a store that is not."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from foveal.testing.postgres_server import find_postgres

SCRIPT = Path(__file__).parents[3] / "scripts" / "kill_postgres.py"

PACED = ("--pause-ms", "60")
"""Other tests run beside these, and need the machine as well."""
DENSE = ("--pause-ms", "20")
"""Appends stand close enough for a planted fault to meet some of them."""


@pytest.fixture(autouse=True)
def _programs() -> None:
    if find_postgres() is None:
        pytest.skip("no PostgreSQL server is installed")


def kill_test(*arguments: str) -> tuple[int, str]:
    done = subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_kills_lose_nothing() -> None:
    """The server killed whole, in part and restarted, a worker killed and another put to sleep: nothing lost, torn or doubled,
    and no session with two writers."""
    status, said = kill_test("--kills", "8", *PACED)
    assert "lost 0, torn 0, doubled 0, two writers 0, unclear 0" in said, said
    assert status == 0


@pytest.mark.parametrize("replica", ["sync", "async"])
def test_failovers_lose_nothing_in_silence(replica: str) -> None:
    """The server's machine is lost and its replica takes over: a synchronous one has everything that was acknowledged; with
    another one, each writer that lost entries is told, and none goes on above the hole."""
    status, said = kill_test("--kills", "2", "--failover", replica, *PACED)
    assert "torn 0, doubled 0, two writers 0, unclear 0" in said, said
    assert "unsaid 0, forked 0" in said, said
    assert (" lost 0," in said) == (replica == "sync"), said
    assert status == 0


@pytest.mark.parametrize(
    ("replica", "sabotage", "figure"), [("sync", "late-replica", "lost"), ("async", "blind", "unsaid")]
)
def test_a_failover_that_loses_in_silence_is_caught(replica: str, sabotage: str, figure: str) -> None:
    """The audit has teeth: a replica that is synchronous only by name, and a writer that does not look for its entries, are found
    out."""
    status, said = kill_test("--kills", "1", "--failover", replica, "--sabotage", sabotage, *DENSE)
    assert re.search(rf"{figure} [1-9]", said), said
    assert status == 1


@pytest.mark.parametrize(("sabotage", "figure"), [("ack-first", "lost"), ("no-fence", "two writers")])
def test_a_broken_promise_is_caught(sabotage: str, figure: str) -> None:
    """The audit has teeth: an acknowledgement before the commit, and a writer that minds no successor, are found out."""
    status, said = kill_test("--kills", "4", "--sabotage", sabotage, *DENSE)
    assert re.search(rf"{figure} [1-9]", said), said
    assert status == 1
