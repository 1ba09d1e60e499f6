"""The store in PostgreSQL, for sessions that outgrow one machine: many processes on many hosts, one writer for each session.

When `append` returns, the transaction is committed; with synchronous replication it is on two machines. A session is held by the
lease of its process (`leases`) and fenced by its epoch (`commits`). Opening a session takes one round trip.
"""

import atexit
import os
import secrets
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar, cast

import msgspec

from foveal.stores.artifacts_place import artifacts_address, open_artifacts
from foveal.stores.chain import by_name, seal, seed, seeds
from foveal.stores.checks import (
    SECRET_BYTES,
    check_drafts,
    check_note,
    check_same_scope,
    check_scope,
    check_sealed,
    check_secret,
    check_seen,
    check_session,
    children_span,
)
from foveal.stores.format import POSTGRES_SCHEMA
from foveal.stores.labels import NO_LABELS, Labels
from foveal.stores.lease import LEASE_MS, held_text, unpack
from foveal.stores.opened import first_needed
from foveal.stores.port import (
    BEFORE_SNAPSHOT,
    NEWEST_ROWS,
    OPENING_ROWS,
    PAGE_CARDS,
    Artifacts,
    ArtifactShelf,
    Draft,
    KeptArtifact,
    KeptNote,
    Opened,
    OutsideShelf,
    Row,
    SearchIndex,
    SessionCard,
    Snapshot,
    StoreStats,
    Tombstone,
)
from foveal.stores.postgres.artifacts import PostgresArtifacts
from foveal.stores.postgres.commits import HeldSession, PostgresCommits, holder_text, release
from foveal.stores.postgres.connections import Bindings, Connections, Link, parse_address
from foveal.stores.postgres.durability import Replication, check_durability, check_replication
from foveal.stores.postgres.index_cache import CacheState, IndexCache, default_cache, scope_hash
from foveal.stores.postgres.leases import PostgresLease
from foveal.stores.postgres.records import (
    COLUMNS,
    Register,
    damage,
    register,
    verified_row,
    verified_run,
    verified_snapshot,
)
from foveal.stores.postgres.schema import (
    LOCK_MS,
    check_version,
    drop_empty_partitions,
    make_partition,
    migrate,
    partition_of,
    remember_artifacts,
    rewrite_tables,
)
from foveal.stores.session_artifacts import plain_artifacts
from foveal.values.errors import (
    BadInput,
    IndexLeft,
    LeaseLost,
    ListDamaged,
    NotFound,
    SessionHeld,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    TailLost,
)

T = TypeVar("T")

COMMITTERS = 4
"""Threads that commit: while one waits for the disk, others gather and send. Chosen by `benchmarks/stores.py`."""

_LEASES_S = (1, 86_400)
"""The shortest lease, which a busy process can renew in time, and the longest: a day after a crash without a writer."""
_PATIENCES_S = (0, 86_400)
_SCHEMA, _LEASE_S, _PATIENCE_S = "foveal", LEASE_MS / 1000, 30.0
"""The schema, the lease, and the time that a call waits for a server that is away, unless the address names others."""

_BATCH = {"rows": 257, "bytes": 4 << 20}
"""Rows of a batch, with the one before it, and their payload, so that a log of large rows is not read into memory at once."""

_ACQUIRE = """
WITH seen AS MATERIALIZED (
    SELECT s.key, s.epoch, s.token IS NULL OR s.mark = %(mark)s OR NOT EXISTS
        (SELECT FROM @leases l WHERE l.token = s.token AND l.until > clock_timestamp()) AS is_free
    FROM @sessions s WHERE s.id = %(id)s
), made AS (
    INSERT INTO @sessions
        (id, created_ms, updated_ms, hour, entries, chain, epoch, token, since_ms, mark, secret, scope, seal)
    SELECT %(id)s, %(now)s, %(now)s, %(now)s / 3600000, 0, %(seed)s, 1, %(token)s, %(now)s, %(mark)s, %(secret)s, %(scope)s,
        %(seal)s
    WHERE NOT EXISTS (SELECT FROM seen) AND NOT EXISTS (SELECT FROM @versions WHERE version > %(schema)s)
    ON CONFLICT (id) DO NOTHING RETURNING $record
), taken AS (
    UPDATE @sessions s SET epoch = s.epoch + 1, token = %(token)s, since_ms = %(now)s, mark = %(mark)s FROM seen
    WHERE s.key = seen.key AND s.epoch = seen.epoch AND (%(takeover)s OR seen.is_free)
        AND (%(scope)s::text IS NULL OR s.scope IS NULL OR s.scope = %(scope)s)
        AND NOT EXISTS (SELECT FROM @versions WHERE version > %(schema)s)
    RETURNING $session
)
SELECT * FROM made UNION ALL SELECT * FROM taken
"""
"""The liveness of the holder is of the moment of `seen`, and so the epoch must be too: the statement may have waited for another
one that acquired the session, whose lease it does not see. The mark is of one call: if the answer to its first try was lost, the
session is held by nobody but that try. A handle that was open while a newer Foveal upgraded the tables writes nothing."""

_SNAPSHOT = (
    "SELECT n.seq, n.seal, n.payload, (SELECT e.hash FROM @entries e WHERE e.session = n.session AND e.seq = n.seq)"
    " FROM @snapshots n WHERE n.session = $key"
)
_NEWEST = """
WITH base AS MATERIALIZED (
    SELECT s.key, greatest(0, s.entries - %(newest)s) AS newest, greatest(0, n.seq - %(early)s, s.entries - %(most)s) AS since,
        n.seq IS NULL OR n.seq > s.entries AS is_bare
    FROM @sessions s LEFT JOIN @snapshots n ON n.session = s.key WHERE s.id = %(id)s
), span AS MATERIALIZED (SELECT key, CASE WHEN is_bare THEN newest ELSE since END AS first FROM base)
SELECT e.seq, e.id, e.parent, e.time_ms, e.author, e.hash, CASE WHEN e.seq > span.first THEN e.payload ELSE '' END
FROM span JOIN @entries e ON e.session = span.key AND e.seq >= span.first ORDER BY e.seq
"""
_RUN = """
SELECT seq, id, parent, time_ms, author, hash, CASE WHEN seq > %(after)s THEN payload ELSE '' END FROM (
    SELECT e.*, coalesce(sum(octet_length(e.payload)) OVER
        (ORDER BY e.seq ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING), 0) AS size
    FROM @entries e WHERE e.session = %(key)s AND e.seq >= %(after)s AND e.seq <= %(last)s ORDER BY e.seq LIMIT %(rows)s
) AS run WHERE size < %(bytes)s ORDER BY seq
"""
_FIRST_RUN = _RUN.replace("%(key)s", "$key")
_NO_END = 1 << 62
_RECORD = "SELECT $record FROM @sessions WHERE id = %(id)s"
_CARDS = (
    "SELECT $session, l.holder, b.title, b.tags, b.seal FROM @sessions s"
    " LEFT JOIN @leases l ON l.token = s.token AND l.until > clock_timestamp() LEFT JOIN @labels b ON b.session = s.key"
)
_RELABEL = (
    "INSERT INTO @labels (session, title, tags, seal) VALUES (%s, %s, %s, %s) ON CONFLICT (session)"
    " DO UPDATE SET title = excluded.title, tags = excluded.tags, seal = excluded.seal"
)
_HOLDING = (
    "SELECT s.scope, s.token, s.since_ms, l.holder, (extract(epoch FROM l.until) * 1000)::bigint,"
    " (extract(epoch FROM clock_timestamp()) * 1000)::bigint FROM @sessions s LEFT JOIN @leases l USING (token)"
)
_DELETE_SESSION = (
    "DELETE FROM @entries WHERE session = %s",
    "DELETE FROM @snapshots WHERE session = %s",
    "DELETE FROM @notes WHERE session = %s",
    "DELETE FROM @labels WHERE session = %s",
    "DELETE FROM @sessions WHERE key = %s",
)
_KEEP_NOTE = """
WITH kept_in AS (SELECT key FROM @sessions WHERE id = %(session)s AND scope = %(scope)s FOR SHARE
), note AS (
    INSERT INTO @notes (scope, key, text, session, author, time_ms, seal)
    SELECT %(scope)s, %(key)s, %(text)s, k.key, %(author)s, %(time)s, %(seal)s FROM kept_in k
    ON CONFLICT (scope, key) DO UPDATE SET text = excluded.text, session = excluded.session, author = excluded.author,
        time_ms = excluded.time_ms, seal = excluded.seal
), counted AS (
    INSERT INTO @scopes (id, changes, deletions) SELECT %(scope)s, 1, 0 FROM kept_in
    ON CONFLICT (id) DO UPDATE SET changes = @scopes.changes + 1
)
SELECT key FROM kept_in
"""
_FORGET_NOTE = """
WITH gone AS (DELETE FROM @notes WHERE scope = %(scope)s AND key = %(key)s RETURNING key
), counted AS (UPDATE @scopes SET changes = changes + 1 WHERE id = %(scope)s AND EXISTS (SELECT FROM gone))
SELECT key FROM gone
"""
_CHILDREN = (
    "SELECT s.id FROM unnest(%s::text[], %s::text[]) AS span(first, behind)"
    ' JOIN @sessions s ON s.id >= span.first COLLATE "C" AND s.id < span.behind COLLATE "C"'
)
_COUNT_DELETION = (
    "INSERT INTO @scopes (id, changes, deletions) VALUES (%s, 1, 1) ON CONFLICT (id)"
    " DO UPDATE SET changes = @scopes.changes + 1, deletions = @scopes.deletions + 1"
)
_STRAYS = """
SELECT e.session, s.id, min(e.seq), count(*)::bigint FROM @entries e LEFT JOIN @sessions s ON s.key = e.session
WHERE (s.key IS NULL OR e.seq > s.entries) AND (%(prefix)s = '' OR starts_with(s.id, %(prefix)s))
GROUP BY e.session, s.id ORDER BY e.session
"""
_INSERT_TOMBSTONE = (
    "INSERT INTO @tombstones (seed, created_ms, deleted_ms, entries, chain, seal) SELECT %s, %s, %s, %s, %s, %s"
)
_TOMBSTONES = "SELECT seed, created_ms, deleted_ms, entries, chain, seal FROM @tombstones"
_ALL = "all\0"
"""The name of the index of all sessions: one that no scope can have."""
_DELETED = "SELECT count(*)::bigint FROM @tombstones"
_DELETIONS = (
    "SELECT hash, deletions FROM (SELECT left(encode(sha256(convert_to(id, 'UTF8')), 'hex'), 32) AS hash, deletions FROM @scopes)"
    " AS known WHERE hash = ANY(%s)"
)
_SIZES = (
    "SELECT coalesce(sum(pg_total_relation_size(relid)), pg_total_relation_size(%(table)s::regclass))::bigint"
    " FROM pg_partition_tree(%(table)s::regclass)"
)


class PostgresStore:
    """Logs in a PostgreSQL database, in a schema of their own. Safe to use from many threads.

    Artifacts are kept in the database too, unless `artifacts` names a place elsewhere, which the store remembers, or is an object
    that keeps them.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = _SCHEMA,
        lease_s: float = _LEASE_S,
        patience_s: float = _PATIENCE_S,
        committers: int = COMMITTERS,
        replication: Replication = "warn",
        cache: Path | None = None,
        artifacts: ArtifactShelf | str | Path | None = None,
        must_exist: bool = False,
    ) -> None:
        address = parse_address(url)
        options = _Options.read(
            address.options, _Options(schema, lease_s, patience_s, replication, cache and str(cache))
        )
        named = artifacts if isinstance(artifacts, str | Path) else options.artifacts
        given = None if isinstance(artifacts, str | Path) else artifacts
        shelf = None if named is None else open_artifacts(named)
        self.artifacts: ArtifactShelf
        self.place = str(address)
        self._connections = Connections(address, options.schema, options.patience_s, COLUMNS)
        self._pid = os.getpid()
        self._is_closed = False
        self._partitions: set[int] = set()
        """Partitions that are known to be there."""
        try:
            store_id = migrate(self._connections, secrets.token_hex(8), _now_ms(), must_exist=must_exist)
            replication = options.replication
            self._connections.run(lambda link: check_durability(link, self.place, replication))
            self.artifacts = self._find_artifacts(named, shelf, store_id) if given is None else given
        except BaseException:
            self._connections.close()
            raise
        self._indexes = IndexCache(Path(options.cache or default_cache()) / store_id, self._cache_state)
        self._lease = PostgresLease(self._connections, options.lease_s)
        self._commits = PostgresCommits(self._connections, committers)
        weakref.finalize(self, _end, self._lease, self._commits, self._connections)
        _open_stores.add(self)

    @property
    def round_trips(self) -> int:
        """Times that a caller or a thread of this handle has waited for the server."""
        return self._connections.round_trips

    def artifacts_for(self, session: str) -> Artifacts:
        return plain_artifacts(self.artifacts, session)

    def kept_artifacts(self) -> list[KeptArtifact]:
        return [KeptArtifact(name, self.artifacts) for name in self.artifacts.names()]

    def acquire(
        self, session: str, *, takeover: bool = False, secret: bytes | None = None, scope: str | None = None
    ) -> "PostgresWriter":
        """Become the session's writer. A process that is seen to be dead is succeeded at once, others when their lease ends."""
        return cast("PostgresWriter", self.load(session, takeover=takeover, secret=secret, scope=scope).writer)

    def load(
        self, session: str, *, takeover: bool = False, secret: bytes | None = None, scope: str | None = None
    ) -> Opened:
        check_session(session)
        check_secret(secret)
        check_scope(scope)
        self._check_usable()
        now_ms = _now_ms()
        fresh = secrets.token_bytes(SECRET_BYTES) if secret is None else secret
        mark = secrets.randbits(62)
        new = Register(0, session, now_ms, now_ms, 0, None, seed(session), 1, None, now_ms, fresh, scope, mark)
        wish: dict[str, object] = {
            "id": session,
            "now": now_ms,
            "seed": new.chain,
            "token": self._lease.token,
            "takeover": takeover,
            "mark": mark,
            "secret": fresh,
            "scope": scope,
            "seal": new.seal(),
            "newest": NEWEST_ROWS,
            "early": BEFORE_SNAPSHOT,
            "most": OPENING_ROWS,
            "schema": POSTGRES_SCHEMA,
        }
        while True:
            opened = self._run(lambda link: self._open(link, wish))
            if opened is not None:
                return opened
            self._run(lambda link: self._check_free(link, session, scope))

    def secret(self, session: str) -> bytes:
        return self._known(session).secret

    def secrets(self, sessions: Sequence[str]) -> dict[str, bytes]:
        names = [name for name in sessions if _is_text(name)]
        query = "SELECT $record FROM @sessions WHERE id = ANY(%(ids)s)"
        found = self._run(lambda link: link.ask(query, {"ids": names}))
        return {known.id: known.secret for known in (register(raw, self.place) for raw in found)}

    def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
        """Yield the rows after < seq <= upto, each verified. Those before a damaged one are given before it raises."""
        after, upto = max(after, 0), _NO_END if upto is None else min(upto, _NO_END)
        known, raws = self._ask_about(session, _FIRST_RUN, {**_BATCH, "after": after, "last": upto})
        last = min(upto, known.entries)
        return self._walk(known, [raw for raw in raws if raw[0] <= last], after, last)

    def rows_at(self, session: str, seqs: Iterable[int]) -> dict[int, Row]:
        wanted = sorted({seq for seq in seqs if 0 < seq < _NO_END})
        query = "SELECT $row FROM @entries e WHERE e.session = $key AND e.seq = ANY(%(seqs)s) ORDER BY e.seq"
        known, raws = self._ask_about(session, query, {"seqs": wanted})
        found = {raw[0]: verified_row(raw, session, self.place) for raw in raws if raw[0] <= known.entries}
        for seq in wanted:
            if seq <= known.entries and seq not in found:
                raise self._damage(known, seq, "it is missing")
        return found

    def find(self, session: str, prefix: str) -> list[Row]:
        is_possible = _is_text(prefix)
        query = "SELECT $row FROM @entries e WHERE e.session = $key AND e.id >= %(prefix)s ORDER BY e.id LIMIT 2"
        known, raws = self._ask_about(session, query, {"prefix": prefix if is_possible else ""})
        # Ids that start with the prefix are neighbours in the index, and the prefix itself would be the first of them.
        near = [raw for raw in raws if is_possible and raw[1].startswith(prefix) and raw[0] <= known.entries]
        rows = [verified_row(raw, session, self.place) for raw in near]
        return rows[:1] if rows and rows[0].id == prefix else rows

    def snapshot(self, session: str) -> Snapshot | None:
        known, raws = self._ask_about(session, _SNAPSHOT, {})
        return verified_snapshot(raws[0] if raws else None, known)

    def cards(self, session: str | None = None) -> list[SessionCard]:
        if session is not None and not _is_text(session):
            return []
        where, bindings = ("WHERE s.id = %s", (session,)) if session is not None else ("", ())
        return self._cards(where, bindings)

    def page(
        self, *, prefix: str = "", after: str = "", limit: int = PAGE_CARDS, tag: str | None = None
    ) -> list[SessionCard]:
        if not all(map(_is_text, (prefix, after, tag or ""))):
            return []
        tagged, tags = ("", ()) if tag is None else (" AND b.tags && %s::text[]", ([tag],))
        query = f"{_CARDS} WHERE s.id > %s AND s.id >= %s AND starts_with(s.id, %s){tagged} ORDER BY s.id LIMIT %s"
        return self._listed(query, (after, prefix, prefix, *tags, max(limit, 0)))

    def entitle(self, session: str, title: str | None) -> None:
        def change(known: Labels, secret: bytes) -> Labels:
            check_sealed(session, secret, title)
            return known.entitled(title, secret)

        self._relabel(session, change)

    def tag(self, session: str, *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> tuple[str, ...]:
        return self._relabel(session, lambda known, _: known.tagged(add, remove)).tags

    def index(self, session: str) -> SearchIndex:
        self._check_usable()
        found = self._record(session)
        return self._indexes.of_session(session, found and found.key)

    def index_of_all(self) -> SearchIndex:
        deletions = self._run(lambda link: link.ask(_DELETED))[0][0]
        return self._indexes.of_scope(_ALL, deletions)

    def scope(self, name: str) -> "PostgresScope":
        self._check_usable()
        check_scope(name)
        return PostgresScope(name, self.place, run=self._run, cards=self._cards, indexes=self._indexes)

    def delete(
        self, sessions: Sequence[str], *, takeover: bool = False, seen: Mapping[str, int] | None = None
    ) -> list[Tombstone]:
        """Delete the sessions. No statement finds anything of them from then on, and no search on this machine; the bytes go with
        the next `vacuum`, and from the server's own logs and backups as those age."""

        def job(link: Link) -> list[Tombstone]:
            with link.transaction():
                check_version(link, self.place)
                return _delete_all(link, sessions, self.place, now_ms, takeover=takeover, seen=seen)

        now_ms = _now_ms()
        gone = self._run(job)
        try:
            left: Mapping[str, Exception] = self._indexes.sweep()
        except StoreError as error:  # the sessions are deleted; the words of them on this machine go with the next use
            left = {str(self._indexes.folder): error}
        if left:
            raise IndexLeft(left, self.place, gone)
        return gone

    def tombstones(self) -> list[Tombstone]:
        return self._tombstones("")

    def tombstones_of(self, sessions: Sequence[str]) -> dict[str, list[Tombstone]]:
        hashes = [bytes.fromhex(known) for known in seeds(sessions)]
        return by_name(self._tombstones("WHERE seed = ANY(%s)", hashes), sessions) if hashes else {}

    def _tombstones(self, where: str, *bindings: object) -> list[Tombstone]:
        query = f"{_TOMBSTONES} {where} ORDER BY deleted_ms, key"
        raws = self._run(lambda link: link.ask(query, bindings))
        for raw in raws:
            if seal(*raw[:-1]) != raw[-1]:
                raise StoreCorrupt(self.place, "a tombstone does not match its seal", self.place)
        return [Tombstone(raw[0].hex(), raw[1], raw[2], raw[3], raw[4].hex()) for raw in raws]

    def find_strays(self, prefix: str = "") -> list[StoreCorrupt]:
        """Return the damage of entries that no reader meets: of sessions whose records are gone, and behind the end of a log.
        With a prefix, only that of sessions whose names begin with it. All entries are counted."""
        found = list[StoreCorrupt]()
        for key, session, first, count in self._run(lambda link: link.ask(_STRAYS, {"prefix": prefix})):
            if session is None:
                what = (
                    f"a session is missing: {count:,} of its entries are there, under the number {key}, and no record"
                )
                found.append(StoreCorrupt(self.place, what, self.place))
            else:
                what = (
                    f"the record of the session says that the log ends before it; {count:,} entries lie behind the end"
                )
                found.append(damage(session, first, what, self.place))
        return found

    def adopt(self, tombstones: Sequence[Tombstone]) -> None:
        def job(link: Link) -> None:
            with link.transaction():
                check_version(link, self.place)
                for one in tombstones:
                    hashes = bytes.fromhex(one.seed), bytes.fromhex(one.chain)
                    fields = (hashes[0], one.created_ms, one.deleted_ms, one.entries, hashes[1])
                    absent = " WHERE NOT EXISTS (SELECT FROM @tombstones WHERE seal = %s)"
                    link.ask(_INSERT_TOMBSTONE + absent, (*fields, seal(*fields), seal(*fields)))

        self._run(job)

    def backdate(self, session: str, *, created_ms: int, updated_ms: int) -> None:
        def job(link: Link) -> None:
            with link.transaction():
                check_version(link, self.place)
                known = _locked(link, session, self.place)
                _refuse_held(link, session)
                sealed = msgspec.structs.replace(known, created_ms=created_ms).seal()
                update = "UPDATE @sessions SET created_ms = %s, updated_ms = %s, hour = %s, seal = %s WHERE key = %s"
                link.ask(update, (created_ms, updated_ms, updated_ms // 3_600_000, sealed, known.key))

        self._run(job)

    def stats(self) -> StoreStats:
        def job(link: Link) -> StoreStats:
            count = (
                "SELECT count(*)::bigint, count(l.token)::bigint, coalesce(sum(s.entries), 0)::bigint FROM @sessions s"
                " LEFT JOIN @leases l ON l.token = s.token AND l.until > clock_timestamp()"
            )
            (sessions, held, entries), (deleted,) = (
                link.ask(count)[0],
                link.ask(_DELETED)[0],
            )
            sizes = {
                table: link.ask(_SIZES, {"table": link.name(f"@{table}")})[0][0]
                for table in ("sessions", "entries", "snapshots", "chunks")
            }
            sizes["index cache"] = self._indexes.size_bytes()
            return StoreStats(sessions, held, entries, deleted, sizes)

        return self._run(job)

    def vacuum(self) -> None:
        """Drop partitions without sessions, remove leftovers of dead processes, and give the space of deleted rows back.

        Tables are written anew, so that no byte of a deleted row is in their files: that of the sessions, with their data keys,
        always, and others up to `REWRITE_BYTES`. `StoreBusy` if somebody reads a table all the time.
        """
        sweep: Callable[[], object] | None = getattr(self.artifacts, "sweep", None)
        if sweep is not None:  # an artifact shelf of somebody else's may have nothing to sweep
            sweep()
        left = self._indexes.sweep()

        def job(link: Link) -> list[str]:
            link.ask("DELETE FROM @leases WHERE until < clock_timestamp() - interval '1 day'")
            link.ask("DELETE FROM @labels l WHERE NOT EXISTS (SELECT FROM @sessions s WHERE s.key = l.session)")
            drop_empty_partitions(link)
            return rewrite_tables(link)

        if busy := self._run(job):
            raise StoreBusy(
                f"{self.place}: {', '.join(busy)} could not be written anew, because others held them for longer than "
                f"{LOCK_MS / 1000:.0f} s (a backup, a long query); bytes of deleted rows may be in their files. Run it later."
            )
        if left:
            raise IndexLeft(left, self.place)

    def close(self) -> None:
        """Finish the appends under way, release every session acquired through this handle, and close the connections."""
        if self._is_closed or os.getpid() != self._pid:
            return
        self._is_closed = True
        self._commits.close()
        self._lease.close()
        self._connections.close()

    def __enter__(self) -> "PostgresStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _find_artifacts(self, named: str | Path | None, shelf: OutsideShelf | None, store_id: str) -> ArtifactShelf:
        """Return the artifacts in the place that is named or that the store remembers; those in the database if there is none."""
        address = None if named is None else artifacts_address(named)
        known = self._run(lambda link: remember_artifacts(link, None))
        if known is None and shelf is not None and address is not None:  # a place that is refused is not remembered
            _check_claim(shelf, store_id, self.place, address, is_new=True)
        elsewhere = self._run(lambda link: remember_artifacts(link, address))
        if elsewhere is None:
            return PostgresArtifacts(self._connections)
        found = shelf or open_artifacts(elsewhere)
        if known is not None:
            _check_claim(found, store_id, self.place, elsewhere, is_new=False)
        return found

    def _open(self, link: Link, wish: dict[str, object]) -> Opened | None:
        """Acquire a session and read what is needed to go on with it; None if somebody has it, or had it a moment ago."""
        questions: list[tuple[str, Bindings]] = [(_ACQUIRE, wish), (_SNAPSHOT, wish), (_NEWEST, wish)]
        lease = [] if self._lease.is_taken else [self._lease.renewal()]
        acquired, snapshots, raws = link.ask_all([*lease, *questions])[-3:]
        self._lease.keep_alive()
        if not acquired:
            return None
        known = register(acquired[0], self.place)
        writer = PostgresWriter(HeldSession(known), append=self._append, release=self._release)
        try:
            known = self._settled(link, writer, known, cast("str | None", wish["scope"]))
            snapshot = verified_snapshot(snapshots[0] if snapshots else None, known)
            after = first_needed(
                known.entries, snapshots[0][0] if snapshots and snapshots[0][0] <= known.entries else None
            )
            rows = tuple(verified_run(raws, known, after, self.place))
            if (rows[-1].seq if rows else after) != known.entries or any(raw[0] > known.entries for raw in raws):
                last = max((raw[0] for raw in raws), default=0)
                what = f"the log ends at entry {last}, its record says {known.entries}"
                raise StoreCorrupt(f"session {known.id}", what, self.place)
        except BaseException:
            writer.release()
            raise
        return Opened(writer, known.secret, known.entries, snapshot, rows)

    def _settled(self, link: Link, writer: "PostgresWriter", known: Register, scope: str | None) -> Register:
        """Return the record of an acquired session with its scope, and its partition made."""
        number = partition_of(known.key)
        if known.entries == 0 and number not in self._partitions:
            make_partition(link, known.key)
            self._partitions.add(number)
        if scope is not None and known.scope is None:
            known = msgspec.structs.replace(known, scope=scope)
            update = "UPDATE @sessions SET scope = %s, seal = %s WHERE key = %s AND epoch = %s"
            link.ask(update, (scope, known.seal(), known.key, known.epoch))
            writer.held.register = known
        return known

    def _check_free(self, link: Link, session: str, scope: str | None) -> None:
        """Raise the error for a session that could not be acquired, unless it can be now."""
        check_version(link, self.place)
        found = link.ask(f"{_HOLDING} WHERE s.id = %s", (session,))
        if found:
            check_same_scope(session, found[0][0], scope)
            _refuse_held(link, session)

    def _append(self, held: HeldSession, drafts: Sequence[Draft], snapshot: bytes | None) -> list[int]:
        check_drafts(drafts)
        self._check_usable()
        return self._commits.append(held, drafts, snapshot)

    def _release(self, held: HeldSession) -> None:
        if self._is_closed or os.getpid() != self._pid:
            return
        if held.last is not None:
            held.last.settle()
        self._run(lambda link: release(link, held.register))

    def _walk(self, known: Register, raws: Sequence[Sequence[Any]], after: int, last: int) -> Iterator[Row]:
        """Yield the rows up to the last; `raws` are the first of them."""
        while after < last:
            began = after
            try:
                for row in verified_run(raws, known, after, self.place):
                    yield row
                    after = row.seq
            except StoreCorrupt as error:
                raise self._told(known, error) from None
            if after == began:
                raise self._damage(known, after + 1, "it is missing")
            if after < last:
                span = {**_BATCH, "key": known.key, "after": after, "last": last}
                raws = self._run(lambda link, span=span: link.ask(_RUN, span))

    def _ask_about(
        self, session: str, query: str, bindings: dict[str, object]
    ) -> tuple[Register, list[tuple[Any, ...]]]:
        """Return a session's record and the answer to a question about it, in one round trip; `NotFound` if it is not there."""
        self._check_usable()
        given = {"id": session, **bindings}
        records, raws = ([], [])
        if _is_text(session):
            records, raws = self._run(lambda link: link.ask_all([(_RECORD, given), (query, given)]))
        if not records:
            raise NotFound(f"there is no session {session!r} in {self.place}")
        return register(records[0], self.place), raws

    def _record(self, session: str) -> Register | None:
        found = self._run(lambda link: link.ask(_RECORD, {"id": session})) if _is_text(session) else []
        return register(found[0], self.place) if found else None

    def _known(self, session: str) -> Register:
        self._check_usable()
        known = self._record(session)
        if known is None:
            raise NotFound(f"there is no session {session!r} in {self.place}")
        return known

    def _cards(self, where: str, bindings: Bindings) -> list[SessionCard]:
        return self._listed(f"{_CARDS} {where} ORDER BY s.updated_ms DESC, s.key DESC", bindings)

    def _listed(self, query: str, bindings: Bindings) -> list[SessionCard]:
        found = self._run(lambda link: link.ask(query, bindings))
        holders: set[str] = {holder for *_, holder, _, _, _ in found if holder is not None}
        living = {holder for holder in holders if unpack(holder).lives() is not False}
        cards, damage = list[SessionCard](), dict[str, StoreCorrupt]()
        for raw in found:
            *_, holder, title, tags, sealed = raw
            try:
                known = register(raw, self.place)
                cards.append(known.card(holder_text(holder, known.since_ms) if holder in living else None))
                cards[-1] = self._labels(known, title, tags, sealed).on(cards[-1])
            except StoreCorrupt as error:
                damage[raw[1]] = error
        if damage:
            raise ListDamaged(damage, cards)
        return cards

    def _labels(self, known: Register, title: str | None, tags: list[str] | None, sealed: bytes | None) -> Labels:
        if tags is None:
            return NO_LABELS
        if seal(known.id, title, *tags) != sealed:
            raise StoreCorrupt(f"session {known.id}", "its labels do not match their seal", self.place)
        return Labels(title, tuple(tags))

    def _relabel(self, session: str, change: Callable[[Labels, bytes], Labels]) -> Labels:
        def job(link: Link) -> Labels:
            with link.transaction():
                check_version(link, self.place)
                known = _locked(link, session, self.place)
                kept = link.ask("SELECT title, tags, seal FROM @labels WHERE session = %s", (known.key,))
                labels = change(self._labels(known, *kept[0]) if kept else NO_LABELS, known.secret)
                fields = (known.key, labels.title, list(labels.tags), seal(known.id, labels.title, *labels.tags))
                link.ask(_RELABEL, fields)
                return labels

        return self._run(job)

    def _damage(self, known: Register, seq: int, what: str) -> StoreError | BadInput:
        return self._told(known, damage(known.id, seq, what, self.place))

    def _told(self, known: Register, error: StoreCorrupt) -> StoreError | BadInput:
        """Return the error, or `NotFound` if the session was deleted while it was read."""
        now = self._record(known.id)
        if now is None or now.key != known.key:
            return NotFound(f"session {known.id!r} was deleted while it was read")
        return error

    def _cache_state(self, keys: Sequence[int], scopes: Sequence[str]) -> CacheState:
        questions: list[tuple[str, Bindings]] = [
            ("SELECT key FROM @sessions WHERE key = ANY(%s)", (list(keys),)),
            (_DELETIONS, (list(scopes),)),
            (_DELETED, ()),
        ]
        found, deletions, ((deleted,),) = self._run(lambda link: link.ask_all(questions))
        return CacheState(frozenset(key for (key,) in found), {**dict(deletions), scope_hash(_ALL): deleted})

    def _run(self, job: Callable[[Link], T]) -> T:
        self._check_usable()
        return self._connections.run(job)

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise StoreError(
                f"{self.place} was opened in process {self._pid} and is used in {os.getpid()} after a fork. "
                "Open the store again in the child process."
            )
        if self._is_closed:
            raise StoreError(f"{self.place} is closed; open the store again.")


class PostgresWriter:
    """The right to append to one session of a `PostgresStore`. It keeps the store alive."""

    def __init__(
        self,
        held: HeldSession,
        *,
        append: Callable[[HeldSession, Sequence[Draft], bytes | None], list[int]],
        release: Callable[[HeldSession], None],
    ) -> None:
        self.epoch = held.register.epoch
        self.held = held
        self._append, self._release = append, release

    def append(self, drafts: Sequence[Draft], *, snapshot: bytes | None = None) -> list[int]:
        """Write the drafts together; they are committed when this returns."""
        if self.held.is_released:
            raise LeaseLost(f"session {self.held.register.id} was released by this writer; hold it again to append.")
        return self._append(self.held, drafts, snapshot)

    def release(self) -> None:
        """Stop being the writer, so that another process need not wait for the lease. `TailLost` if acknowledged entries are
        gone: nobody else could tell it."""
        if not self.held.is_released:
            try:
                self._release(self.held)
            except TailLost:
                self.held.is_released = True
                raise
            self.held.is_released = True


class PostgresScope:
    """One scope of a `PostgresStore`."""

    def __init__(
        self,
        name: str,
        place: str,
        *,
        run: Callable[[Callable[[Link], Any]], Any],
        cards: Callable[[str, Bindings], list[SessionCard]],
        indexes: IndexCache,
    ) -> None:
        self._name, self._place, self._run, self._cards, self._indexes = name, place, run, cards, indexes

    def sessions(self, *, since_ms: int | None = None) -> list[SessionCard]:
        if since_ms is None:
            return self._cards("WHERE s.scope = %s", (self._name,))
        recent = "WHERE s.scope = %s AND s.hour >= %s AND s.updated_ms >= %s"
        return self._cards(recent, (self._name, since_ms // 3_600_000, since_ms))

    def index(self) -> SearchIndex:
        return self._indexes.of_scope(self._name, self._counts()[1])

    def notes(self) -> list[KeptNote]:
        query = (
            "SELECT n.scope, n.key, n.text, s.id, n.author, n.time_ms, n.seal FROM @notes n JOIN @sessions s ON s.key = n.session"
            " WHERE n.scope = %s ORDER BY n.time_ms DESC, n.key"
        )
        raws = self._run(lambda link: link.ask(query, (self._name,)))
        for raw in raws:
            if seal(*raw[:-1]) != raw[-1]:
                raise StoreCorrupt(f"scope {self._name}", "one of its notes does not match its seal", self._place)
        return [KeptNote(raw[1], raw[2].decode(), *raw[3:6]) for raw in raws]

    def keep(self, note: KeptNote) -> None:
        query = "SELECT secret FROM @sessions WHERE id = %s"
        asked = (query, (note.session,))
        found: list[tuple[Any, ...]] = self._run(lambda link: link.ask(*asked)) if _is_text(note.session) else []
        for (secret,) in found:
            check_note(note, secret)
            check_sealed(note.session, secret, note.text)
        if not found or not self._keep(note):
            raise NotFound(f"the scope {self._name!r} has no session {note.session!r}; nothing was kept")

    def _keep(self, note: KeptNote) -> bool:
        """Keep a note that was checked, and return whether its session is in the scope."""
        text = note.text.encode()
        given = {"scope": self._name, "key": note.key, "text": text, "session": note.session, "author": note.author}
        given |= {
            "time": note.time_ms,
            "seal": seal(self._name, note.key, text, note.session, note.author, note.time_ms),
        }
        return bool(self._write(_KEEP_NOTE, given))

    def forget(self, key: str) -> bool:
        given = {"scope": self._name, "key": key}
        return _is_text(key) and bool(self._write(_FORGET_NOTE, given))

    def changes(self) -> int:
        return self._counts()[0]

    def _write(self, statement: str, given: Bindings) -> list[tuple[Any, ...]]:
        def job(link: Link) -> list[tuple[Any, ...]]:
            check_version(link, self._place)
            return link.ask(statement, given)

        return self._run(job)

    def _counts(self) -> tuple[int, int]:
        query = "SELECT changes, deletions FROM @scopes WHERE id = %s"
        found = self._run(lambda link: link.ask(query, (self._name,)))
        return found[0] if found else (0, 0)


class _Options(msgspec.Struct, frozen=True):
    """The options that an address may hold."""

    schema: str = _SCHEMA
    lease_s: float = _LEASE_S
    patience_s: float = _PATIENCE_S
    replication: Replication = "warn"
    cache: str | None = None
    artifacts: str | None = None

    @classmethod
    def read(cls, given: dict[str, str], defaults: "_Options") -> "_Options":
        unknown = sorted(set(given) - {field.name for field in msgspec.structs.fields(cls)})
        if unknown:
            known = ", ".join(f"foveal_{field.name}" for field in msgspec.structs.fields(cls))
            raise BadInput(f"foveal_{unknown[0]} is no option of a store in PostgreSQL; there are {known}")
        check_replication(given.get("replication", defaults.replication))
        try:
            read = msgspec.convert(msgspec.to_builtins(defaults) | given, cls, strict=False)
        except msgspec.ValidationError as error:  # the other options are texts
            name = str(error).rpartition("$.")[2].rstrip("`")
            raise BadInput(f"foveal_{name} is {given.get(name, '')!r:.40}; give a number of seconds") from None
        for name, value, (least, most) in (
            ("lease", read.lease_s, _LEASES_S),
            ("patience", read.patience_s, _PATIENCES_S),
        ):
            if not least <= value <= most:
                raise BadInput(f"foveal_{name}_s is {value}; give {least:,} to {most:,} seconds")
        return read


def are_same(one: str, other: str) -> bool:
    """Return whether two addresses lead to the same tables, however they are written: a lock that is taken by one is held for the
    other. A copy of a database is another store, although it has the id of the first."""
    addresses = parse_address(one), parse_address(other)
    options = [_Options.read(address.options, _Options()) for address in addresses]
    mine, theirs = (
        Connections(address, known.schema, known.patience_s, COLUMNS)
        for address, known in zip(addresses, options, strict=True)
    )
    lock = ("SELECT pg_try_advisory_xact_lock(%s)", (secrets.randbits(62),))

    def is_seen(link: Link) -> bool:
        with link.transaction():
            link.ask(*lock)
            return theirs.run(lambda other: other.ask(*lock)) == [(False,)]

    with closing(mine), closing(theirs):
        return options[0].schema == options[1].schema and mine.run(is_seen)


def _check_claim(shelf: OutsideShelf, store_id: str, place: str, where: str, *, is_new: bool) -> None:
    """Raise `BadInput` if the artifacts of another store lie in a place outside the database, or if a new place cannot be
    written: the store would remember it for ever. Who may only read a known one, or cannot reach it now, claims nothing."""
    try:
        owner = shelf.claim(store_id)
    except StoreError as error:
        if is_new:
            raise BadInput(f"{place} can keep no artifacts in {where}, which was not remembered: {error}") from error
        return
    if owner != store_id:
        raise BadInput(
            f"{where} has the artifacts of another store, and {place} cannot keep its own there: each would remove those that "
            "only the other one names. Name a folder or a prefix that no other store has."
        )


def _delete_all(
    link: Link, sessions: Sequence[str], place: str, now_ms: int, *, takeover: bool, seen: Mapping[str, int] | None
) -> list[Tombstone]:
    done = "SELECT created_ms, entries, chain FROM @tombstones WHERE seed = %s AND deleted_ms = %s"
    tombstones: dict[str, Tombstone] = {}
    found: dict[str, Register] = {}
    for session in sorted(filter(_is_text, sessions)):
        for created_ms, entries, chain in link.ask(done, (seed(session), now_ms)):  # by a try whose answer was lost
            tombstones[session] = Tombstone(seed(session).hex(), created_ms, now_ms, entries, chain.hex())
    for session in sorted(set(sessions) - set(tombstones)):
        found[session] = _locked(link, session, place)
    if not takeover:
        _refuse_held(link, *found)
    if seen is not None:
        spans = [list(ends) for ends in zip(*map(children_span, found), strict=True)] or [[], []]
        names = [raw[0] for raw in link.ask(_CHILDREN, spans)]
        check_seen({session: known.entries for session, known in found.items()}, names, seen)
    for session, known in found.items():
        fields = (seed(session), known.created_ms, now_ms, known.entries, known.chain)
        link.ask(_INSERT_TOMBSTONE, (*fields, seal(*fields)))
        for statement in _DELETE_SESSION:
            link.ask(statement, (known.key,))
        if known.scope is not None:
            link.ask(_COUNT_DELETION, (known.scope,))
        tombstones[session] = Tombstone(fields[0].hex(), known.created_ms, now_ms, known.entries, known.chain.hex())
    return [tombstones[session] for session in sessions]


def _locked(link: Link, session: str, place: str) -> Register:
    """Return the record of a session, which nobody else can change until the transaction ends."""
    found = link.ask(f"{_RECORD} FOR UPDATE", {"id": session}) if _is_text(session) else []
    if not found:
        raise NotFound(f"there is no session {session!r} in {place}")
    return register(found[0], place)


def _refuse_held(link: Link, *sessions: str) -> None:
    """Raise `SessionHeld` if a live process holds one of the sessions. The lease of one that is seen to be dead is ended."""
    held, text = list[str](), ""
    for session in sessions:
        for _, token, since_ms, holder, until_ms, now_ms in link.ask(f"{_HOLDING} WHERE s.id = %s", (session,)):
            if token is None or holder is None or until_ms <= now_ms:
                break
            lease = msgspec.structs.replace(unpack(holder), since_ms=since_ms)
            if lease.lives() is not False:
                held.append(session)
                text = text or held_text(session, lease, until_ms, now_ms)
            else:
                link.ask("DELETE FROM @leases WHERE token = %s AND holder = %s", (token, holder))
    if held:
        raise SessionHeld(text, held)


def _is_text(name: str) -> bool:
    """Return whether PostgreSQL can hold a text at all."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in name


_open_stores: "weakref.WeakSet[PostgresStore]" = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """Close the stores that a program did not close, at its end."""
    for store in tuple(_open_stores):
        store.close()


def _end(lease: PostgresLease, commits: PostgresCommits, connections: Connections) -> None:
    """End the threads and connections of a store that nobody refers to any more, without waiting for them."""
    commits.stop()
    lease.stop()
    connections.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
