"""The opening of a session for a writer: put together for stores that are near, and read again without asking the store twice."""

from collections.abc import Iterable, Iterator

from foveal.stores.port import BEFORE_SNAPSHOT, NEWEST_ROWS, OPENING_ROWS, Opened, Row, Store, Writer
from foveal.values.errors import LeaseLost, NotFound


def first_needed(entries: int, snapshot_seq: int | None) -> int:
    """Return the place before the first row that an opening returns."""
    if snapshot_seq is None:
        return max(entries - NEWEST_ROWS, 0)
    return max(snapshot_seq - BEFORE_SNAPSHOT, entries - OPENING_ROWS, 0)


def opened(store: Store, session: str, writer: Writer) -> Opened:
    """Return the opening of a session by the store's other methods, for a store where each of them costs next to nothing.

    `LeaseLost` if the session was deleted since its writer acquired it: it can be opened again.
    """
    try:
        card = next(iter(store.cards(session)), None)
        if card is None:
            raise NotFound(f"there is no session {session!r}")
        snapshot = store.snapshot(session)
        after = first_needed(card.entries, None if snapshot is None else snapshot.seq)
        rows = tuple(store.rows(session, after=after, upto=card.entries))
        return Opened(writer, store.secret(session), card.entries, snapshot, rows)
    except BaseException as error:
        writer.release()
        if isinstance(error, NotFound):
            raise LeaseLost(f"session {session!r} was deleted while it was opened; opened again, it is new") from None
        raise


class OpenedRows:
    """The rows of a session that is being opened: those that are at hand, and the store for all others, asked once for each."""

    def __init__(self, store: Store, opening: Opened) -> None:
        self._store, self._entries = store, opening.entries
        self._known = {row.seq: row for row in opening.rows}
        self._ids = {row.id: row for row in opening.rows}
        self._after = opening.entries - len(opening.rows)

    def newest(self, session: str) -> Row | None:
        """Return the newest row; None if the log is empty."""
        return self.rows_at(session, [self._entries]).get(self._entries)

    def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
        """Yield the rows with after < seq <= upto, as the session was when it was opened."""
        last = self._entries if upto is None else min(upto, self._entries)
        if after < self._after:
            return self._store.rows(session, after=after, upto=last)
        return (self._known[seq] for seq in range(after + 1, last + 1))

    def rows_at(self, session: str, seqs: Iterable[int]) -> dict[int, Row]:
        """Return the rows at these places."""
        wanted = dict.fromkeys(seqs)
        missing = [seq for seq in wanted if seq > 0 and seq not in self._known]
        if missing:
            self._known |= self._store.rows_at(session, missing)
        return {seq: self._known[seq] for seq in wanted if seq in self._known}

    def find(self, session: str, prefix: str) -> list[Row]:
        """Return the row of this id, or the rows whose id begins with it, like a store."""
        known = self._ids.get(prefix)
        return self._store.find(session, prefix) if known is None else [known]
