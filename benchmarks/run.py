"""The benchmark: the cost of each policy on recorded sessions, and the details that the agent's next step would have missed.

    python benchmarks/run.py                              # test half of all sets in ../shared/data, 2 processes
    python benchmarks/run.py --slow                       # and an engine that takes 50 ms a call
    python benchmarks/run.py --sessions 3 --no-peers --budgets 32000 --out /tmp/try
    python benchmarks/run.py FILE…                        # on your own recordings, without other engines; prints the page

Writes results/bench.md, bench.json and a picture of cost against grounding. No model is asked: see README.md in this folder.
"""

import argparse
import json
import os
import platform
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import peers
from foveal.analysis.measurement.case import Case
from foveal.analysis.measurement.outcome import Job, PolicyOutcome
from foveal.analysis.measurement.suite import Loaded, Pick, Source, load_all, run, sources_of
from foveal.cli.progress import bar
from foveal.viewer.page import report_page
from foveal_bench import compression
from foveal_bench.ablations import PARTS
from foveal_bench.baselines import BASELINES
from foveal_bench.frontier import frontier
from foveal_bench.page import data, page
from foveal_bench.pooling import Row
from foveal_bench.runners import BUDGETS, RUNNERS
from foveal_bench.tables import ALL, rows_of
from foveal_bench.untouched import CHECK, FITS, that_fit, touched, untouched_table

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
RESULTS = Path(__file__).resolve().parent / "results"
SETS = (
    "claude_code_entire_cli",
    "claude_code_entire_other",
    "claude_code_oh_my_posh",
    "claude_code_cipher_box",
    "codex_entire",
    "pi_sessions",
    "polybench_iswe",
    "polybench_rovodev",
)
SHORT_SETS = ("tau_bench_airline_gpt4o", "tau_bench_retail", "agentdojo", "swe_agent_demos")
"""Where everything fits, so that nothing may be folded."""
LEAST_TOKENS = 45_000
CHOSEN_ON = 6
"""The first sessions of each set by hash: the defaults of the policy were chosen by looking at them, so they prove nothing."""
MAIN = 32_000
"""Where Foveal is also measured with each part switched off."""
SLOW = ("headroom compress",)
"""It works through the whole history at each call, 50 ms on average: only where it is asked for."""
AT_MAIN = (*SLOW, "litellm trim")
"""Engines that do so at the main budget only."""

UNTOUCHED = f"""## Sessions that fit

Shorter than {FITS:,} tokens, and sent under a budget of as many: nothing may be folded. Test half of each set.
"""


def work_of(budgets: Sequence[int], engines: Sequence[str], policies: Sequence[str]) -> list[Job]:
    """Return all jobs, or those of the named policies."""
    parts = [name for name in PARTS if name != "foveal"]
    everywhere = [Job(name, budget) for name in (*BASELINES, "foveal", "oracle") for budget in budgets]
    at_main = [Job(name, MAIN) for name in parts if MAIN in budgets]
    others = [Job(name, budget) for name in engines for budget in budgets if name not in AT_MAIN or budget == MAIN]
    work = [*everywhere, *others, *at_main]
    return [Job(name, budget) for name in policies for budget in budgets] if policies else work


def in_order(outcomes: list[PolicyOutcome], work: Sequence[Job]) -> list[PolicyOutcome]:
    """Return the outcomes by policy as asked for, then by set and session, however the work was spread."""
    place = {job: i for i, job in enumerate(work)}
    return sorted(outcomes, key=lambda one: (place[Job(one.policy, one.budget)], one.group, one.session))


def head(about: str, which: str) -> str:
    return (
        "# What is kept, and at what price\n\n"
        f"Made by `benchmarks/run.py`{about}. Recorded coding sessions of at least {LEAST_TOKENS:,} tokens, {which}"
        " More on how to read it: [README](../README.md).\n\n"
        "Charts of cost against grounding: `bench.html`, which each run writes beside this page.\n"
    )


def spent() -> float:
    """Return the CPU seconds of this process and its children."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def loaded_sets(names: Sequence[str], pick: Pick, jobs: int) -> Loaded:
    sources = [Source(name, (DATA / f"{name}.jsonl.gz",)) for name in names]
    if missing := [source.name for source in sources if not source.files[0].exists()]:
        sys.exit(
            f"{DATA} does not hold {', '.join(missing)}: nothing was measured; `benchmarks/run.py FILE…` takes any recording"
        )
    return load_all(sources, pick, jobs=jobs)


def measured(
    cases: Sequence[Case], work: Sequence[Job], short: Sequence[Case], given: argparse.Namespace
) -> list[list[PolicyOutcome]]:
    """Return the outcomes of the long sessions and of the short ones, with one bar for both."""
    jobs: int = given.jobs
    gauge = compression.gauge if given.explained else None
    if given.explained and not compression.is_installed():
        sys.exit(f"--explained needs {compression.MODULE}: pip install -e '.[bench]'")
    found = list[list[PolicyOutcome]]()
    calls = sum(len(case.calls) for case in cases) * len(work) + sum(len(case.calls) for case in short)
    with bar(calls) as tick:
        for some, jobs_of in ((cases, work), (short, [CHECK])):
            found.append([])
            for outcome in run(some, jobs_of, find=peers.runner, gauge=gauge, jobs=jobs):
                found[-1].append(outcome)
                tick(outcome.figures.calls)
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, help="your own recordings, in place of the sets")
    parser.add_argument("--sets", nargs="+", default=SETS, help="names of files in ../shared/data")
    parser.add_argument("--short-sets", nargs="*", default=SHORT_SETS, help="sets in which everything fits")
    parser.add_argument("--budgets", nargs="+", type=int, default=BUDGETS)
    parser.add_argument("--policies", nargs="+", default=(), help="only these, at all budgets")
    parser.add_argument("--sessions", type=int, help="of each set, at most")
    parser.add_argument("--skip", type=int, default=CHOSEN_ON, help="pass over the first so many of each set")
    parser.add_argument(
        "--least", type=int, help=f"tokens of the shortest session (default: {LEAST_TOKENS:,}; of FILE 1)"
    )
    parser.add_argument("--no-peers", action="store_true", help="without other engines")
    parser.add_argument(
        "--explained",
        action="store_true",
        help="and how well prompts explain the next action (about 10 ms a call and row)",
    )
    parser.add_argument("--training", action="store_true", help="the training half, to look at; writes only with --out")
    parser.add_argument("--slow", action="store_true", help=f"with {' and '.join(SLOW)} (minutes more)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a folder (default: results, of FILE none)")
    given = parser.parse_args()
    if unknown := [name for name in given.policies if name not in (*RUNNERS, *peers.ENGINES)]:
        parser.error(f"there is no policy {unknown[0]!r}; known: {'; '.join((*RUNNERS, *peers.ENGINES))}")
    return given


def own_page(files: Sequence[Path], given: argparse.Namespace) -> None:
    """Print the page of the user's own recordings; write it with its figures and picture where `--out` names a folder."""
    loaded = load_all(sources_of(files), Pick(given.least or 1, given.sessions), jobs=given.jobs)
    if not loaded.cases:
        sys.exit(f"no session of {given.least or 1:,} tokens or more is in {len(files)} file(s)")
    work = work_of(given.budgets, (), given.policies)
    outcomes = in_order(measured(loaded.cases, work, (), given)[0], work)
    rows = rows_of(outcomes)
    text = page(rows, loaded.notes)
    if given.out:
        write(given.out, text, rows, data(outcomes, rows, loaded.notes))
    print(text)


def write(folder: Path, text: str, rows: Sequence[Row], figures: dict[str, Any]) -> None:
    """Write the page, all figures, and the charts."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "bench.md").write_text(text, encoding="utf-8")
    (folder / "bench.json").write_text(json.dumps(figures, separators=(",", ":")) + "\n", encoding="utf-8")
    (folder / "bench.html").write_bytes(report_page(frontier(rows, ALL)))


def main() -> None:
    given, start = arguments(), time.monotonic()
    if given.files:
        own_page(given.files, given)
        return
    engines, absent = ([], []) if given.no_peers else peers.ready()
    if not given.slow:
        absent += [f"{name} was left out: `--slow` runs it as well" for name in SLOW if name in engines]
        engines = [name for name in engines if name not in SLOW]
    print("reading recordings", file=sys.stderr, flush=True)
    skip = 0 if given.training else given.skip
    half = {"training_half": given.training, "test_half": not given.training}
    pick = Pick(given.least or LEAST_TOKENS, given.sessions, skip=skip, **half)
    loaded = loaded_sets(given.sets, pick, given.jobs)
    short = that_fit(loaded_sets(given.short_sets, Pick(0, given.sessions, **half), given.jobs).cases)
    work = work_of(given.budgets, engines, given.policies)
    print(
        f"{len(loaded.cases)} sessions, and {len(short)} that fit, loaded in {time.monotonic() - start:.0f} s; {len(work)} rows",
        file=sys.stderr,
        flush=True,
    )
    outcomes, fitting = measured(loaded.cases, work, short, given)
    outcomes = in_order(outcomes, work)
    rows, notes = rows_of(outcomes), [*loaded.notes, *absent]
    others = sum(outcome.figures.cpu_s for outcome in outcomes if outcome.policy in peers.ENGINES)
    took = (
        f"{(time.monotonic() - start) / 60:.1f} minutes, {spent():,.0f} s of CPU and {others:,.0f} s in other engines"
    )
    passed = "" if skip >= CHOSEN_ON else " **Defaults were chosen on some of these sessions: not held aside.**"
    which = "training half: weights were trained on them." if given.training else f"test half only.{passed}"
    about = f" in {took}, {given.jobs} processes on {os.cpu_count()} cores, Python {platform.python_version()}"
    beside = (UNTOUCHED, untouched_table(fitting)) if fitting else ()
    fits = {"sessions": len(fitting), "touched": sum(touched(outcome) > 0 for outcome in fitting)}
    text = "\n".join((head(about, which), page(rows, notes, beside=beside)))
    if given.out or not given.training:
        write(given.out or RESULTS, text, rows, {**data(outcomes, rows, notes), "fitting": fits})
    print(text)


if __name__ == "__main__":
    main()
