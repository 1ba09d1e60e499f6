"""Recall: reading the originals of everything that a prompt does not show in full, or that is too large for the log.

    read       the whole original of a reference
    fetch      an excerpt of it: some lines, some characters, or the lines that match a pattern
    describe   its name in a few words

The modules are loaded when one of these names is first used, not when Foveal is imported.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.recall.description import describe
    from foveal.recall.excerpts import MOST_CHARACTERS, Fetch, Fetched, fetch
    from foveal.recall.originals import GIVEN, blocks, given_id, read

__getattr__ = later(
    __name__,
    {
        "GIVEN": "originals",
        "MOST_CHARACTERS": "excerpts",
        "Fetch": "excerpts",
        "Fetched": "excerpts",
        "blocks": "originals",
        "describe": "description",
        "fetch": "excerpts",
        "given_id": "originals",
        "read": "originals",
    },
)

__all__ = [
    "GIVEN",
    "MOST_CHARACTERS",
    "Fetch",
    "Fetched",
    "blocks",
    "describe",
    "fetch",
    "given_id",
    "read",
]
