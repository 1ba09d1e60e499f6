"""What does a run cost beside its model and its tools, with each driver; and what does a run cost that waits for somebody?

    python benchmarks/runs.py [--steps 40] [--runs 20] [--waiting 1000]

A step is a model call and a tool call. Model and tool answer at once and do nothing, so that all CPU time of the process is
Foveal's: the prompt, the log with its commits, the marks of the run, the events. Each way is measured in a process of its own;
with DBOS, that process is a worker whose queue lies in SQLite, and its threads are counted in. Waiting runs have asked for an
approval and rest in the store: threads and memory of the process that drove them are compared before and after.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import foveal
from foveal.agent import Agent, ApprovalRule, Limits, ModelChoice, Runs, tool
from foveal.agent.dbos_queue import DbosQueue
from foveal.agent.run_queue import StoreQueue

KILLS = "\n## Kills\n"
"""The part of the page below is of other programs, and stays."""
RESULTS = Path(__file__).parent / "results" / "runs.md"
BATCH = 50
"""Runs that are under way at the same time before they wait."""
LOOKED = "{} is as it should be. "


class ReadyModel:
    """A model that answers at once: so many calls of a tool, then a text."""

    def __init__(self, steps: int) -> None:
        self._steps = steps

    async def complete(self, request: Mapping[str, Any]) -> AsyncGenerator[Mapping[str, Any], None]:
        made = (
            len(request["messages"]) - 2
        ) // 2  # behind the instructions and the request, a call and its result each
        choice: dict[str, Any] = {"index": 0, "delta": {"content": "Done."}, "finish_reason": "stop"}
        if made < self._steps:
            called = {"name": "look", "arguments": json.dumps({"n": made})}
            call = {"index": 0, "id": f"c{made}", "type": "function", "function": called}
            choice = {"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
        yield {"id": "x", "model": "gpt-5", "choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}

    async def close(self) -> None: ...


@tool
async def look(n: int) -> str:
    """Look at something."""
    return LOOKED.format(n) * 20


def agent_of(steps: int, **more: Any) -> Agent:
    limits = Limits(max_steps=steps + 2, max_calls=steps + 2)
    model = ModelChoice("gpt-5", "openai")
    return Agent("You look.", model=model, tools=[look], limits=limits, open_model=lambda _: ReadyModel(steps), **more)


async def drive(way: str, runs: int, steps: int, folder: Path) -> dict[str, float]:
    """Return the milliseconds of CPU that a step takes, with one run at a time and with four. The first run is not counted."""
    agent = agent_of(steps)
    with foveal.open_store(folder / "runs.db") as store:
        queue = {"asyncio": None, "workers": StoreQueue(), "dbos": DbosQueue(f"sqlite:///{folder}/queue.db")}[way]
        here = Runs(store, [agent], queue=queue)
        working = None if queue is None else asyncio.create_task(here.work(at_once=4))
        await here.wait(await here.start(agent, "Look at all.", session="first"))
        figures = {f"{at_once}": await _cpu_ms(here, agent, runs, at_once) / (steps + 1) for at_once in (1, 4)}
        if working is not None:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
        return figures


async def _cpu_ms(here: Runs, agent: Agent, runs: int, at_once: int) -> float:
    """Return the CPU time of a run."""
    began = time.process_time()
    for first in range(0, runs, at_once):
        names = [f"s{at_once}-{number}" for number in range(first, first + at_once)]
        started = [await here.start(agent, "Look at all.", session=name) for name in names]
        ended = await asyncio.gather(*map(here.wait, started))
        assert {one.status for one in ended} == {"completed"}, ended
    return (time.process_time() - began) * 1000 / runs


def use_session(runs: int, steps: int, folder: Path) -> dict[str, float]:
    """Return the milliseconds of CPU that a step takes in a program of one thread that only uses a session."""
    agent = agent_of(steps)
    definitions = [one.definition for one in agent.toolset.values()]

    def use(session: foveal.Session) -> None:
        session.extend([foveal.system("You look."), foveal.user("Look at all.")])
        for n in range(steps):
            session.prompt(definitions)
            called = {"name": "look", "arguments": json.dumps({"n": n})}
            message = {"role": "assistant", "tool_calls": [{"id": f"c{n}", "type": "function", "function": called}]}
            session.append(
                {"model": "gpt-5", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
            )
            session.append(foveal.result(f"c{n}", LOOKED.format(n) * 20))

    with foveal.open_store(folder / "runs.db") as store:
        began = 0.0
        for number in range(runs + 1):  # the first is not counted
            with foveal.Session(store, f"s{number}", model="gpt-5") as session:
                use(session)
            began = began or time.process_time()
        return {"1": (time.process_time() - began) * 1000 / (runs * steps)}


async def wait_for_somebody(count: int, folder: Path) -> dict[str, float]:
    """Return threads and megabytes before and after so many runs have begun to wait."""
    agent = agent_of(1, approvals=[ApprovalRule("look")])
    with foveal.open_store(folder / "runs.db") as store:
        runs = Runs(store, [agent])
        await _asked(runs, agent, -1)  # loads the vocabulary once
        figures: dict[str, float] = {}
        for first in range(0, count + BATCH, BATCH):  # the first batch is what a process needs for any run
            for outcome in await asyncio.gather(*(_asked(runs, agent, first + one) for one in range(BATCH))):
                assert outcome == "awaiting_user", outcome
            if not first:
                figures = {"threads_before": threading.active_count(), "mb_before": resident_mb()}
        return {
            **figures,
            "threads": threading.active_count(),
            "mb": resident_mb(),
            "tasks": len(asyncio.all_tasks()),
            "store_kb": _size_bytes(folder) / 1024 / (count + BATCH),
        }


async def _asked(runs: Runs, agent: Agent, number: int) -> str:
    return (await runs.wait(await runs.start(agent, "Look.", session=f"w{number}"))).status


def _size_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir() if file.is_file())


def resident_mb() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def measured(*words: str) -> dict[str, float]:
    """Return the figures of one way, measured in a process of its own."""
    done = subprocess.run([sys.executable, __file__, "--one", *words], capture_output=True, text=True, check=True)
    print(words, done.stdout.strip(), file=sys.stderr)
    return json.loads(done.stdout)


WAYS = {
    "session": ("a session alone, in a program of one thread", ""),
    "asyncio": ("this process drives what it starts", "< 3"),
    "workers": ("a worker, `StoreQueue`", "< 3"),
    "dbos": ("a worker, `DbosQueue` in SQLite", "< 10"),
}


def page(options: argparse.Namespace) -> str:
    """Return all figures as a page."""
    runs, steps = str(options.runs), str(options.steps)
    lines = [
        "# The cost of runs",
        "",
        f"`python benchmarks/runs.py`: {runs} runs of {steps} tool calls, store in SQLite, best of {options.times}. CPU over",
        "model and tools, which do nothing: prompt, log with its commits, marks, events, and for DBOS its threads.",
        "",
        "| driver | CPU a step, ms: one run at a time | four at once | wanted |",
        "|---|---:|---:|---:|",
    ]
    for way, (title, wanted) in WAYS.items():
        found = [measured(way, runs, steps) for _ in range(options.times)]
        best = {key: f"{min(one[key] for one in found):.2f}" for key in found[0]}
        lines.append(f"| {title} | {best['1']} | {best.get('4', '')} | {wanted} |")
    waiting = measured("waiting", str(options.waiting), "0")
    threads, before = waiting["threads"], waiting["threads_before"]
    each_kb = (waiting["mb"] - waiting["mb_before"]) / options.waiting * 1000
    lines += [
        "",
        f"{options.waiting:,} runs that wait for an approval, in a process that has driven {BATCH} runs at once:",
        f"{threads - before:+.0f} threads (of pools, which end growing), {waiting['tasks'] - 1:.0f} tasks,",
        f"{each_kb:.1f} KB of memory each (wanted: no thread, < 2 MB); {waiting['store_kb']:.0f} KB each in the store.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--waiting", type=int, default=1000)
    parser.add_argument("--times", type=int, default=3, help="measurements of each driver, of which the best counts")
    parser.add_argument("--output", type=Path, default=RESULTS)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        way, number, steps = options.one[0], int(options.one[1]), int(options.one[2])
        with tempfile.TemporaryDirectory() as name:
            if way == "session":
                found = use_session(number, steps, Path(name))
            elif way == "waiting":
                found = asyncio.run(wait_for_somebody(number, Path(name)))
            else:
                found = asyncio.run(drive(way, number, steps, Path(name)))
            print(json.dumps(found))
        return
    written = page(options)
    kept = options.output.read_text() if options.output.exists() else ""
    options.output.write_text(written + "".join(kept.partition(KILLS)[1:]))
    print(written)


if __name__ == "__main__":
    main()
