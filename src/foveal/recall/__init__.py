"""Recall: reading the originals of everything that a prompt does not show in full, or that is too large for the log.

    read       the whole original of a reference
    fetch      an excerpt of it: some lines, some characters, or the lines that match a pattern
    describe   its name in a few words
    remember   keep a note for the later sessions of a scope; `forget` removes it

The modules are loaded when one of these names is first used, not when Foveal is imported.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.recall.description import describe
    from foveal.recall.excerpts import MOST_CHARACTERS, Fetch, Fetched, fetch
    from foveal.recall.notes import BY_AGENT, BY_HOST, forget, remember
    from foveal.recall.originals import GIVEN, blocks, given_id, read
    from foveal.recall.scope_refs import NamedOriginal, day_of, memory_ref, named_original

__getattr__ = later(
    __name__,
    {
        "BY_AGENT": "notes",
        "BY_HOST": "notes",
        "GIVEN": "originals",
        "MOST_CHARACTERS": "excerpts",
        "Fetch": "excerpts",
        "Fetched": "excerpts",
        "NamedOriginal": "scope_refs",
        "blocks": "originals",
        "day_of": "scope_refs",
        "describe": "description",
        "fetch": "excerpts",
        "forget": "notes",
        "given_id": "originals",
        "memory_ref": "scope_refs",
        "named_original": "scope_refs",
        "read": "originals",
        "remember": "notes",
    },
)

__all__ = [
    "BY_AGENT",
    "BY_HOST",
    "GIVEN",
    "MOST_CHARACTERS",
    "Fetch",
    "Fetched",
    "NamedOriginal",
    "blocks",
    "day_of",
    "describe",
    "fetch",
    "forget",
    "given_id",
    "memory_ref",
    "named_original",
    "read",
    "remember",
]
