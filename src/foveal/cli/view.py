"""Show sessions in the browser: every prompt, call by call, and how sharply each message was shown in it.

Names a session of a store, or a recording that is replayed with --budget or --policy. The page asks for nothing from elsewhere;
with --html it is one file, for a colleague.
"""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from foveal.analysis.inspect.stored_session import AbsentRendererWarning
from foveal.analysis.replay.replay import DEFAULT_MODEL
from foveal.analysis.replay.report import counted
from foveal.cli.arguments import add_store, existing_path, positive, store_path
from foveal.cli.budget import with_budget
from foveal.cli.files import whole_file
from foveal.cli.output import Output, complaints
from foveal.dialects import find_dialect
from foveal.models.counters import counter_for
from foveal.session.policy import Policy
from foveal.session.policy_file import read_policy
from foveal.values.errors import BadInput, NotFound
from foveal.viewer.builder import RunOptions
from foveal.viewer.choices import SessionChoice, recorded_choices, stored_choices
from foveal.viewer.page import page


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("target", metavar="SESSION|FILE", help="a session of the store, or a file of recordings")
    parser.add_argument("--html", metavar="OUT", type=Path, required=True, help="write the page to this file")
    parser.add_argument("--budget", metavar="N", type=positive, help="replay recordings with at most N tokens a call")
    parser.add_argument("--policy", metavar="FILE", type=Path, help="replay recordings under this policy")
    parser.add_argument("--model", metavar="M", help="replay recordings as this model (default: the recorded one)")
    parser.add_argument("--dialect", metavar="D", help="wire format of the replay (default: the recorded one)")
    add_store(parser)


def run(args: Namespace, out: Output) -> None:
    choices = _choices(args)
    with complaints(AbsentRendererWarning):
        sessions = [choice.build() for choice in choices]
    with whole_file(args.html, is_private=True) as stream:
        size = stream.write(page(sessions))
    calls = sum(session.runs[0].total.calls for session in sessions)
    if out.is_json:
        out.document({"html": str(args.html), "bytes": size, "sessions": len(sessions), "calls": calls})
    else:
        out.line(f"{args.html}: {counted(len(sessions), 'session')}, {counted(calls, 'call')}, {size / 1e6:.1f} MB")


def _choices(args: Namespace) -> list[SessionChoice]:
    """Return the sessions to show: those of a file if there is one of this name, else the session of the store."""
    file = Path(args.target)
    if args.store is None and file.is_file():
        choices = recorded_choices([file], [_options(args)])
        if errors := [choice.row.error for choice in choices if choice.row.error]:
            raise BadInput(errors[0])
        if not choices:
            raise BadInput(f"{file} holds no session")
        return choices
    if args.store is None and not store_path(None).exists():
        raise NotFound(
            f"{args.target} is neither a file here nor a session of a store; name a recording, or the store: --store FILE"
        )
    for name in ("budget", "policy", "model", "dialect"):
        if getattr(args, name):
            raise BadInput(f"--{name} is for recordings; the prompts of {args.target} have been sent already")
    return stored_choices(existing_path(args.store), args.target)


def _options(args: Namespace) -> RunOptions:
    """Return the way to replay a recording. A budget is in o200k tokens, unless a model is named."""
    policy, names = read_policy(args.policy) if args.policy else Policy(), list[str]()
    if args.policy:
        names.append(args.policy.name)
    if args.budget:
        policy = with_budget(policy, args.budget)
        names.append(f"{args.budget:,} tokens")
    return RunOptions(
        name=", ".join(names) or "the built-in policy",
        policy=policy,
        model=args.model,
        dialect=find_dialect(args.dialect).name if args.dialect else None,
        counter=counter_for(DEFAULT_MODEL) if args.budget and not args.model else None,
    )
