"""The full-text index of one session: a shortcut that is rebuilt from the log at will and is never the truth.

It holds words and their places, and no text: the snippet of a hit is read from the log again. Each session has an index
of its own, so that neither the words of other sessions nor how often they occur can reach an answer, and a search costs what
its session holds and not what the store holds.
"""

import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from typing import TypeVar

import apsw
import msgspec

from foveal.recall.originals import place_of
from foveal.recall.search.passages import Passage, passages
from foveal.recall.search.words import indexed
from foveal.stores import rows as log
from foveal.stores.database import Database
from foveal.stores.format import INDEX_APPLICATION_ID, INDEX_VERSION
from foveal.stores.port import Row, SearchIndex, Store
from foveal.stores.sqlite.connection import transaction
from foveal.stores.sqlite.errors import translated
from foveal.stores.sqlite.index import UNREADABLE, IndexRemoved
from foveal.values.codec import sendable
from foveal.values.entry import Message, ToolCall
from foveal.values.errors import NotFound, StoreBusy, StoreCorrupt, StoreFailed

T = TypeVar("T")

BATCH_CHARACTERS = 8 << 20
"""Characters indexed in one transaction, about a second's work: then it is committed, and other processes get their turn."""
ATTEMPTS = 3
"""Attempts at one job: for a sound index, for a damaged one, and for one that another process mended at the same moment."""
MOST_REMOVALS = 32
"""Times that deletions of sessions may remove the file of an index during one job, before it is given up."""
TOKENIZER = "porter unicode61 remove_diacritics 2"
PIECE_WEIGHT = 0.5
"""Weight of a part of a camelCase name: half of a whole word."""

TABLES = (
    "CREATE TABLE progress (seq INTEGER NOT NULL, first BLOB, last BLOB) STRICT",
    """CREATE TABLE passages (
        id INTEGER PRIMARY KEY,
        seq INTEGER NOT NULL,
        part INTEGER NOT NULL,
        kind TEXT NOT NULL,
        line INTEGER NOT NULL,
        start INTEGER NOT NULL,
        length INTEGER NOT NULL,
        characters INTEGER NOT NULL,
        is_preview INTEGER NOT NULL
    ) STRICT""",
    "CREATE TABLE calls (id BLOB PRIMARY KEY, tool TEXT NOT NULL) STRICT, WITHOUT ROWID",
    f"CREATE VIRTUAL TABLE words USING fts5(body, pieces, content='', tokenize='{TOKENIZER}')",
    "INSERT INTO progress VALUES (0, NULL, NULL)",
)


_OWN_TABLES = ("CREATE TABLE made (id BLOB NOT NULL) STRICT", "INSERT INTO made VALUES (randomblob(16))")


class Stale(Exception):
    """The index does not belong to this log: it is damaged, of another version, or the store is another one."""


DAMAGE = (Stale, *UNREADABLE)
"""The errors by which a damaged or foreign index shows itself."""


def with_index(index: SearchIndex, job: Callable[[Database], T], tables: Sequence[str] = TABLES) -> T:
    """Do the job on an index with these tables and return its result.

    A damaged index is emptied and the job done once more. So it is if another process has emptied the index meanwhile: the job
    may have seen the beginning of a new one. One whose file is removed meanwhile, by the deletion of a session, is made anew.
    """
    for _ in range(MOST_REMOVALS):
        with suppress(IndexRemoved):
            return _attempted(index, job, tables)
    raise StoreBusy(f"{index.place}: deletions of sessions have emptied the index {MOST_REMOVALS} times; search again")


def _attempted(index: SearchIndex, job: Callable[[Database], T], tables: Sequence[str]) -> T:
    with _plain_errors(index):
        for attempt in range(1, ATTEMPTS + 1):
            made: bytes | None = None
            try:
                with index.opened() as db:
                    made = make(db, tables)
                    done = job(db)
                    if _made_as(db) == made:
                        return done
            except DAMAGE:
                if attempt == ATTEMPTS:
                    raise
                if _is_still(index, made):
                    index.clear()
            except apsw.IOError:  # a deletion removed the journal of a file that was made a moment ago
                if attempt == ATTEMPTS:
                    raise
        raise Stale(f"other processes have emptied it {ATTEMPTS} times")


def _is_still(index: SearchIndex, made: bytes | None) -> bool:
    """Return whether nobody has made the index anew: one that cannot be read is as it was found."""
    try:
        with index.opened() as db:
            return _made_as(db) == made
    except DAMAGE:
        return True


@contextmanager
def _plain_errors(index: SearchIndex) -> Generator[None]:
    started, place = time.monotonic(), index.place
    try:
        yield
    except apsw.Error as error:
        raise translated(error, None, place, waited_s=time.monotonic() - started) from error
    except DAMAGE as error:
        raise StoreCorrupt(place, f"the index was made anew and is damaged again ({error})", place) from error
    except OSError as error:
        raise StoreFailed(f"{place}: the index could not be made ({error}).") from error


class Place(msgspec.Struct, frozen=True):
    """The place of a hit."""

    score: float
    seq: int
    part: int
    kind: str
    line: int
    start: int
    length: int
    characters: int
    is_preview: int


def known_entries(store: Store, session: str) -> int:
    """Return how many entries the session has; `NotFound` if there is no such session."""
    cards = store.cards(session)
    if not cards:
        raise NotFound(f"there is no session {session!r}")
    return cards[0].entries


def make(db: Database, tables: Sequence[str] = TABLES) -> bytes:
    """Make the tables if the file is new, and return the id of the index; `Stale` if it is anything but one of this version."""
    if not _is_ours(db):
        with transaction(db):
            if not _is_ours(db):  # else another process was faster
                if db.execute("SELECT count(*) FROM sqlite_schema").fetchall()[0][0]:
                    raise Stale("it is of another version")
                for statement in (*_OWN_TABLES, *tables):
                    db.execute(statement)
                db.pragma("application_id", INDEX_APPLICATION_ID)
                db.pragma("user_version", INDEX_VERSION)
    return _made_as(db)


def _is_ours(db: Database) -> bool:
    return (db.pragma("application_id"), db.pragma("user_version")) == (INDEX_APPLICATION_ID, INDEX_VERSION)


def _made_as(db: Database) -> bytes:
    """Return the id that the index was given when it was made: one that is made anew has another."""
    found = db.execute("SELECT id FROM made").fetchall() if _is_ours(db) else []
    if len(found) != 1:
        raise Stale("nobody knows when it was made")
    return found[0][0]


def catch_up(db: Database, store: Store, session: str) -> None:
    """Index the rows that the log has gained. The cost is in proportion to them, besides the comparison of two rows."""
    if _is_behind(db, store, session):
        is_behind = True
        while is_behind:
            with transaction(db):
                is_behind = _take(db, store, session)


def places(db: Database, question: str, without: Collection[str]) -> Iterator[Place]:
    """Yield the places that answer the question, best first; the newest first among equals."""
    skipped = set(without)
    ranked = db.execute(
        "SELECT rowid, bm25(words, 1.0, ?) AS score FROM words WHERE words MATCH ? ORDER BY score, rowid DESC",
        (PIECE_WEIGHT, question),
    )
    for number, score in ranked:
        place = passage_at(db, number, -score)
        if place.kind not in skipped:
            yield place


def passage_at(db: Database, number: int, score: float) -> Place:
    """Return the place of a passage, with its score."""
    found = db.execute(
        "SELECT ?, seq, part, kind, line, start, length, characters, is_preview FROM passages WHERE id = ?",
        (score, number),
    ).fetchone()
    if found is None:
        raise Stale(f"passage {number} is gone")
    return Place(*found)


def tools_in(db: Database) -> Callable[[str], str | None]:
    """Return a function that names the tool of a call, as far as the log has been indexed."""

    def tool_of(call: str) -> str | None:
        found = db.execute("SELECT tool FROM calls WHERE id = ?", (_key(call),)).fetchone()
        return found[0] if found else None

    return tool_of


def _is_behind(db: Database, store: Store, session: str) -> bool:
    """Return whether the log has rows that the index lacks; `Stale` if the index is of another log."""
    done = db.execute("SELECT seq, first, last FROM progress").fetchall()
    if len(done) != 1:
        raise Stale("it does not know how far it is")
    seq, first, last = done[0]
    # The log is looked at after the index: another process may have indexed rows that this one has not seen yet.
    entries = known_entries(store, session)
    if not 0 <= seq <= entries:
        raise Stale(f"it is at entry {seq} of a log of {entries}")
    if seq:
        rows = store.rows_at(session, {1, seq})
        if (_mark(rows[1]), _mark(rows[seq])) != (first, last):
            raise Stale("its log was another one")
    return seq < entries


def _take(db: Database, store: Store, session: str) -> bool:
    """Index one batch of rows, and return whether there may be more."""
    seq, first, last = db.execute("SELECT seq, first, last FROM progress").fetchall()[0]
    room = BATCH_CHARACTERS
    for row in store.rows(session, after=seq):
        seq, last = row.seq, _mark(row)
        first = last if seq == 1 else first
        room -= _add(db, store, session, row)
        if room <= 0:
            break
    db.execute("UPDATE progress SET seq = ?, first = ?, last = ?", (seq, first, last))
    return room <= 0


def _add(db: Database, store: Store, session: str, row: Row) -> int:
    """Index one row, and return how many characters it has."""
    body = log.to_entry(row, session).body
    if not isinstance(body, Message):
        return 0
    for part in body.parts:
        if isinstance(part, ToolCall):
            db.execute("REPLACE INTO calls VALUES (?, ?)", (_key(part.id), sendable(part.name)))
    size = 0
    for passage in passages(store.artifacts_for(session), body, place_of(session, row), tools_in(db)):
        _add_passage(db, row.seq, passage)
        size += len(passage.text)
    return size


def _add_passage(db: Database, seq: int, passage: Passage) -> None:
    words = indexed(passage.text, is_json=passage.is_json)
    db.execute("INSERT INTO words (body, pieces) VALUES (?, ?)", words)
    db.execute(
        "INSERT INTO passages VALUES (last_insert_rowid(), ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            seq,
            passage.part,
            sendable(passage.kind),
            passage.line,
            passage.start,
            len(passage.text),
            passage.characters,
            passage.is_preview,
        ),
    )


def _key(call: str) -> bytes:
    return call.encode("utf-8", "surrogatepass")


def _mark(row: Row) -> bytes:
    """Return a hash that tells one row from every other."""
    head = f"{row.seq}\0{row.id}\0{row.parent}\0{row.time_ms}\0".encode("utf-8", "surrogatepass")
    return sha256(head + row.payload).digest()[:16]
