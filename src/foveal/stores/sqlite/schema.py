"""The schema of a store file.

A row's `place` is its session's key and its seq in one integer, so that the table itself is the index: the rows of a session
lie together and in order, and appending touches one tree less. `hash` comes before `payload` so that reading a
predecessor's hash never walks the overflow pages of a large payload.

Records form a list in the order of their names (`next`), which begins at a record without a name (key 0). So a name that is not
found was never there, or is missed by its predecessor. Keys are given out by the first record and never again: each of them is
a session or a tombstone.

A scope has a row once it has had a note, or has lost a session: how often its notes and sessions changed, and how many notes
there are, so that one that is missing is noticed.

A session that has a title or tags has a row in `labels`; how many there are is counted as the notes of a scope are.

A handle that may write has a row in `leases`, in the file itself and not only in the WAL. A file with such a row was not closed,
and is incomplete without its WAL.
"""

SEQ_BITS = 32

LABELS = "\x01labels"
"""The row of `scopes` that counts labels: a name that no scope can have."""

TABLES = (
    """CREATE TABLE sessions (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        next TEXT,
        created_ms INTEGER NOT NULL,
        updated_ms INTEGER NOT NULL,
        entries INTEGER NOT NULL,
        head TEXT,
        chain BLOB NOT NULL,
        epoch INTEGER NOT NULL,
        holder TEXT,
        secret BLOB NOT NULL,
        scope TEXT,
        seal BLOB NOT NULL
    ) STRICT""",
    "CREATE INDEX scoped_sessions ON sessions (scope, updated_ms) WHERE scope IS NOT NULL",
    """CREATE TABLE scopes (
        id TEXT PRIMARY KEY,
        changes INTEGER NOT NULL,
        notes INTEGER NOT NULL,
        seal BLOB NOT NULL
    ) STRICT""",
    """CREATE TABLE notes (
        scope TEXT NOT NULL,
        key TEXT NOT NULL,
        text TEXT NOT NULL,
        session INTEGER NOT NULL REFERENCES sessions (key),
        author TEXT NOT NULL,
        time_ms INTEGER NOT NULL,
        seal BLOB NOT NULL,
        PRIMARY KEY (scope, key)
    ) STRICT""",
    """CREATE TABLE entries (
        place INTEGER PRIMARY KEY,
        session INTEGER NOT NULL GENERATED ALWAYS AS (place >> 32) VIRTUAL REFERENCES sessions (key),
        seq INTEGER NOT NULL GENERATED ALWAYS AS (place & 4294967295) VIRTUAL,
        id TEXT NOT NULL,
        parent TEXT,
        time_ms INTEGER NOT NULL,
        author TEXT NOT NULL,
        hash BLOB NOT NULL,
        payload BLOB NOT NULL
    ) STRICT""",
    "CREATE UNIQUE INDEX entry_ids ON entries (session, id)",
    """CREATE TABLE snapshots (
        session INTEGER PRIMARY KEY REFERENCES sessions (key),
        seq INTEGER NOT NULL,
        seal BLOB NOT NULL,
        payload BLOB NOT NULL
    ) STRICT""",
    """CREATE TABLE tombstones (
        key INTEGER PRIMARY KEY,
        seed BLOB NOT NULL,
        created_ms INTEGER NOT NULL,
        deleted_ms INTEGER NOT NULL,
        entries INTEGER NOT NULL,
        chain BLOB NOT NULL,
        seal BLOB NOT NULL
    ) STRICT""",
    """CREATE TABLE leases (
        token TEXT PRIMARY KEY,
        holder TEXT NOT NULL,
        until_ms INTEGER NOT NULL,
        seal BLOB NOT NULL
    ) STRICT""",
    """CREATE TABLE labels (
        session INTEGER PRIMARY KEY REFERENCES sessions (key),
        title TEXT,
        tags TEXT NOT NULL,
        seal BLOB NOT NULL
    ) STRICT""",
    """CREATE TRIGGER entries_never_change BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END""",
    """CREATE TRIGGER entries_never_go BEFORE DELETE ON entries
    WHEN NOT EXISTS (SELECT 1 FROM tombstones WHERE key = OLD.place >> 32)
    BEGIN SELECT RAISE(ABORT, 'the log is append-only'); END""",
    """CREATE TRIGGER sessions_never_go BEFORE DELETE ON sessions
    WHEN NOT EXISTS (SELECT 1 FROM tombstones WHERE key = OLD.key)
    BEGIN SELECT RAISE(ABORT, 'a session is deleted by its tombstone'); END""",
    """CREATE TRIGGER tombstones_never_change BEFORE UPDATE ON tombstones
    BEGIN SELECT RAISE(ABORT, 'a tombstone stays'); END""",
    """CREATE TRIGGER tombstones_never_go BEFORE DELETE ON tombstones
    BEGIN SELECT RAISE(ABORT, 'a tombstone stays'); END""",
)
