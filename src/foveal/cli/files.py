"""Files of commands: written as a whole or not at all, and standard input as a file."""

import os
import shutil
import sys
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

from foveal.stores.disk import OWNER_ONLY
from foveal.stores.sqlite.opening import COMPANIONS
from foveal.values.errors import BadInput

_DATABASE = b"SQLite format 3\0"
"""The first bytes of every SQLite file."""


@contextmanager
def whole_file(path: Path, *, is_private: bool = False) -> Generator[BinaryIO]:
    """Yield a stream whose content takes the name `path` when the block ends well; otherwise nothing is left of it.

    An earlier file of that name is replaced, unless it is a database or belongs to one: `BadInput`. A private file can be read by
    its owner alone. Closing the stream inside the block throws its content away.
    """
    if path.is_dir():
        raise BadInput(f"{path} is a directory; name a file")
    _check_no_database(path)
    if path.exists() and not path.is_file():  # a pipe or a device: there is nothing to rename
        with path.open("wb") as stream:
            yield stream
        return
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY if is_private else 0o666)
    except FileExistsError:
        raise BadInput(
            f"{path} is being written already, as if two options name it; name two files. If they do not, remove {unfinished}"
        ) from None
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error  # the name that somebody gave
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            is_wanted = not stream.closed
        if is_wanted:
            _check_no_database(path)  # the block may have made one
            unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _check_no_database(path: Path) -> None:
    """Raise `BadInput` if a file is a database, a companion of one, or in the folder of its artifacts or indexes."""
    place = path.resolve()
    owners = [
        Path(str(file).removesuffix(ending))
        for file in (place, *place.parents)
        for ending in COMPANIONS
        if str(file).endswith(ending)
    ]
    for file in (place, *owners):
        if file.is_file():
            with file.open("rb") as stream:
                if stream.read(len(_DATABASE)) == _DATABASE:
                    what = "is" if file == place else f"belongs to {file}, which is"
                    raise BadInput(f"{path} {what} a database, and is not written over; name another file")


def optional_file(path: Path | None) -> AbstractContextManager[BinaryIO | None]:
    """Return such a stream, or None if no path is given, for a `with` block."""
    return whole_file(path) if path else nullcontext()


@contextmanager
def input_files(paths: Sequence[Path]) -> Generator[Sequence[Path]]:
    """Yield the files to read, with standard input copied to one in place of `-`: files are read more than once."""
    if Path("-") not in paths:
        yield paths
        return
    with TemporaryDirectory(prefix="foveal-") as folder:
        copy = Path(folder) / "stdin"
        with copy.open("wb") as stream:
            shutil.copyfileobj(sys.stdin.buffer, stream)
        yield [copy if path == Path("-") else path for path in paths]
