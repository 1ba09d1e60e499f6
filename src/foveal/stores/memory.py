"""The store in RAM: it keeps the promises of the others, and ends with its process."""

import secrets
import threading
import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, takewhile
from types import TracebackType
from typing import Self

from foveal.stores import sqlite
from foveal.stores.artifact_card import CardBuilder, check_chunks
from foveal.stores.chain import by_name, link, seed
from foveal.stores.checks import (
    SECRET_BYTES,
    check_artifact,
    check_drafts,
    check_note,
    check_repeat,
    check_same_scope,
    check_scope,
    check_sealed,
    check_secret,
    check_seen,
    check_session,
)
from foveal.stores.labels import NO_LABELS
from foveal.stores.lease import Lease, held_text, this_process
from foveal.stores.opened import opened
from foveal.stores.port import (
    PAGE_CARDS,
    ArtifactCard,
    Artifacts,
    Draft,
    KeptArtifact,
    KeptNote,
    Opened,
    Row,
    SearchIndex,
    SessionCard,
    Snapshot,
    StoreStats,
    Tombstone,
)
from foveal.stores.session_artifacts import plain_artifacts
from foveal.values.errors import LeaseLost, NotFound, SessionHeld, StoreError, TailLost


class _Log:
    """The log of one session. Rows are only added at the end, so a reader needs no lock to read up to a known length."""

    def __init__(self, session: str, now_ms: int) -> None:
        self.id = session
        self.created_ms = self.updated_ms = now_ms
        self.rows: list[Row] = []
        self.seqs: dict[str, int] = {}
        self.epoch = 0
        self.holder: Lease | None = None
        self.snapshot: Snapshot | None = None
        self.secret = b""
        self.scope: str | None = None
        self.labels = NO_LABELS
        self.is_deleted = False

    def card(self) -> SessionCard:
        head = self.rows[-1].id if self.rows else None
        holder = None if self.holder is None else str(self.holder)
        return self.labels.on(
            SessionCard(self.id, self.created_ms, self.updated_ms, len(self.rows), head, holder, self.scope)
        )

    def tombstone(self, now_ms: int) -> Tombstone:
        chain = seed(self.id)
        for row in self.rows:
            chain = link(chain, row)
        return Tombstone(seed(self.id).hex(), self.created_ms, now_ms, len(self.rows), chain.hex())

    def add(self, drafts: Sequence[Draft]) -> list[int]:
        """Add all of the drafts, or none if one of them is refused; return their places."""
        rows, known, seqs = self.rows, self.seqs, list[int]()
        new: dict[str, Row] = {}
        for draft in drafts:
            seq = known.get(draft.id)
            row = new.get(draft.id) if seq is None else rows[seq - 1]
            if row is not None:
                check_repeat(row, draft)
            else:
                seq = len(rows) + len(new) + 1
                row = Row(seq, draft.id, draft.parent, draft.time_ms, draft.author, draft.payload)
                new[draft.id] = row
            seqs.append(row.seq)
        for row in new.values():
            known[row.id] = row.seq
        rows.extend(new.values())
        return seqs


class _ScopeState:
    """The notes and the index of one scope."""

    def __init__(self) -> None:
        self.notes: dict[str, KeptNote] = {}
        self.changes = 0
        self.index: SearchIndex | None = None

    def drop(self, session: str) -> None:
        """Forget everything of a deleted session."""
        self.notes = {key: note for key, note in self.notes.items() if note.session != session}
        self.index = None
        self.changes += 1


class MemoryArtifacts:
    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}
        self._sidecars: dict[str, bytes] = {}
        self._put_ms: dict[str, int] = {}
        self._lock = threading.Lock()

    def put(self, chunks: Iterable[bytes], *, name: Callable[[], str] | None = None) -> ArtifactCard:
        tally, parts = CardBuilder(), list[bytes]()
        for chunk in check_chunks(chunks):
            tally.add(chunk)
            parts.append(chunk)
        card = tally.card()
        sha256 = card.sha256 if name is None else name()
        check_artifact(sha256)
        with self._lock:
            self._kept[sha256] = b"".join(parts)
            self._put_ms[sha256] = _now_ms()
        return card

    def read(self, sha256: str) -> Iterator[bytes]:
        data = self._data(sha256)
        return iter([data] if data else [])

    def span(self, sha256: str, start: int, size: int) -> bytes:
        return self._data(sha256)[start : start + size]

    def sidecar(self, sha256: str) -> bytes | None:
        check_artifact(sha256)
        return self._sidecars.get(sha256)

    def write_sidecar(self, sha256: str, data: bytes) -> None:
        check_artifact(sha256)
        with self._lock:
            if sha256 in self._kept:
                self._sidecars[sha256] = data

    def delete(self, sha256: str, *, unless_put_after_ms: int) -> bool:
        check_artifact(sha256)
        with self._lock:
            if self._put_ms.get(sha256, 0) > unless_put_after_ms:
                return False
            self._sidecars.pop(sha256, None)
            return self._kept.pop(sha256, None) is not None

    def kept(self, sha256: str) -> tuple[KeptArtifact, ...]:
        check_artifact(sha256)
        return (KeptArtifact(sha256, self),)

    def names(self) -> list[str]:
        """Return the names of all artifacts that are there."""
        return sorted(self._kept)

    def size_bytes(self) -> int:
        """Return the bytes of all artifacts and what is kept beside them."""
        return sum(len(data) for kept in (self._kept, self._sidecars) for data in kept.values())

    def _data(self, sha256: str) -> bytes:
        check_artifact(sha256)
        if sha256 not in self._kept:
            raise NotFound(f"there is no artifact {sha256}")
        return self._kept[sha256]


class MemoryStore:
    """Logs in RAM. Safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._logs: dict[str, _Log] = {}
        self._names: list[str] = []
        """The names of all sessions in order, for pages."""
        self.artifacts = MemoryArtifacts()
        self._indexes: dict[str, SearchIndex] = {}
        self._index_of_all: SearchIndex | None = None
        self._scopes: dict[str, _ScopeState] = {}
        self._tombstones: list[Tombstone] = []
        self._is_closed = False

    def artifacts_for(self, session: str) -> Artifacts:
        return plain_artifacts(self.artifacts, session)

    def kept_artifacts(self) -> list[KeptArtifact]:
        return [KeptArtifact(name, self.artifacts) for name in self.artifacts.names()]

    def acquire(
        self, session: str, *, takeover: bool = False, secret: bytes | None = None, scope: str | None = None
    ) -> "MemoryWriter":
        """Become the session's writer. An earlier writer lives in this process, so only `takeover` succeeds it."""
        check_session(session)
        check_secret(secret)
        check_scope(scope)
        with self._lock:
            self._check_usable()
            log = self._logs.get(session)
            check_same_scope(session, log and log.scope, scope)
            if log is None:
                log = self._logs[session] = _Log(session, _now_ms())
                insort(self._names, session)
                log.secret = secrets.token_bytes(SECRET_BYTES) if secret is None else secret
            elif not takeover:
                _check_free(log)
            log.scope = log.scope or scope
            log.epoch += 1
            log.holder = this_process(_now_ms())
            return MemoryWriter(log, log.epoch, self._lock)

    def load(
        self, session: str, *, takeover: bool = False, secret: bytes | None = None, scope: str | None = None
    ) -> Opened:
        return opened(self, session, self.acquire(session, takeover=takeover, secret=secret, scope=scope))

    def secret(self, session: str) -> bytes:
        return self._log(session).secret

    def secrets(self, sessions: Sequence[str]) -> dict[str, bytes]:
        with self._lock:
            self._check_usable()
            return {name: self._logs[name].secret for name in sessions if name in self._logs}

    def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
        rows = self._log(session).rows
        last = len(rows) if upto is None else min(upto, len(rows))
        return iter(rows[max(after, 0) : max(last, 0)])

    def rows_at(self, session: str, seqs: Iterable[int]) -> dict[int, Row]:
        rows = self._log(session).rows
        return {seq: rows[seq - 1] for seq in sorted(set(seqs)) if 1 <= seq <= len(rows)}

    def find(self, session: str, prefix: str) -> list[Row]:
        with self._lock:
            log = self._log(session)
            if prefix in log.seqs:
                return [log.rows[log.seqs[prefix] - 1]]
            matches = sorted(entry for entry in log.seqs if entry.startswith(prefix))[:2]
            return [log.rows[log.seqs[entry] - 1] for entry in matches]

    def snapshot(self, session: str) -> Snapshot | None:
        return self._log(session).snapshot

    def cards(self, session: str | None = None) -> list[SessionCard]:
        with self._lock:
            self._check_usable()
            if session is not None:
                return [self._logs[session].card()] if session in self._logs else []
            newest_last = sorted(self._logs.values(), key=lambda log: log.updated_ms)
            return [log.card() for log in reversed(newest_last)]

    def scope(self, name: str) -> "MemoryScope":
        check_scope(name)
        with self._lock:
            self._check_usable()
            state = self._scopes.setdefault(name, _ScopeState())
        return MemoryScope(name, state, self._logs, self._lock)

    def page(
        self, *, prefix: str = "", after: str = "", limit: int = PAGE_CARDS, tag: str | None = None
    ) -> list[SessionCard]:
        with self._lock:
            self._check_usable()
            first = max(bisect_right(self._names, after), bisect_left(self._names, prefix))
            following = (self._logs[self._names[at]] for at in range(first, len(self._names)))
            of_prefix = takewhile(lambda log: log.id.startswith(prefix), following)
            found = (log for log in of_prefix if tag is None or tag in log.labels.tags)
            return [log.card() for log in islice(found, max(limit, 0))]

    def entitle(self, session: str, title: str | None) -> None:
        with self._lock:
            log = self._log(session)
            check_sealed(log.id, log.secret, title)
            log.labels = log.labels.entitled(title, log.secret)

    def tag(self, session: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> tuple[str, ...]:
        with self._lock:
            log = self._log(session)
            log.labels = log.labels.tagged(add, remove)
            return log.labels.tags

    def index(self, session: str) -> SearchIndex:
        with self._lock:
            self._check_usable()
            if session not in self._indexes:
                self._indexes[session] = sqlite.MemoryIndex()
            return self._indexes[session]

    def index_of_all(self) -> SearchIndex:
        with self._lock:
            self._check_usable()
            self._index_of_all = self._index_of_all or sqlite.MemoryIndex()
            return self._index_of_all

    def delete(
        self, sessions: Sequence[str], *, takeover: bool = False, seen: Mapping[str, int] | None = None
    ) -> list[Tombstone]:
        with self._lock:
            logs = [self._log(session) for session in sessions]
            if not takeover:
                _check_free(*logs)
            if seen is not None:
                check_seen({log.id: len(log.rows) for log in logs}, self._logs, seen)
            for log in logs:
                log.is_deleted = True
                del self._logs[log.id], self._names[bisect_left(self._names, log.id)]
                self._indexes.pop(log.id, None)
                if log.scope is not None:
                    self._scopes.setdefault(log.scope, _ScopeState()).drop(log.id)
            self._index_of_all = None
            gone = [log.tombstone(_now_ms()) for log in logs]
            self._tombstones += gone
            return gone

    def tombstones(self) -> list[Tombstone]:
        with self._lock:
            self._check_usable()
            return list(self._tombstones)

    def tombstones_of(self, sessions: Sequence[str]) -> dict[str, list[Tombstone]]:
        return by_name(self.tombstones(), sessions)

    def adopt(self, tombstones: Sequence[Tombstone]) -> None:
        with self._lock:
            self._check_usable()
            known = set(self._tombstones)
            new = [one for one in tombstones if one not in known]
            self._tombstones = sorted([*self._tombstones, *new], key=lambda one: one.deleted_ms)

    def backdate(self, session: str, *, created_ms: int, updated_ms: int) -> None:
        with self._lock:
            log = self._log(session)
            _check_free(log)
            log.created_ms, log.updated_ms = created_ms, updated_ms

    def stats(self) -> StoreStats:
        with self._lock:
            self._check_usable()
            logs = list(self._logs.values())
            rows = sum(len(row.payload) for log in logs for row in log.rows)
            held = sum(log.holder is not None for log in logs)
            sizes = {"entries": rows, "artifacts": self.artifacts.size_bytes()}
            return StoreStats(len(logs), held, sum(len(log.rows) for log in logs), len(self._tombstones), sizes)

    def vacuum(self) -> None:
        """Do nothing: memory that was freed is free."""

    def close(self) -> None:
        """Refuse every call from now on; the logs are gone with the last reference to the store."""
        with self._lock:
            self._is_closed = True
            for log in self._logs.values():
                log.holder = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _log(self, session: str) -> _Log:
        self._check_usable()
        log = self._logs.get(session)
        if log is None:
            raise NotFound(f"there is no session {session!r}")
        return log

    def _check_usable(self) -> None:
        if self._is_closed:
            raise StoreError("the store is closed.")


class MemoryScope:
    """One scope of a `MemoryStore`."""

    def __init__(self, name: str, state: _ScopeState, logs: Mapping[str, _Log], lock: threading.Lock) -> None:
        self._name, self._state, self._logs, self._lock = name, state, logs, lock

    def sessions(self, *, since_ms: int | None = None) -> list[SessionCard]:
        with self._lock:
            logs = [log for log in self._logs.values() if log.scope == self._name]
            found = [log for log in logs if since_ms is None or log.updated_ms >= since_ms]
            return [log.card() for log in sorted(found, key=lambda log: log.updated_ms)[::-1]]

    def index(self) -> SearchIndex:
        with self._lock:
            if self._state.index is None:
                self._state.index = sqlite.MemoryIndex()
            return self._state.index

    def notes(self) -> list[KeptNote]:
        with self._lock:
            return sorted(self._state.notes.values(), key=lambda note: (-note.time_ms, note.key))

    def keep(self, note: KeptNote) -> None:
        with self._lock:
            log = self._logs.get(note.session)
            if log is None or log.scope != self._name:
                raise NotFound(f"the scope {self._name!r} has no session {note.session!r}; nothing was kept")
            check_note(note, log.secret)
            check_sealed(log.id, log.secret, note.text)
            self._state.notes[note.key] = note
            self._state.changes += 1

    def forget(self, key: str) -> bool:
        with self._lock:
            gone = self._state.notes.pop(key, None) is not None
            self._state.changes += gone
            return gone

    def changes(self) -> int:
        with self._lock:
            return self._state.changes


class MemoryWriter:
    """The right to append to one session of a `MemoryStore`."""

    def __init__(self, log: _Log, epoch: int, lock: threading.Lock) -> None:
        self.epoch = epoch
        self._log = log
        self._lock = lock
        self._acknowledged = len(log.rows)

    def append(self, drafts: Sequence[Draft], *, snapshot: bytes | None = None) -> list[int]:
        check_drafts(drafts)
        log = self._log
        with self._lock:
            if log.is_deleted:
                raise LeaseLost(f"session {log.id} was deleted. Nothing of this append was written.")
            if log.epoch != self.epoch or log.holder is None:
                raise LeaseLost(
                    f"session {log.id} was taken over or released: its epoch is {log.epoch}, this writer has "
                    f"{self.epoch}. Nothing of this append was written; hold the session again to go on."
                )
            if len(log.rows) < self._acknowledged:
                log.holder = None
                raise TailLost(log.id, len(log.rows), self._acknowledged)
            seqs = log.add(drafts)
            self._acknowledged = len(log.rows)
            if seqs or snapshot is not None:
                log.updated_ms = max(_now_ms(), log.created_ms)
            # A retry of an earlier append comes with a view that the log has outgrown.
            if snapshot is not None and (not seqs or seqs[-1] == len(log.rows)):
                log.snapshot = Snapshot(len(log.rows), snapshot)
            return seqs

    def release(self) -> None:
        with self._lock:
            if self._log.epoch == self.epoch:
                self._log.holder = None


def _check_free(*logs: _Log) -> None:
    held = {log.id: log.holder for log in logs if log.holder is not None}
    for session, holder in held.items():
        raise SessionHeld(held_text(session, holder, None, _now_ms()), [*held])


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
