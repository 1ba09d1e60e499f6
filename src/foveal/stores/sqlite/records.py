"""The records of a store file: one for each session, each sealed, in a list in the order of their names."""

import msgspec

from foveal.stores.chain import seal, seed
from foveal.stores.database import Database
from foveal.stores.sqlite.schema import SEQ_BITS

RECORD_COLUMNS = (
    "SELECT key, id, next, created_ms, updated_ms, entries, head, chain, epoch, holder, secret, scope, seal FROM"
    " sessions"
)
"""The beginning of every query for records: the fields of `Record` in their order, and the seal over them."""

_INSERT = (
    "INSERT INTO sessions (key, id, next, created_ms, updated_ms, entries, head, chain, epoch, holder, secret, scope, seal)"
    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
_UPDATE = (
    "UPDATE sessions SET next = ?, updated_ms = ?, entries = ?, head = ?, chain = ?, epoch = ?, holder = ?, scope = ?,"
    " seal = ? WHERE key = ?"
)


class Record(msgspec.Struct, frozen=True):
    """A session's row in the table of sessions."""

    key: int
    id: str
    next: str | None
    """The id of the session that follows in the order of names."""
    created_ms: int
    updated_ms: int
    entries: int
    head: str | None
    chain: bytes
    """The hash of the last entry; before there is one, the seed."""
    epoch: int
    holder: str | None
    secret: bytes
    """Empty for a session that was made by Foveal 0.1."""
    scope: str | None

    @property
    def base(self) -> int:
        """The place before the first entry."""
        return self.key << SEQ_BITS

    def seal(self) -> bytes:
        return seal(*msgspec.structs.astuple(self))


def first_record(following: str | None, newest: int) -> Record:
    """Return the record that the list begins with, of no session: its `entries` are the keys that were given out."""
    return Record(0, "", following, 0, 0, newest, None, seed(""), 0, None, b"", None)


def insert_record(db: Database, record: Record) -> None:
    db.execute(_INSERT, (*msgspec.structs.astuple(record), record.seal()))


def update_record(db: Database, record: Record) -> None:
    changing = (record.next, record.updated_ms, record.entries, record.head, record.chain, record.epoch)
    db.execute(_UPDATE, (*changing, record.holder, record.scope, record.seal(), record.key))
