"""Pin an entry of a stored session: its bytes stand in every prompt from now on, and no stage folds it."""

from argparse import ArgumentParser, Namespace

from foveal.cli.marks import add_entry, set_pin
from foveal.cli.output import Output


def configure(parser: ArgumentParser) -> None:
    add_entry(parser)
    parser.add_argument("--reason", metavar="TEXT", default="", help="kept in the log beside the mark")


def run(args: Namespace, out: Output) -> int:
    return set_pin(args, out, pinned=True, reason=args.reason)
