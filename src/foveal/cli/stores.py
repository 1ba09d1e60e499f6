"""The store that a command reads: the option `--store`, and opening it."""

import os
from argparse import ArgumentParser
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from foveal.stores import open_store
from foveal.stores.port import Store
from foveal.values.errors import NotFound


def add_store(parser: ArgumentParser) -> None:
    """Add the option `--store`."""
    parser.add_argument("--store", metavar="FILE", help="the store to read (default: $FOVEAL_STORE, else ./foveal.db)")


@contextmanager
def existing_store(named: str | None) -> Generator[Store]:
    """Yield the store of this path, open until the block ends. Never creates a store."""
    path = Path(named or os.environ.get("FOVEAL_STORE") or "foveal.db")
    if not path.exists():
        raise NotFound(f"there is no store at {path}; name one with --store FILE or $FOVEAL_STORE")
    if not path.is_file() or not path.stat().st_size:
        raise NotFound(f"{path} is not a store; name one with --store FILE or $FOVEAL_STORE")
    store = open_store(path)
    try:
        yield store
    finally:
        store.close()
