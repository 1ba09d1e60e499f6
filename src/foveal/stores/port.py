"""What a store must do. Any object with these methods is one; `foveal.testing.store_contract` proves it.

A store keeps logs and does not understand them: it is given entries as bytes and returns them as they were. What it promises:

- `append` has returned: the entries survive power loss, in order, all of them or none.
- An entry id that is already in the log with the same payload is acknowledged with its place and not written twice, even if it
  is stamped anew or comes from another head; with another payload it is refused (`BadEntry`), and with it the whole append.
- Only the newest holder of a session may append (`LeaseLost` for the others); a second holder is refused while the first lives
  (`SessionHeld`).
- Any changed bit of any row is found when the row is read (`StoreCorrupt`); the rows before it are given first, and those
  after it can still be read.
- Payloads are bytes and come back as they were. Session names, entry ids, parents and authors are texts of 1 to 512 bytes in
  UTF-8 without control characters and lone surrogates (`BadInput` or `BadEntry`).
- Reading a session that does not exist is `NotFound`; a closed store raises `StoreError`. All methods may be called from many
  threads.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec


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
    """What is known of a session without reading its log."""

    id: str
    created_ms: int
    updated_ms: int
    entries: int
    head: str | None
    """The id of the last entry."""
    holder: str | None
    """Who may append now, as a person would name it; None if nobody holds it."""


class Snapshot(msgspec.Struct, frozen=True):
    """A view, frozen beside the log: a shortcut that can be rebuilt at will and is never the truth."""

    seq: int
    """The last row it takes into account."""
    payload: bytes


class ArtifactCard(msgspec.Struct, frozen=True):
    """What is known of an artifact. Text that fits is wholly in `head`; otherwise head and tail hold about 8 KiB of each end,
    cut between characters, with U+FFFD for bytes that are not UTF-8."""

    sha256: str
    size_bytes: int
    lines: int
    """Line breaks, and one more if the last line does not end with one."""
    head: str
    tail: str


class Writer(Protocol):
    """The right to append to one session, until a newer one is given out."""

    @property
    def epoch(self) -> int:
        """Grows with every writer that the session has had."""
        ...

    def append(self, drafts: Sequence[Draft], *, snapshot: bytes | None = None) -> list[int]:
        """Keep the drafts, durably and together, and return their places.

        The snapshot is of the view after them and is kept in the same step; it is left out if this is a retry and the log
        has grown since. No drafts and a snapshot: it is of the view after the last entry.
        """
        ...

    def release(self) -> None:
        """Stop being the writer. Releasing twice, or after the session was lost, does nothing."""
        ...


class Artifacts(Protocol):
    def put(self, chunks: Iterable[bytes]) -> ArtifactCard:
        """Keep the bytes under their hash, durably, holding only a chunk at a time in memory."""
        ...

    def read(self, sha256: str) -> Iterator[bytes]:
        """The bytes again; the last chunk is given only if all of them match the hash (`StoreCorrupt`). `NotFound` if
        absent."""
        ...


class Store(Protocol):
    @property
    def artifacts(self) -> Artifacts: ...

    def hold(self, session: str, *, takeover: bool = False) -> Writer:
        """Become the session's writer, making the session if it is new. `SessionHeld` if a live writer has it."""
        ...

    def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
        """The rows with after < seq <= upto, in order. `NotFound` if there is no such session."""
        ...

    def rows_at(self, session: str, seqs: Iterable[int]) -> dict[int, Row]:
        """The rows at these places, in one go; places that do not exist are absent."""
        ...

    def find(self, session: str, prefix: str) -> list[Row]:
        """The row whose id is `prefix` or, if there is none, those that start with it (at most two: enough to see that
        it is ambiguous)."""
        ...

    def snapshot(self, session: str) -> Snapshot | None:
        """The newest snapshot, if there is one that is whole and belongs to this log."""
        ...

    def cards(self, session: str | None = None) -> list[SessionCard]:
        """All sessions, most recently used first; or just this one, if it is there."""
        ...

    def close(self) -> None:
        """Wait for what is under way and let go of everything, held sessions included. Closing twice does nothing."""
        ...
