"""Find the policy for your own sessions: replay them under several, choose by cost and by what the agent needed, write a file.

Without a file, on the bundled session. No model is asked and nothing is sent: see docs/tune.md for what is chosen and how.
"""

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from foveal.analysis.measurement.case import Case, case_of
from foveal.analysis.measurement.suite import Loaded, Pick, load_all, sources_of
from foveal.analysis.replay.demo import BUDGET, demo_recording
from foveal.analysis.replay.replay import DEFAULT_MODEL
from foveal.analysis.tune import GRIDS, PickRule, Tuning, advice, curve, document, policy_file, price_list, tune
from foveal.analysis.tune.report import ALIGN, HEAD, cells
from foveal.cli.arguments import positive
from foveal.cli.files import optional_file
from foveal.cli.output import Output
from foveal.cli.progress import bar
from foveal.models.catalogue import ModelFacts, find
from foveal.text.display import visible
from foveal.values.errors import BadInput
from foveal.viewer.document import PageReport, PageTable
from foveal.viewer.page import report_page


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("files", metavar="FILE", nargs="*", type=Path)
    parser.add_argument(
        "--budget", metavar="N", type=positive, help=f"tokens a call; the bundled session has {BUDGET:,} by default"
    )
    parser.add_argument(
        "--policies", choices=tuple(GRIDS), default="full", help=f"how many: {_sizes()} (default: %(default)s)"
    )
    parser.add_argument(
        "--prices", metavar="MODEL", help="whose, or READ,WRITE of a token (default: those of the recorded model)"
    )
    goal = parser.add_mutually_exclusive_group()
    goal.add_argument("--at-most", metavar="COST", type=_ratio, help="the best grounding at no more than this cost")
    goal.add_argument("--at-least", metavar="GROUNDING", type=_ratio, help="the cheapest that grounds so well")
    parser.add_argument("--folds", metavar="N", type=positive, default=3, help="of sessions held out (default: 3)")
    parser.add_argument("--jobs", metavar="N", type=positive, default=1, help="processes to use (default: 1)")
    parser.add_argument("--out", metavar="OUT", type=Path, help="write the recommended policy, as TOML")
    parser.add_argument("--html", metavar="OUT", type=Path, help="write a page with cost against grounding")
    parser.add_argument(
        "--json", metavar="OUT", type=Path, dest="json_file", help="write every figure of every session"
    )
    parser.set_defaults(json=False)


def run(args: Namespace, out: Output) -> None:
    budget = _budget(args)
    _check_out(args.out)
    given = price_list(args.prices) if args.prices else None
    loaded = _loaded(args)
    cases = loaded.cases
    variants = [variant for variant in GRIDS[args.policies] if variant.differs_at(budget)]
    prices = given or _recorded_prices(cases)
    with (
        optional_file(args.out) as toml,
        optional_file(args.html) as html,
        optional_file(args.json_file) as document_file,
    ):
        with bar(sum(len(case.calls) for case in cases) * len(variants)) as tick:
            tuning = tune(
                cases,
                budget=budget,
                prices=prices,
                variants=variants,
                rule=PickRule(args.at_most, args.at_least),
                folds=args.folds,
                jobs=args.jobs,
                tick=tick,
            )
        if toml:
            toml.write(policy_file(tuning).encode())
        if html:
            html.write(report_page(tuning_report(tuning)))
        if document_file:
            document_file.write(json.dumps(document(tuning), indent=1).encode())
    _print(tuning, args.out, out)
    for note in loaded.notes:
        out.wrapped(note)


def tuning_report(tuning: Tuning) -> PageReport:
    """Return the results of tuning for a page."""
    by_cost = sorted(tuning.tried, key=lambda tried: tried.point.cost)
    rows = tuple(tuple(map(visible, cells(tuning, tried))) for tried in by_cost)
    return PageReport(
        title="Foveal tune",
        paragraphs=tuple(map(visible, advice(tuning))),
        charts=(curve(tuning),),
        tables=(PageTable("All policies, the cheapest first", HEAD, rows),),
    )


def _print(tuning: Tuning, file: Path | None, out: Output) -> None:
    by_cost = sorted(tuning.tried, key=lambda tried: tried.point.cost)
    out.table(HEAD, [cells(tuning, tried) for tried in by_cost], ALIGN)
    for paragraph in advice(tuning):
        out.line()
        out.wrapped(paragraph)
    out.line()
    out.wrapped(f"The policy is in {file}." if file else "--out policy.toml writes the recommended policy.")


def _sizes() -> str:
    return ", ".join(f"{name} (up to {len(grid)})" for name, grid in GRIDS.items())


def _ratio(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1:
        raise ArgumentTypeError(f"{text!r} is not a share above 0 and up to 1")
    return number


def _budget(args: Namespace) -> int:
    if args.budget is None and args.files:
        raise BadInput("--budget N is missing: the most tokens to send in a call, such as 32000")
    return args.budget or BUDGET


def _check_out(path: Path | None) -> None:
    if path and path.suffix.lower() in (".yaml", ".yml"):
        raise BadInput(f"--out {path}: a policy is written as TOML, and this name would have it read as YAML")


def _loaded(args: Namespace) -> Loaded:
    if args.files:
        return load_all(sources_of(args.files), Pick(), jobs=args.jobs)
    recording = demo_recording()
    return Loaded([case_of(recording, recording.id, frozenset())], [])


def _recorded_prices(cases: Sequence[Case]) -> ModelFacts:
    """Return the prices of the model that most calls were made to, of those whose price is known."""
    made = Counter[str]()
    for case in cases:
        made[case.recording.model or DEFAULT_MODEL] += len(case.calls)
    known = (model for model, _ in made.most_common() if find(model).price_cache_write)
    return price_list(next(known, DEFAULT_MODEL))
