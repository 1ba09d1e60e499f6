"""The commits of a store that cannot be written: none."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from foveal.stores.database import Database
from foveal.values.errors import StoreReadOnly


class NoCommits:
    """Stands in for `GroupCommit`, and refuses every job."""

    is_over = True
    """Whether nothing can be written any more."""

    def __init__(self, path: Path, on_close: Callable[[], None]) -> None:
        self._path, self.stop = path, on_close
        self.close = on_close

    def run(self, job: Callable[[Database], Any]) -> NoReturn:
        """Raise `StoreReadOnly`."""
        raise StoreReadOnly(f"{self._path} cannot be written. Check the permissions of the file and of its folder.")

    run_alone = run
