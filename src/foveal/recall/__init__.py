"""The way back: what is not shown, and what is too large for the log, read again from where it is kept."""

from foveal.recall.describing import describe
from foveal.recall.fetching import MOST_CHARACTERS, Fetch, Fetched, fetch
from foveal.recall.originals import GIVEN, blocks, given_id, read
from foveal.recall.pages import Page, page, preview

__all__ = [
    "GIVEN",
    "MOST_CHARACTERS",
    "Fetch",
    "Fetched",
    "Page",
    "blocks",
    "describe",
    "fetch",
    "given_id",
    "page",
    "preview",
    "read",
]
