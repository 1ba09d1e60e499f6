"""The worth of each level of detail: the levels alone, with one of them switched off at a time.

    python benchmarks/levels_off.py                          # two sessions of each set, 32,000 and 64,000 tokens a call

*Before* is plain head and tail. Levels are told apart only where results are shortened rather than covered, so the stages here
shorten first (`foveal, levels only` of the benchmark). Writes results/levels_off.md.
"""

import argparse
import sys
from typing import Any

import msgspec

from foveal.analysis.measurement.case import Runner
from foveal.analysis.measurement.outcome import Job
from foveal.analysis.measurement.suite import Pick, Source, load_all, run
from foveal.session.policy import Shorten
from foveal.text.shorten.choose import LEVELS
from foveal_bench.ablations import LEVELS_ONLY, foveal
from foveal_bench.pooling import MAIN_PRICES, row_of
from foveal_bench.runners import own_runner
from foveal_bench.tables import markdown
from run import DATA, LEAST_TOKENS, RESULTS, SETS

HEAD = ("levels", "tokens a call", "far grounding", "95 %", "complete", "short range", "cost")
PLAIN, WHOLE, DEFAULT = "before: head and tail only", "all levels", "foveal"
NAMES = (PLAIN, WHOLE, *(f"without {level.name}" for level in LEVELS), DEFAULT)


def stages(**options: Any) -> tuple[Any, ...]:
    return tuple(
        msgspec.structs.replace(stage, **options) if isinstance(stage, Shorten) else stage for stage in LEVELS_ONLY
    )


def runner(name: str) -> Runner:
    match name:
        case "foveal":
            return own_runner(name)
        case "before: head and tail only":
            return foveal(stages=stages(plain=True))
        case "all levels":
            return foveal(stages=stages())
        case _:
            return foveal(stages=stages(without=(name.removeprefix("without "),)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=2)
    parser.add_argument("--budgets", type=int, nargs="+", default=[32_000, 64_000])
    parser.add_argument("--jobs", type=int, default=2)
    args = parser.parse_args()
    sources = [Source(name, (DATA / f"{name}.jsonl.gz",)) for name in SETS]
    cases = load_all(sources, Pick(LEAST_TOKENS, args.sessions), jobs=args.jobs).cases
    work = [Job(name, budget) for name in NAMES for budget in args.budgets]
    outcomes = list(run(cases, work, find=runner, jobs=args.jobs))
    lines: list[tuple[str, ...]] = []
    for job in work:
        row = row_of([one for one in outcomes if (one.policy, one.budget) == (job.policy, job.budget)], "all")
        spread = f"{row.grounding_interval.low:.2f}–{row.grounding_interval.high:.2f}"
        figures = row.grounding, row.complete, row.short_range, row.cost[MAIN_PRICES]
        far, complete, near, cost = (f"{figure:.3f}" for figure in figures)
        lines.append((job.policy, f"{job.budget:,}", far, spread, complete, near, cost))
    text = f"# Levels, one switched off at a time\n\n{len(cases)} sessions of {len(SETS)} sets.\n\n{markdown(HEAD, lines)}\n"
    (RESULTS / "levels_off.md").write_text(text, encoding="utf-8")
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
