"""Extractor of files that were read, with the lines that were shown, and of files that were changed."""

from collections.abc import Iterator

from foveal.summary.ledger.events import CallEnded, LedgerEvent
from foveal.summary.ledger.items import LedgerFile


def files(event: LedgerEvent) -> Iterator[LedgerFile]:
    """Yield the files that a call touched, once it has ended without failing."""
    if isinstance(event, CallEnded):
        yield from event.touched
