"""Kill runs of an agent with SIGKILL at random moments, resume them, and check that each ends right.

    python scripts/kill_runs.py --kills 1000 [--driver dbos]

A run has model calls, tools that may run again, tools that may not, folds, an approval and a sub-agent. After the last
kill: the run is completed; no acknowledged step is lost; a tool ran twice only under the same key; one with retry="never"
never did; and the events of all runs keep the rules of `foveal.testing.run_checks`.
"""

import argparse
import asyncio
import importlib
import json
import random
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

from forked import Forked

import foveal
from foveal.agent import Agent, ApprovalRule, Limits, ModelChoice, Runs, ToolContext, tool
from foveal.agent.dbos_queue import DbosQueue
from foveal.agent.run_events import ChildStarted, ToolEnded
from foveal.agent.run_log import read_events, read_run
from foveal.testing.run_checks import run_problems

SESSION = "killed"
STEPS = 12
CHILD_STEPS = 3
GUARDED, DELEGATED = 7, 5
GIVEN_UP = "processes in a row that took it up have ended"


class StepModel:
    """A model whose next call follows from its last one, so that it has no state of its own."""

    async def complete(self, request: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any], None]:
        await asyncio.sleep(random.random() * 0.01)
        made = [call for message in request["messages"] for call in message.get("tool_calls") or ()]
        last = json.loads(made[-1]["function"]["arguments"]).get("n", DELEGATED) if made else None
        first, final = (100, 100 + CHILD_STEPS) if "sub-agent" in str(request["messages"][0]) else (1, 1 + STEPS)
        n = first if last is None else last + 1
        choice: dict[str, Any] = {"index": 0, "delta": {"content": "All of it is done. " * 20}, "finish_reason": "stop"}
        if n < final:
            name = self._tool(n)
            arguments = {"task": "count"} if name == "delegate" else {"n": n}
            call = {"index": 0, "id": f"c{n}", "type": "function"}
            call["function"] = {"name": name, "arguments": json.dumps(arguments)}
            choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
        yield {"id": "x", "model": "gpt-5", "choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}

    def _tool(self, n: int) -> str:
        special = {GUARDED: "guarded", DELEGATED: "effect"}
        return special.get(n, "pay" if n < 100 and n % 4 == 0 else "effect")

    async def close(self) -> None: ...


def build(folder: Path) -> Agent:
    """Return the agent, whose tools write their effects into files of this folder."""

    def note(name: str, text: str) -> None:
        with (folder / name).open("a") as stream:
            stream.write(f"{text}\n")

    @tool
    async def effect(ctx: ToolContext, n: int) -> str:
        note("effects", f"{n} {ctx.key}")
        await asyncio.sleep(random.random() * 0.01)
        return f"done {n}\n" + f"a line that says little of {n}\n" * 60

    @tool(retry="never")
    async def pay(n: int) -> str:
        await asyncio.sleep(random.random() * 0.005)
        note("payments", str(n))
        await asyncio.sleep(random.random() * 0.005)
        return f"paid {n}"

    @tool
    async def guarded(ctx: ToolContext, n: int) -> str:
        note("effects", f"{n} {ctx.key}")
        return f"guarded {n}"

    class Delegating(StepModel):
        def _tool(self, n: int) -> str:
            return "delegate" if n == DELEGATED else super()._tool(n)

    policy = foveal.Policy(max_context_tokens=3_000, remind=True)
    rules = [ApprovalRule("guarded")]
    child = Agent(
        "You are a sub-agent.",
        name="child",
        model="openai:gpt-5",
        tools=[effect],
        policy=policy,
        open_model=lambda _: StepModel(),
    )
    return Agent(
        "You do things.",
        model=ModelChoice("gpt-5", "openai"),
        tools=[effect, pay, guarded],
        agents=[child],
        policy=policy,
        limits=Limits(same_call=50),
        approvals=rules,
        open_model=lambda _: Delegating(),
    )


async def go_on(folder: Path, driver: str) -> None:
    """Start the run, or go on with it; allow what it asks for. With DBOS, this process is also the only worker."""
    agent = build(folder)
    with foveal.open_store(folder / "runs.db") as store:
        if driver == "asyncio":
            say_go()
            await to_the_end(Runs(store, [agent]), agent, folder, recover=True)
            return
        runs = Runs(store, [agent], queue=DbosQueue(f"sqlite:///{folder}/queue.db"))
        working, telling = asyncio.create_task(runs.work()), asyncio.create_task(say_go_when_driven())
        await to_the_end(runs, agent, folder, recover=False)
        telling.cancel()
        working.cancel()
        await asyncio.gather(working, telling, return_exceptions=True)


def say_go() -> None:
    sys.stdout.write("go\n")
    sys.stdout.flush()


async def say_go_when_driven() -> None:
    """Say that the run is driven from now on: DBOS takes seconds to start, and kills are to meet the run."""
    while not any(task.get_name().startswith("foveal run") for task in asyncio.all_tasks()):  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.005)
    say_go()


async def to_the_end(runs: Runs, agent: Agent, folder: Path, *, recover: bool) -> None:
    """Start the run, answer it, and resume it where nobody else takes it up, until it is completed. So is a run that ended as
    failed because five workers in a row were killed before it had one more reply."""
    if read_run(runs.store, SESSION).status is None:
        await runs.start(agent, "Do them all.", session=SESSION)
    while (state := read_run(runs.store, SESSION)).status != "completed":
        if state.asked:
            await runs.approve(SESSION)
        if recover or state.status == "awaiting_user":
            await runs.resume(SESSION)
        outcome = await runs.wait(SESSION)
        if outcome.status == "failed":
            if GIVEN_UP not in outcome.reason:
                raise RuntimeError(outcome.reason)
            await runs.resume(SESSION)
            with (folder / "given_up").open("a") as told:
                told.write("resumed\n")


def kill_one(folder: Path, kills: int, chance: random.Random, driver: str) -> int:
    """Kill the program so many times, then let it end; return the number of kills that met it alive."""
    met = 0
    for number in range(kills + 1):
        program = Forked(lambda: asyncio.run(go_on(folder, driver)), is_heard=True)
        if number == kills:
            program.wait(120)
            if program.status:
                raise SystemExit(f"{folder}: the run did not end ({program.status})")
            continue
        program.read_line()  # nothing, if it had only the end to tell
        time.sleep(chance.random() * 0.35)
        program.kill()
        program.wait()
        met += program.status == -signal.SIGKILL
    return met


def check(folder: Path) -> list[str]:
    """Return everything that is wrong about a run that has ended."""
    problems: list[str] = []
    with foveal.open_store(folder / "runs.db") as store:
        state = read_run(store, SESSION)
        problems += [f"status {state.status}"] if state.status != "completed" else []
        root = list(read_events(store, SESSION))
        sessions = [SESSION, *(one.child.rpartition("#")[0] for one in root if isinstance(one, ChildStarted))]
        for session in dict.fromkeys(sessions):
            problems += [f"{session}: {problem}" for problem in run_problems(read_events(store, session))]
        ended = Counter(one.call for one in root if isinstance(one, ToolEnded))
        problems += [f"c{n} has {ended[f'c{n}']} results" for n in range(1, STEPS + 1) if ended[f"c{n}"] != 1]
    effects = [line.split(" ", 1) for line in (folder / "effects").read_text().splitlines()]
    keys: dict[str, set[str]] = {}
    for n, key in effects:
        keys.setdefault(n, set()).add(key)
    wanted = {str(n) for n in (*range(1, STEPS + 1), *range(100, 100 + CHILD_STEPS)) if n % 4 or n >= 100} - {
        str(DELEGATED)
    }
    problems += [f"effect {n} never happened" for n in wanted - keys.keys()]
    problems += [f"effect {n} under {len(found)} keys" for n, found in keys.items() if len(found) > 1]
    paid = Counter((folder / "payments").read_text().split()) if (folder / "payments").exists() else Counter[str]()
    problems += [f"payment {n} was made {times} times" for n, times in paid.items() if times > 1]
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--each", type=int, default=5, help="kills of one run")
    parser.add_argument("--driver", choices=("asyncio", "dbos"), default="asyncio")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--progress", action="store_true", help="tell the number of kills after each run")
    args = parser.parse_args()
    if args.driver == "dbos":
        importlib.import_module("dbos")  # once, and not in each process that is forked
    chance, met, number, wrong, given_up = random.Random(args.seed), 0, 0, 0, 0
    while met < args.kills:
        number += 1
        with tempfile.TemporaryDirectory() as name:
            met += kill_one(Path(name), min(args.each, args.kills - met), chance, args.driver)
            problems = check(Path(name))
            wrong += bool(problems)
            told = Path(name) / "given_up"
            given_up += len(told.read_text().splitlines()) if told.exists() else 0
            for problem in problems:
                print(f"run {number}: {problem}", flush=True)
            if args.progress:
                print(f"{met} kills so far", file=sys.stderr, flush=True)
    print(
        f"{met} kills, {number} runs, {wrong} wrong; {given_up} times resumed after five workers in a row were killed"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
