"""Delete the sessions that nobody has written for a while.

A session that is open stays, and so does one with a child that is younger. Without --yes, only says what would be deleted, and
exits with 1.
"""

import time
from argparse import ArgumentParser, Namespace

from foveal.cli.arguments import add_store, age_s, existing_store
from foveal.cli.delete import add_yes, delete_listed
from foveal.cli.output import Output
from foveal.stores.deletion import delete_expired, expired


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--older-than", metavar="AGE", type=age_s, required=True, help="last written so long ago: 30d, 12h, 8w"
    )
    add_yes(parser)
    add_store(parser)


def run(args: Namespace, out: Output) -> int:
    with existing_store(args.store) as store:
        before_ms = time.time_ns() // 1_000_000 - args.older_than * 1000
        return delete_listed(expired(store, before_ms), lambda: delete_expired(store, before_ms), args, out)
