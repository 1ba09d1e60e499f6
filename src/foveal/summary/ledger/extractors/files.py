"""Files read, with the lines that were shown, and files changed."""

from collections.abc import Iterator

from foveal.summary.ledger.events import CallEnded, LedgerEvent
from foveal.summary.ledger.items import LedgerFile


def files(event: LedgerEvent) -> Iterator[LedgerFile]:
    """What a call touched counts once it is over and did not fail; `outcome` has told the ledger which lines were shown."""
    if isinstance(event, CallEnded):
        yield from event.touched
