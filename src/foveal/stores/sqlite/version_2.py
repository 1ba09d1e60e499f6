"""Schema 2: how its records were sealed, and the upgrade to the present schema, which gives each session a place for its scope.

Logs, snapshots and tombstones are the same in both. The records are verified and written anew in one transaction: a damaged
list of sessions is refused and left as it is.
"""

from pathlib import Path

from foveal.stores.database import Database, Raw
from foveal.stores.format import SCHEMA_VERSION
from foveal.stores.sqlite.connection import upgrade_from
from foveal.stores.sqlite.records import Record, insert_record
from foveal.stores.sqlite.schema import TABLES
from foveal.stores.sqlite.tables import is_sealed
from foveal.values.errors import StoreCorrupt

SELECT_RECORDS = (
    "SELECT key, id, next, created_ms, updated_ms, entries, head, chain, epoch, holder, secret, seal FROM sessions"
)


def record_2(raw: Raw) -> tuple[Record, bool]:
    """Return a record of schema 2 as one of the present schema, and whether its seal was right."""
    fields: Raw = (*raw[:-1], None)
    return Record(*fields), is_sealed(raw)


def upgrade(db: Database, path: Path) -> None:
    """Turn a store of schema 2 into one of the present schema, or raise `StoreCorrupt` and change nothing."""
    upgrade_from(2, db, lambda: _upgrade(db, path))


def _upgrade(db: Database, path: Path) -> None:
    records = list[Record]()
    for raw in db.execute(f"{SELECT_RECORDS} ORDER BY key").fetchall():
        record, is_right = record_2(raw)
        if not is_right:
            raise StoreCorrupt(f"session {record.id}", "its record does not match its seal", str(path))
        records.append(record)
    db.execute("DROP TABLE sessions")
    known = {name for (name,) in db.execute("SELECT name FROM sqlite_schema").fetchall()}
    for statement in TABLES:
        if statement.split()[2 + (" UNIQUE " in statement[:16])] not in known:
            db.execute(statement)
    for record in records:
        insert_record(db, record)
    db.pragma("user_version", SCHEMA_VERSION)
