"""The way back: what is not shown, and what is too large for the log, read again from where it is kept."""

from foveal.recall.fetching import MOST_CHARACTERS, Fetch, Fetched, fetch
from foveal.recall.originals import blocks, read
from foveal.recall.pages import Page, page, preview

__all__ = ["MOST_CHARACTERS", "Fetch", "Fetched", "Page", "blocks", "fetch", "page", "preview", "read"]
