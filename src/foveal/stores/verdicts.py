"""Reading a store that may be damaged: every row is judged, and none hides another.

A row is judged by its hash and the hash of the row before it. When a row does not fit, either its content or its stored hash
is damaged, and the next row tells which: it was chained to the true hash. So a row whose content is whole is recognised even
if its own hash is not.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import apsw

from foveal.stores.chain import link, seed
from foveal.stores.database import Database, Raw
from foveal.stores.port import Row
from foveal.stores.reading import Record
from foveal.stores.schema import SEQ_BITS

BROKEN = (apsw.Error, UnicodeDecodeError)
"""What reading a damaged file raises."""


@dataclass(frozen=True, slots=True)
class Suspect:
    """A session, as far as it can be made out."""

    record: Record
    last: int
    """The last seq for which there is a row, or should be one."""
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Row and no `what`: sound. Row and `what`: its content can be kept, and this is to be said. No row: it is lost."""

    seq: int
    row: Row | None
    what: str = ""


@dataclass(frozen=True, slots=True)
class _Misfit:
    row: Row
    stored: object
    computed: frozenset[bytes]

    def verdict(self, true_hashes: Iterable[object]) -> Verdict:
        if self.computed.intersection(true_hashes):
            return Verdict(self.row.seq, self.row, "its hash is damaged; its content is vouched for by what follows")
        return Verdict(self.row.seq, None, "its bytes do not match its hash")


def suspects(db: Database) -> Iterator[Suspect]:
    """Every session that the file knows of, the least recently used first."""
    keys = {raw[0] for raw in _both_ways(db, "SELECT key FROM sessions ORDER BY key", ())}
    keys |= {raw[0] for raw in _readable(db, "SELECT DISTINCT place >> 32 FROM entries INDEXED BY entry_ids", ())}
    found = [_suspect(db, key) for key in sorted(key for key in keys if type(key) is int)]
    yield from sorted(found, key=lambda suspect: suspect.record.updated_ms)


def judge(db: Database, suspect: Suspect) -> Iterator[Verdict]:
    """One verdict for each seq from 1 to the last, in order."""
    before: frozenset[bytes] = frozenset({seed(suspect.record.id)})
    misfit: _Misfit | None = None
    for seq in range(1, suspect.last + 1):
        found = _row(db, suspect.record, seq)
        row, stored = (None, None) if found is None else found
        fits = {hash_: link(hash_, row) for hash_ in before} if row is not None else {}
        proofs = [hash_ for hash_, linked in fits.items() if linked == stored]
        if misfit is not None:
            yield misfit.verdict(proofs)
            misfit = None
        if row is None:
            yield Verdict(seq, None, "it is missing or cannot be read")
            before = frozenset()
        elif proofs:
            yield Verdict(seq, row)
            before = _hashes(stored)
        elif not before:
            yield Verdict(seq, row, "it could not be checked, because the entry before it is gone")
            before = _hashes(stored)
        else:
            misfit = _Misfit(row, stored, frozenset(fits.values()))
            before = _hashes(stored) | misfit.computed
    if misfit is not None:
        yield misfit.verdict([suspect.record.chain])


def _hashes(stored: object) -> frozenset[bytes]:
    return frozenset({stored}) if isinstance(stored, bytes) else frozenset()


def _suspect(db: Database, key: int) -> Suspect:
    seqs = _seqs(db, key)
    highest = max(seqs, default=0)
    raw = _first(
        db,
        "SELECT key, id, created_ms, updated_ms, entries, head, chain, epoch, holder, seal FROM sessions WHERE key = ?",
        (key,),
    )
    if raw is None:
        lost = Record(key, f"lost-session-{key}", 0, 0, highest, None, b"", 0, None)
        return Suspect(lost, highest, ("its record cannot be read, and with it its name",))
    record = Record(*raw[:9])
    try:
        is_sealed = record.seal() == raw[9]
    except (TypeError, OverflowError):
        is_sealed = False
    if is_sealed:
        extra = (f"it has {highest} entries, its record says {record.entries}",) if highest > record.entries else ()
        return Suspect(record, max(highest, record.entries), extra)
    return Suspect(_plausible(record), highest, ("its record does not match its seal",))


def _plausible(record: Record) -> Record:
    """A record that was damaged, with a value of the right type in each column that is used."""
    name = record.id if isinstance(record.id, str) and record.id else f"lost-session-{record.key}"  # pyright: ignore[reportUnnecessaryIsInstance]
    updated = record.updated_ms if type(record.updated_ms) is int else 0
    chain = record.chain if type(record.chain) is bytes else b""
    return Record(record.key, name, 0, updated, 0, None, chain, 0, None)


def _seqs(db: Database, key: int) -> set[int]:
    """The places that are taken, by every way there is to find out."""
    base = key << SEQ_BITS
    span = (base, base + (1 << SEQ_BITS) - 1)
    table = _both_ways(db, "SELECT place FROM entries WHERE place > ? AND place <= ? ORDER BY place", span)
    index = _readable(db, "SELECT place FROM entries INDEXED BY entry_ids WHERE session = ?", (key,))
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
    """The rows from the front up to the damage, and from the back down to it."""
    front = list(_readable(db, sql, bindings))
    return front + list(_readable(db, sql + " DESC", bindings))


def _first(db: Database, sql: str, bindings: Sequence[object]) -> Raw | None:
    return next(_readable(db, sql, bindings), None)


def _readable(db: Database, sql: str, bindings: Sequence[object]) -> Iterator[Raw]:
    try:
        yield from db.execute(sql, bindings)
    except BROKEN:
        return
