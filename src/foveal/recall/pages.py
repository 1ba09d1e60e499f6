"""Pages and previews of a result, as an application shows it to people."""

import msgspec

from foveal.recall.excerpts import Fetch, fetch
from foveal.stores.port import Store
from foveal.values.errors import BadInput

PAGE_LINES = 50
PREVIEW_CHARACTERS = 1_000


class Page(msgspec.Struct, frozen=True):
    """One page of a result, counted from 1."""

    text: str
    number: int
    pages: int
    lines: int
    """Lines of the whole result."""


def page(store: Store, session: str, ref: str, *, number: int = 1, lines: int = PAGE_LINES) -> Page:
    """Return one page of the original behind a reference, counted from 1."""
    if number < 1:
        raise BadInput(f"there is no page {number}; pages count from 1")
    found = fetch(store, session, Fetch(ref, offset=(number - 1) * lines, limit=lines))
    return Page(found.text, number, max(1, -(-found.total // lines)), found.total)


def preview(store: Store, session: str, ref: str, *, characters: int = PREVIEW_CHARACTERS) -> str:
    """Return the first characters of the original behind a reference."""
    return fetch(store, session, Fetch(ref, limit=characters, unit="characters")).text
