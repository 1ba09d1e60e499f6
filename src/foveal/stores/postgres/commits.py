"""The commits of a store in PostgreSQL: appends of many sessions that wait at the same moment are one statement.

The statement is a compare-and-append for each of them: the UPDATE of a session's record passes only where epoch, holder, length
and chain are those that the writer knows, and rows and snapshot are joined to it. A writer that lost its session writes nothing
however late it wakes up, and takes no other with it: it is just not among those that passed.

It also looks whether a newer Foveal has upgraded the tables: then nobody passes, and a session that is held is written by nobody
but that one.

Who did not pass, or all of them if the statement failed, is tried alone: the record is read, ids that are in the log already are
acknowledged, and the error says which case it is. An append whose connection was lost is tried again: its ids tell whether it had
been kept. Once a newer epoch is seen, no earlier statement of this writer can still succeed, so that the answer is final.

After a failover to a replica that was behind, keys, epochs and places may be given out a second time. So the statement also
compares the mark of the call that acquired the session, and who did not pass looks whether its last acknowledged entry is still
in its place.
"""

import queue
import threading
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import psycopg
from psycopg import errors

from foveal.stores.chain import seed, snapshot_seal
from foveal.stores.format import POSTGRES_SCHEMA
from foveal.stores.lease import unpack
from foveal.stores.plan import AppendPlan, plan_append
from foveal.stores.port import Draft, Row
from foveal.stores.postgres.connections import LOST, Bindings, Connections, Link, Patience
from foveal.stores.postgres.records import Register, packed, register, verified_row
from foveal.stores.postgres.schema import make_partition, too_new
from foveal.values.errors import BadEntry, LeaseLost, SchemaTooNew, StoreCorrupt, StoreError, TailLost

GROUP_APPENDS = 256
"""Appends in one statement: more would only make the first of them wait."""

_APPEND = """
WITH given AS MATERIALIZED (
    SELECT * FROM unnest(%(key)b::bigint[], %(epoch)b::bigint[], %(token)b::text[], %(mark)b::bigint[], %(before)b::bigint[],
        %(known)b::bytea[], %(entries)b::bigint[], %(head)b::text[], %(chain)b::bytea[], %(now)b::bigint[], %(seal)b::bytea[],
        %(view_seal)b::bytea[], %(view)b::bytea[])
        AS g(key, epoch, token, mark, before, known, entries, head, chain, now, seal, view_seal, view)
    WHERE key > key - 1 AND epoch > epoch - 1 AND before > before - 1 -- true: the planner expects a third of them by each, and so
        -- one row and not ten, for which it would read all sessions instead of their index
), passed AS (
    UPDATE @sessions s SET entries = g.entries, head = g.head, chain = g.chain, seal = g.seal,
        updated_ms = greatest(g.now, s.created_ms), hour = greatest(g.now, s.created_ms) / 3600000
    FROM given g WHERE s.key = g.key AND s.epoch = g.epoch AND s.token = g.token AND s.mark = g.mark
        AND s.entries = g.before AND s.chain = g.known AND NOT EXISTS (SELECT FROM @versions WHERE version > %(schema)b)
    RETURNING s.key
), added AS (
    INSERT INTO @entries (session, seq, id, parent, time_ms, author, hash, payload)
    SELECT e.* FROM unnest(%(e_key)b::bigint[], %(e_seq)b::bigint[], %(e_id)b::text[], %(e_parent)b::text[],
        %(e_time)b::bigint[], %(e_author)b::text[], %(e_hash)b::bytea[], %(e_payload)b::bytea[])
        AS e(session, seq, id, parent, time_ms, author, hash, payload) JOIN passed p ON p.key = e.session
), seen AS (
    INSERT INTO @snapshots (session, seq, seal, payload)
    SELECT g.key, g.entries, g.view_seal, g.view FROM given g JOIN passed USING (key) WHERE g.view IS NOT NULL
    ON CONFLICT (session) DO UPDATE SET seq = excluded.seq, seal = excluded.seal, payload = excluded.payload
)
SELECT key FROM passed
"""
_RELEASE = "UPDATE @sessions SET token = NULL WHERE key = %s AND epoch = %s AND token = %s AND mark = %s RETURNING entries, chain"
_RECORD = "SELECT $record FROM @sessions WHERE key = %s"
_NEWER = "SELECT version FROM @versions WHERE version > %s ORDER BY version DESC LIMIT 1"
_KNOWN = "SELECT $row FROM @entries e WHERE e.session = %s AND e.id = ANY(%s)"
_HASH = "SELECT hash FROM @entries WHERE session = %s AND seq = %s"
_HOLDER = "SELECT l.holder FROM @sessions s JOIN @leases l USING (token) WHERE s.key = %s"


class AppendTicket:
    """An append that waits for its commit."""

    __slots__ = ("_done", "_is_answered", "drafts", "error", "held", "seqs", "snapshot")

    def __init__(self, held: "HeldSession", drafts: Sequence[Draft], snapshot: bytes | None) -> None:
        self.held, self.drafts, self.snapshot = held, drafts, snapshot
        self.seqs: list[int] | None = None
        self.error: BaseException | None = None
        self._is_answered = False
        self._done = threading.Lock()
        self._done.acquire()

    def answer(self) -> None:
        """Let those go on who wait for the end of the append."""
        if not self._is_answered:
            self._is_answered = True
            self._done.release()

    def wait(self) -> list[int]:
        """Return the places once the append has ended, or raise its error."""
        self.settle()
        if self.error is not None:
            raise self.error
        return self.seqs or []

    def settle(self) -> None:
        """Wait until the append has ended, however it ended."""
        with self._done:
            pass


class HeldSession:
    """A session that this handle may write, and the state of it that the next append expects. Appends follow each other."""

    def __init__(self, register: Register) -> None:
        self.register = register
        self.lock = threading.Lock()
        self.last: AppendTicket | None = None
        self.is_released = False


class PostgresCommits:
    """The threads that commit, started with the first append, and their queue."""

    def __init__(self, connections: Connections, threads: int) -> None:
        self._connections, self._count = connections, threads
        self._queue: queue.SimpleQueue[AppendTicket | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._gate = threading.Lock()
        self._is_stopped = False
        self.statements = 0
        """Grouped statements that were sent, for benchmarks."""

    def append(self, held: HeldSession, drafts: Sequence[Draft], snapshot: bytes | None) -> list[int]:
        """Append to a session and return the places once they are durable."""
        with held.lock:
            if held.last is not None:
                held.last.settle()  # of a caller that was interrupted while it waited
            ticket = held.last = AppendTicket(held, drafts, snapshot)
            with self._gate:
                if self._is_stopped:
                    raise StoreError(f"{self._connections.place} is closed; open the store again.")
                if not self._threads:
                    self._start()
                self._queue.put(ticket)
            return ticket.wait()

    def stop(self) -> None:
        """Let the threads finish the waiting appends and end, without waiting for them."""
        with self._gate:
            if not self._is_stopped:
                self._is_stopped = True
                for _ in self._threads:
                    self._queue.put(None)

    def close(self) -> None:
        """Stop, and wait until everything is finished."""
        self.stop()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _start(self) -> None:
        for number in range(self._count):
            name = f"foveal commits {number}"
            self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
            self._threads[-1].start()

    def _work(self) -> None:
        while (ticket := self._queue.get()) is not None:
            tickets = [ticket]
            is_last = False
            while len(tickets) < GROUP_APPENDS and not is_last:
                try:
                    following = self._queue.get_nowait()
                except queue.Empty:
                    break
                if following is None:
                    is_last = True
                else:
                    tickets.append(following)
            try:
                self._commit(tickets)
            except BaseException as error:  # a waiting caller must be told, whatever happened
                for one in tickets:
                    if one.seqs is None:
                        one.error = one.error or StoreError(f"{self._connections.place}: the writer broke ({error!r}).")
            finally:
                for one in tickets:
                    one.answer()
            if is_last:
                return

    def _commit(self, tickets: list[AppendTicket]) -> None:
        self._commit_together(tickets)
        patience = self._connections.patience()  # for all of them: they have waited as long
        for ticket in tickets:
            if ticket.seqs is None:
                try:
                    ticket.seqs = self._commit_alone(ticket, patience)
                except (StoreError, BadEntry) as error:
                    ticket.error = error
                    ticket.held.is_released |= isinstance(error, TailLost)
                except psycopg.Error as error:
                    ticket.error = self._connections.refused(error)
            ticket.answer()

    def _commit_together(self, tickets: list[AppendTicket]) -> None:
        """Commit all that pass, as one statement."""
        by_key: dict[int, tuple[AppendTicket, AppendPlan]] = {}
        for ticket in tickets:
            known = ticket.held.register
            if known.key in by_key or not (ticket.drafts or ticket.snapshot is not None):
                continue  # a session's second writer is an old one: it is told so alone
            try:
                by_key[known.key] = ticket, plan_append(known.end, ticket.drafts, {})
            except BadEntry as error:
                ticket.error, ticket.seqs = error, []
        if not by_key:
            return
        try:
            with self._connections.link() as link:
                passed = link.ask(_APPEND, _bindings([by_key[key] for key in sorted(by_key)]))
            self.statements += 1
        except (psycopg.Error, StoreError):
            return  # a lost connection, an id that is taken, a partition that is not there, a full disk: each is told alone
        for (key,) in passed:
            ticket, plan = by_key[key]
            ticket.held.register = ticket.held.register.after(plan.end)
            ticket.seqs = plan.seqs

    def _commit_alone(self, ticket: AppendTicket, patience: Patience) -> list[int]:
        """Try one append until it is known to be kept or refused. `StoreCorrupt` if two looks in a row find the same record and
        the append does not pass: nobody has changed the session in between, so that no further look would see anything else."""
        has_partition, is_made, seen = True, False, None
        while True:
            try:
                with self._connections.link() as link:
                    if not has_partition:
                        make_partition(link, ticket.held.register.key)
                        has_partition = is_made = True
                    found = self._attempt(link, ticket)
            except errors.CheckViolation:
                if is_made:
                    raise
                has_partition = False
            except LOST as error:
                if not patience.wait():
                    raise self._connections.unavailable(error, patience.seconds, wrote=True) from error
            else:
                if not isinstance(found, Register):
                    return found
                if found == seen:
                    what = f"its record says {found.entries} entries, and entries are there that it does not know"
                    raise StoreCorrupt(f"session {found.id}", what, self._connections.place)
                seen = found

    def _attempt(self, link: Link, ticket: AppendTicket) -> list[int] | Register:
        """Look at the session and append; return the record that was found if it changed before the append, perhaps by an earlier
        try of it."""
        held, ids = ticket.held, [draft.id for draft in ticket.drafts]
        expected = held.register
        place = self._connections.place
        questions = [(_NEWER, (POSTGRES_SCHEMA,)), (_KNOWN, (expected.key, ids)), *_state(expected)]
        newer, raws, *state = link.ask_all(questions)
        now = _present(link, expected, state)
        if now is None:
            raise LeaseLost(
                f"session {expected.id} was deleted, or a failover lost it. Nothing of this append was written."
            )
        known = {row.id: row for row in (verified_row(raw, expected.id, place) for raw in raws)}
        if not now.is_held_as(expected):
            if ids and all(_is_kept(known, draft) for draft in ticket.drafts) and _is_new(known, ids, expected):
                return [known[entry].seq for entry in ids]  # kept before the session was lost
            raise self._lease_lost(link, now, expected)
        if newer:
            if ids and all(_is_kept(known, draft) for draft in ticket.drafts):
                return [known[entry].seq for entry in ids]  # kept before the tables were upgraded
            raise SchemaTooNew(f"{too_new(place, newer[0][0])} Nothing of this append was written.")
        if any(row.seq > now.entries for row in known.values()):
            return now  # appended between the two questions
        held.register = now
        plan = plan_append(now.end, ticket.drafts, known)
        snapshot = ticket.snapshot if plan.keeps_snapshot else None
        if plan.rows or ticket.drafts or snapshot is not None:
            try:
                if not link.ask(_APPEND, _bindings([(ticket, plan)])):
                    return now
            except errors.UniqueViolation:
                return now
        held.register = now.after(plan.end)
        return plan.seqs

    def _lease_lost(self, link: Link, now: Register, expected: Register) -> LeaseLost:
        found = link.ask(_HOLDER, (now.key,))
        holder = "nobody" if now.token is None else holder_text(found[0][0] if found else None, now.since_ms)
        return LeaseLost(
            f"session {now.id} was taken over: it is now held by {holder} (epoch {now.epoch}, this writer has "
            f"{expected.epoch}). Nothing of this append was written; hold the session again to go on."
        )


def release(link: Link, held: Register) -> None:
    """Leave a session without a writer, unless it has a newer one. `TailLost` if its last acknowledged entry is gone."""
    released = link.ask(_RELEASE, (held.key, held.epoch, held.token, held.mark))
    if released != [(held.entries, held.chain)]:
        _present(link, held, link.ask_all(_state(held)))


def _state(held: Register) -> list[tuple[str, Bindings]]:
    """Return the questions for the record of a session and for the hash of the last entry that its writer knows."""
    return [(_RECORD, (held.key,)), (_HASH, (held.key, held.entries))]


def _present(link: Link, held: Register, state: Sequence[list[tuple[Any, ...]]]) -> Register | None:
    """Return the record of a session as it is now, from the answers to `_state`; None if it was deleted, or lost before it had an
    entry. `TailLost` if the database went back to before the last entry that was acknowledged to its writer."""
    records, hashes = state
    now = register(records[0], link.place) if records else None
    if now is None or now.id != held.id:  # its key may be that of another session now
        if not held.entries or link.ask("SELECT 1 FROM @tombstones WHERE seed = %s", (seed(held.id),)):
            return None
        raise TailLost(held.id, 0, held.entries)
    is_whole = not held.entries or hashes == [(held.chain,)]
    if now.since_ms <= held.since_ms and not (is_whole and now.is_held_as(held)):
        link.ask(_RELEASE, (now.key, now.epoch, held.token, now.mark))  # no later writer of this handle has it
    if not is_whole:
        raise TailLost(held.id, now.entries, held.entries)
    return now


def _is_kept(known: dict[str, Row], draft: Draft) -> bool:
    return draft.id in known and known[draft.id].payload == draft.payload


def _is_new(known: dict[str, Row], ids: Sequence[str], expected: Register) -> bool:
    """Return whether an append wrote at least one of these entries after its writer's last answer."""
    return any(known[entry].seq > expected.entries for entry in ids)


def holder_text(packed_lease: str | None, since_ms: int) -> str:
    """Return the holder of a session, for people."""
    if packed_lease is None:
        return "a process that has ended"
    return str(msgspec.structs.replace(unpack(packed_lease), since_ms=since_ms))


def _bindings(appends: Sequence[tuple[AppendTicket, AppendPlan]]) -> dict[str, Any]:
    now_ms = time.time_ns() // 1_000_000
    before = [ticket.held.register for ticket, _ in appends]
    after = [known.after(plan.end) for known, (_, plan) in zip(before, appends, strict=True)]
    views = [ticket.snapshot if plan.keeps_snapshot else None for ticket, plan in appends]
    rows = [(known.key, *row) for known, (_, plan) in zip(before, appends, strict=True) for row in plan.rows]
    return {
        "schema": POSTGRES_SCHEMA,
        "key": [known.key for known in before],
        "epoch": [known.epoch for known in before],
        "token": [known.token for known in before],
        "mark": [known.mark for known in before],
        "before": [known.entries for known in before],
        "known": [known.chain for known in before],
        "entries": [known.entries for known in after],
        "head": [known.head for known in after],
        "chain": [known.chain for known in after],
        "now": [now_ms for _ in after],
        "seal": [known.seal() for known in after],
        "view_seal": [
            None if view is None else snapshot_seal(known.id, known.entries, known.chain, view)
            for known, view in zip(after, views, strict=True)
        ],
        "view": [None if view is None else packed(view) for view in views],
        "e_key": [key for key, _, _ in rows],
        "e_seq": [row.seq for _, row, _ in rows],
        "e_id": [row.id for _, row, _ in rows],
        "e_parent": [row.parent for _, row, _ in rows],
        "e_time": [row.time_ms for _, row, _ in rows],
        "e_author": [row.author for _, row, _ in rows],
        "e_hash": [hashed for _, _, hashed in rows],
        "e_payload": [row.payload for _, row, _ in rows],
    }
