"""Moving all sessions of a store to another one, of the same kind or not: resumable, and verified by the hash chain.

A session is held in both stores while it is copied, so that nobody writes it in the meantime; one that is in use is left for the
next run. Its log is continued where the last run stopped, after the copied part was read and compared, and is done when both
chains end in the same hash.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec

from foveal.stores import open_store
from foveal.stores.chain import link, seed
from foveal.stores.examination import Damage, Report, examine_store
from foveal.stores.place import DatabaseAddress
from foveal.stores.port import Draft, Row, SessionCard, Store
from foveal.stores.references import artifacts_named
from foveal.stores.rows import check_readable
from foveal.stores.sqlite.backup import back_up
from foveal.stores.sqlite.doctor import examine
from foveal.values.errors import BadInput, NotFound, SessionHeld, StoreCorrupt

BATCH_ROWS = 256
BATCH_BYTES = 4 << 20


class StoreMove(msgspec.Struct, frozen=True):
    """The outcome of moving a store."""

    sessions: int
    """Sessions that are whole in the new store, and proven to be so."""
    copied: int
    """Entries that were written by this run."""
    artifacts: int
    in_use: tuple[str, ...]
    """Sessions that somebody writes; run it again when they are closed."""
    damaged: tuple[str, ...]
    """Sessions that cannot be read to their end, each with the reason."""


def move_sessions(source: Store, target: Store, *, holds: bool = True) -> StoreMove:
    """Copy all sessions, artifacts, notes and tombstones of a store to another. Nothing is removed from the source.

    With `holds=False`, sessions that somebody writes are copied too, as they are at this moment. `StoreError` if one is encrypted
    and the source has no keys: which artifacts it names could not be told.
    """
    _check_keys(source)
    sessions = copied = 0
    in_use, damaged = list[str](), list[str]()
    artifacts: set[str] = set()
    for card in sorted(source.cards(), key=lambda card: card.updated_ms):
        try:
            copied += (
                _hold_and_copy(source, target, card, artifacts) if holds else _copy(source, target, card, artifacts)
            )
            sessions += 1
        except SessionHeld:
            in_use.append(card.id)
        except StoreCorrupt as error:
            damaged.append(str(error))
    for scope in {card.scope for card in source.cards() if card.scope is not None}:
        known = target.scope(scope).notes()
        for note in source.scope(scope).notes():
            if note not in known:
                with suppress(NotFound):  # its session is in use, or damaged
                    target.scope(scope).keep(note)
    target.adopt(source.tombstones())
    return StoreMove(sessions, copied, len(artifacts), tuple(in_use), tuple(damaged))


def copy_store(
    place: Path | DatabaseAddress, target: str, *, keys: str | None = None, tenant: str | None = None
) -> Report:
    """Copy a store, or the sessions of a tenant, to a new SQLite file, verified: a whole file by SQLite's own backup, which does
    not wait for writers and needs no keys."""
    if isinstance(place, Path) and tenant is None:
        return back_up(place, target)
    if Path(target).exists():
        raise BadInput(f"{target} exists already; name a new file to copy to.")
    with open_store(place, keys=keys, tenant=tenant) as source:
        _check_keys(source)  # before anything is made
        with open_store(Path(target), keys=keys, tenant=tenant) as copy:
            done = move_sessions(source, copy, holds=False)
            report = examine_store(copy, target)
        lost = [Damage("the original", problem) for problem in done.damaged]
        return replace(report, damage=(*lost, *report.damage))


def examine_place(place: Path | DatabaseAddress, *, keys: str | None = None, tenant: str | None = None) -> Report:
    """Examine a store: a file as SQLite's pages have it, another one by its methods. Chains are proven without keys; with them,
    entries and artifacts are read too."""
    if isinstance(place, Path) and keys is None and tenant is None:
        return examine(place)
    if isinstance(place, Path) and (found := examine(place)).damage:
        return found  # it may not open
    with open_store(place, keys=keys, tenant=tenant) as store:
        return examine_store(store, str(place))


def _check_keys(source: Store) -> None:
    """Raise `StoreError` if a session is encrypted and the store was opened without keys."""
    for card in source.cards():
        with suppress(StoreCorrupt):  # told when it is copied
            check_readable(source, card.id)


def _hold_and_copy(source: Store, target: Store, card: SessionCard, artifacts: set[str]) -> int:
    holder = source.acquire(card.id)
    try:
        held = msgspec.structs.replace(source.cards(card.id)[0], updated_ms=card.updated_ms)
        return _copy(source, target, held, artifacts)
    finally:
        holder.release()


def _copy(source: Store, target: Store, card: SessionCard, artifacts: set[str]) -> int:
    """Bring the copy of a session up to this card, and return how many entries were written."""
    opened = target.load(card.id, secret=source.secret(card.id), scope=card.scope)
    try:
        if opened.entries > card.entries:
            raise BadInput(
                f"session {card.id} has {opened.entries:,} entries in the new store and {card.entries:,} in the old one: it was "
                "written there already. Delete it in one of them."
            )
        chain = _compared(source, target, card.id, opened.entries)
        read, kept = source.artifacts_for(card.id), target.artifacts_for(card.id)
        snapshot = source.snapshot(card.id)
        for rows in _batches(source.rows(card.id, after=opened.entries, upto=card.entries), snapshot and snapshot.seq):
            for sha256 in set(artifacts_named(rows)):
                place = kept.kept(sha256)[0].name
                if place not in artifacts:
                    with suppress(NotFound):  # reported by the doctor of either store
                        kept.put(read.read(sha256))
                        artifacts.add(place)
            for row in rows:
                chain = link(chain, row)
            view = snapshot.payload if snapshot and snapshot.seq == rows[-1].seq else None
            opened.writer.append([_draft(row) for row in rows], snapshot=view)
        if _chain(target, card.id) != chain:
            raise StoreCorrupt(f"session {card.id}", "its copy does not end in the same hash", "FILE")
    finally:
        opened.writer.release()
    target.entitle(card.id, card.title)
    target.tag(card.id, add=card.tags, remove=[tag for tag in target.cards(card.id)[0].tags if tag not in card.tags])
    target.backdate(card.id, created_ms=card.created_ms, updated_ms=card.updated_ms)
    return card.entries - opened.entries


def _compared(source: Store, target: Store, session: str, upto: int) -> bytes:
    """Return the chain of the part that was copied before; `BadInput` if it is another log."""
    chain = _chain(source, session, upto)
    if _chain(target, session) != chain:
        raise BadInput(f"session {session} is in both stores with other content; rename or delete one of them")
    return chain


def _chain(store: Store, session: str, upto: int | None = None) -> bytes:
    chain = seed(session)
    for row in store.rows(session, upto=upto):
        chain = link(chain, row)
    return chain


def _batches(rows: Iterator[Row], cut: int | None) -> Iterator[list[Row]]:
    """Yield the rows in batches; one of them ends at the place of the snapshot."""
    batch, size = list[Row](), 0
    for row in rows:
        batch.append(row)
        size += len(row.payload)
        if len(batch) >= BATCH_ROWS or size >= BATCH_BYTES or row.seq == cut:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _draft(row: Row) -> Draft:
    return Draft(row.id, row.parent, row.time_ms, row.author, row.payload)
