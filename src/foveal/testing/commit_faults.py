"""Commits that are watched, and fail when they are told to: as those of a store whose connection is lost for a moment."""

from collections.abc import Sequence
from typing import Any

from foveal.stores.port import Draft, Store
from foveal.values.errors import StoreUnavailable

LOST = "the connection was lost"


class CommitFaults:
    """Watches the commits of a store to all of its sessions, and lets some of them fail."""

    def __init__(self, store: Store) -> None:
        self.commits: list[Sequence[Draft]] = []
        """The drafts of each commit that was tried."""
        self._planned: dict[int, bool] = {}
        load = store.load

        def loaded(*given: Any, **options: Any) -> Any:
            opened = load(*given, **options)
            append = opened.writer.append

            def tried(drafts: Sequence[Draft], **more: Any) -> Any:
                if not drafts:
                    return append(drafts, **more)
                self.commits.append(drafts)
                is_kept = self._planned.pop(len(self.commits), None)
                if is_kept is None:
                    return append(drafts, **more)
                if is_kept:
                    append(drafts, **more)
                raise StoreUnavailable(LOST)

            opened.writer.append = tried
            return opened

        store.load = loaded

    def fail(self, number: int = 1, *, is_kept: bool) -> None:
        """Let a commit fail, the next one or a later one. `is_kept`: it is made, and whoever made it does not learn that."""
        self._planned[len(self.commits) + number] = is_kept

    @property
    def are_over(self) -> bool:
        """Whether all commits that were to fail have failed."""
        return not self._planned
