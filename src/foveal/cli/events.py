"""Print the events of a session: folds, the provider's counts, recalls, limits that were learned.

With --follow, also those to come, while another process runs the session. The number before each line is its place in the log;
--after goes on behind it.
"""

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec

from foveal import analysis
from foveal.analysis.inspect.event_log import LoggedEvent
from foveal.cli.arguments import add_store, existing_store
from foveal.cli.output import Output


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument(
        "--after", type=int, default=0, metavar="PLACE", help="only events behind this place of the log"
    )
    parser.add_argument("--follow", action="store_true", help="wait for events to come, until interrupted")
    add_store(parser)


def run(args: Namespace, out: Output) -> None:
    with existing_store(args.store) as store:
        read = analysis.tail if args.follow else analysis.events
        found: Iterator[LoggedEvent | None] = read(store, args.session, after=args.after)
        for logged in found:
            if logged is not None:
                _print(logged, out)
            else:
                out.stream.flush()


def _print(logged: LoggedEvent, out: Output) -> None:
    if out.is_json:
        out.raw(msgspec.json.encode(logged).decode() + "\n")
        return
    at = datetime.fromtimestamp(logged.time_ms / 1000, UTC).strftime("%H:%M:%S")
    _, _, line = str(logged.event).partition(": ")
    out.line(f"{logged.seq:>7}  {at}  {line}")
