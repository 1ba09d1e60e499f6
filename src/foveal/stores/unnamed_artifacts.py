"""Artifacts that no log names: found by reading all logs, and removed. Every deletion does it, and so does `vacuum_store`.

An artifact is put before the entry that names it. So one without a name may be one that somebody is about to name: it is removed
only when it was put more than a day ago or, with the last session that named it, if nobody has put it since the last entry that
named it: whatever else was written into that session since then says nothing of it. While others are open, one that was put
within the last minute stays, too: one of them may have put it first. Nothing is removed while a log cannot be read to its end,
because it may name anything.
"""

import time
from collections.abc import Mapping

import msgspec

from foveal.stores.artifacts import FileArtifacts
from foveal.stores.format import ENCRYPTED
from foveal.stores.port import KeptArtifact, Store
from foveal.stores.references import artifacts_named
from foveal.values.errors import IndexLeft, NotFound, StoreCorrupt, StoreError

GRACE_MS = 24 * 3_600_000
"""Age of an artifact from which nobody is about to name it: far longer than an append takes, and than clocks are apart."""


SETTLING_MS = 60_000
"""Age of an artifact from which a session that is open has named it: an append waits for a store for half as long at most."""


_ANY = "0" * 64
"""The name of an artifact that is there or not: asked for the places in which any may lie."""


class Sweep(msgspec.Struct, frozen=True):
    """The outcome of removing artifacts that no session names."""

    removed: int
    left: tuple[str, ...]
    """Why others could not be removed: sentences for people."""
    put_again: int = 0
    """Artifacts of the deleted sessions that were put since, and so wait for a session that is about to name them, for a day."""


class NamedArtifacts:
    """Artifacts that sessions name, by the names under which they are kept."""

    def __init__(self) -> None:
        self.found: dict[str, tuple[KeptArtifact, int]] = {}
        """Each with the time of the last entry that names it, or at which its session was last written if that is earlier."""
        self.unread: dict[str, str] = {}
        """Sessions that cannot be read to their end, each with the reason."""
        self.sealed: list[str] = []
        """Those of them that are encrypted, where the store was opened without keys."""

    def read(self, store: Store, session: str, *, entries: int, updated_ms: int) -> None:
        """Add the artifacts that the first entries of a session name. A session that is gone names none."""
        after = 0
        while after < entries:
            try:
                artifacts = store.artifacts_for(session)
                for row in store.rows(session, after=after, upto=entries):
                    after = row.seq
                    if row.payload.startswith(ENCRYPTED):
                        self.sealed.append(session)
                        self.unread[session] = "it is encrypted, and the store was opened without keys: $FOVEAL_KEYS"
                        return
                    for one in (one for sha256 in artifacts_named([row]) for one in artifacts.kept(sha256)):
                        known_ms = self.found.get(one.name, (one, 0))[1]
                        self.found[one.name] = one, max(known_ms, min(row.time_ms, updated_ms))
                return
            except NotFound:
                return
            except StoreError as error:
                if not store.cards(session):
                    return
                self.unread.setdefault(session, str(error))
                if not isinstance(error, StoreCorrupt):
                    return
                after += 1  # the rows after a damaged one can be read

    def why_unread(self) -> str:
        """Return the reason for people why some sessions could not be read."""
        session, reason = next(iter(self.unread.items()))
        others = f" and {len(self.unread) - 1:,} others" if len(self.unread) > 1 else ""
        return f"session {session!r}{others} cannot be read to the end ({reason})"


def remove_unnamed(store: Store, doomed: Mapping[str, tuple[KeptArtifact, int]]) -> Sweep:
    """Remove the artifacts that no session names and nobody is about to name. `doomed` are those of sessions that were just
    deleted, each with the time of the last entry that named it."""
    long_ago_ms = time.time_ns() // 1_000_000 - GRACE_MS
    left = list[str]()
    try:
        kept = {one.name: (one, long_ago_ms) for one in store.kept_artifacts()}
    except StoreError as error:
        kept = {}
        left.append(
            f"Artifacts that no session names were not looked for ({error}). `foveal store vacuum` removes them later."
        )
    candidates = kept | {name: (one, max(until_ms, long_ago_ms)) for name, (one, until_ms) in doomed.items()}
    named, cards = NamedArtifacts(), store.cards() if candidates else []
    if any(card.holder is not None for card in cards):
        settled_ms = long_ago_ms + GRACE_MS - SETTLING_MS
        candidates = {name: (one, min(until_ms, settled_ms)) for name, (one, until_ms) in candidates.items()}
    for card in cards:
        named.read(store, card.id, entries=card.entries, updated_ms=card.updated_ms)
    unnamed = {name: one for name, one in candidates.items() if name not in named.found}
    if named.unread:
        still = sum(one.is_there() for one, _ in unnamed.values())
        reason = f"{still:,} artifacts were left that no session is known to name, because {named.why_unread()} and may name them"
        unread = (f"{reason}. Mend or delete that, then run `foveal store vacuum`.",) if still else ()
        return Sweep(0, (*left, *unread))
    removed, newer, failed = 0, 0, list[str]()
    for name, (one, until_ms) in unnamed.items():
        try:
            if one.remove(unless_put_after_ms=until_ms):
                removed += 1
            else:
                newer += name in doomed and one.is_there()
        except StoreError as error:
            failed.append(str(error))
    left += [
        f"{len(failed):,} artifacts could not be removed ({error}). `foveal store vacuum` tries again."
        for error in failed[:1]
    ]
    return Sweep(removed, tuple(left), newer)


def remove_unfinished(store: Store) -> tuple[str, ...]:
    """Remove the files of artifacts that were being put when their process was killed, whose bytes no name tells, and return why
    some of them are left: sentences for people."""
    left = list[str]()
    for place in {id(one.place): one.place for one in store.artifacts.kept(_ANY)}.values():
        if isinstance(place, FileArtifacts):
            try:
                place.sweep()
            except StoreError as error:
                left.append(f"Bytes of the deleted sessions may be left: {error}")
    return tuple(left)


def vacuum_store(store: Store) -> Sweep:
    """Give back the space of everything that was deleted, and remove the artifacts that no session names. Through the handle of a
    tenant, those are left: whose they are cannot be told."""
    remains = ()
    try:
        store.vacuum()
    except IndexLeft as error:
        remains = (str(error),)
    swept = remove_unnamed(store, {})
    return msgspec.structs.replace(swept, left=(*remains, *swept.left))
