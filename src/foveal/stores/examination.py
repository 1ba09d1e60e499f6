"""The examination of any store by the methods of the port: every row, snapshot, artifact and note is read and proven."""

from collections.abc import Iterator
from dataclasses import dataclass

from foveal.stores.format import ENCRYPTED, ENVELOPE
from foveal.stores.port import Artifacts, Row, Store
from foveal.stores.references import artifacts_named
from foveal.values.codec import decode
from foveal.values.errors import BadEntry, BadInput, StoreCorrupt, StoreError


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


def examine_store(store: Store, place: str) -> Report:
    """Read a store to its end, damaged rows passed over, and return the counts of whatever is whole. Nothing is changed."""
    cards = store.cards()
    entries, damage, named = 0, list[Damage](), dict[tuple[str, ...], tuple[Artifacts, str, str]]()
    for card in cards:
        artifacts = store.artifacts_for(card.id)
        for row in _whole_rows(store, card.id, card.entries, damage):
            entries += 1
            for sha256 in artifacts_named([row]):
                where = f"session {card.id}, entry {row.seq}"
                named.setdefault(tuple(one.name for one in artifacts.kept(sha256)), (artifacts, sha256, where))
    whole = 0
    for artifacts, sha256, where in named.values():
        try:
            for _ in artifacts.read(sha256):
                pass
            whole += 1
        except (BadInput, StoreError) as error:
            damage.append(Damage(where, f"the artifact that it names is damaged or missing: {error}"))
    scopes = sorted({card.scope for card in cards if card.scope is not None})
    for check in (*(store.scope(scope).notes for scope in scopes), store.tombstones):
        try:
            check()
        except StoreCorrupt as error:
            damage.append(Damage(error.place, error.what))
    names = tuple(card.id for card in cards)
    encrypted = sum(store.secret(name).startswith(ENVELOPE) for name in names)
    return Report(place, len(cards), entries, whole, tuple(damage), names, tuple(scopes), encrypted)


def _whole_rows(store: Store, session: str, last: int, damage: list[Damage]) -> Iterator[Row]:
    """Yield the rows of a session that are whole and are entries, and note the others."""
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
        except StoreCorrupt as error:
            after += 1
            lost[error.place] = error.what  # a row after a missing one cannot be proven: the same place again
    damage += [Damage(place, what) for place, what in lost.items()]
