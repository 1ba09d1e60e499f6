"""The tables of a store in PostgreSQL, and how they are brought to the newest version.

`@name` is a table in the schema of the store. A session's record holds everything that an append compares and replaces, so
that one UPDATE of it is the fence; columns that change with each append are in no index (`hour`, which is, changes once an
hour), so that PostgreSQL writes the new version into the same page and no index. Entries lie in partitions by ranges of session
keys, which grow with time: one whose sessions are all deleted can be dropped.

Seals cover what no chain does. Epoch, token and times are not sealed: the database compares them itself, or they are for people.
"""

from psycopg import errors

from foveal.stores.format import POSTGRES_SCHEMA
from foveal.stores.postgres.connections import Connections, Link
from foveal.values.errors import BadInput, NotFound, SchemaTooNew, StoreError

PARTITION_SESSIONS = 1 << 17
"""Sessions in one partition: with 700 entries of 2 kB each, a partition is about 180 GB at its end."""

REWRITE_BYTES = 1 << 30
"""Size up to which a table is written anew by `vacuum`: about ten seconds, for which its writers wait."""
LOCK_MS = 5_000
"""Longest wait for a table that is to be written anew: writers queue behind it, and must be served well within their lease."""

MIGRATIONS = {
    1: (
        """CREATE TABLE @store (id text NOT NULL, made_ms bigint NOT NULL)""",
        """CREATE TABLE @leases (
            token text COLLATE "C" PRIMARY KEY,
            holder text NOT NULL,
            until timestamptz NOT NULL
        )""",
        """CREATE TABLE @sessions (
            key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id text COLLATE "C" NOT NULL UNIQUE,
            created_ms bigint NOT NULL,
            updated_ms bigint NOT NULL,
            hour bigint NOT NULL,
            entries bigint NOT NULL,
            head text COLLATE "C",
            chain bytea NOT NULL,
            epoch bigint NOT NULL,
            token text COLLATE "C",
            since_ms bigint NOT NULL,
            mark bigint NOT NULL,
            secret bytea NOT NULL,
            scope text COLLATE "C",
            seal bytea NOT NULL
        ) WITH (fillfactor = 60)""",
        "CREATE INDEX scoped_sessions ON @sessions (scope, hour) WHERE scope IS NOT NULL",
        "CREATE INDEX held_sessions ON @sessions (token) WHERE token IS NOT NULL",
        """CREATE TABLE @entries (
            session bigint NOT NULL,
            seq bigint NOT NULL,
            id text COLLATE "C" NOT NULL,
            parent text COLLATE "C",
            time_ms bigint NOT NULL,
            author text COLLATE "C" NOT NULL,
            hash bytea NOT NULL,
            payload bytea NOT NULL,
            PRIMARY KEY (session, seq)
        ) PARTITION BY RANGE (session)""",
        "CREATE UNIQUE INDEX entry_ids ON @entries (session, id)",
        """CREATE TABLE @snapshots (
            session bigint PRIMARY KEY,
            seq bigint NOT NULL,
            seal bytea NOT NULL,
            payload bytea NOT NULL
        )""",
        "ALTER TABLE @snapshots ALTER COLUMN payload SET STORAGE EXTERNAL",
        """CREATE TABLE @tombstones (
            key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            seed bytea NOT NULL,
            created_ms bigint NOT NULL,
            deleted_ms bigint NOT NULL,
            entries bigint NOT NULL,
            chain bytea NOT NULL,
            seal bytea NOT NULL
        )""",
        """CREATE TABLE @scopes (
            id text COLLATE "C" PRIMARY KEY,
            changes bigint NOT NULL,
            deletions bigint NOT NULL
        )""",
        """CREATE TABLE @notes (
            scope text COLLATE "C" NOT NULL,
            key text COLLATE "C" NOT NULL,
            text bytea NOT NULL,
            session bigint NOT NULL,
            author text COLLATE "C" NOT NULL,
            time_ms bigint NOT NULL,
            seal bytea NOT NULL,
            PRIMARY KEY (scope, key)
        )""",
        """CREATE TABLE @artifacts (
            sha256 bytea PRIMARY KEY,
            body bigint NOT NULL,
            size bigint NOT NULL,
            put_ms bigint NOT NULL,
            sidecar bytea
        )""",
        "CREATE SEQUENCE @bodies",
        """CREATE TABLE @chunks (
            body bigint NOT NULL,
            number bigint NOT NULL,
            made_ms bigint NOT NULL,
            data bytea NOT NULL,
            PRIMARY KEY (body, number)
        )""",
        """DO $$ BEGIN
            ALTER TABLE @entries ALTER COLUMN payload SET COMPRESSION lz4;
            ALTER TABLE @chunks ALTER COLUMN data SET COMPRESSION lz4;
        EXCEPTION WHEN feature_not_supported THEN NULL; END $$""",
    ),
    2: (
        """CREATE TABLE @labels (
            session bigint PRIMARY KEY,
            title text,
            tags text[] COLLATE "C" NOT NULL,
            seal bytea NOT NULL
        )""",
        "CREATE INDEX tagged_sessions ON @labels USING gin (tags)",
    ),
    3: ("ALTER TABLE @store ADD COLUMN artifacts text",),
}
"""The statements that lead from the version before to each version."""

_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('foveal migration', 0))"


def migrate(connections: Connections, store_id: str, now_ms: int, *, must_exist: bool = False) -> str:
    """Make or upgrade the tables, one process at a time, and return the id that the store was made with. `SchemaTooNew` if a
    newer Foveal has been here; `NotFound` if there are none and they `must_exist`."""
    return connections.run(lambda link: _migrate(link, connections.place, store_id, now_ms, must_exist=must_exist))


def _migrate(link: Link, place: str, store_id: str, now_ms: int, *, must_exist: bool) -> str:
    version = check_version(link, place)
    if version == 0:
        if must_exist:
            raise NotFound(
                f"there is no store in {place}: this database has no tables of Foveal in the schema {link.name('@')}. Check the "
                "database and foveal_schema in the address; nothing was made."
            )
        _check_encoding(link, place)
    if version < POSTGRES_SCHEMA:
        with link.transaction():
            link.ask(_LOCK)
            link.ask("CREATE SCHEMA IF NOT EXISTS @")
            link.ask("CREATE TABLE IF NOT EXISTS @versions (version bigint PRIMARY KEY, made_ms bigint NOT NULL)")
            for version in range(check_version(link, place) + 1, POSTGRES_SCHEMA + 1):
                for statement in MIGRATIONS[version]:
                    link.ask(statement)
                link.ask("INSERT INTO @versions VALUES (%s, %s)", (version, now_ms))
                if version == 1:
                    link.ask("INSERT INTO @store VALUES (%s, %s)", (store_id, now_ms))
    return link.ask("SELECT id FROM @store")[0][0]


def _check_encoding(link: Link, place: str) -> None:
    """Refuse a database for a new store that cannot hold every text. A store that is there keeps working, in its letters."""
    encoding = link.ask("SHOW server_encoding")[0][0]
    if encoding != "UTF8":
        raise StoreError(
            f"{place} has the encoding {encoding}, in which not every name and title can be kept; nothing was made. Give a "
            "database that was made with ENCODING 'UTF8'."
        )


def check_version(link: Link, place: str) -> int:
    """Return the version of the tables, 0 if there are none; `SchemaTooNew` if a newer Foveal has upgraded them."""
    if link.ask("SELECT to_regclass(%s)", (link.name("@versions"),)) == [(None,)]:
        return 0
    version = link.ask("SELECT coalesce(max(version), 0)::bigint FROM @versions")[0][0]
    if version > POSTGRES_SCHEMA:
        raise too_new(place, version)
    return version


def too_new(place: str, version: int) -> SchemaTooNew:
    """Return the error for tables that a newer Foveal has made or upgraded."""
    return SchemaTooNew(
        f"{place} has schema version {version}; this Foveal knows versions up to {POSTGRES_SCHEMA}. Upgrade Foveal."
    )


def remember_artifacts(link: Link, place: str | None) -> str | None:
    """Return the place of artifacts that lie outside the database; None if they are in it. The first place that is named is
    remembered; `BadInput` for another one."""
    if place is not None:
        link.ask("UPDATE @store SET artifacts = %s WHERE artifacts IS NULL", (place,))
    kept = link.ask("SELECT artifacts FROM @store")[0][0]
    if place is not None and kept != place:
        quoted = place.replace("'", "''")
        change = f"UPDATE {link.name('@store')} SET artifacts = '{quoted}'"  # noqa: S608 - shown to people
        raise BadInput(
            f"the artifacts of {link.place} are in {kept}, and {place} is named here: from there, those that exist could neither "
            f"be read nor deleted. Name no place: {kept} is remembered. If all artifacts were copied to the new place, tell the "
            f"database once: {change}"
        )
    return kept


def partition_of(key: int) -> int:
    """Return the number of the partition that has the entries of a session."""
    return key // PARTITION_SESSIONS


def make_partition(link: Link, key: int) -> None:
    """Make the partition for the entries of a session, if it is not there. Those that append to others are not in the way."""
    number = partition_of(key)
    with link.transaction():
        link.ask(_LOCK)
        table = f"@entries_{number}"
        if link.ask("SELECT to_regclass(%s)", (link.name(table),)) == [(None,)]:
            link.ask(f"CREATE TABLE {table} (LIKE @entries INCLUDING ALL)")
            first = number * PARTITION_SESSIONS
            bounds = f"FROM ({first}) TO ({first + PARTITION_SESSIONS})"
            link.ask(f"ALTER TABLE @entries ATTACH PARTITION {table} FOR VALUES {bounds}")


def drop_empty_partitions(link: Link) -> int:
    """Drop the partitions whose sessions are all deleted, but for the newest, and return how many there were."""
    tables = link.ask(
        "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = %s::regclass", (link.name("@entries"),)
    )
    numbers = sorted(int(name.rpartition("_")[2].strip('"')) for (name,) in tables)
    dropped = 0
    for number in numbers[:-1]:
        span = (number * PARTITION_SESSIONS, (number + 1) * PARTITION_SESSIONS)
        with link.transaction():
            link.ask(_LOCK)
            if not link.ask("SELECT 1 FROM @sessions WHERE key >= %s AND key < %s LIMIT 1", span):
                link.ask(f"DROP TABLE IF EXISTS @entries_{number}")
                dropped += 1
    return dropped


def rewrite_tables(link: Link) -> list[str]:
    """Write the tables of the store anew, the records of sessions whatever their size and others up to `REWRITE_BYTES`; free the
    space of deleted rows in the rest. Return those that others did not leave for long enough."""
    tables = link.ask(
        "SELECT relname::text, pg_table_size(oid)::bigint FROM pg_class WHERE relkind = 'r'"
        " AND relnamespace = %s::regnamespace ORDER BY 1",
        (link.name("@"),),
    )
    busy: list[str] = []
    for table, size in tables:
        if table != "sessions" and size > REWRITE_BYTES:
            link.ask(f"VACUUM (ANALYZE) @{table}")
        elif _can_be_locked(link, table):
            link.ask(f"VACUUM (FULL, ANALYZE) @{table}")
        else:
            link.ask(f"VACUUM (ANALYZE) @{table}")
            busy.append(table)
    return busy


def _can_be_locked(link: Link, table: str) -> bool:
    """Return whether all that use a table leave it within `LOCK_MS`: behind a wait for ever, all writers would wait."""
    try:
        with link.transaction():
            link.ask(f"SET LOCAL lock_timeout = {LOCK_MS}")
            link.ask(f"LOCK TABLE @{table} IN ACCESS EXCLUSIVE MODE")
    except errors.LockNotAvailable:
        return False
    return True
