"""Add a session that `foveal export` wrote to a store, verified before anything is kept."""

import shutil
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO

from foveal.cli.arguments import add_store, open_place, store_place
from foveal.cli.output import Output
from foveal.stores.place import find_file
from foveal.stores.portable import import_verified, verify_export
from foveal.values.errors import BadInput


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a file of `foveal export`; - for standard input")
    parser.add_argument("--as", dest="name", metavar="SESSION", help="another name for the session")
    add_store(parser)


def run(args: Namespace, out: Output) -> None:
    with _opened(args.file) as stream:
        try:
            portrait = verify_export(stream)  # before a store is made for it
            with open_place(store_place(args.store)) as store:
                done = import_verified(store, stream, portrait, name=args.name)
        except BadInput as error:
            raise BadInput(f"{args.file}: {error}") from None
    name = done.session if args.name is None else args.name
    if out.is_json:
        out.document({"session": name, "entries": done.entries, "artifacts": done.artifacts, "chain": done.chain})
    else:
        out.line(f"imported session {name}: {done.entries:,} entries, {done.artifacts:,} artifacts")


@contextmanager
def _opened(name: str) -> Generator[BinaryIO]:
    """Open the file; standard input is copied to one, because it is read twice."""
    if name != "-":
        with find_file(name).open("rb") as stream:
            yield stream
        return
    with tempfile.TemporaryFile() as stream:
        shutil.copyfileobj(sys.stdin.buffer, stream)
        stream.seek(0)
        yield stream
