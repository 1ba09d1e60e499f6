"""Options for runs that workers drive: whether a command leaves its run to them, and the queue that brings it there."""

from argparse import ArgumentParser, Namespace
from importlib import import_module

from foveal.agent.run_queue import RunQueue, StoreQueue
from foveal.agent.runs import Runs
from foveal.cli.output import Output
from foveal.values.errors import BadInput


def add_detach(parser: ArgumentParser) -> None:
    """Add the options `--detach` and `--dbos`."""
    parser.add_argument("--detach", action="store_true", help="leave it to the workers (`foveal runs work`) and return")
    add_queue(parser)


def add_queue(parser: ArgumentParser) -> None:
    """Add the option `--dbos`."""
    parser.add_argument(
        "--dbos", metavar="URL", help="the database of a DBOS queue (default: workers look into the store)"
    )


def opened_queue(args: Namespace) -> RunQueue:
    """Return the queue that the options name."""
    return import_module("foveal.agent.dbos_queue").DbosQueue(args.dbos) if args.dbos else StoreQueue()


def detached_queue(args: Namespace) -> RunQueue | None:
    """Return the queue for a run that is left to workers; None for one that is driven here."""
    if args.dbos and not args.detach:
        raise BadInput("--dbos needs --detach: the queue is for runs that are left to the workers")
    return opened_queue(args) if args.detach else None


def tell_detached(runs: Runs, run: str, out: Output) -> int:
    """Tell that a run was left to the workers."""
    if out.is_json:
        out.document({"run": run, "status": runs.state(run).status})
    else:
        out.line(run)
    return 0
