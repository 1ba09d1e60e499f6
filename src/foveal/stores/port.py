"""The store port: the methods of a store, and their promises.

Any object with these methods is a store; `foveal.testing.store_contract` proves it. A store keeps logs and does not understand
them: it is given entries as bytes and returns them unchanged. The promises:

 1. Once `append` has returned, the entries survive power loss, in order, all of them or none. If it raises, its error says how
    it ended: `BadInput`, `StoreFull`, `StoreBusy`, `SchemaTooNew` and `LeaseLost` mean that nothing of it was written;
    `StoreUnavailable` and `StoreFailed` that nobody knows, and that the same entries may be given again, under the same ids,
    without harm.
 2. An entry id that is already in the log with the same payload is acknowledged with its place and not written twice, even if
    it is stamped anew or comes from another head; with another payload it is refused (`BadEntry`), and with it the whole append.
 3. Only the newest writer of a session may append (`LeaseLost` for the others). A second writer is refused (`SessionHeld`)
    while the first lives. A process that is seen to have ended is succeeded at once; another one when its lease is over, which
    a store of one machine gives for as long as it sees the process.
 4. Any changed bit of any row is found when the row is read (`StoreCorrupt`); the rows before it are given first, and those
    after it can still be read.
 5. Payloads are bytes and come back unchanged. Session names, entry ids, parents and authors are texts of 1 to 512 bytes in
    UTF-8 without control characters and lone surrogates (`BadInput` or `BadEntry`).
 6. Reading a session that does not exist is `NotFound`; a closed store raises `StoreError`. All methods may be called from
    many threads.
 7. Derived data (the sidecar of an artifact, the search index of a session) may be lost at any time and is rebuilt by its
    reader; while it is there, it comes back unchanged and never mixed with that of another artifact or session.
 8. Once `delete` has returned, nothing of the session's log, snapshot, notes and index can be read but a tombstone, and its
    scope's index is empty. A store of files keeps no byte of it. Its writer is refused from then on (`LeaseLost`), even if a
    session of the same name is made again.
 9. A writer whose log has fewer entries than were acknowledged to it (the database went on without its newest commits) is told
    so by its next append (`TailLost`), which writes nothing and gives the session up. A store with replicas tells it as well
    to a writer that was succeeded since, and to one that releases the session.
10. A session is in one scope or in none, and never in another one later. Whatever is asked of a scope is answered from its own
    sessions and notes alone.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol

import msgspec

from foveal.stores.database import Database
from foveal.values.errors import NotFound, StoreError


class Row(msgspec.Struct, frozen=True):
    """One entry as a store keeps it. `seq` counts from 1 within a session, without gaps."""

    seq: int
    id: str
    parent: str | None
    time_ms: int
    author: str
    payload: bytes


class Draft(msgspec.Struct, frozen=True):
    """A row before the store has given it its place."""

    id: str
    parent: str | None
    time_ms: int
    author: str
    payload: bytes


class SessionCard(msgspec.Struct, frozen=True):
    """The facts about a session that are known without reading its log."""

    id: str
    created_ms: int
    updated_ms: int
    entries: int
    head: str | None
    """The id of the last entry."""
    holder: str | None
    """The process that may append now, named for people; None if the session has no writer."""
    scope: str | None = None
    """The scope whose sessions remember each other; None if the session is in none."""
    title: str | None = None
    """A line for people, in the place of a new name: the name is the key of the session for ever."""
    tags: tuple[str, ...] = ()
    """Words by which sessions are listed, in their order."""


class KeptNote(msgspec.Struct, frozen=True):
    """A text that somebody asked to keep for the later sessions of a scope."""

    key: str
    """Its name in the scope: a later note of the same key takes its place."""
    text: str
    session: str
    """The session in which it was kept. It goes when that session is deleted."""
    author: str
    time_ms: int


class Tombstone(msgspec.Struct, frozen=True):
    """The proof that a session was deleted. It holds no name: whoever knows the name, or has a copy of the log, recognises it
    by `foveal.stores.chain.seed` of the name and by the hash that the log's chain ended with."""

    seed: str
    """The hash of the session's name, in hexadecimal digits."""
    created_ms: int
    deleted_ms: int
    entries: int
    chain: str
    """The hash of the last entry, in hexadecimal digits."""


class Snapshot(msgspec.Struct, frozen=True):
    """A view, frozen beside the log: a shortcut that can be rebuilt at will and is never the truth."""

    seq: int
    """The last row it takes into account."""
    payload: bytes


class ArtifactCard(msgspec.Struct, frozen=True):
    """The facts about an artifact. Text that fits is wholly in `head`; otherwise head and tail hold about 8 KiB of each end,
    cut between characters, with U+FFFD for bytes that are not UTF-8."""

    sha256: str
    size_bytes: int
    lines: int
    """Line breaks, and one more if the last line does not end with one."""
    head: str
    tail: str


OPENING_ROWS = 1_024
"""Most rows that `load` returns: a snapshot is written at least every 256 entries, or as many as the view has atoms."""

BEFORE_SNAPSHOT = 16
"""Rows before the snapshot that `load` returns with those after it: a view is often older by the entries it was kept with."""

PAGE_CARDS = 1_000
"""Cards of a page, if no other number is asked for."""

NEWEST_ROWS = 64
"""Rows that `load` returns of a log without a snapshot: as many as are read first when a branch is followed back."""


class Writer(Protocol):
    """The right to append to one session, until a newer one is given out."""

    @property
    def epoch(self) -> int:
        """A number that grows with every writer that the session has had."""
        ...

    def append(self, drafts: Sequence[Draft], *, snapshot: bytes | None = None) -> list[int]:
        """Write the drafts, durably and together, and return their places.

        The snapshot is of the view after them and is kept in the same step; it is left out if this is a retry and the log
        has grown since. No drafts and a snapshot: it is of the view after the last entry. Neither: the store is asked whether
        this is still the writer, which is cheaper than a model call for a session that is lost.
        """
        ...

    def release(self) -> None:
        """Stop being the writer. Releasing twice, or after the session was lost, does nothing."""
        ...


class Opened(msgspec.Struct, frozen=True):
    """A session at the moment at which its writer acquired it."""

    writer: Writer
    secret: bytes
    """The session's secret; see `Store.secret`."""
    entries: int
    snapshot: Snapshot | None
    rows: tuple[Row, ...]
    """The newest rows, in order: those after the snapshot and `BEFORE_SNAPSHOT` before it, at most `OPENING_ROWS`; without a
    snapshot, the last `NEWEST_ROWS`."""


class StoreStats(msgspec.Struct, frozen=True):
    """The size of a store."""

    sessions: int
    held: int
    """Sessions that have a writer."""
    entries: int
    deleted: int
    """Tombstones."""
    sizes: dict[str, int]
    """Bytes, by the part of the store that takes them."""


class KeptArtifact(msgspec.Struct, frozen=True):
    """An artifact by the name that it has in its place: the hash of its bytes, or, for a tenant or under keys, a hash of that."""

    name: str
    place: "Artifacts"

    def is_there(self) -> bool:
        """Return whether it is kept; True if that cannot be told."""
        try:
            self.place.span(self.name, 0, 0)
        except NotFound:
            return False
        except StoreError:
            return True
        return True

    def remove(self, *, unless_put_after_ms: int) -> bool:
        """Remove it, and return whether it was there and was not put later than this moment."""
        return self.place.delete(self.name, unless_put_after_ms=unless_put_after_ms)


class Artifacts(Protocol):
    """Large contents, each under the SHA-256 of its bytes. A name that is no such hash is `BadInput` in every method."""

    def put(self, chunks: Iterable[bytes], *, name: Callable[[], str] | None = None) -> ArtifactCard:
        """Keep the bytes under their hash, durably, holding only a chunk at a time in memory. With a `name`, which is asked for
        after the last chunk, they are kept under that one: whoever does so reads them by `span` and proves them."""
        ...

    def read(self, sha256: str) -> Iterator[bytes]:
        """Yield the bytes in chunks; the last chunk only if all of them match the hash (`StoreCorrupt`). `NotFound` if
        absent."""
        ...

    def span(self, sha256: str, start: int, size: int) -> bytes:
        """Return `size` bytes from `start` on, fewer at the end, without reading the rest. They are not checked against the
        hash: the caller proves them. `NotFound` if absent."""
        ...

    def sidecar(self, sha256: str) -> bytes | None:
        """Return the derived data that was last written beside an artifact; None if there is none that can be read."""
        ...

    def write_sidecar(self, sha256: str, data: bytes) -> None:
        """Replace the derived data beside an artifact. It can be made again at will, so a failure to write is not raised; of one
        that is gone, nothing is kept."""
        ...

    def delete(self, sha256: str, *, unless_put_after_ms: int) -> bool:
        """Remove an artifact and its sidecar, and return whether it was there. One that was put later than this moment
        stays: its new log may be about to name it."""
        ...

    def kept(self, sha256: str) -> tuple[KeptArtifact, ...]:
        """Return an artifact by each name under which its bytes may be kept, there or not."""
        ...


class ArtifactShelf(Artifacts, Protocol):
    """The place in which a store keeps the artifacts of all its sessions."""

    def names(self) -> list[str]:
        """Return the names of all artifacts that are there."""
        ...


class OutsideShelf(Artifacts, Protocol):
    """A shelf that is not part of its store: a folder, or a bucket."""

    def names(self) -> list[str]:
        """Return the names of all artifacts that are there."""
        ...

    def claim(self, store: str) -> str:
        """Note that a store of this id keeps its artifacts here, if none has yet, and return the id of the one that does."""
        ...


class SearchIndex(Protocol):
    """The place of one session's search index: an SQLite database, in a file or in memory, that holds derived data alone."""

    @property
    def place(self) -> str:
        """The place, named for people, for error messages."""
        ...

    def opened(self) -> AbstractContextManager[Database]:
        """Open the database for one job and close it afterwards; an empty one is made if there is none.

        SQLite's own errors pass through, so that the caller can tell damage from a full disk. Threads and processes that
        have it open at the same time are kept apart by SQLite's locks, or by waiting.
        """
        ...

    def clear(self) -> None:
        """Make the database empty again, whatever its state."""
        ...


class Scope(Protocol):
    """The sessions of one scope, which may look into each other, and the notes that were kept in them."""

    def sessions(self, *, since_ms: int | None = None) -> list[SessionCard]:
        """Return the cards of its sessions, most recently used first: of all, or of those that were used at this time or later.
        The cost is that of the sessions returned."""
        ...

    def index(self) -> SearchIndex:
        """Return the place of the search index of the scope. It is emptied when one of its sessions is deleted."""
        ...

    def notes(self) -> list[KeptNote]:
        """Return its notes, the newest first."""
        ...

    def keep(self, note: KeptNote) -> None:
        """Keep a note, durably, in the place of the one with the same key. `NotFound` if its session is not in the scope,
        `BadInput` if its key, author or text cannot be kept."""
        ...

    def forget(self, key: str) -> bool:
        """Remove the note of this key, and return whether there was one."""
        ...

    def changes(self) -> int:
        """Return a number that grows with each note that is kept or forgotten and each session that is deleted."""
        ...


class Store(Protocol):
    @property
    def artifacts(self) -> Artifacts:
        """The artifacts for which no session is known yet, as `keep_stream` keeps them. Every session of this handle finds
        them."""
        ...

    def artifacts_for(self, session: str) -> Artifacts:
        """Return the artifacts that the log of a session names, there or not. Nobody else decides where they lie."""
        ...

    def kept_artifacts(self) -> list[KeptArtifact]:
        """Return all artifacts that are there, whoever names them; none through the handle of a tenant: it has no right to those
        of others, and which are its own cannot be told by their names."""
        ...

    def acquire(
        self, session: str, *, takeover: bool = False, secret: bytes | None = None, scope: str | None = None
    ) -> Writer:
        """Become the session's writer, making the session if it is new. `SessionHeld` if a live writer has it.

        `secret` is the secret of a session that is made by this call; 32 random bytes if it is not given. A `scope` is given to
        a session that is in none, for good; `BadInput` if the session is in another one. Without it, nothing changes.
        """
        ...

    def load(
        self, session: str, *, takeover: bool = False, secret: bytes | None = None, scope: str | None = None
    ) -> Opened:
        """Become the session's writer like `acquire`, and read what is needed to go on, in one round trip to the store."""
        ...

    def scope(self, name: str) -> Scope:
        """Return the scope of this name. Nothing is made: a scope is its sessions."""
        ...

    def secret(self, session: str) -> bytes:
        """Return the secret that was drawn when the session was made, and never changes. It is empty for sessions of Foveal
        0.1, whose prompts were made without one. `NotFound` if there is no such session."""
        ...

    def secrets(self, sessions: Sequence[str]) -> dict[str, bytes]:
        """Return the secrets of those of these sessions that are there, in one round trip to the store."""
        ...

    def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
        """Yield the rows with after < seq <= upto, in order. `NotFound` if there is no such session."""
        ...

    def rows_at(self, session: str, seqs: Iterable[int]) -> dict[int, Row]:
        """Return the rows at these places, in one go; places that do not exist are absent."""
        ...

    def find(self, session: str, prefix: str) -> list[Row]:
        """Return the row whose id is `prefix` or, if there is none, those whose id starts with it (at most two: enough to
        see that it is ambiguous)."""
        ...

    def snapshot(self, session: str) -> Snapshot | None:
        """Return the newest snapshot, if there is one that is whole and belongs to this log."""
        ...

    def cards(self, session: str | None = None) -> list[SessionCard]:
        """Return the cards of all sessions, most recently used first; or of just this one, if it is there. A damaged one is
        `StoreCorrupt`; `ListDamaged`, which has the cards of the others, from a store that can read these."""
        ...

    def page(
        self, *, prefix: str = "", after: str = "", limit: int = PAGE_CARDS, tag: str | None = None
    ) -> list[SessionCard]:
        """Return the cards of up to `limit` sessions whose names begin with `prefix` and come after `after`, in the order of
        their names as UTF-8; with a `tag`, of those that have it. The cost is that of the cards returned, or of all that have
        the tag."""
        ...

    def entitle(self, session: str, title: str | None) -> None:
        """Give a session a title, or take it away with None; somebody may be writing it. `NotFound` if it is not there."""
        ...

    def tag(self, session: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> tuple[str, ...]:
        """Add and remove tags of a session, together, and return those that it has then; somebody may be writing it.
        `NotFound` if it is not there."""
        ...

    def index(self, session: str) -> SearchIndex:
        """Return the place of the session's search index. Nothing is made until it is opened."""
        ...

    def index_of_all(self) -> SearchIndex:
        """Return the place of the search index over all sessions. It is emptied when one of them is deleted."""
        ...

    def delete(
        self, sessions: Sequence[str], *, takeover: bool = False, seen: Mapping[str, int] | None = None
    ) -> list[Tombstone]:
        """Delete these sessions, all of them or none, and return their tombstones. `SessionHeld` if a live writer has one of
        them, `NotFound` if one is not there. With `seen`, the entries that each had when it was looked at, `SessionChanged` if
        one has others now, or a child that is not deleted with it. Their artifacts, which others may name too, are left:
        `stores.deletion`."""
        ...

    def tombstones(self) -> list[Tombstone]:
        """Return the proofs of all deletions, in their order."""
        ...

    def tombstones_of(self, sessions: Sequence[str]) -> dict[str, list[Tombstone]]:
        """Return the proofs of the deletions of sessions of these names, in their order; names of which there is none are absent.
        The handle of a tenant finds those of its own names, whoever has deleted them."""
        ...

    def adopt(self, tombstones: Sequence[Tombstone]) -> None:
        """Add the proofs of deletion of another store whose sessions are moved to this one; those that are here are left out."""
        ...

    def backdate(self, session: str, *, created_ms: int, updated_ms: int) -> None:
        """Give a session the times that it had in another store. `SessionHeld` if it has a writer."""
        ...

    def stats(self) -> StoreStats:
        """Return the size of the store and of its parts."""
        ...

    def vacuum(self) -> None:
        """Give back the space of everything that was deleted, and remove leftovers of dead processes."""
        ...

    def close(self) -> None:
        """Finish the work under way and release everything, acquired sessions included. Closing twice does nothing."""
        ...

    def __enter__(self) -> "Store": ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the store."""
        ...
