"""Print the scorecard: what was tried, how many cases, how many failures; and whether each figure can fail.

    python scripts/scorecard.py                        # small: minutes
    python scripts/scorecard.py --plan                 # the minutes that each published size takes here
    python scripts/scorecard.py --whole --write        # the published sizes: hours; writes benchmarks/results/scorecard.md
    python scripts/scorecard.py --minutes 5 --write    # as many cases of each figure as fit
    python scripts/scorecard.py --only R3 V1 --share 0.1 --whole

Each figure runs in a process of its own. After it, its bugs are planted one by one, each in a process of its own again, with the
small number of cases: a figure that stays green with a bug in the product says nothing, and is an error here.
`--whole` and `--minutes` begin with the figures that take least. The page is written after every figure; rows of figures that a
run leaves out stay, and each row tells its date and its commit. Exit 1 if any figure failed, or any bug was missed.
"""

import argparse
import multiprocessing
import subprocess
import sys
import time
from datetime import UTC, datetime
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from scorecard_figures import FIGURES, result_of
from scorecard_page import HEAD, Line, Pace, plan_table, with_rows
from scorecard_parts import Figure

FORK = multiprocessing.get_context("fork")
"""A copy of this process: the product is imported once for all figures."""
ENOUGH_S = 4.0
"""Seconds of a run that tell the speed of a figure: several times those of its beginning."""
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "scorecard.md"


def run(figure: Figure, cases: int, seed: int, plant: str = "") -> dict[str, Any]:
    """Run a figure in a process of its own. One that ends by an error has failed, and is broken: it caught no bug."""
    here, there = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_answer, args=(there, figure.name, cases, seed, plant))
    child.start()
    there.close()
    try:
        return here.recv()
    except EOFError:
        return {"cases": 0, "failures": 1, "examples": ["it ended by itself"], "is_broken": True}
    finally:
        child.join()


def _answer(there: Connection, *asked: Any) -> None:
    try:
        there.send(result_of(*asked))
    except BaseException as error:
        there.send({"cases": 0, "failures": 1, "examples": [f"{type(error).__name__}: {error}"], "is_broken": True})


def measured(figure: Figure, cases: int, seed: int) -> Line:
    """Run a figure, and then with each of its bugs."""
    began = time.monotonic()
    found = run(figure, cases, seed)
    seconds = time.monotonic() - began
    planted = {plant: run(figure, figure.small, seed, plant) for plant in figure.plants}
    caught = {plant: bug["failures"] > 0 and not bug.get("is_broken") for plant, bug in planted.items()}
    missed = [f"{plant}: {line}" for plant, bug in planted.items() if not caught[plant] for line in bug["examples"][:1]]
    whole = found["cases"] if found["cases"] < cases else figure.whole  # there are no more
    return Line(
        figure.name,
        figure.what,
        found["cases"],
        whole,
        found["failures"],
        [*found["examples"], *missed],
        caught,
        seconds,
        is_broken=bool(found.get("is_broken")),
    )


def paced(figure: Figure, seed: int) -> Pace:
    """Measure the speed of a figure: with its small number of cases, and with more while its beginning is most of the time."""
    cases = figure.small
    while True:
        began = time.monotonic()
        found = run(figure, cases, seed)
        seconds = time.monotonic() - began
        if seconds > ENOUGH_S or found["cases"] < cases or cases * 4 > figure.whole:
            return Pace(figure.name, found["cases"] or cases, figure.whole, seconds)
        cases *= 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--whole", action="store_true", help="the published number of cases")
    size.add_argument("--minutes", type=float, metavar="N", help="the largest number of cases of each figure that fits")
    size.add_argument("--plan", action="store_true", help="tell the minutes of each published size, and run none")
    parser.add_argument("--share", type=float, default=1.0, help="this share of the cases")
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} after every figure")
    given = parser.parse_args()
    if unknown := set(given.only or ()) - {figure.name for figure in FIGURES}:
        parser.error(f"there is no figure {', '.join(sorted(unknown))}")
    chosen = [figure for figure in FIGURES if not given.only or figure.name in given.only]
    figures = [figure for figure in chosen if not (reason := figure.skipped()) or _tell_skipped(figure, reason)]
    sizes = {figure.name: figure.small for figure in figures}
    if given.whole or given.minutes or given.plan:
        paces = {figure.name: paced(figure, given.seed) for figure in figures}
        print(plan_table(paces.values()), flush=True)
        if given.plan:
            return 0
        figures.sort(key=lambda figure: paces[figure.name].minutes)
        sizes = {name: pace.cases_in(given.minutes) if given.minutes else pace.whole for name, pace in paces.items()}
    print(HEAD, flush=True)
    is_good, rows = True, dict[str, str]()
    for figure in figures:
        line = measured(figure, max(1, int(sizes[figure.name] * given.share)), given.seed)
        is_good = is_good and line.is_good
        rows[figure.name] = line.row(f"{datetime.now(UTC):%Y-%m-%d}", _commit())
        print(rows[figure.name], flush=True)
        for example in line.examples:
            print(f"    {example[:300]}", file=sys.stderr)
        if given.write:
            before = RESULTS.read_text() if RESULTS.exists() else ""
            RESULTS.write_text(with_rows(before, rows, [one.name for one in FIGURES]))
    return 0 if is_good else 1


def _tell_skipped(figure: Figure, reason: str) -> bool:
    print(f"{figure.name} is skipped: {reason}", file=sys.stderr)
    return False


def _commit() -> str:
    """Return the commit of the tree, with a plus if there are changes since, other than of the page itself."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], capture_output=True, text=True, check=True, cwd=RESULTS.parent).stdout

    changes = git("status", "--porcelain", "-uno", ":/", f":!{RESULTS.name}").strip()
    return git("rev-parse", "--short", "HEAD").strip() + ("+" if changes else "")


if __name__ == "__main__":
    sys.exit(main())
