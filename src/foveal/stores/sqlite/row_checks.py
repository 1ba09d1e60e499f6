"""The integrity check of a store, row by row: no damaged row hides another.

A row is checked by its hash and the hash of the row before it. When a row does not fit, either its content or its stored hash
is damaged, and the next row tells which: it was chained to the true hash. So a row whose content is whole is recognised even
if its own hash is not.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from foveal.stores.chain import link, seed
from foveal.stores.database import Database, Raw
from foveal.stores.port import Row
from foveal.stores.sqlite import version_1, version_2
from foveal.stores.sqlite.errors import BROKEN
from foveal.stores.sqlite.records import RECORD_COLUMNS, Record
from foveal.stores.sqlite.schema import SEQ_BITS
from foveal.stores.sqlite.tables import is_sealed


class Layout(NamedTuple):
    """The rules by which a version of the schema seals records and chains rows."""

    columns: str
    """The query for records."""
    read: Callable[[Raw], tuple[Record, bool]]
    """Returns a record, and whether its seal is right."""
    link: Callable[[bytes, Row], bytes]
    has_lists: bool = False
    """Whether there are leases, tombstones, scopes and notes."""
    has_labels: bool = False


def _read_record(raw: Raw) -> tuple[Record, bool]:
    return Record(*raw[:-1]), is_sealed(raw)


LAYOUTS = {
    1: Layout(version_1.SELECT_RECORDS, version_1.record_1, version_1.link_1),
    2: Layout(version_2.SELECT_RECORDS, version_2.record_2, link),
    3: Layout(RECORD_COLUMNS, _read_record, link, has_lists=True),
    4: Layout(RECORD_COLUMNS, _read_record, link, has_lists=True, has_labels=True),
}


@dataclass(frozen=True, slots=True)
class SessionCheck:
    """A session, as far as it can be read."""

    record: Record
    seqs: tuple[int, ...]
    """The places within the log for which there is a row, in order."""
    last: int
    """The last place that the log should have."""
    beyond: tuple[int, ...] = ()
    """The places of rows after the end of the log."""
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RowCheck:
    """The check of one row. Row and no `what`: sound. Row and `what`: its content is kept, with this remark. No row: lost."""

    seq: int
    row: Row | None
    what: str = ""
    upto: int = 0
    """The last place that `what` is about, if there is one."""


@dataclass(frozen=True, slots=True)
class _Misfit:
    row: Row
    computed: frozenset[bytes]

    def verdict(self, true_hashes: Iterable[object]) -> RowCheck:
        if self.computed.intersection(true_hashes):
            return RowCheck(
                self.row.seq, self.row, "its hash is damaged; what follows proves its content", self.row.seq
            )
        return RowCheck(self.row.seq, None, "its bytes do not match its hash", self.row.seq)


def check_sessions(db: Database, layout: Layout) -> Iterator[SessionCheck]:
    """Yield every session of which the file has a trace, the least recently used first. Deleted ones are left out, even if
    rows of them are still there."""
    keys = session_keys(db)
    keys |= {raw[0] for raw in readable(db, "SELECT DISTINCT place >> 32 FROM entries INDEXED BY entry_ids", ())}
    for sql in (
        "SELECT place >> 32 FROM entries ORDER BY place",
        "SELECT place >> 32 FROM entries ORDER BY place DESC",
    ):
        keys |= {raw[0] for raw in readable(db, sql)}
    found = [_suspect(db, key, layout) for key in sorted(key for key in keys if type(key) is int and key > 0)]
    deleted = deleted_keys(db)
    kept = [suspect for suspect in found if not suspect.problems or suspect.record.key not in deleted]
    yield from sorted(kept, key=lambda suspect: suspect.record.updated_ms)


def session_keys(db: Database) -> set[int]:
    """Return the keys of all records that can be found."""
    return {raw[0] for raw in _both_ways(db, "SELECT key FROM sessions ORDER BY key", ())}


def deleted_keys(db: Database) -> set[int]:
    """Return the keys of all tombstones that can be found."""
    return {raw[0] for raw in _both_ways(db, "SELECT key FROM tombstones ORDER BY key", ())}


def check_rows(db: Database, suspect: SessionCheck, layout: Layout) -> Iterator[RowCheck]:
    """Yield the check of each place, in order; a run of missing places is one check, however many they are."""
    before: frozenset[bytes] = frozenset({seed(suspect.record.id)})
    misfit: _Misfit | None = None
    next_seq = 1
    for seq in (*suspect.seqs, suspect.last + 1):  # the one after the last ends the walk
        found = _row(db, suspect.record, seq) if seq <= suspect.last else None
        row, stored = found or (None, None)
        if seq > next_seq:
            before = frozenset()
        fits = {hash_: layout.link(hash_, row) for hash_ in before} if row is not None else {}
        proofs = [hash_ for hash_, linked in fits.items() if linked == stored]
        if misfit is not None:
            is_at_end = misfit.row.seq == suspect.last
            yield misfit.verdict([suspect.record.chain] if is_at_end else proofs)
            misfit = None
        if seq > next_seq:
            yield RowCheck(next_seq, None, "it is missing", seq - 1)
        next_seq = seq + 1
        if seq > suspect.last:
            break
        if row is None:
            yield RowCheck(seq, None, "it cannot be read", seq)
            before = frozenset()
        elif proofs:
            yield RowCheck(seq, row)
            before = _hashes(stored)
        elif not before:
            yield RowCheck(seq, row, "it could not be checked, because the entry before it is gone", seq)
            before = _hashes(stored)
        else:
            misfit = _Misfit(row, frozenset(fits.values()))
            before = _hashes(stored) | misfit.computed
    for seq in suspect.beyond:
        yield RowCheck(seq, None, "it stands beyond the end of the log", seq)


def _hashes(stored: object) -> frozenset[bytes]:
    return frozenset({stored}) if isinstance(stored, bytes) else frozenset()


def _suspect(db: Database, key: int, layout: Layout) -> SessionCheck:
    seqs = sorted(_seqs(db, key))
    last = seqs[-1] if seqs else 0
    raw = _first(db, f"{layout.columns} WHERE key = ?", (key,))
    if raw is None:
        lost = _lost(key, f"lost-session-{key}")
        return SessionCheck(lost, tuple(seqs), last, problems=("its record cannot be read, and with it its name",))
    record, is_right = layout.read(raw)
    if not is_right:
        return SessionCheck(_plausible(record), tuple(seqs), last, problems=("its record does not match its seal",))
    within = tuple(seq for seq in seqs if seq <= record.entries)
    return SessionCheck(record, within, record.entries, tuple(seqs[len(within) :]))


def _plausible(record: Record) -> Record:
    """Return a damaged record with a value of the right type in each column that is used."""
    name = record.id if isinstance(record.id, str) and record.id else f"lost-session-{record.key}"  # pyright: ignore[reportUnnecessaryIsInstance]
    updated = record.updated_ms if type(record.updated_ms) is int else 0
    chain = record.chain if type(record.chain) is bytes else b""
    return msgspec.structs.replace(_lost(record.key, name), updated_ms=updated, chain=chain)


def _lost(key: int, name: str) -> Record:
    """Return a record of which only the key, and perhaps the name, is known."""
    return Record(key, name, None, 0, 0, 0, None, b"", 0, None, b"", None)


def _seqs(db: Database, key: int) -> set[int]:
    """Return the places that have a row, by the table and by its index: damage to one leaves the other."""
    base = key << SEQ_BITS
    span = (base, base + (1 << SEQ_BITS) - 1)
    table = _both_ways(db, "SELECT place FROM entries WHERE place > ? AND place <= ? ORDER BY place", span)
    index = readable(db, "SELECT place FROM entries INDEXED BY entry_ids WHERE session = ?", (key,))
    return {raw[0] - base for raw in (*table, *index) if span[0] < raw[0] <= span[1]}


def _row(db: Database, record: Record, seq: int) -> tuple[Row, object] | None:
    sql = "SELECT id, parent, time_ms, author, payload, hash FROM entries WHERE place = ?"
    raw = _first(db, sql, (record.base + seq,))
    if raw is None:
        return None
    entry, parent, time_ms, author, payload, stored = raw
    types = (str, str, int, str, bytes)
    values = (entry, "" if parent is None else parent, time_ms, author, payload)
    if any(type(value) is not kind for value, kind in zip(values, types, strict=True)):
        return None
    return Row(seq, entry, parent, time_ms, author, payload), stored


def _both_ways(db: Database, sql: str, bindings: Sequence[object]) -> list[Raw]:
    """Return the rows from the front up to the damage, and from the back down to it."""
    front = list(readable(db, sql, bindings))
    return front + list(readable(db, sql + " DESC", bindings))


def _first(db: Database, sql: str, bindings: Sequence[object]) -> Raw | None:
    return next(readable(db, sql, bindings), None)


def readable(db: Database, sql: str, bindings: Sequence[object] = ()) -> Iterator[Raw]:
    """Yield the rows of a query up to the first that is damaged."""
    try:
        yield from db.execute(sql, bindings)
    except BROKEN:
        return
