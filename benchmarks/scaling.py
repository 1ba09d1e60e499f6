"""Does the cost of the next prompt grow with the new entries, or with the history?

Four measurements, each a ratio between a long session and a short one in the same run, their repetitions interleaved so
that a busy machine slows both alike:

- steps: append + prompt at the end of a 10 000-message session against a 1 000-message one;
- opening: a stored 100 000-message session up to its first prompt, against a stored 1 000-message one;
- roomy: the same steps where nothing has to be folded because the window holds everything;
- appends: how fast a SQLite store takes them.

`--instructions` adds instruction counts of the steps by callgrind, which do not depend on what else the machine does.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import foveal
import synthetic
from foveal.stores.memory import MemoryStore

BUDGET = 64_000
STEPS = 200
MODELS = {"openai_chat": "gpt-5", "anthropic": "claude-opus-4-5"}
Turn = list[foveal.Message]


def policy(limit: int = BUDGET) -> foveal.Policy:
    return foveal.Policy(budget=foveal.BudgetTable(limit=limit, reserve=0, max_bytes=1_000_000_000))


def open_session(store: Any, dialect: str, limit: int = BUDGET) -> foveal.Session:
    return foveal.Session(store, "bench", model=foveal.Model(MODELS[dialect], dialect), policy=policy(limit))


def fill(session: foveal.Session, messages: list[foveal.Message]) -> None:
    """Live through the messages as an agent would: a prompt before every reply. A turn is kept with one commit."""
    for turn in turns(messages):
        if turn[0].role == "assistant":
            session.prompt(synthetic.TOOLS)
        session.extend(turn)


def turns(messages: list[foveal.Message]) -> list[Turn]:
    """A reply with its results, or one message of the user."""
    made: list[Turn] = []
    for is_result, group in groupby(messages, key=lambda message: message.role == "tool"):
        for message in group:
            if is_result:
                made[-1].append(message)
            else:
                made.append([message])
    return made


def step(session: foveal.Session, turn: Turn) -> bool:
    """One step of an agent; whether it folded."""
    prompt = session.prompt(synthetic.TOOLS)
    for message in turn:
        session.append(message)
    return prompt.fold is not None


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """CPU and wall seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def compare_steps(short: foveal.Session, long: foveal.Session, following: list[Turn]) -> dict[str, Any]:
    """The same turns at the end of both sessions, by turns."""
    took: dict[str, list[float]] = {"short": [], "long": []}
    folds: dict[str, list[float]] = {"short": [], "long": []}
    for turn in following[:STEPS]:
        for name, session in (("short", short), ("long", long)):
            start = time.process_time()
            has_folded = step(session, turn)
            took[name].append(time.process_time() - start)
            folds[name] += took[name][-1:] * has_folded
    median = {name: statistics.median(times) * 1e6 for name, times in took.items()}
    mean = {name: statistics.fmean(times) * 1e6 for name, times in took.items()}
    return {
        "steps": STEPS,
        "folds": {name: len(times) for name, times in folds.items()},
        "fold_mean_ms": {name: statistics.fmean(times or [0.0]) * 1e3 for name, times in folds.items()},
        "fold_max_ms": {name: max(times, default=0.0) * 1e3 for name, times in folds.items()},
        "median_us": median,
        "mean_us": mean,
        "median_ratio": median["long"] / median["short"],
        "mean_ratio": mean["long"] / mean["short"],
    }


def measure_steps(folder: Path, sizes: tuple[int, int]) -> Iterator[dict[str, Any]]:
    history = synthetic.messages(max(sizes))
    following = turns(synthetic.messages(4 * STEPS, seed=synthetic.SEED + 1)[2:])
    for dialect in MODELS:
        for kind in ("memory", "SQLite"):
            stores = [_store(kind, folder / f"{dialect}-{n}.db") for n in sizes]
            sessions = [open_session(store, dialect) for store in stores]
            for session, n in zip(sessions, sizes, strict=True):
                fill(session, history[:n])
            yield {"dialect": dialect, "store": kind, "sizes": sizes, **compare_steps(*sessions, following)}
            for store in stores:
                store.close()


def measure_roomy(sizes: tuple[int, ...]) -> Iterator[dict[str, Any]]:
    """Nothing is ever folded, so that a longer session is a longer prompt."""
    for n in sizes[1:]:
        sessions = [open_session(MemoryStore(), "openai_chat", 50_000_000) for _ in range(2)]
        for session, length in zip(sessions, (sizes[0], n), strict=True):
            session.extend(synthetic.short_messages(length))
            session.prompt(synthetic.TOOLS)
        following = turns(synthetic.messages(4 * STEPS, seed=synthetic.SEED + 1)[2:])
        yield {"sizes": (sizes[0], n), **compare_steps(*sessions, following)}


def measure_opening(folder: Path, sizes: tuple[int, int], rounds: int = 15) -> dict[str, Any]:
    paths = [folder / f"stored-{n}.db" for n in sizes]
    history = synthetic.messages(max(sizes))
    filling = [_write(path, history[:n]) for path, n in zip(paths, sizes, strict=True)]
    del history
    took: list[list[tuple[float, float]]] = [[], []]
    for _ in range(rounds):
        for times, path in zip(took, paths, strict=True):
            times.append(timed(lambda path=path: _open_and_ask(path)))
    cpu = [statistics.median(cpu for cpu, _ in times) * 1e3 for times in took]
    wall = [statistics.median(wall for _, wall in times) * 1e3 for times in took]
    return {
        "sizes": sizes,
        "rounds": rounds,
        "file_mb": [path.stat().st_size / 1e6 for path in paths],
        "filling_cpu_s": [cpu for cpu, _ in filling],
        "cpu_ms": cpu,
        "wall_ms": wall,
        "cpu_ratio": cpu[1] / cpu[0],
        "wall_ratio": wall[1] / wall[0],
    }


def _write(path: Path, history: list[foveal.Message]) -> tuple[float, float]:
    store = foveal.open_store(path)
    with open_session(store, "openai_chat") as session:
        took = timed(lambda: fill(session, history))
    store.close()
    return took


def _open_and_ask(path: Path) -> None:
    store = foveal.open_store(path)
    with open_session(store, "openai_chat") as session:
        session.prompt(synthetic.TOOLS)
    store.close()


def measure_appends(folder: Path, n: int = 2_000) -> list[dict[str, Any]]:
    """Every append waits for the disk, so that wall time is the disk's and CPU is ours."""
    history = synthetic.messages(n)
    size_mb = len(json.dumps(synthetic.chat_messages(n))) / 1e6
    rows: list[dict[str, Any]] = []
    for batch in (1, 100):
        store = foveal.open_store(folder / f"appends-{batch}.db")
        with open_session(store, "openai_chat") as session:

            def work(session: foveal.Session = session, batch: int = batch) -> None:
                for start in range(0, n, batch):
                    session.extend(history[start : start + batch])

            cpu, wall = timed(work)
        store.close()
        rows.append({"batch": batch, "per_s": n / wall, "mb_per_s": size_mb / wall, "cpu_us": cpu / n * 1e6})
    return rows


def measure_instructions(folder: Path, sizes: tuple[int, int], steps: int = 60) -> dict[str, Any]:
    """Instructions per step at the end of a stored session: a run with the steps, less a run without them."""
    per_step: list[float] = []
    for n in sizes:
        path = folder / f"counted-{n}.db"
        _write(path, synthetic.messages(n))
        _live(path, 0)  # compiles all modules, so that no counted run does
        idle, busy = (_instructions(_live(path, count, "valgrind", "--tool=callgrind")) for count in (0, steps))
        per_step.append((busy - idle) / steps)
    return {"sizes": sizes, "steps": steps, "instructions": per_step, "ratio": per_step[1] / per_step[0]}


def _live(path: Path, steps: int, *under: str) -> str:
    """Return the figures of a process that opens a copy of the session and goes on for some steps."""
    copy = path.with_suffix(".copy.db")
    shutil.copy(path, copy)
    options = ["--callgrind-out-file=/dev/null"] if under else []
    command = [*under, *options, sys.executable, __file__, "--live", str(copy), str(steps)]
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    env = kept | {"PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": str(path.parent / "compiled")}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=env).stderr


def _instructions(report: str) -> int:
    found = re.search(r"Collected : (\d+)", report)
    assert found, report[-2_000:]
    return int(found[1])


def live_on(path: Path, steps: int) -> None:
    """The work that callgrind measures."""
    following = turns(synthetic.messages(400, seed=synthetic.SEED + 1)[2:])
    store = foveal.open_store(path)
    with open_session(store, "openai_chat") as session:
        for turn in following[:steps]:
            step(session, turn)
    store.close()


def _store(kind: str, path: Path) -> Any:
    return MemoryStore() if kind == "memory" else foveal.open_store(path)


def measure(*, instructions: bool, quick: bool) -> dict[str, Any]:
    small, large, huge = (200, 1_000, 2_000) if quick else (1_000, 10_000, 100_000)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {
            "budget": BUDGET,
            "steps": list(measure_steps(folder, (small, large))),
            "opening": measure_opening(folder, (small, huge)),
            "roomy": list(measure_roomy((small, large, huge))),
            "appends": measure_appends(folder),
        }
        if instructions and shutil.which("valgrind"):
            found["instructions"] = measure_instructions(folder, (small, large))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instructions", action="store_true", help="count instructions with callgrind (minutes)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--live", nargs=2, metavar=("STORE", "STEPS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.live:
        live_on(Path(given.live[0]), int(given.live[1]))
    else:
        print(json.dumps(measure(instructions=given.instructions, quick=given.quick), indent=2))


if __name__ == "__main__":
    main()
