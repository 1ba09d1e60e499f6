"""Records and rows of a store in PostgreSQL as verified values: every value returned from here has a checked hash."""

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from foveal.stores.chain import link, seal, seed, snapshot_seal
from foveal.stores.plan import LogEnd
from foveal.stores.port import Row, SessionCard, Snapshot
from foveal.values.errors import StoreCorrupt

_FIELDS = "key id created_ms updated_ms entries head chain epoch token since_ms secret scope mark seal"
COLUMNS = {
    "record": _FIELDS.replace(" ", ", "),
    "session": "s." + _FIELDS.replace(" ", ", s."),
    "row": "e.seq, e.id, e.parent, e.time_ms, e.author, e.hash, e.payload,"
    " (SELECT p.hash FROM @entries p WHERE p.session = e.session AND p.seq = e.seq - 1)",
    "key": "(SELECT key FROM @sessions WHERE id = %(id)s)",
}
"""Names that statements use as `$name`: the columns of a record, alone and of the session `s`; those of the entry `e`, with the
hash of the entry before it; and the key of the session whose id is bound."""


class Register(msgspec.Struct, frozen=True):
    """A session's row: the register that every append compares and replaces."""

    key: int
    id: str
    created_ms: int
    updated_ms: int
    entries: int
    head: str | None
    chain: bytes
    epoch: int
    token: str | None
    """The handle that holds the session."""
    since_ms: int
    secret: bytes
    scope: str | None
    mark: int
    """The call that acquired the session. After a failover to a replica that was behind, an epoch may be given out twice."""

    @property
    def end(self) -> LogEnd:
        return LogEnd(self.entries, self.head, self.chain)

    def after(self, end: LogEnd) -> "Register":
        """Return the register with another end of the log."""
        return msgspec.structs.replace(self, entries=end.entries, head=end.head, chain=end.chain)

    def seal(self) -> bytes:
        return seal(self.id, self.created_ms, self.entries, self.head, self.chain, self.secret, self.scope)

    def is_held_as(self, other: "Register") -> bool:
        """Return whether both were acquired by the same call."""
        return (self.epoch, self.token, self.mark) == (other.epoch, other.token, other.mark)

    def card(self, holder: str | None) -> SessionCard:
        return SessionCard(self.id, self.created_ms, self.updated_ms, self.entries, self.head, holder, self.scope)


def register(raw: Sequence[Any], place: str) -> Register:
    """Return the record of the columns that `$record` names, its seal compared."""
    found = Register(*raw[:13])
    if found.seal() != raw[13]:
        raise StoreCorrupt(f"session {found.id}", "its record does not match its seal", place)
    return found


def verified_row(raw: Sequence[Any], session: str, place: str) -> Row:
    """Return the row of the columns that `$row` names, its hash compared."""
    seq, entry, parent, time_ms, author, stored, payload, before = raw
    row = Row(seq, entry, parent, time_ms, author, payload)
    before = seed(session) if row.seq == 1 else before
    if before is None:
        raise damage(session, row.seq - 1, "it is missing", place)
    if link(before, row) != stored:
        raise damage(session, row.seq, "its bytes do not match its hash, or the hash of the entry before it", place)
    return row


def verified_run(raws: Sequence[Sequence[Any]], known: Register, after: int, place: str) -> Iterator[Row]:
    """Yield the rows of a run that begins after this place. The first of `raws` is the row before it, for its hash alone, unless
    the log begins there."""
    before = seed(known.id) if after == 0 else None
    for raw in raws:
        seq, entry, parent, time_ms, author, stored, payload = raw
        if seq == after and before is None:
            before = stored
            continue
        after += 1
        if seq != after or before is None:
            raise damage(known.id, after if before is not None else after - 1, "it is missing", place)
        row = Row(seq, entry, parent, time_ms, author, payload)
        if link(before, row) != stored:
            raise damage(known.id, after, "its bytes do not match its hash, or the hash of the entry before it", place)
        yield row
        before = stored
        if after == known.entries and stored != known.chain:
            raise damage(known.id, after, "it is not the entry that its session's record ends with", place)


def packed(payload: bytes) -> bytes:
    """Return a snapshot as it is kept: deflated quickly, which leaves about a quarter."""
    return zlib.compress(payload, 1)


def verified_snapshot(raw: Sequence[Any] | None, known: Register) -> Snapshot | None:
    """Return the snapshot of `seq, seal, payload, hash of the entry at seq`; None unless it is whole and of this log."""
    if raw is None or not 0 <= raw[0] <= known.entries:
        return None
    seq, sealed, kept, after = raw
    try:
        payload = zlib.decompress(kept)
    except zlib.error:
        return None
    after = seed(known.id) if seq == 0 else after
    is_whole = after is not None and snapshot_seal(known.id, seq, after, payload) == sealed
    return Snapshot(seq, payload) if is_whole else None


def damage(session: str, seq: int, what: str, place: str) -> StoreCorrupt:
    return StoreCorrupt(f"session {session}, entry {seq}", what, place)
