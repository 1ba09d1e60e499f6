"""The tables of a store file as verified values: every value returned from here has a checked hash.

Damage can give a column any type and any value, so rows come from SQLite as plain tuples and become values only once their
hash has been compared.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, takewhile
from pathlib import Path

import apsw
import msgspec

from foveal.stores.chain import link, seal, seed, snapshot_seal
from foveal.stores.database import Database, Raw
from foveal.stores.labels import NO_LABELS, Labels
from foveal.stores.lease import has_ended, unpack
from foveal.stores.port import KeptNote, Row, SessionCard, Snapshot, Tombstone
from foveal.stores.sqlite.records import RECORD_COLUMNS, Record
from foveal.stores.sqlite.schema import LABELS, SEQ_BITS
from foveal.values.errors import NotFound, StoreCorrupt

BATCH_ROWS = 256
BATCH_BYTES = 4 << 20
"""Payload that one batch may hold, so that a log of large rows is not read into memory at once."""

_ENTRY_COLUMNS = (
    "SELECT e.place, e.id, e.parent, e.time_ms, e.author, e.hash, e.payload,"
    " (SELECT p.hash FROM entries AS p WHERE p.place = e.place - 1)"
)
"""The beginning of every query for rows: the columns of one entry, and the hash of the entry before it."""


_NEIGHBOURS = (
    "SELECT session, id, place FROM entries INDEXED BY entry_ids WHERE (session, id) < (?, ?)"
    " ORDER BY session DESC, id DESC LIMIT 1",
    "SELECT session, id, place FROM entries INDEXED BY entry_ids WHERE (session, id) > (?, ?)"
    " ORDER BY session, id LIMIT 1",
)
"""The queries for the keys of the index before and after a key, from the index alone."""

_COUNT_KEYS = (
    "SELECT count(*) FROM entries INDEXED BY entry_ids"
    " WHERE session BETWEEN ?1 AND ?1 AND session + 0 = ?1 AND typeof(id) = 'text' AND place >> 32 = ?1"
)

TOMBSTONE_COLUMNS = "SELECT key, seed, created_ms, deleted_ms, entries, chain, seal FROM tombstones"
SCOPE_COLUMNS = "SELECT id, changes, notes, seal FROM scopes"
NOTE_COLUMNS = "SELECT scope, key, text, session, author, time_ms, seal FROM notes"
LABEL_COLUMNS = "SELECT session, title, tags, seal FROM labels"
_LABELS_AMONG = (
    "SELECT l.session, l.title, l.tags, l.seal FROM json_each(?) AS wanted CROSS JOIN labels AS l"
    " WHERE l.session = wanted.value"
)
LEASE_COLUMNS = "SELECT token, holder, until_ms, seal FROM leases"


def is_sealed(raw: Raw) -> bool:
    """Return whether the last column of a row is the seal of the others."""
    try:
        return seal(*raw[:-1]) == raw[-1]
    except (TypeError, OverflowError):
        return False


class Tables:
    """The sessions, their logs and their snapshots, over an open connection to the store at `path`."""

    def __init__(self, db: Database, path: Path) -> None:
        self._db = db
        self._path = path

    def record(self, session: str) -> Record | None:
        """Return the session's record; None if there is proof that there is no such session."""
        try:
            session.encode()
        except UnicodeEncodeError:
            return None  # no session can have such a name
        found = self._db.execute(f"{RECORD_COLUMNS} WHERE id = ?", (session,)).fetchone() if session else None
        if found is None and session:
            self.predecessor(session)
        return None if found is None else self._checked_record(found)

    def predecessor(self, session: str) -> Record:
        """Return the record before the place of a session that is not there; `StoreCorrupt` if it says that one is missing."""
        # One statement: between two, another process may make a session at this very place.
        after = "SELECT id FROM sessions WHERE id >= ? ORDER BY id LIMIT 1"
        before = f"{RECORD_COLUMNS} WHERE id < ? ORDER BY id DESC LIMIT 1"
        found = self._db.execute(f"SELECT *, ({after}) FROM ({before})", (session, session)).fetchone()  # noqa: S608 - ours
        if found is None:
            raise StoreCorrupt(str(self._path), "the list of its sessions has no beginning", str(self._path))
        record = self._checked_record(found[:-1])
        self._check_next(record, found[-1])
        return record

    def first_record(self) -> Record:
        """Return the record that the list of sessions begins with."""
        found = self._db.execute(f"{RECORD_COLUMNS} WHERE key = 0").fetchone()
        if found is None:
            raise StoreCorrupt(str(self._path), "the list of its sessions has no beginning", str(self._path))
        return self._checked_record(found)

    def known_record(self, session: str) -> Record:
        """Return the session's record; `NotFound` if there is no such session."""
        record = self.record(session)
        if record is None:
            raise NotFound(f"there is no session {session!r} in {self._path}")
        return record

    def records(self) -> list[Record]:
        """Return the records of all sessions, most recently used first."""
        first, *records = map(self._checked_record, self._db.execute(f"{RECORD_COLUMNS} ORDER BY key"))
        listed = [first, *sorted(records, key=lambda record: record.id.encode())]
        for before, after in pairwise([*listed, None]):
            self._check_next(before, None if after is None else after.id)
        return sorted(records, key=lambda record: (-record.updated_ms, -record.key))

    def labels(self) -> dict[int, Labels]:
        """Return the labels of all sessions that have any, by their keys; `StoreCorrupt` if one is changed or missing."""
        found = dict(map(self._labels, self._db.execute(LABEL_COLUMNS)))
        if len(found) != (count := self.scope_state(LABELS)[1]):
            raise StoreCorrupt(
                str(self._path), f"it has the labels of {len(found)} sessions of {count}", str(self._path)
            )
        return found

    def labels_among(self, records: Iterable[Record]) -> dict[int, Labels]:
        """Return the labels of those of these sessions that have any, by their keys, without reading those of others."""
        keys = msgspec.json.encode([record.key for record in records]).decode()
        return dict(map(self._labels, self._db.execute(_LABELS_AMONG, (keys,))))

    def labels_of(self, record: Record) -> Labels:
        """Return the labels of one session."""
        return self.labels_among([record]).get(record.key, NO_LABELS)

    def _labels(self, raw: Raw) -> tuple[int, Labels]:
        """Return a session's key and its labels; tags have no line breaks, and are kept one a line."""
        key, title, tags, _ = raw
        if not is_sealed(raw):
            raise StoreCorrupt(f"session number {key}", "its labels do not match their seal", str(self._path))
        return key, Labels(title, tuple(tags.split("\n")) if tags else ())

    def page(self, prefix: str, after: str, limit: int) -> list[Record]:
        """Return up to `limit` records of names with this beginning, after this name, in their order."""
        try:
            (after + prefix).encode()
        except UnicodeEncodeError:
            return []  # no session can have such a name
        sql = f"{RECORD_COLUMNS} WHERE id > ? AND id >= ? AND key > 0 ORDER BY id LIMIT ?"
        found = map(self._checked_record, self._db.execute(sql, (after, prefix, max(limit, 0))))
        return list(takewhile(lambda record: record.id.startswith(prefix), found))

    def scoped_records(self, scope: str, since_ms: int | None) -> list[Record]:
        """Return the records of the sessions of a scope, most recently used first: of all, or of those used since."""
        since, bindings = ("", (scope,)) if since_ms is None else (" AND updated_ms >= ?", (scope, since_ms))
        sql = f"{RECORD_COLUMNS} WHERE scope = ?{since} ORDER BY updated_ms DESC, key DESC"
        found = [self._checked_record(raw) for raw in self._db.execute(sql, bindings)]
        return [record for record in found if record.scope == scope]

    def scope_state(self, scope: str) -> tuple[int, int]:
        """Return how often the notes and sessions of a scope have changed, and how many notes it has."""
        raw = self._db.execute(f"{SCOPE_COLUMNS} WHERE id = ?", (scope,)).fetchone()
        if raw is not None and not is_sealed(raw):
            raise StoreCorrupt(f"scope {scope}", "its row does not match its seal", str(self._path))
        return (0, 0) if raw is None else (raw[1], raw[2])

    def notes(self, scope: str) -> list[KeptNote]:
        """Return the notes of a scope, the newest first; `StoreCorrupt` if one is changed or missing."""
        sql = f"{NOTE_COLUMNS} WHERE scope = ? ORDER BY time_ms DESC, key"
        raws = self._db.execute(sql, (scope,)).fetchall()
        for raw in raws:
            if not is_sealed(raw):
                raise StoreCorrupt(f"scope {scope}", "one of its notes does not match its seal", str(self._path))
        if len(raws) != (count := self.scope_state(scope)[1]):
            raise StoreCorrupt(f"scope {scope}", f"it has {len(raws)} notes of {count}", str(self._path))
        names = {raw[3]: self.name_of(raw[3]) for raw in raws}
        return [KeptNote(key, text, names[session], author, at) for _, key, text, session, author, at, _ in raws]

    def name_of(self, key: int) -> str:
        """Return the name of the session with this key, which a note or a label refers to."""
        raw = self._db.execute(f"{RECORD_COLUMNS} WHERE key = ?", (key,)).fetchone()
        if raw is None:
            raise StoreCorrupt(
                f"session number {key}", "it is missing, and a note or a label names it", str(self._path)
            )
        return self._checked_record(raw).id

    def _check_next(self, before: Record | None, after: object) -> None:
        if before is not None and before.next != after:
            where = f"after session {before.id}" if before.id else "at the beginning of the list"
            what = f"{where}, session {before.next} is missing" if before.next else f"{where}, a session is unknown"
            raise StoreCorrupt(str(self._path), what, str(self._path))

    def _checked_record(self, raw: Raw) -> Record:
        record = Record(*raw[:-1])
        if record.seal() != raw[-1]:
            raise StoreCorrupt(f"session {record.id}", "its record does not match its seal", str(self._path))
        return record

    def tombstones(self) -> list[Tombstone]:
        """Return the proofs of deletion, in their order."""
        found: list[Tombstone] = []
        for raw in self._db.execute(f"{TOMBSTONE_COLUMNS} ORDER BY deleted_ms, key"):
            if not is_sealed(raw):
                raise StoreCorrupt(str(self._path), f"tombstone {raw[0]} does not match its seal", str(self._path))
            found.append(tombstone(raw))
        return found

    def lease_until(self, token: str) -> int | None:
        """Return the end of a handle's lease; None if it has none. A damaged one counts as none: the epoch is the fence."""
        raw = self._db.execute(f"{LEASE_COLUMNS} WHERE token = ?", (token,)).fetchone()
        return raw[2] if raw is not None and is_sealed(raw) else None

    def held(self, records: Sequence[Record], now_ms: int) -> list[Record]:
        """Return the records, without the holders whose lease is over: those may not append any more once somebody else does."""
        over: dict[str, bool] = {}
        found = list[Record]()
        for record in records:
            lease = None if record.holder is None else unpack(record.holder)
            if lease is not None and lease.token not in over:
                over[lease.token] = has_ended(lease, self.lease_until(lease.token), now_ms)
            is_over = lease is not None and over[lease.token]
            found.append(msgspec.structs.replace(record, holder=None) if is_over else record)
        return found

    def check_end(self, record: Record) -> None:
        """Raise `StoreCorrupt` unless the log ends at the entry that its record names."""
        last = self._db.execute(
            "SELECT place, hash FROM entries WHERE place > ? AND place <= ? ORDER BY place DESC LIMIT 1",
            (record.base, record.base + (1 << SEQ_BITS) - 1),
        ).fetchone()
        place, end = (record.base, seed(record.id)) if last is None else last
        if place != record.base + record.entries:
            what = f"the log ends at entry {place - record.base}, its record says {record.entries}"
            raise StoreCorrupt(f"session {record.id}", what, str(self._path))
        if end != record.chain:
            raise self._damage(record, record.entries, "it is not the entry that its session's record ends with")

    def batch(self, record: Record, after: int, upto: int) -> list[Raw]:
        """Return the first of the rows after < seq <= upto, in order, still unverified; at least one if there is one."""
        found: list[Raw] = []
        size = 0
        cursor = self._db.execute(
            f"{_ENTRY_COLUMNS} FROM entries AS e WHERE e.place > ? AND e.place <= ? ORDER BY e.place LIMIT ?",
            (record.base + after, record.base + upto, BATCH_ROWS),
        )
        try:
            for raw in cursor:
                found.append(raw)
                size += len(raw[6]) if isinstance(raw[6], bytes) else 0
                if size >= BATCH_BYTES:
                    break
        except (apsw.CorruptError, UnicodeDecodeError):
            if not found:  # otherwise the good rows go first, and the next batch begins with the bad one
                raise
        finally:
            cursor.close(True)
        return found

    def verified(self, record: Record, raws: Iterable[Raw], after: int, upto: int) -> Iterator[Row]:
        """Yield the rows as values; `StoreCorrupt` at the first that is changed or missing."""
        seq = after
        for raw in raws:
            seq += 1
            if raw[0] != record.base + seq:
                raise self._damage(record, seq, "it is missing")
            yield self._row(record, raw)
            if seq == record.entries and raw[5] != record.chain:
                raise self._damage(record, seq, "it is not the entry that its session's record ends with")
        if seq == after and after < upto:
            raise self._damage(record, seq + 1, "it is missing")

    def rows_at(self, record: Record, seqs: Iterable[int]) -> dict[int, Row]:
        """Return the rows at these places; `StoreCorrupt` if one that the record promises is missing."""
        wanted = sorted({seq for seq in seqs if 1 <= seq <= record.entries})
        raws = self._db.execute(
            f"{_ENTRY_COLUMNS} FROM json_each(?) AS wanted CROSS JOIN entries AS e WHERE e.place = ? + wanted.value",
            (msgspec.json.encode(wanted).decode(), record.base),
        )
        found = {raw[0] - record.base: self._row(record, raw) for raw in raws}
        for seq in wanted:
            if seq not in found:
                raise self._damage(record, seq, "it is missing")
        return found

    def find(self, record: Record, prefix: str) -> list[Row]:
        """Return the row with this id, or up to two rows whose id starts with it."""
        try:
            prefix.encode()
        except UnicodeEncodeError:
            return []  # no id can start with it
        # Ids that start with the prefix are neighbours in the index, and the prefix itself would be the first of them.
        raws = self._db.execute(
            f"{_ENTRY_COLUMNS} FROM entries AS e WHERE e.session = ? AND e.id >= ? ORDER BY e.id LIMIT 2",
            (record.key, prefix),
        ).fetchall()
        rows = [self._row(record, raw) for raw in raws if str(raw[1]).startswith(prefix)]
        if not rows:
            self._check_absent(record, prefix)
        return rows[:1] if rows and rows[0].id == prefix else rows

    def _check_absent(self, record: Record, entry: str) -> None:
        """Raise `StoreCorrupt` if the index has a wrong key beside the place of an id that it does not find: a search for the
        right one ends there."""
        for sql in _NEIGHBOURS:
            for session, name, place in self._db.execute(sql, (record.key, entry)).fetchall():
                known = self._db.execute("SELECT id FROM entries NOT INDEXED WHERE place = ?", (place,)).fetchone()
                if known != (name,) or place >> SEQ_BITS != session:
                    what = "the index of its entries does not match them"
                    raise StoreCorrupt(f"session {record.id}", what, str(self._path))

    def check_index(self, record: Record) -> None:
        """Raise `StoreCorrupt` if a key of the session's entries is missing from the index, or is none."""
        (count,) = self._db.execute(_COUNT_KEYS, (record.key,)).fetchall()[0]
        if count < record.entries:
            what = f"the index of its entries has {count} keys for {record.entries} of them"
            raise StoreCorrupt(f"session {record.id}", what, str(self._path))

    def snapshot(self, record: Record) -> Snapshot | None:
        """Return the snapshot if it is whole and belongs to this log; it is a shortcut, so a bad one counts as none."""
        try:
            found = self._db.execute(
                "SELECT s.seq, s.seal, s.payload, (SELECT hash FROM entries WHERE place = ? + s.seq)"
                " FROM snapshots AS s WHERE s.session = ?",
                (record.base, record.key),
            ).fetchone()
        except (apsw.CorruptError, UnicodeDecodeError):
            return None
        if found is None:
            return None
        seq, sealed, payload, after = found
        if type(seq) is not int or type(payload) is not bytes or not 0 <= seq <= record.entries:
            return None
        after = seed(record.id) if seq == 0 else after
        if type(after) is not bytes or snapshot_seal(record.id, seq, after, payload) != sealed:
            return None
        return Snapshot(seq, payload)

    def with_id(self, record: Record, entry: str) -> Row | None:
        """Return the row with this id, if the log has it."""
        sql = f"{_ENTRY_COLUMNS} FROM entries AS e WHERE e.session = ? AND e.id = ?"
        raw = self._db.execute(sql, (record.key, entry)).fetchone()
        return None if raw is None else self._row(record, raw)

    def _row(self, record: Record, raw: Raw) -> Row:
        """Return the row of the columns that `_ENTRY_COLUMNS` names, its hash compared."""
        place, entry, parent, time_ms, author, stored, payload, before = raw
        seq = place - record.base
        row = Row(seq, entry, parent, time_ms, author, payload)
        if seq == 1:
            before = seed(record.id)
        if before is None:
            raise self._damage(record, seq - 1, "it is missing")
        try:
            expected = link(before, row)
        except TypeError:
            expected = None  # a column of the wrong type
        if expected != stored:
            raise self._damage(record, seq, "its bytes do not match its hash, or the hash of the entry before it")
        return row

    def _damage(self, record: Record, seq: int, what: str) -> StoreCorrupt:
        return StoreCorrupt(f"session {record.id}, entry {seq}", what, str(self._path))


def tombstone(raw: Raw) -> Tombstone:
    """Return the tombstone of the columns that `TOMBSTONE_COLUMNS` names."""
    _, name, created_ms, deleted_ms, entries, chain, _ = raw
    return Tombstone(name.hex(), created_ms, deleted_ms, entries, chain.hex())


def card(record: Record, labels: Labels = NO_LABELS) -> SessionCard:
    holder = None if record.holder is None else str(unpack(record.holder))
    times = (record.created_ms, record.updated_ms)
    return labels.on(SessionCard(record.id, *times, record.entries, record.head, holder, record.scope))
