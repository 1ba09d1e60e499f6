"""A stored session that is followed while another process writes it: its page so far, and the part that a page lacks."""

import threading
from bisect import bisect_right
from collections.abc import Sequence

import msgspec

from foveal.stores.port import Store
from foveal.text.display import visible
from foveal.values.errors import NotFound
from foveal.viewer.builder import AS_SENT
from foveal.viewer.document import (
    PageCall,
    PageChild,
    PageEntry,
    PageLine,
    PageRecall,
    PageRun,
    PageSession,
    shown_text,
)
from foveal.viewer.run_reader import RunFacts, RunReader
from foveal.viewer.session_log import SessionLog

_TEXT_CHARS = 24_000
"""The length that texts are cut to: nearly every result is whole."""


class Possession(msgspec.Struct, frozen=True):
    """The part of a session that a page has: numbers of messages, answered calls and so on, and the reading that they are of."""

    reading: int
    entries: int
    calls: int
    lines: int
    words: int
    texts: int
    recalls: int

    @classmethod
    def read(cls, text: str) -> "Possession | None":
        """Return the part that the words of a page's request name; None if they name none."""
        numbers = text.split(".")
        is_sound = len(numbers) == len(cls.__struct_fields__) and all(
            one.isdecimal() and len(one) < 10 for one in numbers
        )
        return cls(*map(int, numbers)) if is_sound else None


class PageGrowth(msgspec.Struct, frozen=True):
    """The part of a session that a page lacks. `calls` follow those that were answered; all other lists are the newer ends."""

    reading: int
    entries: tuple[PageEntry, ...]
    recalls: tuple[PageRecall, ...]
    calls: tuple[PageCall, ...]
    lines: tuple[PageLine, ...]
    words: tuple[str, ...]
    texts: tuple[str, ...]
    run: PageRun
    """The sums, without calls and lines."""
    children: tuple[PageChild, ...]


class LiveSession:
    """Follows one session of a store. May be used by many threads."""

    def __init__(self, store: Store, session: str, source: str = "") -> None:
        self._store, self._session, self._source = store, session, source
        self._lock = threading.Lock()
        self._reading = 0
        self._begin()

    @property
    def reading(self) -> int:
        """Counts how often the log was read from its beginning: a rewind changes what was read before."""
        return self._reading

    def page(self) -> PageSession:
        """Return the data of the session's page as the store has it now; `NotFound` if it has no prompt yet."""
        with self._lock:
            run = self._read()
            page = self._log.page(self._source, [run])
            return msgspec.structs.replace(page, children=self._children())

    def growth(self, had: Possession) -> PageGrowth | None:
        """Return the part of the session that a page lacks; None if it has to be loaded anew."""
        with self._lock:
            run, log = self._read(), self._log
            if had.reading != self._reading:
                return None
            return PageGrowth(
                reading=self._reading,
                entries=tuple(log.entries[had.entries :]),
                recalls=tuple(log.recalls[had.recalls :]),
                calls=run.calls[had.calls :],
                lines=run.lines[had.lines :],
                words=tuple(log.words.words[had.words :]),
                texts=tuple(shown_text(text, _TEXT_CHARS) for text in log.texts.texts[had.texts :]),
                run=msgspec.structs.replace(run, calls=(), lines=()),
                children=self._children(),
            )

    def log_size(self) -> int:
        """Return the number of entries that the log has now."""
        cards = self._store.cards(self._session)
        return cards[0].entries if cards else 0

    def _begin(self) -> None:
        self._reading += 1
        self._log = SessionLog(self._store, self._session)
        self._reader = RunReader(self._log, RunFacts(AS_SENT))
        self._run: PageRun | None = None

    def _read(self) -> PageRun:
        if not self._store.cards(self._session):
            raise NotFound(f"session {self._session!r} is no longer in this store")
        try:
            changed = self._reader.read()
            if changed is None:
                self._begin()
                changed = self._reader.read()
        except NotFound:
            self._begin()
            raise
        if self._run is None or changed:
            self._run = self._reader.run()
        return self._run

    def _children(self) -> tuple[PageChild, ...]:
        return stored_children(self._store, self._session, self._log.times_ms)


def stored_children(store: Store, session: str, times_ms: Sequence[int]) -> tuple[PageChild, ...]:
    """Return the children of a stored session, with the calls of their parent between which they worked."""
    found = [card for card in store.cards() if card.id.startswith(f"{session}/")]
    return tuple(
        PageChild(
            visible(card.id),
            min(len(times_ms), bisect_right(times_ms, card.created_ms)) or 1,
            min(len(times_ms), bisect_right(times_ms, card.updated_ms)) or 1,
        )
        for card in sorted(found, key=lambda card: (card.created_ms, card.id))
    )
