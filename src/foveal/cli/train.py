"""`foveal tune --train`: weights for the score of lines, from one's own sessions. Part of `tune`, not a command."""

import json
import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from foveal.analysis.replay.case import Case
from foveal.analysis.tune.training import ALIGN, HEAD, advice, cells, document, policy_naming, train
from foveal.cli.files import optional_file
from foveal.cli.output import Output
from foveal.cli.progress import bar
from foveal.values.errors import BadInput

_NOT_HERE = {"prices": None, "at_most": None, "at_least": None, "svg": None, "policies": "full"}
"""What is said to `tune` otherwise, and what it is when nothing is said."""
_SCORES = 3
"""That every session is replayed by."""


def check(args: Namespace) -> None:
    for name, default in _NOT_HERE.items():
        if getattr(args, name) != default:
            raise BadInput(
                f"--{name.replace('_', '-')} does not go with --train, which changes the score and nothing else"
            )
    if args.policy and not args.out:
        raise BadInput("--policy names the weights that --out writes; add --out weights.json")


def train_weights(cases: Sequence[Case], args: Namespace, out: Output, *, budget: int) -> None:
    with (
        optional_file(args.out) as weights,
        optional_file(args.policy) as policy,
        optional_file(args.json_file) as document_file,
    ):
        with bar(_SCORES * sum(len(case.calls) for case in cases if max(case.raw, default=0) > budget)) as tick:
            training = train(cases, budget=budget, folds=args.folds, jobs=args.jobs, tick=tick)
        if weights:
            weights.write(training.weights.to_json())
        if policy:
            policy.write(policy_naming(training, _seen_from(args.policy, args.out)).encode())
        if document_file:
            document_file.write(json.dumps(document(training), indent=1).encode())
    out.table(HEAD, cells(training), ALIGN)
    for paragraph in advice(training):
        out.line()
        out.wrapped(paragraph)
    out.line()
    out.wrapped(_written(args))


def _seen_from(policy: Path, weights: Path) -> str:
    """The name by which the policy's file finds the weights."""
    try:
        return Path(os.path.relpath(weights.resolve(), policy.resolve().parent)).as_posix()
    except ValueError:  # on another drive
        return str(weights.resolve())


def _written(args: Namespace) -> str:
    if not args.out:
        return "--out weights.json writes the weights, and --policy policy.toml a policy that names them."
    line = f'The weights are in {args.out}. A policy file in the same folder uses them by the line weights = "{args.out.name}"'
    return f"{line}, as {args.policy} does." if args.policy else f"{line}."
