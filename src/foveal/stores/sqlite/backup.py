"""Copies of a store that is in use: SQLite's online backup, and the artifacts that the copied logs name."""

from contextlib import suppress
from os import PathLike
from pathlib import Path

import msgspec

from foveal.stores.artifacts import copy_unread, unproven
from foveal.stores.database import Database
from foveal.stores.examination import Report
from foveal.stores.format import ENVELOPE
from foveal.stores.port import Artifacts, SessionCard
from foveal.stores.references import artifacts_named
from foveal.stores.sqlite import SqliteStore
from foveal.stores.sqlite.connection import resolved, transaction
from foveal.stores.sqlite.doctor import examine
from foveal.stores.sqlite.new_file import new_store_file
from foveal.stores.sqlite.opening import connect_new
from foveal.stores.sqlite.records import update_record
from foveal.stores.sqlite.tables import Tables
from foveal.stores.unnamed_artifacts import NamedArtifacts
from foveal.values.errors import NotFound, StoreCorrupt, StoreError

_ANY_TIME_MS = 1 << 62
"""Later than any time at which an artifact was put."""


def back_up(path: str | PathLike[str], target: str | PathLike[str]) -> Report:
    """Copy the store at `path` to a new file, with its artifacts, and return the examination of the copy. Others may write in
    the meantime: the copy has everything that was acknowledged when this was called, but for what was deleted since."""
    with new_store_file(target) as place, SqliteStore(path, may_be_read_only=True) as store:
        copy = connect_new(place)
        try:
            store.copy_to(copy)
            with transaction(copy):
                _set_free(copy, place)
        finally:
            copy.close()
        copied = _copy_artifacts(store, place)
    report = examine(resolved(target))
    with SqliteStore(target) as store:  # closing it leaves one complete file
        if store.cards() != copied:
            raise StoreError(
                f"{report.path} does not hold the sessions that were copied: another process has written it. "
                "Remove it, with what lies beside it, and make the copy again."
            )
    return report


def _copy_artifacts(store: SqliteStore, place: Path) -> list[SessionCard]:
    """Copy the artifacts that the logs of a copy name, and return its sessions."""
    with SqliteStore(place) as copied:
        cards = copied.cards()
        for card in cards:
            try:
                named = sorted(set(artifacts_named(copied.rows(card.id))))
            except StoreCorrupt:
                named = None  # the examination reports it
            if named is None or copied.secret(card.id).startswith(ENVELOPE):
                # A damaged or encrypted log does not say which are named.
                copy_unread(store.artifacts, copied.artifacts)
                break
            for sha256 in named:
                _copy_artifact(store.artifacts_for(card.id), copied.artifacts_for(card.id), sha256)
        with suppress(StoreCorrupt):  # the examination reports it
            _follow_deletions(store, copied, cards)
        return copied.cards()


def _follow_deletions(store: SqliteStore, copied: SqliteStore, cards: list[SessionCard]) -> None:
    """Delete what was deleted in the store since it was copied: its artifacts may have been gone before they were copied."""
    names = [card.id for card in cards]
    now, before = store.tombstones_of(names), copied.tombstones_of(names)
    since = {name: {one.created_ms for one in found if one not in before.get(name, ())} for name, found in now.items()}
    gone = [card.id for card in cards if card.created_ms in since.get(card.id, ())]
    if not gone:
        return
    copied.delete(gone)
    named = NamedArtifacts()
    for card in copied.cards():
        named.read(copied, card.id, entries=card.entries, updated_ms=card.updated_ms)
    for one in copied.kept_artifacts() if not named.unread else ():
        if one.name not in named.found:
            one.remove(unless_put_after_ms=_ANY_TIME_MS)


def _copy_artifact(source: Artifacts, target: Artifacts, sha256: str) -> None:
    """Copy an artifact; a damaged one as it is, and none if it is missing: the examination reports both."""
    with suppress(NotFound):
        try:
            target.put(source.read(sha256))
        except StoreCorrupt:
            target.put(unproven(source, sha256), name=lambda: sha256)


def _set_free(db: Database, path: Path) -> None:
    """Release the copied sessions: their writers write the original."""
    db.execute("DELETE FROM leases")
    for record in Tables(db, path).records():
        if record.holder is not None:
            update_record(db, msgspec.structs.replace(record, holder=None))
