"""Copies of a store that is in use: SQLite's online backup, and the artifacts that the copied logs name."""

from contextlib import suppress
from os import PathLike
from pathlib import Path

import msgspec

from foveal.stores.artifacts import artifacts_folder, copy_unread
from foveal.stores.database import Database
from foveal.stores.examination import Report
from foveal.stores.format import ENCRYPTED
from foveal.stores.references import artifacts_named
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.connection import resolved, transaction
from foveal.stores.sqlite.doctor import examine
from foveal.stores.sqlite.opening import connect_new
from foveal.stores.sqlite.records import update_record
from foveal.stores.sqlite.tables import Tables
from foveal.values.errors import BadInput, NotFound, StoreCorrupt


def back_up(path: str | PathLike[str], target: str | PathLike[str]) -> Report:
    """Copy the store at `path` to a new file, with its artifacts, and return the examination of the copy. Others may write in
    the meantime: the copy has everything that was acknowledged when this was called."""
    place = resolved(target)
    if place.exists() or artifacts_folder(place).exists():
        raise BadInput(f"{place} exists already; name a new file to copy to.")
    with SqliteStore(path) as store:
        copy = connect_new(place)
        try:
            store.copy_to(copy)
            with transaction(copy):
                _set_free(copy, place)
        finally:
            copy.close()
        _copy_artifacts(store, place)
    return examine(place)


def _copy_artifacts(store: SqliteStore, place: Path) -> None:
    with SqliteStore(place) as copied:
        for card in copied.cards():
            rows = list(copied.rows(card.id))
            if any(row.payload.startswith(ENCRYPTED) for row in rows):
                copy_unread(store.artifacts, copied.artifacts)  # only their keys could say which are named
                return
            for sha256 in sorted(set(artifacts_named(rows))):
                with suppress(NotFound, StoreCorrupt):  # the examination reports it
                    copied.artifacts_for(card.id).put(store.artifacts_for(card.id).read(sha256))


def _set_free(db: Database, path: Path) -> None:
    """Release the copied sessions: their writers write the original."""
    db.execute("DELETE FROM leases")
    for record in Tables(db, path).records():
        if record.holder is not None:
            update_record(db, msgspec.structs.replace(record, holder=None))
