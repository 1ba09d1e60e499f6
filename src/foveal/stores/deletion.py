"""The deletion of sessions: with their children, their artifacts and their search indexes.

Artifacts belong to all sessions that name them, so the logs that stay are read before one is removed. That is the price of a
deletion that leaves nothing, and it is paid only for sessions that have artifacts.

A session may be written, and be given children, until the moment at which it is deleted. So the store compares it with what was
seen of it, and deletes nothing if it has changed: then it is looked at again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from foveal.stores.port import SessionCard, Store, Tombstone
from foveal.stores.readable_cards import readable_cards, readable_pages
from foveal.stores.unnamed_artifacts import NamedArtifacts, Sweep, remove_unfinished, remove_unnamed
from foveal.values.errors import IndexLeft, NotFound, SessionChanged, SessionHeld, StoreError

_CHILD = "/"
"""The sign between the name of a session and that of its child."""
MOST_LOOKS = 8
"""Looks at sessions that somebody goes on writing, before they are deleted as they are: one nearly always does."""


class Deletion(msgspec.Struct, frozen=True):
    """The outcome of a deletion."""

    sessions: tuple[str, ...]
    tombstones: tuple[Tombstone, ...]
    """One for each session, in the same order."""
    artifacts: int
    """Artifacts that were removed, because no other session names them."""
    left: tuple[str, ...] = ()
    """Why something of them is left, and how it goes: sentences for people."""
    put_again: int = 0
    """Artifacts that stay for a day, because they were put after the sessions had named them, or while others were open a moment
    ago: perhaps by somebody who is about to name them."""


def with_children(store: Store, names: Iterable[str]) -> list[SessionCard]:
    """Return the cards of these sessions and of their children, each once; `NotFound` if a name is unknown, `StoreCorrupt` if one
    of them is damaged."""
    found = dict[str, SessionCard]()
    for name in sorted(set(names)):
        own, damage = readable_cards(lambda name=name: store.cards(name))
        if not own and not damage:
            raise NotFound(f"there is no session {name!r}; nothing was deleted{_told_before(store, name)}")
        children, harmed = readable_pages(lambda after, name=name: store.page(prefix=f"{name}{_CHILD}", after=after))
        cards = {card.id: card for card in (*own, *children)}
        for damaged, error in (damage | harmed).items():
            if damaged not in cards:
                raise error
        found |= cards
    return sorted(found.values(), key=lambda card: -card.updated_ms)


def _told_before(store: Store, name: str) -> str:
    """Return what is to be said of a session that was deleted before: whoever was interrupted then asks again."""
    if not store.tombstones_of([name]):
        return ""
    return (
        ". It was deleted before; if that was interrupted, `foveal store vacuum` removes what it left: bytes at once, and "
        "artifacts when they are a day old"
    )


def expired(store: Store, before_ms: int) -> list[SessionCard]:
    """Return the cards of the sessions that were last written before this time and that nobody holds. A parent stays as long as a
    child of it does, and a damaged one stays."""
    cards, damage = readable_cards(store.cards)
    staying = {card.id for card in cards if card.updated_ms >= before_ms or card.holder is not None}
    staying |= damage.keys() - {card.id for card in cards}
    staying.update([parent for name in staying for parent in parents_of(name)])
    return [card for card in cards if card.id not in staying]


def parents_of(session: str) -> Iterator[str]:
    """Yield the names that the parents of a session have, if it is a child."""
    return (session[:at] for at, sign in enumerate(session) if sign == _CHILD)


def delete_sessions(store: Store, names: Sequence[str], *, takeover: bool = False) -> Deletion:
    """Delete these sessions, their children, and the artifacts that no other session names. All of them or none.

    `StoreError` if one is encrypted and the store was opened without keys: its artifacts could not be told, and would stay.
    """
    return _delete(store, lambda: with_children(store, names), takeover=takeover)


def delete_expired(store: Store, before_ms: int) -> Deletion:
    """Delete the sessions that were last written before this time, like `delete_sessions`, but for those that somebody holds or
    goes on with in the meantime, and their parents: these are left."""
    held = set[str]()

    def free() -> list[SessionCard]:
        kept = held | {parent for name in held for parent in parents_of(name)}
        return [card for card in expired(store, before_ms) if card.id not in kept]

    while True:
        try:
            done = _delete(store, free)
        except SessionHeld as error:
            if not error.sessions or held.issuperset(error.sessions):
                raise
            held.update(error.sessions)
        except NotFound:
            continue  # somebody else has deleted it
        else:
            in_use = tuple(f"session {name} was left, because it is in use" for name in sorted(held))
            return msgspec.structs.replace(done, left=(*in_use, *done.left))


def _delete(store: Store, list_doomed: Callable[[], list[SessionCard]], *, takeover: bool = False) -> Deletion:
    for look in range(1, MOST_LOOKS + 1):
        doomed, artifacts = list_doomed(), NamedArtifacts()
        if not doomed:
            return Deletion((), (), 0)
        for card in doomed:
            artifacts.read(store, card.id, entries=card.entries, updated_ms=card.updated_ms)
        if artifacts.sealed:
            raise StoreError(
                f"session {artifacts.sealed[0]!r} is encrypted, and the store was opened without keys: its artifacts would stay. "
                "Nothing was deleted. Give the keys (`keys`, or $FOVEAL_KEYS); if they are lost, give any other."
            )
        names, problem, remains = [card.id for card in doomed], None, ()
        seen = {card.id: card.entries for card in doomed} if look < MOST_LOOKS else None
        try:
            tombstones = store.delete(names, takeover=takeover, seen=seen)
        except SessionChanged:
            continue
        except IndexLeft as error:
            tombstones, remains = list(error.tombstones), (str(error),)
        except StoreError as error:
            if any(store.cards(name) for name in names):
                raise
            tombstones, problem = [], error  # they are deleted, and so must their artifacts be
        for card, tombstone in zip(doomed, tombstones, strict=False):
            if tombstone.entries != card.entries:
                artifacts.unread[card.id] = "it was written until it was deleted"
        done = _finish(store, names, tombstones, artifacts, problem)
        return msgspec.structs.replace(done, left=(*remains, *done.left))
    raise AssertionError("the last look deletes whatever it sees")


def _finish(
    store: Store, names: list[str], tombstones: list[Tombstone], artifacts: NamedArtifacts, problem: StoreError | None
) -> Deletion:
    """Remove the artifacts of sessions that are deleted, and what killed processes have left of any that they were putting, which
    may be theirs; then raise the problem that their deletion had."""
    swept = Sweep(0, ())
    try:
        swept = remove_unnamed(store, artifacts.found) if artifacts.found else swept
    except StoreError as error:
        advice = "`foveal store vacuum` removes those that no session names, after a day"
        swept = Sweep(0, (f"Artifacts of the deleted sessions may be left ({error}). {advice}.",))
    unfinished = remove_unfinished(store)
    if problem is not None:
        raise problem
    left = [*swept.left, *unfinished]
    if artifacts.unread:
        left.append(
            f"Artifacts may be left, because {artifacts.why_unread()}: it was deleted, and which ones it named is not known. "
            "`foveal store vacuum` removes those that no session names, after a day."
        )
    return Deletion(tuple(names), tuple(tombstones), swept.removed, tuple(left), swept.put_again)
