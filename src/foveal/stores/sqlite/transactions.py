"""The write transactions of a store file. Each public function is one: it raises, or everything it did is committed."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import apsw
import msgspec

from foveal.stores.chain import link, seal, seed, snapshot_seal
from foveal.stores.checks import (
    SECRET_BYTES,
    check_note,
    check_repeat,
    check_same_scope,
    check_sealed,
    check_seen,
    children_span,
)
from foveal.stores.database import Database
from foveal.stores.labels import NO_LABELS, Labels
from foveal.stores.lease import LEASE_MS, Lease, has_ended, held_text, pack, unpack
from foveal.stores.port import Draft, KeptNote, Row, Tombstone
from foveal.stores.sqlite.records import Record, insert_record, update_record
from foveal.stores.sqlite.schema import LABELS, SEQ_BITS
from foveal.stores.sqlite.tables import LEASE_COLUMNS, Tables, is_sealed
from foveal.values.errors import LeaseLost, NotFound, SessionHeld, TailLost

_INSERT_ENTRY = "INSERT INTO entries (place, id, parent, time_ms, author, hash, payload) VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT_TOMBSTONE = (
    "INSERT INTO tombstones (key, seed, created_ms, deleted_ms, entries, chain, seal) VALUES (?, ?, ?, ?, ?, ?, ?)"
)
_CHILDREN = "SELECT id FROM sessions WHERE id >= ? AND id < ?"
_INSERT_NOTE = (
    "INSERT OR REPLACE INTO notes (scope, key, text, session, author, time_ms, seal) VALUES (?, ?, ?, ?, ?, ?, ?)"
)


class Batch(msgspec.Struct, frozen=True):
    """The contents of one append."""

    drafts: Sequence[Draft]
    snapshot: bytes | None
    now_ms: int
    acknowledged: int
    """Entries of the log that its writer knows to be kept."""


class Request(msgspec.Struct, frozen=True):
    """The wish to become the writer of a session."""

    session: str
    lease: Lease
    takeover: bool
    secret: bytes | None
    scope: str | None


def acquire(db: Database, path: Path, wish: Request) -> Record:
    """Make the process of the lease the writer of the session, which is made if it is new."""
    tables = Tables(db, path)
    record = tables.record(wish.session)
    if record is None:
        return _insert(db, tables, wish)
    tables.check_end(record)
    check_same_scope(record.id, record.scope, wish.scope)
    if not wish.takeover:
        _check_free(tables, wish.lease.since_ms, record)
    scope = wish.scope if record.scope is None else record.scope
    acquired = msgspec.structs.replace(record, epoch=record.epoch + 1, holder=pack(wish.lease), scope=scope)
    update_record(db, acquired)
    return acquired


def append(db: Database, path: Path, held: Record, batch: Batch) -> list[int]:
    """Append to the session, if `held` (its record when it was acquired) still names its newest writer."""
    tables = Tables(db, path)
    record = tables.record(held.id)
    if record is None or record.key != held.key:
        raise LeaseLost(f"session {held.id} was deleted. Nothing of this append was written.")
    if record.epoch != held.epoch or record.holder is None:
        new_holder = "nobody" if record.holder is None else str(unpack(record.holder))
        raise LeaseLost(
            f"session {held.id} was taken over: it is now held by {new_holder} (epoch {record.epoch}, this writer has "
            f"{held.epoch}). Nothing of this append was written; hold the session again to go on."
        )
    tables.check_end(record)
    if record.entries < batch.acknowledged:
        raise TailLost(record.id, record.entries, batch.acknowledged)
    seqs, record = _insert_drafts(db, tables, record, batch)
    if seqs or batch.snapshot is not None:
        update_record(db, record)
    # A retry of an earlier append comes with a view that the log has outgrown.
    if batch.snapshot is not None and (not seqs or seqs[-1] == record.entries):
        _keep_snapshot(db, record, batch.snapshot)
    return seqs


def release(db: Database, path: Path, held: Record) -> None:
    """Leave the session without a writer, unless it has a newer one already."""
    record = Tables(db, path).record(held.id)
    if record is not None and record.key == held.key and record.epoch == held.epoch and record.holder is not None:
        update_record(db, msgspec.structs.replace(record, holder=None))


def delete(
    db: Database,
    path: Path,
    sessions: Sequence[str],
    now_ms: int,
    *,
    takeover: bool,
    seen: Mapping[str, int] | None = None,
) -> list[Tombstone]:
    """Delete these sessions and leave a tombstone of each."""
    tables = Tables(db, path)
    records = [tables.known_record(session) for session in sessions]
    if not takeover:
        _check_free(tables, now_ms, *records)
    if seen is not None:
        names = [raw[0] for record in records for raw in db.execute(_CHILDREN, children_span(record.id)).fetchall()]
        check_seen({record.id: record.entries for record in records}, names, seen)
    return [_delete(db, tables, tables.known_record(session), now_ms) for session in sessions]


def keep_note(db: Database, path: Path, scope: str, note: KeptNote) -> None:
    """Keep a note of a scope in the place of the one with the same key."""
    tables = Tables(db, path)
    record = tables.record(note.session)
    if record is None or record.scope != scope:
        raise NotFound(f"the scope {scope!r} has no session {note.session!r}; nothing was kept")
    check_note(note, record.secret)
    check_sealed(record.id, record.secret, note.text)
    changes, notes = tables.scope_state(scope)
    is_new = not db.execute("SELECT 1 FROM notes WHERE scope = ? AND key = ?", (scope, note.key)).fetchall()
    fields = (scope, note.key, note.text, record.key, note.author, note.time_ms)
    db.execute(_INSERT_NOTE, (*fields, seal(*fields)))
    _write_scope(db, scope, changes + 1, notes + is_new)


def forget_note(db: Database, path: Path, scope: str, key: str) -> bool:
    """Remove the note of a key, and return whether there was one."""
    changes, notes = Tables(db, path).scope_state(scope)
    is_there = bool(db.execute("DELETE FROM notes WHERE scope = ? AND key = ? RETURNING 1", (scope, key)).fetchall())
    if is_there:
        _write_scope(db, scope, changes + 1, notes - 1)
    return is_there


def _write_scope(db: Database, scope: str, changes: int, notes: int) -> None:
    fields = (scope, changes, notes)
    db.execute("INSERT OR REPLACE INTO scopes (id, changes, notes, seal) VALUES (?, ?, ?, ?)", (*fields, seal(*fields)))


def relabel(db: Database, path: Path, session: str, change: Callable[[Labels, bytes], Labels]) -> Labels:
    """Give a session the labels that a change makes of those it has and of its secret, and return them."""
    tables = Tables(db, path)
    record = tables.known_record(session)
    labels = change(tables.labels_of(record), record.secret)
    _drop_labels(db, tables, record)
    if labels != NO_LABELS:
        fields = (record.key, labels.title, "\n".join(labels.tags))
        db.execute("INSERT INTO labels (session, title, tags, seal) VALUES (?, ?, ?, ?)", (*fields, seal(*fields)))
        changes, count = tables.scope_state(LABELS)
        _write_scope(db, LABELS, changes + 1, count + 1)
    return labels


def _drop_labels(db: Database, tables: Tables, record: Record) -> None:
    if db.execute("DELETE FROM labels WHERE session = ? RETURNING 1", (record.key,)).fetchall():
        changes, count = tables.scope_state(LABELS)
        _write_scope(db, LABELS, changes + 1, count - 1)


def touch(db: Database, path: Path, now_ms: int) -> None:
    """Write the time into the first record, so that the WAL has a frame: a file with a lease in it never has an empty one."""
    update_record(db, msgspec.structs.replace(Tables(db, path).first_record(), updated_ms=now_ms))


def adopt(db: Database, path: Path, tombstones: Sequence[Tombstone]) -> None:
    """Add the tombstones of another store that are not here yet, under keys of this one."""
    tables = Tables(db, path)
    first, known = tables.first_record(), set(tables.tombstones())
    new = [one for one in tombstones if one not in known]
    for key, one in enumerate(new, start=first.entries + 1):
        hashes = bytes.fromhex(one.seed), bytes.fromhex(one.chain)
        fields = (key, hashes[0], one.created_ms, one.deleted_ms, one.entries, hashes[1])
        db.execute(_INSERT_TOMBSTONE, (*fields, seal(*fields)))
    update_record(db, msgspec.structs.replace(first, entries=first.entries + len(new)))


def backdate(db: Database, path: Path, session: str, times_ms: tuple[int, int], now_ms: int) -> None:
    """Give a session that nobody writes the times that it had in another store."""
    tables = Tables(db, path)
    record = tables.known_record(session)
    _check_free(tables, now_ms, record)
    created_ms, updated_ms = times_ms
    db.execute("UPDATE sessions SET created_ms = ? WHERE key = ?", (created_ms, record.key))
    update_record(db, msgspec.structs.replace(record, created_ms=created_ms, updated_ms=updated_ms))


def renew_lease(db: Database, lease: Lease, now_ms: int) -> None:
    """Write that the handle of this lease lives, and remove the leases of those that do not."""
    for raw in db.execute(LEASE_COLUMNS).fetchall():
        if not is_sealed(raw) or (raw[0] != lease.token and has_ended(unpack(raw[1]), raw[2], now_ms)):
            db.execute("DELETE FROM leases WHERE token = ?", (raw[0],))
    fields = (lease.token, pack(lease), now_ms + LEASE_MS)
    db.execute(
        "INSERT OR REPLACE INTO leases (token, holder, until_ms, seal) VALUES (?, ?, ?, ?)", (*fields, seal(*fields))
    )


def end_lease(db: Database, token: str, now_ms: int) -> bool:
    """Remove the lease of a handle that is closed, and of all that have ended; return whether none is left."""
    db.execute("DELETE FROM leases WHERE token = ?", (token,))
    is_last = True
    for raw in db.execute(LEASE_COLUMNS).fetchall():
        if not is_sealed(raw) or has_ended(unpack(raw[1]), raw[2], now_ms):
            db.execute("DELETE FROM leases WHERE token = ?", (raw[0],))
        else:
            is_last = False
    return is_last


def _check_free(tables: Tables, now_ms: int, *records: Record) -> None:
    held, text = list[str](), ""
    for record in records:
        if record.holder is not None:
            present = unpack(record.holder)
            until_ms = tables.lease_until(present.token)
            if not has_ended(present, until_ms, now_ms):
                held.append(record.id)
                text = text or held_text(record.id, present, until_ms, now_ms)
    if held:
        raise SessionHeld(text, held)


def _delete(db: Database, tables: Tables, record: Record, now_ms: int) -> Tombstone:
    fields = (record.key, seed(record.id), record.created_ms, now_ms, record.entries, record.chain)
    db.execute(_INSERT_TOMBSTONE, (*fields, seal(*fields)))
    span = (record.base, record.base + (1 << SEQ_BITS) - 1)
    db.execute("DELETE FROM entries WHERE place > ? AND place <= ?", span)
    db.execute("DELETE FROM snapshots WHERE session = ?", (record.key,))
    if record.scope is not None:
        changes, notes = tables.scope_state(record.scope)
        gone = db.execute("DELETE FROM notes WHERE scope = ? AND session = ? RETURNING 1", (record.scope, record.key))
        _write_scope(db, record.scope, changes + 1, notes - len(gone.fetchall()))
    _drop_labels(db, tables, record)
    db.execute("DELETE FROM sessions WHERE key = ?", (record.key,))
    before = db.execute("SELECT id FROM sessions WHERE id < ? ORDER BY id DESC LIMIT 1", (record.id,)).fetchall()[0][0]
    neighbour = tables.known_record(before) if before else tables.first_record()
    update_record(db, msgspec.structs.replace(neighbour, next=record.next))
    return Tombstone(fields[1].hex(), record.created_ms, now_ms, record.entries, record.chain.hex())


def _insert_drafts(db: Database, tables: Tables, record: Record, batch: Batch) -> tuple[list[int], Record]:
    """Insert the drafts that are new; return the places of all of them, and the record after them."""
    seqs: list[int] = []
    entries, head, chain = record.entries, record.head, record.chain
    for draft in batch.drafts:
        row = Row(entries + 1, draft.id, draft.parent, draft.time_ms, draft.author, draft.payload)
        linked = link(chain, row)
        try:
            db.execute(
                _INSERT_ENTRY, (record.base + row.seq, row.id, row.parent, row.time_ms, row.author, linked, row.payload)
            )
        except apsw.ConstraintError:  # the id is taken: nearly always, it is new
            known = tables.with_id(record, draft.id)
            if known is None:
                raise
            check_repeat(known, draft)
            seqs.append(known.seq)
            continue
        entries, head, chain = row.seq, row.id, linked
        seqs.append(entries)
    updated_ms = max(batch.now_ms, record.created_ms)
    return seqs, msgspec.structs.replace(record, updated_ms=updated_ms, entries=entries, head=head, chain=chain)


def _insert(db: Database, tables: Tables, wish: Request) -> Record:
    session, now = wish.session, wish.lease.since_ms
    first, before = tables.first_record(), tables.predecessor(session)
    key = first.entries + 1
    secret = secrets.token_bytes(SECRET_BYTES) if wish.secret is None else wish.secret
    record = Record(
        key, session, before.next, now, now, 0, None, seed(session), 1, pack(wish.lease), secret, wish.scope
    )
    insert_record(db, record)
    if before.key == 0:
        update_record(db, msgspec.structs.replace(first, entries=key, next=session))
    else:
        update_record(db, msgspec.structs.replace(first, entries=key))
        update_record(db, msgspec.structs.replace(before, next=session))
    return record


def _keep_snapshot(db: Database, record: Record, payload: bytes) -> None:
    sealed = snapshot_seal(record.id, record.entries, record.chain, payload)
    db.execute(
        "INSERT INTO snapshots (session, seq, seal, payload) VALUES (?, ?, ?, ?) ON CONFLICT (session)"
        " DO UPDATE SET seq = excluded.seq, seal = excluded.seal, payload = excluded.payload",
        (record.key, record.entries, sealed, payload),
    )
