"""Schema 3, and the upgrade to the present schema, which has a table for the titles and tags of sessions."""

from foveal.stores.database import Database
from foveal.stores.format import SCHEMA_VERSION
from foveal.stores.sqlite.connection import upgrade_from
from foveal.stores.sqlite.schema import TABLES


def upgrade(db: Database) -> None:
    """Turn a store of schema 3 into one of the present schema."""
    upgrade_from(3, db, lambda: _upgrade(db))


def _upgrade(db: Database) -> None:
    for statement in TABLES:
        if " labels (" in statement:
            db.execute(statement)
    db.pragma("user_version", SCHEMA_VERSION)
