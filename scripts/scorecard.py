"""Print the scorecard: what was tried, how many cases, how many failures; and whether each figure can fail.

    python scripts/scorecard.py                    # small: minutes
    python scripts/scorecard.py --whole --write    # the published sizes: hours; writes benchmarks/results/scorecard.md
    python scripts/scorecard.py --only R3 V1 --share 0.1 --whole

Each figure runs in a process of its own. After it, its bugs are planted one by one, each in a process of its own again, with the
small number of cases: a figure that stays green with a bug in the product says nothing, and is an error here.
Exit 1 if any figure failed, or any bug was missed.
"""

import argparse
import multiprocessing
import subprocess
import sys
import time
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent))

from scorecard_figures import FIGURES, result_of
from scorecard_parts import Figure

FORK = multiprocessing.get_context("fork")
"""A copy of this process: the product is imported once for all figures."""
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "scorecard.md"
HEAD = "| | tried | cases | failures | bugs planted, caught | seconds |\n|---|---|---:|---:|---|---:|"


class Line(NamedTuple):
    """The outcome of one figure."""

    figure: Figure
    cases: int
    failures: int
    examples: list[str]
    caught: dict[str, bool]
    seconds: float

    @property
    def is_good(self) -> bool:
        return not self.failures and all(self.caught.values())

    def __str__(self) -> str:
        caught = ", ".join(f"{name}{'' if is_caught else ': MISSED'}" for name, is_caught in self.caught.items())
        return (
            f"| {self.figure.name} | {self.figure.what} | {self.cases:,} | {self.failures:,} | "
            f"{sum(self.caught.values())} of {len(self.caught)}: {caught} | {self.seconds:,.0f} |"
        )


def run(figure: Figure, cases: int, seed: int, plant: str = "") -> dict[str, Any]:
    """Run a figure in a process of its own. One that ends by an error has failed, and is broken: it caught no bug."""
    here, there = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_answer, args=(there, figure.name, cases, seed, plant))
    child.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        return {"failures": 1, "examples": ["it ended by itself"], "is_broken": True}
    finally:
        child.join()


def _answer(there: Connection, *asked: Any) -> None:
    try:
        there.send(result_of(*asked))
    except BaseException as error:
        there.send({"failures": 1, "examples": [f"{type(error).__name__}: {error}"], "is_broken": True})


def measured(figure: Figure, cases: int, seed: int) -> Line:
    """Run a figure, and then with each of its bugs."""
    began = time.monotonic()
    found = run(figure, cases, seed)
    seconds = time.monotonic() - began
    planted = {plant: run(figure, figure.small, seed, plant) for plant in figure.plants}
    caught = {plant: found["failures"] > 0 and not found.get("is_broken") for plant, found in planted.items()}
    return Line(figure, cases, found["failures"], found["examples"], caught, seconds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whole", action="store_true", help="the published number of cases")
    parser.add_argument("--share", type=float, default=1.0, help="this share of the cases")
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    lines, text = list[Line](), [HEAD]
    print(HEAD, flush=True)
    for figure in FIGURES:
        if given.only and figure.name not in given.only:
            continue
        if reason := figure.skipped():
            text.append(f"| {figure.name} | {figure.what} | 0 | – | skipped: {reason} | |")
        else:
            cases = max(1, int((figure.whole if given.whole else figure.small) * given.share))
            lines.append(measured(figure, cases, given.seed))
            text.append(str(lines[-1]))
        print(text[-1], flush=True)
        for example in lines[-1].examples if lines else []:
            print(f"    {example[:300]}", file=sys.stderr)
    if given.write:
        RESULTS.write_text(_page(text, given.seed))
    return 0 if all(line.is_good for line in lines) else 1


def _page(lines: list[str], seed: int) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout
    made = f"{datetime.now(UTC):%Y-%m-%d}, commit {commit.strip()}, seed {seed}, `python scripts/scorecard.py --whole --write`"
    return "\n".join(["# Scorecard", "", f"{made}.", "", *lines, ""])


if __name__ == "__main__":
    sys.exit(main())
