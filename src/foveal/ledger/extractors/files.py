"""Files read, with the lines that were shown, and files changed."""

from collections.abc import Iterator

from foveal.ledger.events import Ended, Event
from foveal.ledger.items import File


def files(event: Event) -> Iterator[File]:
    """What a call touched counts once it is over and did not fail; `outcome` has told the ledger which lines were shown."""
    if isinstance(event, Ended):
        yield from event.touched
