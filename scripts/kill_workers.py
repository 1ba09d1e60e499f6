"""Kill two of three workers with SIGKILL under 100 runs of 5 tools each, and check that all runs end right, by themselves.

    python scripts/kill_workers.py [--driver dbos] [--runs 100] [--far] [--store postgresql://…]

Three processes are workers on a PostgreSQL server, which is started for this; another one starts the runs and only looks on. A
worker is killed when a quarter of the runs is completed, another one at half. At the end: all runs are completed; the events of
each keep the rules of `foveal.testing.run_checks`; each tool had its effect, more than once only under the same key, and one with
retry="never" never. `--far`: the workers cannot see each other's processes, as on three machines, and wait for leases.
"""

import argparse
import asyncio
import importlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

from forked import Forked

import foveal
from foveal.agent import Agent, Limits, ModelChoice, Runs, ToolContext, tool
from foveal.agent.dbos_queue import DbosQueue
from foveal.agent.run_events import ToolEnded
from foveal.agent.run_log import read_events
from foveal.agent.run_queue import RunQueue, StoreQueue
from foveal.stores import lease
from foveal.testing.postgres_server import PostgresServer, find_postgres
from foveal.testing.run_checks import run_problems

WORKERS, KILLED, TOOLS, NEVER = 3, 2, 5, 4
LEASE_S = 5.0
THINKING_S, WORKING_S = 0.3, 0.1
"""Longest time that the model and a tool take: runs are under way when a worker is killed."""


class CountingModel:
    """A model that calls one tool after the other; its next call follows from its last one."""

    async def complete(self, request: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any], None]:
        await asyncio.sleep(random.random() * THINKING_S)
        made = [call for message in request["messages"] for call in message.get("tool_calls") or ()]
        n = json.loads(made[-1]["function"]["arguments"])["n"] + 1 if made else 1
        choice: dict[str, Any] = {"index": 0, "delta": {"content": "All done."}, "finish_reason": "stop"}
        if n <= TOOLS:
            called = {"name": "pay" if n == NEVER else "effect", "arguments": json.dumps({"n": n})}
            call = {"index": 0, "id": f"c{n}", "type": "function", "function": called}
            choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
        yield {"id": "x", "model": "gpt-5", "choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}

    async def close(self) -> None: ...


def build(folder: Path) -> Agent:
    """Return the agent, whose tools write their effects into files of this folder."""

    async def work(name: str, ctx: ToolContext, n: int) -> str:
        with (folder / name).open("a") as stream:
            stream.write(f"{ctx.session} {n} {ctx.key}\n")
        await asyncio.sleep(random.random() * WORKING_S)
        return f"done {n}"

    @tool
    async def effect(ctx: ToolContext, n: int) -> str:
        return await work("effects", ctx, n)

    @tool(retry="never")
    async def pay(ctx: ToolContext, n: int) -> str:
        return await work("payments", ctx, n)

    return Agent(
        "You do things.",
        model=ModelChoice("gpt-5", "openai"),
        tools=[effect, pay],
        limits=Limits(same_call=50),
        open_model=lambda _: CountingModel(),
    )


def opened_queue(driver: str, url: str) -> RunQueue:
    return DbosQueue(url) if driver == "dbos" else StoreQueue()


def store_url(url: str, folder: Path) -> str:
    mark = "&" if "?" in url else "?"
    return f"{url}{mark}foveal_lease_s={LEASE_S}&foveal_cache={folder}/cache"


async def work(url: str, folder: Path, args: argparse.Namespace) -> None:
    """Be a worker, until a signal ends it; then tell the CPU time."""
    if args.far:
        lease._namespace = lambda: str(os.getpid())
    agent = build(folder)
    with foveal.open_store(store_url(url, folder)) as store:
        working = asyncio.create_task(
            Runs(store, [agent], queue=opened_queue(args.driver, url)).work(at_once=args.at_once)
        )
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, working.cancel)
        await asyncio.gather(working, return_exceptions=True)
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(f"{used.ru_utime + used.ru_stime:.2f}")


class Fleet:
    """The workers, and the one who starts runs and looks on."""

    def __init__(self, url: str, folder: Path, args: argparse.Namespace) -> None:
        self.url, self.folder, self.args = url, folder, args
        self.workers = [self._start() for _ in range(WORKERS)]
        self.silence_s = 0.0

    def _start(self) -> Forked:
        return Forked(lambda: asyncio.run(work(self.url, self.folder, self.args)), is_heard=True)

    async def run(self) -> list[str]:
        """Start the runs, kill the workers, wait for the end; return everything that is wrong."""
        count, agent = self.args.runs, build(self.folder)
        with foveal.open_store(store_url(self.url, self.folder)) as store:
            runs = Runs(store, [agent], queue=opened_queue(self.args.driver, self.url))
            for number in range(count):
                await runs.start(agent, "Do them all.", session=f"run-{number}")
            began, newest, killed = time.monotonic(), time.monotonic(), 0
            done = 0
            while done < count and time.monotonic() - newest < 120:
                await asyncio.sleep(0.2)
                before, done = done, len(runs.list(status="completed"))
                self.silence_s = max(self.silence_s, time.monotonic() - newest)
                newest = time.monotonic() if done > before else newest
                if killed < KILLED and done >= count * (killed + 1) / 4:
                    self.workers[killed].kill()
                    killed += 1
                    print(f"a worker was killed when {done} runs were completed", flush=True)
            self.took_s = time.monotonic() - began
            return [f"{killed} workers were killed"] * (killed < KILLED) + check(store, self.folder, count)

    def stop(self) -> list[str]:
        """End the workers that live, and return their CPU seconds."""
        for one in self.workers:
            one.send_signal(signal.SIGTERM)
        return [told for one in self.workers if (told := one.wait(60).strip())]


def check(store: foveal.stores.port.Store, folder: Path, count: int) -> list[str]:
    """Return everything that is wrong about the runs."""
    problems: list[str] = []
    for number in range(count):
        name = f"run-{number}"
        events = list(read_events(store, name))
        problems += [f"{name}: {problem}" for problem in run_problems(events)]
        ended = Counter(one.call for one in events if isinstance(one, ToolEnded))
        problems += [f"{name}: c{n} has {ended[f'c{n}']} results" for n in range(1, TOOLS + 1) if ended[f"c{n}"] != 1]
    left = [f"{card.run} is {card.status}: {card.reason}" for card in Runs(store).list() if card.status != "completed"]
    keys: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for line in (folder / "effects").read_text().splitlines():
        session, n, key = line.split(" ", 2)
        keys[session, n].append(key)
    problems += [f"{at} under {len(set(found))} keys" for at, found in keys.items() if len(set(found)) > 1]
    wanted = count * (TOOLS - 1)
    problems += [f"{wanted - len(keys)} effects never happened"] if len(keys) < wanted else []
    paid = Counter(tuple(line.split(" ")[:2]) for line in (folder / "payments").read_text().splitlines())
    problems += [f"payment {at} was made {times} times" for at, times in paid.items() if times > 1]
    twice = sum(len(found) > 1 for found in keys.values())
    print(f"{len(keys)} effects, {twice} of them twice under the same key; {len(paid)} payments of {count}")
    return left + problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driver", choices=("asyncio", "dbos"), default="asyncio")
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--at-once", type=int, default=8, help="runs that a worker drives at the same time")
    parser.add_argument("--far", action="store_true", help="the workers cannot see each other's processes")
    parser.add_argument("--store", metavar="URL", help="an empty PostgreSQL database (default: a server of its own)")
    args = parser.parse_args()
    if args.driver == "dbos":
        importlib.import_module("dbos")  # once, and not in each process that is forked
    programs = None if args.store else find_postgres()
    if not args.store and programs is None:
        raise SystemExit("no PostgreSQL server is installed; name a database with --store")
    server = PostgresServer(programs).start() if programs else None
    try:
        with tempfile.TemporaryDirectory() as name:
            fleet = Fleet(server.url if server else args.store, Path(name), args)
            try:
                problems = asyncio.run(fleet.run())
            finally:
                cpu = fleet.stop()
    finally:
        if server:
            server.remove()
    for problem in problems:
        print(problem)
    print(
        f"{args.driver}{' (far)' if args.far else ''}: {args.runs} runs of {TOOLS} tools, {KILLED} of {WORKERS} workers killed: "
        f"{len(problems)} problems; {fleet.took_s:.1f} s, longest without an end {fleet.silence_s:.1f} s, "
        f"CPU of the last worker {', '.join(cpu)} s"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.exit(main())
