"""Compare two source trees by the machine instructions that append, prompt and fold take.

    python benchmarks/instructions.py OLD/src NEW/src

Times of these machines scatter by a fifth; a count of instructions (valgrind) is the same in every run. A phase is counted as the
difference between a long and a short run, so that imports and opening take no part; they are the row `open`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path

import foveal
from foveal.session.options import Clock

RUNS = {"append": (20, 120), "prompt": (20, 120), "fold": (40, 200)}
"""Steps of the short and the long run of each phase. A run of `prompt` appends too, and a run of `fold` does all three."""

WINDOW, NARROW = 900_000, 24_000


def steps(phase: str, number: int) -> None:
    """Run one session of so many steps, with ids and times that are the same in every run."""
    budget = NARROW if phase == "fold" else WINDOW
    ids, times = count(), count()
    clock = Clock(new_id=lambda: f"{next(ids):026d}", now_ms=lambda: next(times))
    policy = foveal.Policy(max_context_tokens=budget)
    session = foveal.Session(foveal.open_store(), "s", model="gpt-5", policy=policy, clock=clock)
    tools = [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}]
    session.extend([foveal.system("You are careful."), foveal.user("Find why login fails.")])
    for n in range(number):
        session.append(foveal.assistant("", foveal.ToolCall(f"c{n}", "read_file", f'{{"path":"m{n}.py"}}')))
        lines = (f"def handler_{n}_{i}(request): return {i * n % 97}" for i in range(40))
        session.append(foveal.result(f"c{n}", "\n".join(lines)))
        if phase != "append":
            session.prompt(tools)


def instructions(tree: Path, phase: str, number: int, pycache: str) -> int:
    """Return the instructions of one run in a process of its own, with compiled modules and a fixed hash seed."""
    run = [sys.executable, __file__, "--run", phase, str(number)]
    named = {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0", "PYTHONPYCACHEPREFIX": pycache}
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | named
    subprocess.run(run, check=True, env=environment)  # compiles
    counted = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *run],
        check=True, env=environment, capture_output=True, text=True,
    )  # fmt: skip
    line = next(line for line in counted.stderr.splitlines() if "Collected" in line)
    return int(line.rsplit(":", 1)[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="*", type=Path, metavar="SRC")
    parser.add_argument("--run", nargs=2, metavar=("PHASE", "STEPS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        steps(given.run[0], int(given.run[1]))
        return
    if not given.trees or shutil.which("valgrind") is None:
        parser.error("name one or more `src` folders; valgrind must be installed")
    print("| phase | " + " | ".join(str(tree) for tree in given.trees) + " |\n|---|" + "---:|" * len(given.trees))
    with tempfile.TemporaryDirectory() as pycache:
        first: dict[str, int] = {}
        rows: dict[str, list[str]] = {}
        for tree in given.trees:
            found = {"open": 0}
            for phase, (short, long) in RUNS.items():
                begun = instructions(tree, phase, short, pycache)
                found["open"] = found["open"] or begun
                found[phase] = (instructions(tree, phase, long, pycache) - begun) // (long - short)
            first = first or found
            for phase, number in found.items():
                rows.setdefault(phase, []).append(f"{number:,} ({number / first[phase]:.3f})")
    for phase, cells in rows.items():
        print(f"| {phase} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
