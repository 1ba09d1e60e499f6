"""Print the scorecard: what was tried, how many cases, how many failures; and whether each figure can fail.

    python scripts/scorecard.py                        # small: minutes
    python scripts/scorecard.py --plan                 # the minutes that each published size takes here
    python scripts/scorecard.py --whole --write        # the published sizes: hours; writes benchmarks/results/scorecard.md
    python scripts/scorecard.py --minutes 5 --write    # as many cases of each figure as fit
    python scripts/scorecard.py --only R3 V1 --share 0.1 --whole
    python scripts/scorecard.py --whole --jobs 2 --write    # two figures at once

Each figure runs in a process of its own. After it, its bugs are planted one by one, each in a process of its own again, with the
small number of cases: a figure that stays green with a bug in the product says nothing, and is an error here. A bug is caught
by failures of the kind that it leads to; any other failure, or an error of the figure itself, has missed it. A figure that tried
nothing is broken. A row says `40 of 1,000` where fewer cases were tried than its published number.
`--jobs N` runs N figures side by side, each with the cases and the seed that it has alone, and begins with those that take most;
figures about time, memory or load of the machine run one at a time, before the others. Without it, `--whole` and `--minutes`
begin with the figures that take least. The page is written after every figure; rows of figures that a run leaves out stay, and
each row tells its date and its commit. Exit 1 if any figure failed, any bug was missed, or a figure of `--only` cannot run here.
"""

import argparse
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from scorecard_figures import FIGURES, result_of
from scorecard_page import HEAD, Line, Pace, minutes_told, plan_table, with_rows
from scorecard_parts import Figure

FORK = multiprocessing.get_context("fork")
"""A copy of this process: the product is imported once for all figures."""
ENOUGH_S = 4.0
"""Seconds of a run that tell the speed of a figure: several times those of its beginning."""
RESULTS = Path(__file__).parents[1] / "benchmarks" / "results" / "scorecard.md"


def run(figure: Figure, cases: int, seed: int, plant: str = "") -> dict[str, Any]:
    """Run a figure in a process of its own. One that ends by an error has failed, and is broken: it caught no bug."""
    return _answer_of(*_in_child(result_of, figure.name, cases, seed, plant))


def _in_child(act: Callable[..., Any], *given: Any) -> tuple[Any, Any]:
    """Start an act in a process of its own; return the end of the pipe that its answer comes from, and the process."""
    here, there = FORK.Pipe(duplex=False)
    child = FORK.Process(target=_answer, args=(there, act, *given))
    child.start()
    there.close()
    return here, child


def _answer(there: Connection, act: Callable[..., Any], *given: Any) -> None:
    try:
        there.send(act(*given))
    except BaseException as error:
        there.send(_broken(f"{type(error).__name__}: {error}"))


def _answer_of(here: Connection, child: Any) -> Any:
    try:
        return here.recv()
    except EOFError:
        return _broken("it ended by itself")
    finally:
        child.join()


def _broken(example: str) -> dict[str, Any]:
    return {"cases": 0, "failures": 1, "examples": [example], "shown": [], "is_broken": True}


def side_by_side(jobs: int, figures: Sequence[Figure], sizes: Mapping[str, int], seed: int) -> Iterator[Line]:
    """Yield the line of each figure when it is done, so many at once; those that measure the machine are alone, and first."""
    waiting = sorted(figures, key=lambda figure: not figure.is_alone) if jobs > 1 else list(figures)
    working = dict[Connection, tuple[Figure, Any]]()
    while waiting or working:
        is_alone = any(figure.is_alone for figure in (*(figure for figure, _ in working.values()), *waiting[:1]))
        if waiting and len(working) < (1 if is_alone else jobs):
            figure = waiting.pop(0)
            here, child = _in_child(measured, figure, sizes[figure.name], seed)
            working[here] = (figure, child)
            continue
        for here in wait(list(working)):
            assert isinstance(here, Connection)
            figure, child = working.pop(here)
            line = _answer_of(here, child)
            is_line = isinstance(line, Line)
            yield (
                line
                if is_line
                else Line(figure.name, figure.what, 0, figure.whole, 1, line["examples"], {}, 0.0, is_broken=True)
            )


def measured(figure: Figure, cases: int, seed: int) -> Line:
    """Run a figure, and then with each of its bugs. One is caught if failures show it that are not there without it."""
    began = time.monotonic()
    found = run(figure, cases, seed)
    seconds = time.monotonic() - began
    planted = {plant: run(figure, figure.small, seed, plant) for plant in figure.plants}
    caught = {plant: plant in bug["shown"] and plant not in found["shown"] for plant, bug in planted.items()}
    missed = [
        f"{plant} is not shown by {line}"
        for plant, bug in planted.items()
        if not caught[plant]
        for line in bug["examples"][:1]
    ]
    return Line(
        figure.name,
        f"{figure.what}: {told}" if (told := found.get("told")) else figure.what,
        found["cases"],
        found.get("whole", figure.whole),
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
        whole = found.get("whole", figure.whole)
        if seconds > ENOUGH_S or found["cases"] < cases or cases * 4 > whole:
            return Pace(figure.name, found["cases"] or cases, whole, seconds)
        cases *= 4


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--whole", action="store_true", help="the published number of cases")
    size.add_argument("--minutes", type=float, metavar="N", help="the largest number of cases of each figure that fits")
    size.add_argument("--plan", action="store_true", help="tell the minutes of each published size, and run none")
    parser.add_argument("--share", type=float, default=1.0, help="this share of the cases")
    parser.add_argument("--only", nargs="*", metavar="NAME")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="so many figures side by side")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"write {RESULTS.name} after every figure")
    given = parser.parse_args()
    if unknown := set(given.only or ()) - {figure.name for figure in FIGURES}:
        parser.error(f"there is no figure {', '.join(sorted(unknown))}")
    chosen = [figure for figure in FIGURES if not given.only or figure.name in given.only]
    figures = [figure for figure in chosen if not (reason := figure.skipped()) or _tell_skipped(figure, reason)]
    is_good = not given.only or len(figures) == len(chosen)  # whoever names a figure wants it
    sizes = {figure.name: figure.small for figure in figures}
    minutes = minutes_told(_page())
    if given.minutes or given.plan:
        paces = {figure.name: paced(figure, given.seed) for figure in figures}
        print(plan_table(paces.values()), flush=True)
        if given.plan:
            return 0
        sizes = {name: pace.cases_in(given.minutes) for name, pace in paces.items()}
        minutes = {name: pace.minutes for name, pace in paces.items()}
    if given.whole:
        sizes = {figure.name: figure.whole for figure in figures}
    if given.whole or given.minutes or given.jobs > 1:
        figures.sort(key=lambda figure: minutes.get(figure.name, 0.0), reverse=given.jobs > 1)
    sizes = {name: max(1, int(size * given.share)) for name, size in sizes.items()}
    print(HEAD, flush=True)
    rows = dict[str, str]()
    for line in side_by_side(given.jobs, figures, sizes, given.seed):
        is_good = is_good and line.is_good
        rows[line.name] = line.row(f"{datetime.now(UTC):%Y-%m-%d}", _commit())
        print(rows[line.name], flush=True)
        for example in line.examples:
            print(f"    {example[:300]}", file=sys.stderr)
        if given.write:
            RESULTS.write_text(with_rows(_page(), rows, [one.name for one in FIGURES]))
    return 0 if is_good else 1


def _page() -> str:
    return RESULTS.read_text() if RESULTS.exists() else ""


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
