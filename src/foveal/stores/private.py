"""The private face of a store: the sessions of one tenant, and everything in them under keys.

Any store can be below it. A session of the tenant `acme` has the name `@acme:NAME` there, and so have scopes: a name that is
asked for through this face always begins with the tenant's own, so that nothing of another tenant has a name here. With keys, a
session keeps its data key, wrapped, in the place of its secret: deleting the session destroys it. The hash chain is of the
encrypted bytes, and can be proven without a key.
"""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag

from foveal.stores.checks import (
    SECRET_BYTES,
    check_drafts,
    check_note,
    check_scope,
    check_secret,
    check_session,
    check_title,
)
from foveal.stores.data_key import DataKey, new_envelope, open_envelope
from foveal.stores.encrypted_artifacts import sealed_places
from foveal.stores.format import ENVELOPE
from foveal.stores.keys import REMEMBERED_S, Keys, RememberedKeys
from foveal.stores.port import (
    PAGE_CARDS,
    Artifacts,
    Draft,
    KeptArtifact,
    KeptNote,
    Opened,
    Row,
    Scope,
    SearchIndex,
    SessionCard,
    Snapshot,
    Store,
    StoreStats,
    Tombstone,
    Writer,
)
from foveal.stores.readable_cards import readable_cards, readable_pages
from foveal.stores.rows import UNREADABLE
from foveal.stores.session_artifacts import in_places
from foveal.stores.sqlite import MemoryIndex
from foveal.stores.tenants import artifacts_of, owners_of, tenant_prefix
from foveal.values.errors import IndexLeft, ListDamaged, NotFound, SessionChanged, SessionHeld, StoreCorrupt, StoreError

K = TypeVar("K")
T = TypeVar("T")

KEPT_KEYS = 4_096
"""Data keys that a handle remembers: a service for keys is not asked for each read."""
_TITLE = "\0title"
"""The name under which a title is encrypted: one that no note can have."""
KEPT_INDEXES = 64
"""Search indexes that are held in memory: under keys, none is written to a disk."""


class _KnownKey(NamedTuple):
    """The data key of a session, None if the session is not encrypted, and when it was unwrapped."""

    since_s: float
    key: DataKey | None


class PrivateStore:
    """One tenant's sessions of a store, or all of a store's, encrypted if there are keys."""

    def __init__(self, inner: Store, *, tenant: str | None = None, keys: Keys | None = None) -> None:
        self._inner = inner
        self._keys = None if keys is None else RememberedKeys(keys)
        self._tenant = tenant
        self._prefix = tenant_prefix(tenant)
        self.artifacts: Artifacts = self._artifacts_of([tenant], is_encrypted=self._keys is not None)
        self._gate = threading.Lock()
        """Held while one of the two memories below changes: any thread may read, and delete, any session."""
        self._data_keys: OrderedDict[str, _KnownKey] = OrderedDict()
        self._indexes: OrderedDict[tuple[str, object], SearchIndex] = OrderedDict()
        self._own_tombstones: list[Tombstone] = []

    def artifacts_for(self, session: str) -> Artifacts:
        """Return the artifacts of a session: encrypted if the session is, or is new and there are keys."""
        name = self._prefix + session
        owners = owners_of(session) if self._tenant is None else (self._tenant,)
        return self._artifacts_of(owners, is_encrypted=self._keys is not None and self._is_encrypted(name))

    def kept_artifacts(self) -> list[KeptArtifact]:
        return self._inner.kept_artifacts() if self._tenant is None else []

    def acquire(
        self, session: str, *, takeover: bool = False, secret: bytes | None = None, scope: str | None = None
    ) -> Writer:
        return self.load(session, takeover=takeover, secret=secret, scope=scope).writer

    def load(
        self, session: str, *, takeover: bool = False, secret: bytes | None = None, scope: str | None = None
    ) -> Opened:
        check_session(session)
        check_secret(secret)
        check_scope(scope)
        name = self._prefix + session
        given = secrets.token_bytes(SECRET_BYTES) if secret is None else secret
        inner_scope = None if scope is None else self._prefix + scope
        while True:
            # A new session needs a data key, which may be a call to a service; one that is there has its own.
            known = self._inner.secrets([name]).get(name) if self._keys is not None else None
            kept = known or (given if self._keys is None else new_envelope(self._keys, name.encode(), given))
            opened = self._inner.load(name, takeover=takeover, secret=kept, scope=inner_scope)
            if not known or opened.secret != known or opened.entries or opened.writer.epoch > 1:
                break
            # It was deleted in between, and made again by this call: under a key that something was under before.
            opened.writer.release()
            self._inner.delete([name])
        try:
            key = self._remember(name, opened.secret)
            if key is None:
                return opened
            rows = tuple(self._unsealed(name, key, row) for row in opened.rows)
            view = _view(key, opened.snapshot)
        except BaseException:
            opened.writer.release()
            raise
        return Opened(PrivateWriter(opened.writer, key), key.secret, opened.entries, view, rows)

    def secret(self, session: str) -> bytes:
        name = self._known(session)
        kept = self._inner.secret(name)
        key = self._remember(name, kept)
        return kept if key is None else key.secret

    def secrets(self, sessions: Sequence[str]) -> dict[str, bytes]:
        names = [self._prefix + session for session in sessions]
        found = dict[str, bytes]()
        for name, kept in self._inner.secrets(names).items():
            key = self._remember(name, kept)
            found[name.removeprefix(self._prefix)] = kept if key is None else key.secret
        return found

    def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
        name = self._known(session)
        return self._plain(name, self._inner.rows(name, after=after, upto=upto))

    def rows_at(self, session: str, seqs: Iterable[int]) -> dict[int, Row]:
        name = self._known(session)
        found = self._inner.rows_at(name, seqs)
        return dict(zip(found, self._plain(name, found.values()), strict=True))

    def find(self, session: str, prefix: str) -> list[Row]:
        name = self._known(session)
        return list(self._plain(name, self._inner.find(name, prefix)))

    def snapshot(self, session: str) -> Snapshot | None:
        name = self._known(session)
        found = self._inner.snapshot(name)
        key = self._data_key(name)
        return found if key is None else _view(key, found)

    def cards(self, session: str | None = None) -> list[SessionCard]:
        if session is not None:
            return self._cards(lambda: self._inner.cards(self._prefix + session)) if session else []
        if not self._prefix:
            return self._cards(self._inner.cards)
        found, damage = readable_pages(lambda after: self.page(after=after))
        found.sort(key=lambda card: -card.updated_ms)
        if damage:
            raise ListDamaged(damage, found)
        return found

    def page(
        self, *, prefix: str = "", after: str = "", limit: int = PAGE_CARDS, tag: str | None = None
    ) -> list[SessionCard]:
        start = self._prefix + after if after else ""
        return self._cards(lambda: self._inner.page(prefix=self._prefix + prefix, after=start, limit=limit, tag=tag))

    def entitle(self, session: str, title: str | None) -> None:
        """Give a session a title, which is encrypted like its entries."""
        check_title(title)
        name = self._known(session)
        if title is None:
            self._inner.entitle(name, None)
            return

        def entitle(key: DataKey | None) -> None:
            self._inner.entitle(name, title if key is None else key.seal_note(_TITLE, title))

        self._write_sealed(name, entitle)

    def tag(self, session: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> tuple[str, ...]:
        """Add and remove tags. They are in the clear, like names: the store lists by them."""
        return self._inner.tag(self._known(session), add=add, remove=remove)

    def index(self, session: str) -> SearchIndex:
        name = self._prefix + session
        inner = self._inner.index(name)
        if self._keys is None:
            return inner
        known = self._inner.cards(name) if session else []
        return self._memory_index(name, self._inner.secret(name) if known else b"")

    def index_of_all(self) -> SearchIndex:
        """Return the index over all sessions of the tenant, in memory: nothing of it is shared or written to a disk."""
        return self._memory_index("all\0", len(self._inner.tombstones()))

    def scope(self, name: str) -> "PrivateScope":
        check_scope(name)
        inner = self._inner.scope(self._prefix + name)
        has_keys = self._keys is not None
        index = (lambda: self._memory_index(f"scope\0{name}", inner.changes())) if has_keys else inner.index
        return PrivateScope(
            inner,
            cards=self._cards,
            name=self._known,
            unsealed=self._unsealed_note,
            write=self._write_sealed,
            index=index,
        )

    def delete(
        self, sessions: Sequence[str], *, takeover: bool = False, seen: Mapping[str, int] | None = None
    ) -> list[Tombstone]:
        names = [self._known(session) for session in sessions]
        known = None if seen is None else {self._prefix + session: entries for session, entries in seen.items()}
        try:
            gone = self._inner.delete(names, takeover=takeover, seen=known)
        except (SessionHeld, SessionChanged) as error:
            error.sessions = tuple(name.removeprefix(self._prefix) for name in error.sessions)
            raise
        except IndexLeft as error:
            self._own_tombstones += error.tombstones
            raise
        finally:  # a deletion may be done although it raises; what is forgotten of a session that is there is asked for again
            self._forget(names)
        self._own_tombstones += gone
        return gone

    def _forget(self, names: Sequence[str]) -> None:
        if self._keys is not None:
            for name in names:
                self._keys.forget(name.encode())
        with self._gate:
            for name in names:
                self._data_keys.pop(name, None)
            for known in [known for known in self._indexes if known[0] in names]:
                del self._indexes[known]

    def tombstones(self) -> list[Tombstone]:
        """Return the proofs of all deletions; of a tenant, those that were made through this handle: none of them has a name by
        which it could be told whose it is."""
        if self._tenant is None:
            return self._inner.tombstones()
        return sorted(self._own_tombstones, key=lambda one: one.deleted_ms)

    def tombstones_of(self, sessions: Sequence[str]) -> dict[str, list[Tombstone]]:
        found = self._inner.tombstones_of([self._prefix + session for session in sessions])
        return {name.removeprefix(self._prefix): tombstones for name, tombstones in found.items()}

    def find_strays(self, prefix: str = "") -> list[StoreCorrupt]:
        """Return the damage of entries that no reader meets; none from a store that has no way to look for it."""
        find: Callable[[str], list[StoreCorrupt]] | None = getattr(self._inner, "find_strays", None)
        return [] if find is None else find(self._prefix + prefix)

    def adopt(self, tombstones: Sequence[Tombstone]) -> None:
        self._inner.adopt(tombstones)
        known = set(self._own_tombstones)
        self._own_tombstones += [one for one in tombstones if one not in known]

    def backdate(self, session: str, *, created_ms: int, updated_ms: int) -> None:
        self._inner.backdate(self._known(session), created_ms=created_ms, updated_ms=updated_ms)

    def stats(self) -> StoreStats:
        """Return the size of the store; of a tenant, its sessions and the bytes of their logs, which are read for it."""
        if self._tenant is None:
            return self._inner.stats()
        cards = self.cards()
        size = sum(len(row.payload) for card in cards for row in self._inner.rows(self._prefix + card.id))
        held = sum(card.holder is not None for card in cards)
        entries = sum(card.entries for card in cards)
        return StoreStats(len(cards), held, entries, len(self.tombstones()), {"log": size})

    def vacuum(self) -> None:
        self._inner.vacuum()

    def close(self) -> None:
        with self._gate:
            self._data_keys.clear()
            self._indexes.clear()
        if self._keys is not None:
            self._keys.forget()
        self._inner.close()

    def __enter__(self) -> "PrivateStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _known(self, session: str) -> str:
        """Return the name that a session of this tenant has in the store; `NotFound` if none can have it."""
        if not session:
            raise NotFound("there is no session ''")
        return self._prefix + session

    def _artifacts_of(self, owners: Sequence[str | None], *, is_encrypted: bool) -> Artifacts:
        """Return the artifacts that a session can name if these own them: the first one owns those that are put."""
        shelf = self._inner.artifacts
        plain = [artifacts_of(shelf, owner) for owner in owners]
        if self._keys is None:
            return in_places(plain[0], plain)
        sealed = [place for owner in owners for place in sealed_places(shelf, owner, self._keys)]
        return in_places(sealed[0], sealed) if is_encrypted else in_places(plain[0], [*sealed, *plain])

    def _is_encrypted(self, name: str) -> bool:
        if known := self._remembered(name):
            return known.key is not None
        try:
            return self._inner.secret(name).startswith(ENVELOPE)
        except NotFound:
            return True  # it will be, when it is made

    def _card(self, card: SessionCard) -> SessionCard:
        scope = card.scope and card.scope.removeprefix(self._prefix)
        name, title = card.id.removeprefix(self._prefix), self._title(card)
        return msgspec.structs.replace(card, id=name, scope=scope, title=title)

    def _cards(self, listed: Callable[[], Sequence[SessionCard]]) -> list[SessionCard]:
        """Return the cards of a list as this face shows them. The keys of all titles are asked for at once."""
        cards, damage = readable_cards(listed)
        titled = [card.id for card in cards if card.title is not None and self._remembered(card.id) is None]
        for name, kept in self._inner.secrets(titled).items() if self._keys and titled else ():
            with suppress(StoreError):  # told in the place of the title
                self._remember(name, kept)
        shown = [self._card(card) for card in cards]
        if damage:
            raise ListDamaged({name.removeprefix(self._prefix): error for name, error in damage.items()}, shown)
        return shown

    def _title(self, card: SessionCard) -> str | None:
        return None if card.title is None else self._unsealed_note(card.id, _TITLE, card.title)

    def _unsealed_note(self, name: str, key: str, text: str) -> str:
        """Return a title, or the text of a note, in the clear. One that cannot be opened is told so in its place: it must keep
        nobody from a list of many."""
        for is_fresh in (False, True):  # the session may have been deleted and made again since its key was read
            try:
                data_key = self._remember(name, self._inner.secret(name)) if is_fresh else self._data_key(name)
                return text if data_key is None else data_key.unseal_note(key, text)
            except (InvalidTag, ValueError, StoreError):
                continue
        return UNREADABLE

    def _write_sealed(self, name: str, write: Callable[[DataKey | None], None]) -> None:
        """Write something under the key that the session has now, and again if it was deleted and made again meanwhile."""
        if self._keys is None:
            write(None)
            return
        kept: bytes | None = None
        while kept != (now := self._inner.secret(name)):
            write(self._remember(name, now))
            kept = now

    def _remembered(self, name: str) -> _KnownKey | None:
        """Return the data key of a session that was unwrapped a while ago at most; None if it is to be asked for."""
        known = self._data_keys.get(name)
        return known if known is not None and time.monotonic() - known.since_s < REMEMBERED_S else None

    def _remember(self, name: str, kept: bytes) -> DataKey | None:
        """Return the data key in what the store keeps as a session's secret; None if the session is not encrypted."""
        key = None if self._keys is None else open_envelope(self._keys, name.encode(), kept)
        with self._gate:
            return _keep(self._data_keys, name, _KnownKey(time.monotonic(), key), KEPT_KEYS).key

    def _data_key(self, name: str) -> DataKey | None:
        if self._keys is None:
            return None
        if known := self._remembered(name):
            return known.key
        return self._remember(name, self._inner.secret(name))

    def _plain(self, name: str, rows: Iterable[Row]) -> Iterator[Row]:
        key = self._data_key(name)
        return iter(rows) if key is None else (self._unsealed(name, key, row) for row in rows)

    def _unsealed(self, name: str, key: DataKey, row: Row) -> Row:
        try:
            payload = key.unseal(row.id, row.payload)
        except InvalidTag:
            # The session may have been deleted and made again since its key was read.
            newer = self._remember(name, self._inner.secret(name))
            try:
                payload = row.payload if newer is None else newer.unseal(row.id, row.payload)
            except InvalidTag:
                raise StoreCorrupt(f"session {name}, entry {row.seq}", "it is not under the session's key") from None
        return msgspec.structs.replace(row, payload=payload)

    def _memory_index(self, name: str, version: object) -> SearchIndex:
        """Return the index in memory of a name, a new one if it is of another version."""
        with self._gate:
            kept = self._indexes.get((name, version))
            return _keep(self._indexes, (name, version), kept or MemoryIndex(), KEPT_INDEXES)


class PrivateWriter:
    """The right to append to one encrypted session."""

    def __init__(self, inner: Writer, key: DataKey) -> None:
        self._inner, self._key = inner, key

    @property
    def epoch(self) -> int:
        return self._inner.epoch

    def append(self, drafts: Sequence[Draft], *, snapshot: bytes | None = None) -> list[int]:
        """Write the drafts together, each payload encrypted; a retry gives the same bytes."""
        check_drafts(drafts)
        sealed = [msgspec.structs.replace(one, payload=self._key.seal(one.id, one.payload)) for one in drafts]
        return self._inner.append(sealed, snapshot=None if snapshot is None else self._key.seal_view(snapshot))

    def release(self) -> None:
        self._inner.release()


class PrivateScope:
    """One scope of a tenant, or of a store that has keys."""

    def __init__(
        self,
        inner: Scope,
        *,
        cards: Callable[[Callable[[], Sequence[SessionCard]]], list[SessionCard]],
        name: Callable[[str], str],
        unsealed: Callable[[str, str, str], str],
        write: Callable[[str, Callable[[DataKey | None], None]], None],
        index: Callable[[], SearchIndex],
    ) -> None:
        self._inner, self._cards, self._name, self._index = inner, cards, name, index
        self._unsealed, self._write = unsealed, write

    def sessions(self, *, since_ms: int | None = None) -> list[SessionCard]:
        return self._cards(lambda: self._inner.sessions(since_ms=since_ms))

    def index(self) -> SearchIndex:
        return self._index()

    def notes(self) -> list[KeptNote]:
        return [self._plain(note) for note in self._inner.notes()]

    def keep(self, note: KeptNote) -> None:
        check_note(note)
        session = self._name(note.session)

        def keep(key: DataKey | None) -> None:
            text = note.text if key is None else key.seal_note(note.key, note.text)
            self._inner.keep(msgspec.structs.replace(note, session=session, text=text))

        self._write(session, keep)

    def forget(self, key: str) -> bool:
        return self._inner.forget(key)

    def changes(self) -> int:
        return self._inner.changes()

    def _plain(self, note: KeptNote) -> KeptNote:
        session = note.session[len(self._name("x")) - 1 :]
        return msgspec.structs.replace(note, session=session, text=self._unsealed(note.session, note.key, note.text))


def _view(key: DataKey, snapshot: Snapshot | None) -> Snapshot | None:
    """Return the snapshot; None if it cannot be read: it is made again."""
    try:
        return snapshot and msgspec.structs.replace(snapshot, payload=key.unseal_view(snapshot.payload))
    except InvalidTag:
        return None


def _keep(kept: OrderedDict[K, T], name: K, value: T, most: int) -> T:
    """Put a value at the newer end of a bounded memory, and return it."""
    kept[name] = value
    kept.move_to_end(name)
    while len(kept) > most:
        kept.popitem(last=False)
    return value
