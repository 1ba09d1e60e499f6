"""Measure policies on recorded sessions, side by side: what each would cost, and what the agent's next step would have missed.

Without a file, on the bundled session. No model is asked and nothing is sent: see docs/benchmark.md for what is measured.
"""

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from foveal.analysis.recordings import read
from foveal.analysis.replay.case import case_of
from foveal.analysis.replay.demo import demo_recording
from foveal.analysis.replay.frontier import frontier
from foveal.analysis.replay.measure import Job, PolicyOutcome
from foveal.analysis.replay.page import data, page
from foveal.analysis.replay.suite import BUDGETS, RUNNERS, Loaded, Pick, Source, load_all, own_runner
from foveal.analysis.replay.suite import run as run_suite
from foveal.analysis.replay.tables import rows_of
from foveal.cli.calls import positive
from foveal.cli.files import optional_file
from foveal.cli.output import Output
from foveal.cli.progress import bar
from foveal.values.errors import BadInput

POLICIES = ("full history", "window, batched to 0.5", "mask last 10, batched", "foveal", "oracle")
"""What is compared where nothing else is asked for."""


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path)
    parser.add_argument(
        "--budgets", metavar="N,…", default=",".join(map(str, BUDGETS)), help="tokens a call (default: %(default)s)"
    )
    parser.add_argument(
        "--policies", metavar="A;B", default="; ".join(POLICIES), help="separated by semicolons; `all` takes every one"
    )
    parser.add_argument("--sessions", metavar="N", type=positive, help="of each set at most (default: all)")
    parser.add_argument("--least", metavar="N", type=positive, default=1, help="leave out sessions of fewer tokens")
    parser.add_argument("--jobs", metavar="N", type=positive, default=1, help="processes to use (default: 1)")
    parser.add_argument(
        "--json", metavar="OUT", type=Path, dest="json_file", help="write every figure of every session"
    )
    parser.add_argument("--svg", metavar="OUT", type=Path, help="draw cost against grounding")
    parser.set_defaults(json=False)


def run(args: Namespace, out: Output) -> int:
    work = _work(args.policies, args.budgets)
    loaded = _loaded(args)
    cases = loaded.cases
    outcomes = list[PolicyOutcome]()
    with optional_file(args.json_file) as json_file, optional_file(args.svg) as svg_file:
        with bar(sum(len(case.calls) for case in cases) * len(work)) as tick:
            for outcome in run_suite(cases, work, jobs=args.jobs):
                outcomes.append(outcome)
                tick(outcome.figures.calls)
        rows = rows_of(outcomes)
        if json_file:
            json_file.write(json.dumps(data(outcomes, rows, loaded.notes)).encode())
        if svg_file:
            svg_file.write(frontier(rows).encode())
    out.raw(page(rows, loaded.notes) + "\n")
    return 0


def _work(policies: str, budgets: str) -> list[Job]:
    names = list(RUNNERS) if policies.strip() == "all" else [name.strip() for name in policies.split(";")]
    for name in names:
        own_runner(name)
    try:
        sizes = [positive(size.replace("k", "000")) for size in budgets.split(",")]
    except (ValueError, ArgumentTypeError):
        raise BadInput(
            f"--budgets {budgets!r}: write numbers of tokens with commas between them: 16000,32000"
        ) from None
    return [Job(name, size) for name in names for size in sizes]


def _loaded(args: Namespace) -> Loaded:
    if not args.files:
        recording = demo_recording()
        return Loaded([case_of(recording, recording.id, frozenset())], [])
    loaded = load_all(sources_of(args.files), Pick(args.least, args.sessions), jobs=args.jobs)
    if not loaded.cases:
        raise BadInput(f"no session of {args.least:,} tokens or more is in {len(args.files)} file(s)")
    return loaded


def sources_of(files: Sequence[Path]) -> list[Source]:
    """A file of several sessions is a set; files of one session each are a set together."""
    single = tuple(file for file in files if len(list(islice(read(file), 2))) < 2)
    several = [Source(file.name.partition(".")[0], (file,)) for file in files if file not in single]
    return [*several, *([Source("sessions", single)] if single else [])]
