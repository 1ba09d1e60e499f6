"""Marks that a command writes into a stored session without opening it: neither a pin nor a rewind needs a model."""

from foveal.session.options import Clock
from foveal.stores import rows as log
from foveal.stores.port import Store
from foveal.values.entry import Entry, Pin, Rewind, Unpin
from foveal.values.errors import SessionHeld


def append_mark(store: Store, name: str, mark: Pin | Unpin | Rewind, parent: str | None = None) -> Entry:
    """Write a mark at the end of the log of a session, and return its entry. It follows the entry `parent`, or the newest."""
    try:
        writer = store.acquire(name)
    except SessionHeld as error:
        what = str(error).partition(". ")[0]
        raise SessionHeld(f"{what}; nothing was written. Close it there, or do it from there") from None
    try:
        head = store.cards(name)[0].head  # read while nobody else can write
        body, payload = log.checked_body(mark)
        clock = Clock()
        entry = Entry(clock.new_id(), parent or head, clock.now_ms(), "cli", body)
        writer.append([log.to_draft(entry, payload)])
    finally:
        writer.release()
    return entry
