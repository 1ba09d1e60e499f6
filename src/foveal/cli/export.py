"""Write a session to a file that another store can import: its entries, verified, and its artifacts."""

import sys
from argparse import ArgumentParser, Namespace

from foveal.analysis.inspect.stored_session import known_session
from foveal.cli.arguments import add_store, existing_store
from foveal.cli.files import whole_file
from foveal.cli.interrupts import terminable
from foveal.cli.output import Output
from foveal.stores.place import find_file
from foveal.stores.portable import Portrait, export_session


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION")
    parser.add_argument("-o", "--output", metavar="FILE", help="default: standard output")
    add_store(parser)


def run(args: Namespace, out: Output) -> None:
    target = None if args.output is None else find_file(args.output)
    with existing_store(args.store) as store:
        name = known_session(store, args.session)
        if target is None:
            export_session(store, name, sys.stdout.buffer)
            return
        with terminable(), whole_file(target, is_private=True) as stream:
            done = export_session(store, name, stream)
    if out.is_json:
        out.document({"file": str(target), **_facts(done)})
    else:
        out.line(f"{target}: session {name}, {done.entries:,} entries, {done.artifacts:,} artifacts")


def _facts(done: Portrait) -> dict[str, object]:
    return {"session": done.session, "entries": done.entries, "artifacts": done.artifacts, "chain": done.chain}
