"""The write transactions of a store file. Each public function is one: it raises, or everything it did is committed."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from foveal.stores.chain import link, seed, snapshot_seal
from foveal.stores.checks import check_repeat
from foveal.stores.database import Database
from foveal.stores.lease import Lease, pack, unpack
from foveal.stores.port import Draft, Row
from foveal.stores.sqlite.tables import Record, Tables
from foveal.values.errors import LeaseLost, SessionHeld, StoreCorrupt


class Batch(msgspec.Struct, frozen=True):
    """The contents of one append."""

    drafts: Sequence[Draft]
    snapshot: bytes | None
    now_ms: int


def acquire(db: Database, path: Path, session: str, lease: Lease, *, takeover: bool) -> Record:
    """Make the process of `lease` the writer of the session, which is made if it is new."""
    tables = Tables(db, path)
    record = tables.record(session)
    if record is None:
        return _insert(db, session, lease)
    tables.check_end(record)
    if record.holder is not None and not takeover:
        present = unpack(record.holder)
        if present.lives():
            raise SessionHeld(
                f"session {session} is held by {present}. Close it there, or take it over with takeover=True: "
                "that writer's next append is then refused."
            )
    acquired = msgspec.structs.replace(record, epoch=record.epoch + 1, holder=pack(lease))
    _update(db, acquired)
    return acquired


def append(db: Database, path: Path, held: Record, batch: Batch) -> list[int]:
    """Append to the session, if `held` (its record when it was acquired) still names its newest writer."""
    tables = Tables(db, path)
    record = tables.record(held.id)
    if record is None:
        raise StoreCorrupt(f"session {held.id}", "it is gone from the store", str(path))
    if record.epoch != held.epoch or record.holder is None:
        new_holder = "nobody" if record.holder is None else str(unpack(record.holder))
        raise LeaseLost(
            f"session {held.id} was taken over: it is now held by {new_holder} (epoch {record.epoch}, this writer has "
            f"{held.epoch}). Nothing of this append was written; hold the session again to go on."
        )
    tables.check_end(record)
    seqs, record = _insert_drafts(db, tables, record, batch.drafts)
    if seqs or batch.snapshot is not None:
        _update(db, msgspec.structs.replace(record, updated_ms=max(batch.now_ms, record.created_ms)))
    # A retry of an earlier append comes with a view that the log has outgrown.
    if batch.snapshot is not None and (not seqs or seqs[-1] == record.entries):
        _keep_snapshot(db, record, batch.snapshot)
    return seqs


def release(db: Database, path: Path, held: Record) -> None:
    """Leave the session without a writer, unless it has a newer one already."""
    record = Tables(db, path).record(held.id)
    if record is not None and record.epoch == held.epoch and record.holder is not None:
        _update(db, msgspec.structs.replace(record, holder=None))


def _insert_drafts(db: Database, tables: Tables, record: Record, drafts: Sequence[Draft]) -> tuple[list[int], Record]:
    """Insert the drafts that are new; return the places of all of them, and the record after them."""
    seqs: list[int] = []
    entries, head, chain = record.entries, record.head, record.chain
    for draft in drafts:
        known = tables.with_id(record, draft.id)
        if known is not None:
            check_repeat(known, draft)
            seqs.append(known.seq)
            continue
        entries, head = entries + 1, draft.id
        row = Row(entries, draft.id, draft.parent, draft.time_ms, draft.author, draft.payload)
        chain = link(chain, row)
        db.execute(
            "INSERT INTO entries (place, id, parent, time_ms, author, hash, payload) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (record.base + entries, row.id, row.parent, row.time_ms, row.author, chain, row.payload),
        )
        seqs.append(entries)
    return seqs, msgspec.structs.replace(record, entries=entries, head=head, chain=chain)


def _insert(db: Database, session: str, lease: Lease) -> Record:
    newest = db.execute("SELECT coalesce(max(key), 0) FROM sessions").fetchall()[0][0]
    now = lease.since_ms
    record = Record(newest + 1, session, now, now, 0, None, seed(session), 1, pack(lease))
    db.execute(
        "INSERT INTO sessions (key, id, created_ms, updated_ms, entries, head, chain, epoch, holder, seal)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*msgspec.structs.astuple(record), record.seal()),
    )
    return record


def _update(db: Database, record: Record) -> None:
    db.execute(
        "UPDATE sessions SET updated_ms = :updated_ms, entries = :entries, head = :head, chain = :chain, epoch = :epoch,"
        " holder = :holder, seal = :seal WHERE key = :key",
        {**msgspec.structs.asdict(record), "seal": record.seal()},
    )


def _keep_snapshot(db: Database, record: Record, payload: bytes) -> None:
    sealed = snapshot_seal(record.id, record.entries, record.chain, payload)
    db.execute(
        "INSERT INTO snapshots (session, seq, seal, payload) VALUES (?, ?, ?, ?) ON CONFLICT (session)"
        " DO UPDATE SET seq = excluded.seq, seal = excluded.seal, payload = excluded.payload",
        (record.key, record.entries, sealed, payload),
    )
