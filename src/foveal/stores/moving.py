"""Moving all sessions of a store to another one, of the same kind or not: resumable, and verified by the hash chain.

A session is held in both stores while it is copied, so that nobody writes it in the meantime; one that is in use is left for the
next run. Its log is continued where the last run stopped, after the copied part was read and compared, and is done when both
chains end in the same hash. One session that cannot be copied does not keep the others: each problem is in the outcome.

In a store that cannot be written no session can be held: those that nobody has are copied as they are at the moment, and the
outcome names them.

A session that was deleted stays deleted: one that the new store has a tombstone of is not copied again. A copy whose original
was deleted is told and left, because it may be the only one: whoever moves the store decides.
"""

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import msgspec

from foveal.stores import open_store
from foveal.stores.chain import link, seed
from foveal.stores.checks import SECRET_BYTES
from foveal.stores.examination import OF_THE_WHOLE_STORE, Damage, Report, examine_store
from foveal.stores.format import ENVELOPE
from foveal.stores.place import DatabaseAddress, find_file
from foveal.stores.port import Artifacts, Draft, Row, SessionCard, Store, Tombstone, Writer
from foveal.stores.readable_cards import readable_cards
from foveal.stores.references import artifacts_named
from foveal.stores.rows import check_readable
from foveal.stores.sqlite.backup import back_up
from foveal.stores.sqlite.doctor import examine
from foveal.stores.sqlite.new_file import new_store_file
from foveal.values.errors import (
    BadInput,
    NotFound,
    SessionHeld,
    StoreCorrupt,
    StoreError,
    StoreReadOnly,
)

BATCH_ROWS = 256
BATCH_BYTES = 4 << 20


class StoreMove(msgspec.Struct, frozen=True):
    """The outcome of moving a store."""

    sessions: int
    """Sessions that are whole in the new store, with their artifacts, and proven to be so."""
    copied: int
    """Entries that were written by this run."""
    artifacts: int
    """Artifacts that were written by this run."""
    in_use: tuple[str, ...]
    """Sessions that somebody writes; run it again when they are closed."""
    damaged: tuple[str, ...]
    """Sessions that cannot be read to their end, each with the reason."""
    left: tuple[str, ...] = ()
    """Sessions, titles and notes that the new store cannot take as they are, each with the reason."""
    missing: tuple[str, ...] = ()
    """Artifacts that a copied log names and that cannot be read in the old store, each with its session and the reason."""
    deleted: tuple[str, ...] = ()
    """Sessions that were deleted in the new store after they were copied: they stay deleted."""
    outlived: tuple[str, ...] = ()
    """Sessions that were deleted in the old store after they were copied: the new store still has them, and no tombstone."""

    forgotten: tuple[str, ...] = ()
    """Notes that the new store has not got, where notes of their scopes were forgotten since they were copied: they stay so."""
    unheld: tuple[str, ...] = ()
    """Sessions that were copied as they were at the moment, because the old store cannot be written, and so not be held."""

    @property
    def is_whole(self) -> bool:
        """Whether nothing is left to be done."""
        return not (self.in_use or self.damaged or self.left or self.missing or self.outlived)


def are_same(place: Path | DatabaseAddress, target: Path | DatabaseAddress) -> bool:
    """Return whether the store of a place, which is there, is the one of another place, however that is written."""
    if isinstance(place, Path) and isinstance(target, Path):
        return target.exists() and place.samefile(target)
    if isinstance(place, DatabaseAddress) and isinstance(target, DatabaseAddress):
        return import_module("foveal.stores.postgres.store").are_same(place.url, target.url)
    return False


def move_sessions(source: Store, target: Store, *, holds: bool = True) -> StoreMove:
    """Copy all sessions, artifacts, notes and tombstones of a store to another. Nothing is removed from the source.

    With `holds=False`, sessions that somebody writes are copied too, as they are at this moment. `StoreError` if one is encrypted
    and the source has no keys: which artifacts it names could not be told.
    """
    _check_keys(source)
    move = _Move(source, target)
    cards, _ = readable_cards(source.cards)
    for card in sorted(cards, key=lambda card: card.updated_ms):
        move.bring(card, holds=holds)
    cards, _ = readable_cards(source.cards)
    for scope in sorted({card.scope for card in cards if card.scope is not None}):
        move.bring_notes(scope)
    move.bring_tombstones()
    return move.outcome()


def copy_store(
    place: Path | DatabaseAddress, target: str, *, keys: str | None = None, tenant: str | None = None
) -> Report:
    """Copy a store, or the sessions of a tenant, to a new SQLite file, verified: a whole file by SQLite's own backup, which does
    not wait for writers and needs no keys."""
    target = str(find_file(target))
    if isinstance(place, Path) and tenant is None:
        return back_up(place, target)
    with (
        new_store_file(target) as file,
        open_store(place, keys=keys, tenant=tenant, may_be_read_only=True, must_exist=True) as source,
    ):
        _check_keys(source)  # before anything is made
        with open_store(file, keys=keys, tenant=tenant) as copy:
            done = move_sessions(source, copy, holds=False)
    with open_store(Path(target), keys=keys, tenant=tenant) as copy:
        report = examine_store(copy, target)
    lost = [Damage("the original", problem) for problem in (*done.damaged, *done.left)]
    return replace(report, damage=(*lost, *report.damage))


def examine_place(place: Path | DatabaseAddress, *, keys: str | None = None, tenant: str | None = None) -> Report:
    """Examine a store: a file as SQLite's pages have it, another one by its methods. Chains are proven without keys; with them,
    entries and artifacts are read too. A tenant is told that the file is damaged, and no more of the sessions of others."""
    if isinstance(place, Path) and keys is None and tenant is None:
        return examine(place)
    found = examine(place) if isinstance(place, Path) else None
    if found is None or not found.damage:
        with open_store(place, keys=keys, tenant=tenant, may_be_read_only=True, must_exist=True) as store:
            return examine_store(store, str(place))
    return found if tenant is None else _examined_for(tenant, place, keys)  # without a tenant: it may not open


def _examined_for(tenant: str, place: Path | DatabaseAddress, keys: str | None) -> Report:
    """Examine the sessions of a tenant in a damaged file, as far as it can be read."""
    what = "the file is damaged, in sessions of this tenant or elsewhere; `foveal doctor` without a tenant says where"
    try:
        with open_store(place, keys=keys, tenant=tenant, may_be_read_only=True, must_exist=True) as store:
            own = examine_store(store, str(place))
    except StoreCorrupt:
        own = Report(str(place), 0, 0, 0, ())
        what += ". It cannot be read as it is"
    return replace(own, damage=(Damage(str(place), what), *own.damage))


def _check_keys(source: Store) -> None:
    """Raise `StoreError` if a session is encrypted and the store was opened without keys."""
    for card in readable_cards(source.cards)[0]:
        try:
            secret = source.secret(card.id)
        except OF_THE_WHOLE_STORE:
            raise
        except (BadInput, StoreError):
            continue  # deleted, damaged or under a lost key, which is told when it is copied
        if secret.startswith(ENVELOPE):
            check_readable(source, card.id)


class _Move:
    """A move under way: its two stores, and the outcome so far."""

    def __init__(self, source: Store, target: Store) -> None:
        self._source, self._target = source, target
        self._sessions = self._copied = 0
        self._artifacts: set[str] = set()
        self._missing: dict[tuple[str, str], str] = {}
        """By the session and the name of the artifact."""
        self._in_use, self._damaged, self._left = list[str](), list[str](), list[str]()
        self._deleted, self._outlived, self._unheld = list[str](), list[str](), list[str]()
        cards, damage = readable_cards(source.cards)
        names = [card.id for card in cards]
        self._damaged += map(str, damage.values())
        self._unlabelled = frozenset(damage)
        """Sessions whose labels cannot be read, if anything can: those of their copies stay."""
        self._forgotten = list[str]()
        self._before = dict[str, int]()
        """Sessions of which this run copies something, with the time of the last use of their copies before; 0 for new ones."""
        theirs = self._tombstones_of(source, names)
        self._tombstones = {
            name: [one for one in found if one not in theirs.get(name, ())]
            for name, found in self._tombstones_of(target, names).items()
        }
        """Those that only the new store has, by the name of the session."""

    def outcome(self) -> StoreMove:
        told = (
            *(self._in_use, self._damaged, self._left, self._missing.values(), self._deleted, self._outlived),
            *(self._forgotten, self._unheld),
        )
        return StoreMove(self._sessions, self._copied, len(self._artifacts), *map(tuple, told))

    def bring(self, card: SessionCard, *, holds: bool) -> None:
        """Copy a session, or note why it is not copied."""
        missing = len(self._missing)
        try:
            if self._was_deleted(card):
                self._deleted.append(card.id)
                return
            if holds:
                self._hold_and_copy(card)
            else:
                self._copy(card)
            self._sessions += len(self._missing) == missing
        except OF_THE_WHOLE_STORE:
            raise
        except SessionHeld:
            self._in_use.append(card.id)
        except StoreCorrupt as error:
            self._damaged.append(str(error))
        except (BadInput, StoreError) as error:
            if readable_cards(lambda: self._source.cards(card.id))[0]:  # otherwise it was deleted in the meantime
                self._left.append(f"session {card.id}: {error}")

    def bring_notes(self, scope: str) -> None:
        """Copy the notes of a scope; one that was replaced or forgotten in the new store stays so.

        A store keeps no proof that a note was forgotten. It counts its changes: if there were no others than that each note was
        kept, none was. Otherwise, only what is new in a session that has gone on is known to be new.
        """
        target = self._target.scope(scope)
        try:
            known = {note.key: note for note in target.notes()}
            is_untouched = target.changes() <= len(known)
            notes = self._source.scope(scope).notes()
        except StoreCorrupt as error:
            self._damaged.append(str(error))
            return
        for note in notes:
            other = known.get(note.key)
            is_new = is_untouched or note.time_ms > self._before.get(note.session, note.time_ms)
            if other is None and not is_new:
                self._forgotten.append(f"scope {scope}: {note.key}")
            elif other is None or (other != note and other.time_ms <= note.time_ms):
                try:
                    target.keep(note)
                except NotFound:
                    continue  # its session was not copied, which is told
                except BadInput as error:
                    self._left.append(f"scope {scope}: {error}")

    def bring_tombstones(self) -> None:
        """Copy the tombstones, but for those of sessions that the new store still has."""
        cards, damage = readable_cards(self._source.cards)
        here = {*damage, *(card.id for card in cards)}  # made or imported again, if they were deleted
        cards, damage = readable_cards(self._target.cards)
        copies = {card.id: card for card in cards if card.id not in here}
        for error in damage.values():
            self._note_damage(error)
        found = self._tombstones_of(self._source, [*here, *copies])
        held_back = set[Tombstone]()
        for name, card in copies.items():
            of_copy = [one for one in found.get(name, ()) if _is_of(self._target, card, one)]
            held_back.update(of_copy)
            if of_copy:
                self._outlived.append(name)
        # A tenant's own list has none that another handle made: those of the names that are known are asked for.
        known = (*self._all_tombstones(self._source), *(one for each in found.values() for one in each))
        self._target.adopt([one for one in dict.fromkeys(known) if one not in held_back])

    def _tombstones_of(self, store: Store, names: Sequence[str]) -> dict[str, list[Tombstone]]:
        """Return the tombstones of these names in a store; none if one of them is damaged, which is noted."""
        try:
            return store.tombstones_of(names)
        except StoreCorrupt as error:
            self._note_damage(error)
            return {}

    def _all_tombstones(self, store: Store) -> list[Tombstone]:
        try:
            return store.tombstones()
        except StoreCorrupt as error:
            self._note_damage(error)
            return []

    def _note_damage(self, error: StoreCorrupt) -> None:
        if str(error) not in self._damaged:
            self._damaged.append(str(error))

    def _was_deleted(self, card: SessionCard) -> bool:
        """Return whether the new store had a copy of this session and deleted it."""
        found = self._tombstones.get(card.id, [])
        return any(_is_of(self._source, card, one) for one in found) and not self._target.cards(card.id)

    def _hold_and_copy(self, card: SessionCard) -> None:
        try:
            holder = _hold(self._source, card.id)
        except StoreReadOnly:
            if card.holder is not None:
                raise SessionHeld(f"session {card.id} is held by {card.holder}") from None
            self._copy(card)
            self._unheld.append(card.id)
            return
        try:
            held, damage = readable_cards(lambda: self._source.cards(card.id))
            if not held:
                raise damage[card.id]
            self._copy(msgspec.structs.replace(held[0], updated_ms=card.updated_ms))
        finally:
            holder.release()

    def _copy(self, card: SessionCard) -> None:
        """Bring the copy of a session up to this card. One that went on in the new store is left as it is there."""
        source, target = self._source, self._target
        known = next(iter(target.cards(card.id)), None)
        chain = self._compared(card, known)
        if known is not None and known.entries > card.entries:
            return
        if known is None or known.entries < card.entries or known.scope != card.scope:
            secret = source.secret(card.id)
            self._before[card.id] = 0 if known is None else known.updated_ms
            if known is None:  # its tombstone is known by this time, should it be deleted before it is whole
                target.acquire(card.id, secret=secret, scope=card.scope).release()
                target.backdate(card.id, created_ms=card.created_ms, updated_ms=card.updated_ms)
            opened = target.load(card.id, secret=secret, scope=card.scope)
            try:
                if opened.entries != (0 if known is None else known.entries):
                    raise SessionHeld(f"session {card.id} was written in the new store while it was compared")
                self._continue(card, opened.entries, chain, opened.writer)
            except NotFound:
                is_gone = not readable_cards(lambda: source.cards(card.id))[0]
                if opened.entries < card.entries and is_gone:  # half a log of a session that is gone
                    target.delete([card.id], takeover=True)
                raise
            finally:
                opened.writer.release()
            known = target.cards(card.id)[0]
        has_labels = card.id not in self._unlabelled
        if has_labels and known.tags != card.tags:
            target.tag(card.id, add=card.tags, remove=[tag for tag in known.tags if tag not in card.tags])
        if (known.created_ms, known.updated_ms) != (card.created_ms, card.updated_ms):
            target.backdate(card.id, created_ms=card.created_ms, updated_ms=card.updated_ms)
        if has_labels and known.title != card.title:
            target.entitle(card.id, card.title)

    def _compared(self, card: SessionCard, known: SessionCard | None) -> bytes:
        """Return the chain of the part that was copied before, whose artifacts are looked after; `BadInput` if it is another
        log."""
        upto = 0 if known is None else min(known.entries, card.entries)
        chain = seed(card.id)
        for row in self._source.rows(card.id, upto=upto) if upto else ():
            chain = link(chain, row)
            self._bring_artifacts(card, [row], are_named=True)
        if known is not None and (
            self._target.secret(card.id) != self._source.secret(card.id) or _chain(self._target, card.id, upto) != chain
        ):
            raise BadInput(
                f"the new store has another session of this name, with {known.entries:,} entries of its own; the old one has "
                f"{card.entries:,}. Delete one of them, or export it and import it under another name."
            )
        return chain

    def _continue(self, card: SessionCard, after: int, chain: bytes, writer: Writer) -> None:
        """Write the entries that the copy lacks, and prove that it ends as the original does."""
        snapshot = self._source.snapshot(card.id)
        for rows in _batches(self._source.rows(card.id, after=after, upto=card.entries), snapshot and snapshot.seq):
            self._bring_artifacts(card, rows, are_named=False)
            for row in rows:
                chain = link(chain, row)
            view = snapshot.payload if snapshot and snapshot.seq == rows[-1].seq else None
            writer.append([_draft(row) for row in rows], snapshot=view)
            self._copied += len(rows)
        if _chain(self._target, card.id) != chain:
            raise StoreCorrupt(f"session {card.id}", "its copy does not end in the same hash", "FILE")

    def _bring_artifacts(self, card: SessionCard, rows: list[Row], *, are_named: bool) -> None:
        """Copy the artifacts that these rows name, each once; those that a log of the new store names already, only if they are
        not there."""
        if not (named := dict.fromkeys(artifacts_named(rows))):
            return
        read, kept = self._source.artifacts_for(card.id), self._target.artifacts_for(card.id)
        for sha256 in named:
            try:
                place = kept.kept(sha256)[0].name
                if place in self._artifacts or (are_named and _is_there(kept, sha256)):
                    continue
                kept.put(read.read(sha256))
                self._artifacts.add(place)
            except OF_THE_WHOLE_STORE:
                raise
            except (BadInput, StoreError) as error:
                self._missing[card.id, sha256] = f"session {card.id}, artifact {sha256}: {error}"


def _hold(store: Store, session: str) -> Writer:
    """Become the writer of a session that is there; `NotFound` if it was deleted."""
    mark = secrets.token_bytes(SECRET_BYTES)
    if readable_cards(lambda: store.cards(session))[0]:
        writer = store.acquire(session, secret=mark)
        if store.secret(session) != mark:
            return writer
        store.delete([session], takeover=True)  # deleted between the two calls, and made by the second one
    raise NotFound(f"session {session!r} was deleted while the store was moved")


def _is_of(store: Store, card: SessionCard, tombstone: Tombstone) -> bool:
    """Return whether a session is the one that the tombstone of its name is of: a copy has the same time of creation, or a copy
    of a part of its log the same hash there."""
    if tombstone.created_ms == card.created_ms:
        return True
    is_part = 0 < tombstone.entries <= card.entries
    return is_part and _chain(store, card.id, tombstone.entries).hex() == tombstone.chain


def _is_there(artifacts: Artifacts, sha256: str) -> bool:
    try:
        artifacts.span(sha256, 0, 0)
    except NotFound:
        return False
    return True


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
