"""Copy a store to a new file while it is in use, with its artifacts, and verify the copy.

Exit code 1 if the copy has damage, which it then has in common with the store.
"""

from argparse import ArgumentParser, Namespace

from foveal.cli.arguments import add_store, existing_place, private_options
from foveal.cli.doctor import tell_report
from foveal.cli.interrupts import terminable
from foveal.cli.output import Output
from foveal.stores.moving import copy_store


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("target", metavar="OUT", help="the file to make; its artifacts go to OUT.artifacts")
    add_store(parser)


def run(args: Namespace, out: Output) -> int:
    with terminable():
        done = copy_store(existing_place(args.store), args.target, **private_options())
    return tell_report(done, out)
