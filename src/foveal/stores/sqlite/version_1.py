"""Schema 1, which Foveal 0.1 wrote: how its rows were chained and sealed, and the upgrade to the present schema.

The upgrade verifies every row by the old rules and links it by the new ones, in one transaction: a damaged store is refused and
left as it is, and a process that dies on the way leaves the old store. Snapshots are dropped, since they are made again at will;
writers are too, since no process of an older Foveal can write the file any more.
"""

from hashlib import sha256
from pathlib import Path

import msgspec

from foveal.stores.chain import link, seal, seed
from foveal.stores.database import Database, Raw
from foveal.stores.format import SCHEMA_VERSION
from foveal.stores.port import Row
from foveal.stores.sqlite.connection import upgrade_from
from foveal.stores.sqlite.records import Record, first_record, insert_record
from foveal.stores.sqlite.schema import SEQ_BITS, TABLES
from foveal.values.errors import StoreCorrupt

_encode = msgspec.msgpack.Encoder().encode
SELECT_RECORDS = "SELECT key, id, created_ms, updated_ms, entries, head, chain, epoch, holder, seal FROM sessions"
_ROWS = (
    "SELECT place, id, parent, time_ms, author, hash, payload FROM entries"
    " WHERE place > ? AND place <= ? ORDER BY place LIMIT ?"
)
_BATCH = 500


def link_1(before: bytes, row: Row) -> bytes:
    """Return the hash of a row by the rule of schema 1."""
    digest = sha256(before)
    digest.update(_encode((row.seq, row.id, row.parent, row.time_ms, row.author, len(row.payload))))
    digest.update(row.payload)
    return digest.digest()


def record_1(raw: Raw) -> tuple[Record, bool]:
    """Return a record of schema 1 as one of the present schema, and whether its seal was right."""
    key, name, created_ms, updated_ms, entries, head, chain, epoch, _ = raw[:9]
    try:
        is_sealed = seal(*raw[:9]) == raw[9]
    except (TypeError, OverflowError):
        is_sealed = False
    return Record(key, name, None, created_ms, updated_ms, entries, head, chain, epoch, None, b"", None), is_sealed


def upgrade(db: Database, path: Path) -> None:
    """Turn a store of schema 1 into one of the present schema, or raise `StoreCorrupt` and change nothing."""
    upgrade_from(1, db, lambda: _upgrade(db, path))


def _upgrade(db: Database, path: Path) -> None:
    records = [_verified(raw, path) for raw in db.execute(f"{SELECT_RECORDS} ORDER BY id").fetchall()]
    for name in ("entries_never_change", "entries_never_go"):
        db.execute(f"DROP TRIGGER IF EXISTS {name}")
    newest = max((record.key for record in records), default=0)
    linked = [_linked(db, path, record) for record in records]
    for name in ("sessions", "snapshots"):
        db.execute(f"DROP TABLE {name}")
    for statement in TABLES:
        if " entries (" not in statement:  # the table of entries and its index are the same in both schemas
            db.execute(statement)
    names = [record.id for record in linked]
    insert_record(db, first_record(names[0] if names else None, newest))
    for record, following in zip(linked, [*names[1:], None], strict=True):
        insert_record(db, msgspec.structs.replace(record, next=following))
    db.pragma("user_version", SCHEMA_VERSION)


def _linked(db: Database, path: Path, record: Record) -> Record:
    """Link the rows of a session anew, each verified by the old rule first, and return its record with the new end."""
    old = new = seed(record.id)
    seq = 0
    while raws := db.execute(_ROWS, (record.base + seq, record.base + (1 << SEQ_BITS) - 1, _BATCH)).fetchall():
        for place, entry, parent, time_ms, author, stored, payload in raws:
            seq += 1
            row = Row(seq, entry, parent, time_ms, author, payload)
            old = _link_or_none(old, row)
            if place != record.base + seq or old != stored:
                what = "its bytes do not match its hash, or an entry before it is missing"
                raise StoreCorrupt(f"session {record.id}, entry {place - record.base}", what, str(path))
            new = link(new, row)
            db.execute("UPDATE entries SET hash = ? WHERE place = ?", (new, place))
    if (seq, old) != (record.entries, record.chain):
        what = f"the log ends at entry {seq}, its record says {record.entries}"
        raise StoreCorrupt(f"session {record.id}", what, str(path))
    return msgspec.structs.replace(record, chain=new)


def _link_or_none(before: bytes | None, row: Row) -> bytes | None:
    try:
        return None if before is None else link_1(before, row)
    except TypeError:
        return None  # a column of the wrong type


def _verified(raw: Raw, path: Path) -> Record:
    record, is_sealed = record_1(raw)
    if not is_sealed:
        raise StoreCorrupt(f"session {record.id}", "its record does not match its seal", str(path))
    return record
