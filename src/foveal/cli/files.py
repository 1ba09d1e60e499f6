"""Files that are written as a whole or not at all."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from foveal.values.errors import BadInput


@contextmanager
def whole_file(path: Path) -> Generator[BinaryIO]:
    """Yield a stream whose content takes the name `path` when the block ends well; otherwise nothing is left of it.

    Closing the stream inside the block throws its content away.
    """
    if path.is_dir():
        raise BadInput(f"{path} is a directory; name a file")
    if path.exists() and not path.is_file():  # a pipe or a device: there is nothing to rename
        with path.open("wb") as stream:
            yield stream
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("xb") as stream:
            yield stream
            is_wanted = not stream.closed
        if is_wanted:
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


@contextmanager
def optional_file(path: Path | None) -> Generator[BinaryIO | None]:
    """Yield such a stream, or None if no path is given."""
    if path is None:
        yield None
        return
    with whole_file(path) as stream:
        yield stream
