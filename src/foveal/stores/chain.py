"""The hashes that make damage visible.

The rows of a session form a chain: each hash covers the row and the hash before it, and the first link starts from the
session's name. So a changed bit, a lost row, a moved row and a row of another session all show. A payload is covered by its
digest, so that the chain can be proven without it: a deleted session leaves the chain's end behind, and a copy of the log
kept elsewhere is recognised by it. The session's own record carries the chain's end and a seal over itself; a snapshot is
bound to the row that it was taken after.

Fields are laid out by MessagePack, which prefixes every value with its type and length: two different rows never give the
same bytes to hash.
"""

from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec

from foveal.stores.port import Row, Tombstone

_encode = msgspec.msgpack.Encoder().encode


def seed(session: str) -> bytes:
    """Return the hash that the first row of a session is chained to."""
    return sha256(b"foveal log\0" + session.encode()).digest()


def seeds(sessions: Iterable[str]) -> dict[str, str]:
    """Return the names of sessions by their hashes in hexadecimal digits, as tombstones have them; those that no session can have
    are left out."""
    return {seed(name).hex(): name for name in sessions if not any("\ud800" <= sign <= "\udfff" for sign in name)}


def by_name(tombstones: Iterable[Tombstone], sessions: Sequence[str]) -> dict[str, list[Tombstone]]:
    """Return those of the tombstones that are of sessions of these names, by name."""
    names, found = seeds(sessions), dict[str, list[Tombstone]]()
    for one in tombstones:
        if (name := names.get(one.seed)) is not None:
            found.setdefault(name, []).append(one)
    return found


def link(before: bytes, row: Row) -> bytes:
    """Return the hash of a row that follows the row with the hash `before`."""
    payload = sha256(row.payload).digest()
    return sha256(before + _encode((row.seq, row.id, row.parent, row.time_ms, row.author, payload))).digest()


def seal(*fields: str | bytes | int | None) -> bytes:
    """Return the hash of a record that is in no chain."""
    return sha256(b"foveal record\0" + _encode(fields)).digest()


def snapshot_seal(session: str, seq: int, after: bytes, payload: bytes) -> bytes:
    """Return the hash of a snapshot taken after the row `seq`, whose own hash is `after`."""
    return seal(session, seq, after, sha256(payload).digest())
