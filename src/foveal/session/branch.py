"""Reading a branch of a stored log from its end, and finding places of it without reading all that lies between."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from foveal.project.facts import Facts, trail_after
from foveal.project.snapshot import LayoutGlance, ViewSnapshot, glance_at, layout_of
from foveal.stores import rows as log
from foveal.stores.large_results import read_artifacts
from foveal.stores.port import Artifacts, Row
from foveal.values.entry import Entry
from foveal.values.errors import NotFound, StoreCorrupt

WINDOW = 64
"""Rows read at once while a branch is followed back; four times as many each time, and at most `MOST`."""

MOST = 4_096

_FOLD = b'={"is":"fold"', b'~{"is":"fold"'
_REPLY = b'={"is":"message","role":"assistant"', b'~{"is":"message","role":"assistant"'


class Rows(Protocol):
    """The rows of stored sessions: a store, or a list in its place."""

    def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]: ...
    def rows_at(self, session: str, seqs: Iterable[int]) -> dict[int, Row]: ...
    def find(self, session: str, prefix: str) -> list[Row]: ...


class ListedRows:
    """Rows that are read already, by the methods of a store."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._by_seq = {row.seq: row for row in rows}
        self._last = max(self._by_seq, default=0)
        self._by_id = {row.id: row for row in rows}

    def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
        """Yield the rows of these positions that are known."""
        last = self._last if upto is None else upto
        return (self._by_seq[seq] for seq in range(after + 1, last + 1) if seq in self._by_seq)

    def rows_at(self, session: str, seqs: Iterable[int]) -> dict[int, Row]:
        """Return the rows at these positions."""
        return {seq: self._by_seq[seq] for seq in seqs if seq in self._by_seq}

    def find(self, session: str, prefix: str) -> list[Row]:
        """Return the row of this id."""
        return [self._by_id[prefix]] if prefix in self._by_id else []


class BranchReader:
    """Reads the log of one session along the parents of its entries."""

    def __init__(self, rows: Rows, name: str, artifacts: Artifacts) -> None:
        self._rows, self.name, self._artifacts = rows, name, artifacts
        self._glances: dict[int, LayoutGlance | None] = {}

    def entry(self, row: Row) -> Entry:
        """Return the entry of a row, its artifacts read as far as a view shows them whole."""
        return read_artifacts(self._artifacts, log.to_entry(row, self.name))

    def entries(self, seqs: Iterable[int]) -> dict[int, Entry]:
        """Return the entries at these positions."""
        return {seq: self.entry(row) for seq, row in self._rows.rows_at(self.name, seqs).items()}

    def row(self, entry_id: str) -> Row | None:
        """Return the row with exactly this id; None if there is none."""
        return next((row for row in self._rows.find(self.name, entry_id) if row.id == entry_id), None)

    def since(self, seq: int) -> Iterator[Row]:
        """Yield the rows after a position."""
        return self._rows.rows(self.name, after=seq)

    def back(self, head: Row) -> Iterator[Row]:
        """Yield the rows of a branch from its head to its first, reading no more than is asked for."""
        yield head
        known: dict[str, Row] = {}
        row, size = head, WINDOW
        while row.parent is not None:
            if row.parent not in known:
                before = self._rows.rows(self.name, after=max(0, row.seq - 1 - size), upto=row.seq - 1)
                known, size = {one.id: one for one in before}, min(size * 4, MOST)
            # A branch may have left another one further back.
            parent = known.get(row.parent) or self.row(row.parent)
            if parent is None:
                raise StoreCorrupt(f"entry {row.seq} ({row.id})", f"its parent {row.parent!r} is not in the log")
            row = parent
            yield row

    def layout(self, row: Row) -> ViewSnapshot | None:
        """Return the layout of the view after this row, if the row is a fold that has one."""
        return layout_of(self.entry(row)) if row.payload.startswith(_FOLD) else None

    def from_layout(self, head: Row) -> tuple[ViewSnapshot | None, list[Row]]:
        """Return the newest layout of the branch up to this row, and the rows since; None and all rows if there is none."""
        path: list[Row] = []
        for row in self.back(head):
            if layout := self.layout(row):
                return layout, path[::-1]
            path.append(row)
        return None, path[::-1]

    def first_fold(self, facts: Facts, is_after: Callable[[int, int], bool]) -> tuple[Row | None, int]:
        """Return the first fold with a layout for which `is_after(position, calls)` holds, and the calls before it.

        `facts` are those of the branch's end. What holds for a fold must hold for those after it. If it holds for no fold,
        the result is None and all calls.
        """
        found, calls, trail = 0, facts.calls, facts.trail
        while step := next((one for one in sorted(set(trail)) if is_after(*one)), None):
            glance = self._glance(step[0])
            if glance is None:
                break
            found, calls, trail = step[0], glance.facts.calls, glance.facts.trail
        return self._rows.rows_at(self.name, [found]).get(found), calls

    def on_branch(self, entry_id: str, facts: Facts) -> Row | None:
        """Return the row of an entry before the end of the branch with these facts; None if the branch does not hold it."""
        row, head = self.row(entry_id), self.row(facts.head or "")
        if row is None or head is None or row.seq > head.seq:
            return None
        fold, _ = self.first_fold(facts, lambda seq, _calls: seq > row.seq)
        for one in self.back(fold or head):
            if one.seq <= row.seq:
                return row if one.id == row.id else None
        return None

    def shows(self, seq: int, entry_id: str) -> bool:
        """Return whether the view after the fold at this position shows an entry."""
        glance = self._glance(seq)
        return glance is not None and entry_id in glance.shown

    def _glance(self, seq: int) -> LayoutGlance | None:
        if seq not in self._glances:
            row = self._rows.rows_at(self.name, [seq]).get(seq)
            self._glances[seq] = glance_at(row.payload) if row else None
        return self._glances[seq]

    def calls_and_trail(self, head: Row) -> Facts:
        """Return the number of calls up to this row, and the trail to it."""
        layout, rows = self.from_layout(head)
        calls = sum(row.payload.startswith(_REPLY) for row in rows)
        if layout is None:
            return Facts(calls=calls)
        facts = layout.facts
        return Facts(calls=facts.calls + calls, trail=trail_after(facts, facts.seq))

    def reply(self, head: Row, facts: Facts, call: int) -> Row | None:
        """Return the row of the reply to this call, on the branch with this head and these facts; None if it has none yet."""
        if call == facts.calls + 1:
            return None
        if not 1 <= call <= facts.calls:
            raise NotFound(f"session {self.name!r} has {facts.calls} calls; there is no call {call}")
        fold, number = self.first_fold(facts, lambda _seq, calls: calls >= call)
        for row in self.back(fold or head):
            if row.payload.startswith(_REPLY):
                if number == call:
                    return row
                number -= 1
        raise NotFound(f"session {self.name!r} has no reply to call {call}")
