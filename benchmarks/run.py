"""The benchmark: what each policy would have cost on recorded sessions, and what the agent's next step would have missed.

    python benchmarks/run.py                              # test half of all coding sets in ../shared/data, 2 processes
    python benchmarks/run.py --slow                       # and the two engines that take longer than all others together
    python benchmarks/run.py --sessions 3 --no-peers --budgets 32000 --out /tmp/try

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

import peers

from foveal.bench.baselines import BASELINES
from foveal.bench.engine import PARTS, UNSWITCHED
from foveal.bench.frontier import frontier
from foveal.bench.measure import Job, Outcome
from foveal.bench.standing import standing_table
from foveal.bench.suite import BUDGETS, Pick, Source, load_all, run
from foveal.bench.tables import ALL, document, report, rows_of
from foveal.cli.progress import bar

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
LEAST_TOKENS = 45_000
CHOSEN_ON = 6
"""The first sessions of each set by hash: the defaults of the policy were chosen by looking at them, so they prove nothing."""
MAIN = 32_000
"""Where Foveal is also measured with each part switched off."""
PEER_BUDGETS = (16_000, 32_000, 64_000)
SLOW = ("headroom compress", "litellm trim")
"""Engines that take tens of milliseconds a call: only where they are asked for, and only at the main budget."""


STANDING = """## Where Foveal stands

Cost (anthropic) / far grounding, for policies that are over the budget, refused or invalid in at most 1 % of their calls.
"""


def work_of(budgets: Sequence[int], engines: Sequence[str], policies: Sequence[str]) -> list[Job]:
    """What is run: everything, or the policies that are named."""
    parts = [name for name in PARTS if name != "foveal"]
    everywhere = [Job(name, budget) for name in (*BASELINES, "foveal", "oracle") for budget in budgets]
    at_main = [Job(name, MAIN) for name in parts if MAIN in budgets]
    others = [
        Job(name, budget)
        for name in engines
        for budget in budgets
        if budget in PEER_BUDGETS and (name not in SLOW or budget == MAIN)
    ]
    work = [*everywhere, *others, *at_main]
    return [Job(name, budget) for name in policies for budget in budgets] if policies else work


def in_order(outcomes: list[Outcome], work: Sequence[Job]) -> list[Outcome]:
    """By policy as asked for, then by set and session, however the work was spread."""
    place = {job: i for i, job in enumerate(work)}
    return sorted(outcomes, key=lambda one: (place[Job(one.policy, one.budget)], one.group, one.session))


def head(about: str, warning: str) -> str:
    return (
        "# What is kept, and at what price\n\n"
        f"Made by `benchmarks/run.py`{about}. Recorded coding sessions of at least {LEAST_TOKENS:,} tokens, test half only."
        f"{warning} Cost is the input bill as a ratio to sending the whole history, by price list; far grounding is the share of "
        "what the agent's next action used and had last seen more than 12 messages ago that stands in the prompt. How to read "
        "the rest: [README](../README.md).\n\n![cost against grounding](bench.svg)\n"
    )


def spent() -> float:
    """CPU seconds of this process and its children."""
    return sum(
        used.ru_utime + used.ru_stime
        for used in map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", nargs="+", default=SETS, help="names of files in ../shared/data")
    parser.add_argument("--budgets", nargs="+", type=int, default=BUDGETS)
    parser.add_argument("--policies", nargs="+", default=(), help="only these, at all budgets")
    parser.add_argument("--sessions", type=int, help="of each set, at most")
    parser.add_argument("--skip", type=int, default=CHOSEN_ON, help="pass over the first so many of each set")
    parser.add_argument("--least", type=int, default=LEAST_TOKENS, help="tokens of the shortest session")
    parser.add_argument("--no-peers", action="store_true", help="without other engines")
    parser.add_argument("--slow", action="store_true", help=f"with {' and '.join(SLOW)} (many minutes more)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    sources = [Source(name, (DATA / f"{name}.jsonl.gz",)) for name in given.sets]
    if missing := [source.name for source in sources if not source.files[0].exists()]:
        sys.exit(
            f"{DATA} does not hold {', '.join(missing)}: nothing was measured; `foveal bench FILE…` takes any recording"
        )
    start = time.monotonic()
    engines, absent = ([], []) if given.no_peers else peers.ready()
    if not given.slow:
        absent += [f"{name} was left out: `--slow` runs it as well" for name in SLOW if name in engines]
        engines = [name for name in engines if name not in SLOW]
    loaded = load_all(sources, Pick(given.least, given.sessions, test_half=True, skip=given.skip), jobs=given.jobs)
    cases = loaded.cases
    work = work_of(given.budgets, engines, given.policies)
    print(
        f"{len(cases)} sessions loaded in {time.monotonic() - start:.0f} s; {len(work)} rows",
        file=sys.stderr,
        flush=True,
    )
    outcomes = list[Outcome]()
    with bar(sum(len(case.calls) for case in cases) * len(work)) as tick:
        for outcome in run(cases, work, find=peers.runner, jobs=given.jobs):
            outcomes.append(outcome)
            tick(outcome.figures.calls)
    outcomes = in_order(outcomes, work)
    rows, notes = rows_of(outcomes), [*loaded.notes, *absent, *UNSWITCHED]
    others = sum(outcome.figures.cpu_s for outcome in outcomes if outcome.policy in peers.ENGINES)
    took = (
        f"{(time.monotonic() - start) / 60:.1f} minutes, {spent():,.0f} s of CPU and {others:,.0f} s in other engines"
    )
    passed = "" if given.skip >= CHOSEN_ON else " **Defaults were chosen on some of these sessions: not held aside.**"
    about = f" in {took}, {given.jobs} processes on {os.cpu_count()} cores, Python {platform.python_version()}"
    given.out.mkdir(parents=True, exist_ok=True)
    text = "\n".join((head(about, passed), STANDING, standing_table(rows), report(rows, notes)))
    (given.out / "bench.md").write_text(text, encoding="utf-8")
    (given.out / "bench.json").write_text(
        json.dumps(document(outcomes, rows, notes), separators=(",", ":")) + "\n", encoding="utf-8"
    )
    (given.out / "bench.svg").write_text(frontier(rows, ALL), encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
