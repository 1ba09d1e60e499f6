"""The examination of any store by the methods of the port: every row, snapshot, artifact and note is read and proven."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from foveal.stores.format import ENCRYPTED, ENVELOPE
from foveal.stores.port import Artifacts, Row, SessionCard, Store
from foveal.stores.readable_cards import readable_cards
from foveal.stores.references import artifacts_named
from foveal.values.codec import decode
from foveal.values.errors import (
    BadEntry,
    BadInput,
    KeyMissing,
    NotFound,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFailed,
    StoreFull,
    StoreUnavailable,
)

OF_THE_WHOLE_STORE = (StoreBusy, StoreFailed, StoreFull, StoreUnavailable)
"""Errors that the next session would meet as well: they end a run, which can be started again."""


@dataclass(frozen=True, slots=True)
class Damage:
    place: str
    what: str

    def __str__(self) -> str:
        return f"{self.place}: {self.what}"


@dataclass(frozen=True, slots=True)
class Report:
    """The counts of everything examined (by `salvage`: of everything copied), and the damage found."""

    path: str
    sessions: int
    entries: int
    artifacts: int
    damage: tuple[Damage, ...]
    names: tuple[str, ...] = ()
    """Names of the sessions, as far as they can be read."""
    scopes: tuple[str, ...] = ()
    """Names of their scopes."""
    encrypted: int = 0
    """Sessions whose chains are proven, and whose entries and artifacts only their keys could read."""
    unread: tuple[str, ...] = ()
    """Encrypted sessions of which nothing was read, because the keys at hand are others, each with the reason."""


def examine_store(store: Store, place: str) -> Report:
    """Read a store to its end, damaged rows passed over, and return the counts of whatever is whole. Nothing is changed. Sessions
    that are deleted meanwhile are left out; those whose keys are not at hand are named, and the others are read."""
    cards, damaged = readable_cards(store.cards)
    damage = [Damage(error.place, error.what) for error in damaged.values()]
    names = [name for name in damaged if name not in {card.id for card in cards}]
    unread = list[str]()
    entries = encrypted = 0
    artifacts_of = dict[tuple[str, ...], dict[str, _NamedArtifact]]()
    for card in cards:
        try:
            secret = store.secret(card.id)
            artifacts = store.artifacts_for(card.id)
            for row in _whole_rows(store, card.id, card.entries, damage):
                entries += 1
                for sha256 in artifacts_named([row]):
                    namers = artifacts_of.setdefault(tuple(one.name for one in artifacts.kept(sha256)), {})
                    namers.setdefault(card.id, _NamedArtifact(card, row.seq, artifacts, sha256))
        except NotFound:
            continue
        except OF_THE_WHOLE_STORE:
            raise
        except KeyMissing as error:
            unread.append(f"session {card.id}: {error}")
        except StoreError as error:
            damage.append(_damage(card.id, error))
        else:
            encrypted += secret.startswith(ENVELOPE)
        names.append(card.id)
    whole = 0
    for namers in artifacts_of.values():
        found = _proven(store, namers.values())
        whole += found is True
        damage += [found] if isinstance(found, Damage) else []
    find_strays: Callable[[], list[StoreCorrupt]] | None = getattr(store, "find_strays", None)
    if find_strays is not None:  # a store that has no list of what it holds but its tables
        damage += [Damage(error.place, error.what) for error in find_strays()]
    scopes = sorted({card.scope for card in cards if card.scope is not None})
    for check in (*(store.scope(scope).notes for scope in scopes), store.tombstones):
        try:
            check()
        except StoreCorrupt as error:
            damage.append(Damage(error.place, error.what))
    told = tuple(damage), tuple(names), tuple(scopes), encrypted, tuple(unread)
    return Report(place, len(names), entries, whole, *told)


def _damage(session: str, error: StoreError) -> Damage:
    """Return the damage of a session that cannot be read at all: its log's, or that of its key, which was changed."""
    if isinstance(error, StoreCorrupt):
        return Damage(error.place, error.what)
    return Damage(f"session {session}", f"it cannot be read: {error}")


@dataclass(frozen=True, slots=True)
class _NamedArtifact:
    """An artifact, and the first entry of a session that names it."""

    card: SessionCard
    seq: int
    artifacts: Artifacts
    sha256: str


def _proven(store: Store, namers: Iterable[_NamedArtifact]) -> Damage | bool:
    """Return True if an artifact is whole, and False if it went with all sessions that named it."""
    for named in namers:
        try:
            for _ in named.artifacts.read(named.sha256):
                pass
        except OF_THE_WHOLE_STORE:
            raise
        except (BadInput, StoreError) as error:
            cards, _ = readable_cards(lambda named=named: store.cards(named.card.id))
            if any(now.created_ms == named.card.created_ms for now in cards):
                where = f"session {named.card.id}, entry {named.seq}"
                return Damage(where, f"the artifact that it names is damaged or missing: {error}")
        else:
            return True
    return False


def _whole_rows(store: Store, session: str, last: int, damage: list[Damage]) -> Iterator[Row]:
    """Yield the rows of a session that are whole and are entries, and note the others. `NotFound` if it was deleted."""
    lost: dict[str, str] = {}
    after = 0
    while after < last:
        try:
            for row in store.rows(session, after=after, upto=last):
                after = row.seq
                try:
                    if not row.payload.startswith(ENCRYPTED):  # proven by its hash; only its keys could say more
                        decode(row.payload)
                except BadEntry as error:
                    lost[f"session {session}, entry {row.seq}"] = str(error)
                    continue
                yield row
            break  # a session that was deleted and made again meanwhile may end here
        except StoreCorrupt as error:
            after += 1
            lost[error.place] = error.what  # a row after a missing one cannot be proven: the same place again
    damage += [Damage(place, what) for place, what in lost.items()]
