"""The deletion of sessions: with their children, their artifacts and their search indexes.

Artifacts belong to all sessions that name them, so the logs that stay are read before one is removed. That is the price of a
deletion that leaves nothing, and it is paid only for sessions that have artifacts.
"""

import time
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from foveal.stores.port import KeptArtifact, SessionCard, Store, Tombstone
from foveal.stores.references import artifacts_named
from foveal.values.errors import NotFound

_CHILD = "/"
"""The sign between the name of a session and that of its child."""


class Deletion(msgspec.Struct, frozen=True):
    """The outcome of a deletion."""

    sessions: tuple[str, ...]
    tombstones: tuple[Tombstone, ...]
    """One for each session, in the same order."""
    artifacts: int
    """Artifacts that were removed, because no other session names them."""


def with_children(store: Store, names: Iterable[str]) -> list[SessionCard]:
    """Return the cards of these sessions and of their children, each once; `NotFound` if a name is unknown."""
    cards = {card.id: card for card in store.cards()}
    found: dict[str, SessionCard] = {}
    for name in names:
        if name not in cards:
            raise NotFound(f"there is no session {name!r}; nothing was deleted")
        found |= {key: card for key, card in cards.items() if key == name or key.startswith(name + _CHILD)}
    return list(found.values())


def expired(store: Store, before_ms: int) -> list[SessionCard]:
    """Return the cards of the sessions that were last written before this time. A parent stays as long as a child of it does."""
    cards = store.cards()
    fresh = [card.id for card in cards if card.updated_ms >= before_ms]
    return [
        card
        for card in cards
        if card.updated_ms < before_ms and not any(name.startswith(card.id + _CHILD) for name in fresh)
    ]


def delete_sessions(store: Store, names: Sequence[str], *, takeover: bool = False) -> Deletion:
    """Delete these sessions, their children, and the artifacts that no other session names. All of them or none."""
    began_ms = time.time_ns() // 1_000_000
    doomed = [card.id for card in with_children(store, names)]
    artifacts = {one.name: one for name in doomed for one in _kept_for(store, name)}
    tombstones = store.delete(doomed, takeover=takeover)
    for card in store.cards() if artifacts else ():
        for one in _kept_for(store, card.id):
            artifacts.pop(one.name, None)
    removed = sum(one.remove(unless_put_after_ms=began_ms) for one in artifacts.values())
    return Deletion(tuple(doomed), tuple(tombstones), removed)


def _kept_for(store: Store, session: str) -> Iterator[KeptArtifact]:
    artifacts = store.artifacts_for(session)
    return (one for sha256 in set(artifacts_named(store.rows(session))) for one in artifacts.kept(sha256))
