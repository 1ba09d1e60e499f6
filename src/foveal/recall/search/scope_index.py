"""The full-text index of one scope: the words that people and the model said in its sessions, and their places.

It is one database for all sessions of the scope, so that looking back costs one lookup however many there are, and one for each
scope, so that nothing of another scope can reach an answer. Like the index of a session it holds no text and is never the truth.
A session is indexed once, and then what it has gained. The newest sessions come first, and one look reads so much at most: no
turn waits for an index that is made anew.
"""

import logging
from collections.abc import Callable

import msgspec

from foveal.recall.originals import place_of
from foveal.recall.search.index import TOKENIZER, Stale
from foveal.recall.search.passages import passages
from foveal.recall.search.words import indexed
from foveal.stores import rows as log
from foveal.stores.database import Database
from foveal.stores.port import Row, SessionCard, Store
from foveal.stores.readable_cards import readable_cards
from foveal.stores.sqlite.connection import transaction
from foveal.values.entry import ATTACHED, Message
from foveal.values.errors import KeyMissing, NotFound, StoreCorrupt, StoreError

logger = logging.getLogger("foveal.search")

_SAID_BY = ("user", "assistant")
"""Roles whose words are indexed: contents of files and outputs of tools change, and may not be true any more."""

_OVERLAP_MS = 600_000
"""Sessions that were used so long before the newest one indexed are looked at again: clocks of processes differ."""

_LOOK_CHARACTERS = 4 << 20
"""Bytes of logs and characters of words that one look indexes, a third of a second's work: an index that is made anew, because it
was lost or a session was deleted, is complete after some turns, and no turn waits for it."""

TABLES = (
    "CREATE TABLE progress (updated_ms INTEGER NOT NULL) STRICT",
    """CREATE TABLE sources (
        id INTEGER PRIMARY KEY,
        session TEXT NOT NULL UNIQUE,
        seq INTEGER NOT NULL,
        last TEXT
    ) STRICT""",
    """CREATE TABLE passages (
        id INTEGER PRIMARY KEY,
        source INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        part INTEGER NOT NULL,
        kind TEXT NOT NULL,
        line INTEGER NOT NULL,
        start INTEGER NOT NULL,
        length INTEGER NOT NULL,
        is_preview INTEGER NOT NULL,
        time_ms INTEGER NOT NULL
    ) STRICT""",
    "CREATE INDEX passage_times ON passages (kind, time_ms, source, seq)",
    "CREATE INDEX passage_places ON passages (source, seq)",
    f"CREATE VIRTUAL TABLE words USING fts5(body, pieces, content='', contentless_delete=1, tokenize='{TOKENIZER}')",
    "INSERT INTO progress VALUES (0)",
)


class _Source(msgspec.Struct):
    """A session in the index."""

    id: int
    seq: int
    """Place of the newest entry that is indexed; 0 for none."""
    last: str | None
    """Id of that entry."""


def catch_up_scope(
    db: Database, store: Store, scope: str, *, without: str, time_ms: int, is_whole: bool = False
) -> None:
    """Index what the sessions of the scope have gained up to the time of the look, the newest session first, as much as one look
    may.

    The session `without` is the one that looks, and gains with each turn: its words are indexed when another one looks. A look
    `is_whole` if it compares all sessions with the index; else it compares those that were used since the last one, which costs
    the same however many there are, and misses a session that came with an old time until the next whole look.
    """

    def cards() -> list[SessionCard]:
        mark = 0 if is_whole else _complete_ms(db)
        return store.scope(scope).sessions(since_ms=mark - _OVERLAP_MS if mark else None)

    catch_up_sessions(db, store, cards, without=without, time_ms=time_ms)


def catch_up_sessions(
    db: Database,
    store: Store,
    cards: Callable[[], list[SessionCard]],
    *,
    without: str = "",
    time_ms: int = 0,
    on_unreadable: Callable[[str, StoreError], None] = lambda session, error: None,
) -> bool:
    """Index what some sessions have gained, as much as one look may, and return whether that was everything. Sessions that are
    damaged, or whose keys are not at hand, keep nobody from the others: `on_unreadable` is told."""

    def readable() -> list[SessionCard]:
        found, damage = readable_cards(cards)
        for session in damage.keys() - {card.id for card in found}:
            _tell_unreadable(session, damage[session], on_unreadable)
        return found

    behind, complete_ms = _behind(db, store, readable(), without, time_ms)
    if not behind and (_complete_ms(db) or not complete_ms):
        return True
    with transaction(db):
        behind, complete_ms = _behind(db, store, readable(), without, time_ms)
        room = _LOOK_CHARACTERS
        for card in behind:
            room = _take(db, store, card, room, on_unreadable)
            if room <= 0:
                db.execute("UPDATE progress SET updated_ms = 0")  # the next look is whole, whatever this one was
                return False
        db.execute("UPDATE progress SET updated_ms = ?", (complete_ms,))
    return True


def _behind(
    db: Database, store: Store, cards: list[SessionCard], without: str, time_ms: int
) -> tuple[list[SessionCard], int]:
    """Return the sessions with entries that the index lacks, the newest first, and the time up to which it is complete once it
    has them: never later than the look, or the session of a clock that is ahead would hide those that are used after it."""
    behind = [card for card in cards if _is_behind(db, store, card)]
    complete_ms = min(max((card.updated_ms for card in cards), default=0), time_ms)
    # The overlap covers it; if it did not, every later look would begin at its time.
    waiting = [card for card in behind if card.id == without and card.updated_ms > complete_ms - _OVERLAP_MS]
    return [card for card in behind if card not in waiting], complete_ms


def _complete_ms(db: Database) -> int:
    """Return the time up to which the index was complete when it was last looked at; 0 if it is not."""
    ((mark,),) = db.execute("SELECT updated_ms FROM progress").fetchall()
    return mark


def _is_behind(db: Database, store: Store, card: SessionCard) -> bool:
    """Return whether a session has entries that the index lacks; `Stale` if the index is of another log of that name."""
    source = _source(db, card.id) or _Source(0, 0, None)
    if _is_of(source, card):
        return source.seq < card.entries
    # Another process may have indexed entries that were written after the card was read.
    for now in store.cards(card.id):
        if not _is_of(source, now):
            raise Stale(f"it is at entry {source.seq} ({source.last}) of a log of {now.entries} ({now.head})")
    return False


def _is_of(source: _Source, card: SessionCard) -> bool:
    return source.seq < card.entries or (source.seq, source.last) == (card.entries, card.head)


def _source(db: Database, session: str) -> _Source | None:
    found = db.execute("SELECT id, seq, last FROM sources WHERE session = ?", (session,)).fetchone()
    return _Source(*found) if found else None


def _take(
    db: Database, store: Store, card: SessionCard, room: int, on_unreadable: Callable[[str, StoreError], None]
) -> int:
    """Index the rows of a session that are new, and return the room that is left."""
    if _source(db, card.id) is None:
        db.execute("INSERT INTO sources (session, seq) VALUES (?, 0)", (card.id,))
    source = _source(db, card.id)
    if source is None:
        raise Stale("a session that was added is not there")
    try:
        if source.seq and store.rows_at(card.id, [source.seq])[source.seq].id != source.last:
            raise Stale(f"session {card.id!r} has another entry at {source.seq}")
        for row in store.rows(card.id, after=source.seq, upto=card.entries):
            if row.parent != source.last and row.seq > 1:
                _leave_branch(db, store, card.id, source, row)
            room -= len(row.payload) + _add(db, store, card.id, source, row)
            source.seq, source.last = row.seq, row.id
            if room <= 0:
                break
    except NotFound:
        return room  # it was deleted just now
    except (StoreCorrupt, KeyMissing) as error:  # the others are searched all the same
        _tell_unreadable(card.id, error, on_unreadable)
    db.execute("UPDATE sources SET seq = ?, last = ? WHERE id = ?", (source.seq, source.last, source.id))
    return room


def _tell_unreadable(session: str, error: StoreError, on_unreadable: Callable[[str, StoreError], None]) -> None:
    # A store may have many under other keys.
    level = logging.WARNING if isinstance(error, StoreCorrupt) else logging.INFO
    logger.log(level, "session %s cannot be searched: %s", session, error)
    on_unreadable(session, error)


def _leave_branch(db: Database, store: Store, session: str, source: _Source, row: Row) -> None:
    """Remove the passages that a rewind has left behind: nobody is shown them as if they had been said."""
    found = store.find(session, row.parent) if row.parent else []
    place = found[0].seq if found and found[0].id == row.parent else 0
    db.execute(
        "DELETE FROM words WHERE rowid IN (SELECT id FROM passages WHERE source = ? AND seq > ?)", (source.id, place)
    )
    db.execute("DELETE FROM passages WHERE source = ? AND seq > ?", (source.id, place))


def _add(db: Database, store: Store, session: str, source: _Source, row: Row) -> int:
    """Index the words of one row, and return how many characters they have."""
    body = log.to_entry(row, session).body
    if not isinstance(body, Message) or body.role not in _SAID_BY or row.author == ATTACHED:
        return 0
    size = 0
    for passage in passages(store.artifacts_for(session), body, place_of(session, row), lambda _call: None):
        if passage.kind != body.role:
            continue
        size += len(passage.text)
        db.execute("INSERT INTO words (body, pieces) VALUES (?, ?)", indexed(passage.text, is_json=passage.is_json))
        place = (source.id, row.seq, passage.part, passage.kind, passage.line, passage.start, len(passage.text))
        db.execute(
            "INSERT INTO passages VALUES (last_insert_rowid(), ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*place, passage.is_preview, row.time_ms),
        )
    return size
