"""Delete the sessions that nobody has written for a while.

A session that is open stays, and so does one with a child that is younger. Without --yes, only says what would be deleted, and
exits with 1.
"""

import re
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace

from foveal.cli.arguments import add_store, existing_store
from foveal.cli.delete import add_yes, delete_listed
from foveal.cli.output import Output
from foveal.stores.deletion import delete_expired, expired

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


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


def age_s(text: str) -> int:
    """Return an age such as `30d` in seconds."""
    found = re.fullmatch(r"(\d+)([smhdw])", text.strip().lower())
    if not found:
        raise ArgumentTypeError(f"{text!r} is not an age; write a number and one of s, m, h, d, w, as in 30d")
    return int(found[1]) * _UNITS_S[found[2]]
