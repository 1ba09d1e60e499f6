"""The file of a store that is made as a whole: it has its name only once everything is in it, as a backup and a salvage need."""

import glob
import secrets
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from os import PathLike
from pathlib import Path

import apsw

from foveal.stores.artifacts import artifacts_folder
from foveal.stores.disk import NO_SPACE, sync_folder
from foveal.stores.sqlite.connection import resolved
from foveal.stores.sqlite.opening import check_free
from foveal.values.errors import StoreFailed, StoreFull


@contextmanager
def new_store_file(target: str | PathLike[str]) -> Generator[Path]:
    """Yield the path of a store to be made, which takes the name `target`, with its artifacts, when the block ends well;
    otherwise nothing is left of it, unless the disk refuses to remove it. `BadInput` if there is something of that name, or a
    companion of an earlier store."""
    place = resolved(target)
    check_free(place)
    unfinished = place.with_name(f".{place.name}.{secrets.token_hex(4)}.unfinished")
    try:
        with _plain_errors(place, unfinished):
            yield unfinished
            check_free(place)
            if artifacts_folder(unfinished).exists():
                artifacts_folder(unfinished).rename(artifacts_folder(place))
            unfinished.rename(place)
            sync_folder(place.parent)
    finally:
        for path in place.parent.glob(f"{glob.escape(unfinished.name)}*"):
            with suppress(OSError):  # the error that comes from above says more
                shutil.rmtree(path) if path.is_dir() else path.unlink()


@contextmanager
def _plain_errors(place: Path, unfinished: Path) -> Generator[None]:
    """Raise errors of the disk as errors of a store that could not be made."""
    try:
        yield
    except (OSError, apsw.Error) as error:
        is_full = isinstance(error, apsw.FullError) or (isinstance(error, OSError) and error.errno in NO_SPACE)
        reason = "no space is left" if is_full else f"{error}"
        raise (StoreFull if is_full else StoreFailed)(
            f"{place} could not be made: {reason}. Look at the disk, remove {unfinished}* and, if it is there, {place} with its "
            "artifacts, and try again."
        ) from error
