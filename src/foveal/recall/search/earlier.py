"""Passages and statements of the earlier sessions of a scope: on the subject of some words, and newest first.

Everything is answered from the sessions of one scope, and from entries that were recorded up to a moment: what others say later
changes no answer. The index knows the places; the text is read from the logs.
"""

from collections.abc import Iterator
from itertools import groupby, islice

import msgspec

from foveal.recall.search.hits import best_spans
from foveal.recall.search.index import PIECE_WEIGHT, Stale, with_index
from foveal.recall.search.related import (
    LOOKS,
    Candidate,
    RelatedPassage,
    asked_terms,
    candidates,
    is_near,
    read_passage,
)
from foveal.recall.search.scope_index import TABLES, catch_up_scope
from foveal.recall.search.words import MOST_QUERY_CHARACTERS, query
from foveal.stores import rows as stored
from foveal.stores.database import Database
from foveal.stores.port import Row, Store
from foveal.values.entry import Message, Text
from foveal.values.errors import NotFound

MOST_STATEMENTS = 400
"""Statements that are read at most: a hundred of them fill the share of a large budget."""


class Moment(msgspec.Struct, frozen=True):
    """A scope as one of its sessions sees it at a time: all other sessions, up to then."""

    scope: str
    session: str
    """The session that looks, whose own words are not among those found."""
    time_ms: int


class EarlierPassage(msgspec.Struct, frozen=True):
    """A passage of another session."""

    session: str
    time_ms: int
    passage: RelatedPassage


class EarlierStatement(msgspec.Struct, frozen=True):
    """A message of the user in another session: the text of its parts."""

    session: str
    entry: str
    time_ms: int
    text: str


def find_earlier(store: Store, moment: Moment, words: str, *, limit: int = 8) -> list[EarlierPassage]:
    """Return what was said in other sessions on the subject of these words, best first; nothing if nothing fits well."""
    asked = asked_terms(words)
    if not asked:
        return []

    def answer(db: Database) -> list[EarlierPassage]:
        catch_up_scope(db, store, moment.scope, without=moment.session, time_ms=moment.time_ms)
        own = _number(db, moment.session)
        said = db.execute("SELECT coalesce(max(id), 0) FROM passages").fetchall()[0][0]

        def holders(term: str, most: int) -> list[tuple[int, tuple[int, int]]]:
            found = db.execute(
                "SELECT p.id, p.source, p.seq FROM words JOIN passages AS p ON p.id = words.rowid"
                " WHERE words MATCH ? AND p.source <> ? AND p.time_ms <= ? ORDER BY words.rowid DESC LIMIT ?",
                (f'"{term}"', own, moment.time_ms, most + 1),
            )
            return [(number, (source, seq)) for number, source, seq in found]

        best, weights = candidates(said, asked, holders)
        read = (_read(db, store, moment.scope, one) for one in islice(best, LOOKS * limit))
        return list(islice((found for found in read if found and is_near(found.passage.text, weights)), limit))

    return with_index(store.scope(moment.scope).index(), answer, TABLES)


def search_earlier(store: Store, moment: Moment, words: str, *, limit: int = 8) -> list[EarlierPassage]:
    """Return the passages of other sessions that hold the words, best first (BM25); any of them will do. Each is cut to its best
    lines."""
    question = query(words[:MOST_QUERY_CHARACTERS])
    if not question:
        return []

    def answer(db: Database) -> list[EarlierPassage]:
        catch_up_scope(db, store, moment.scope, without=moment.session, time_ms=moment.time_ms, is_whole=True)
        ranked = db.execute(
            "SELECT p.id, p.source, p.seq, -bm25(words, 1.0, ?) AS score FROM words JOIN passages AS p ON p.id = words.rowid"
            " WHERE words MATCH ? AND p.source <> ? AND p.time_ms <= ? ORDER BY score DESC, p.id DESC LIMIT ?",
            (PIECE_WEIGHT, question, _number(db, moment.session), moment.time_ms, LOOKS * limit),
        ).fetchall()
        best = dict[tuple[int, int], Candidate[tuple[int, int]]]()
        for number, source, seq, score in ranked:
            best.setdefault((source, seq), Candidate(score, number, (source, seq)))
        read = (_read(db, store, moment.scope, one) for one in best.values())
        return list(islice((found for found in read if found), limit))

    found = with_index(store.scope(moment.scope).index(), answer, TABLES)
    spans = best_spans(question, [one.passage.text for one in found])
    return [_cut(one, *span) for one, span in zip(found, spans, strict=True)]


def _cut(one: EarlierPassage, start: int, end: int) -> EarlierPassage:
    passage = one.passage
    line = passage.line + passage.text.count("\n", 0, start)
    cut = msgspec.structs.replace(passage, line=line, text=passage.text[start:end].rstrip("\n"))
    return msgspec.structs.replace(one, passage=cut)


def newest_statements(store: Store, moment: Moment) -> list[EarlierStatement]:
    """Return the newest messages of the user in other sessions, the newest first."""

    def answer(db: Database) -> list[EarlierStatement]:
        catch_up_scope(db, store, moment.scope, without=moment.session, time_ms=moment.time_ms, is_whole=True)
        places = db.execute(
            "SELECT DISTINCT time_ms, source, seq FROM passages WHERE kind = 'user' AND time_ms <= ? AND source <> ?"
            " ORDER BY time_ms DESC, source DESC, seq DESC LIMIT ?",
            (moment.time_ms, _number(db, moment.session), MOST_STATEMENTS),
        ).fetchall()
        return list(_statements(db, store, moment.scope, places))

    return with_index(store.scope(moment.scope).index(), answer, TABLES)


def _statements(
    db: Database, store: Store, scope: str, places: list[tuple[int, int, int]]
) -> Iterator[EarlierStatement]:
    for source, run in groupby(places, key=lambda place: place[1]):
        session, seqs = _session(db, source), [seq for _, _, seq in run]
        rows = _rows(store, scope, session, seqs)
        for row in (rows[seq] for seq in seqs if seq in rows):
            body = stored.to_entry(row, session).body
            texts = [part.text for part in body.parts if isinstance(part, Text)] if isinstance(body, Message) else []
            if texts:
                yield EarlierStatement(session, row.id, row.time_ms, "\n".join(texts))


def _number(db: Database, session: str) -> int:
    found = db.execute("SELECT id FROM sources WHERE session = ?", (session,)).fetchone()
    return found[0] if found else 0


def _session(db: Database, source: int) -> str:
    found = db.execute("SELECT session FROM sources WHERE id = ?", (source,)).fetchone()
    if found is None:
        raise Stale(f"it does not know session {source}")
    return found[0]


def _read(db: Database, store: Store, scope: str, one: Candidate[tuple[int, int]]) -> EarlierPassage | None:
    """Return a passage as its log has it; None if it is gone, or its artifact is damaged."""
    source, seq = one.place
    session = _session(db, source)
    row = _rows(store, scope, session, [seq]).get(seq)
    if row is None:
        return None
    passage = read_passage(db, store, session, one.id, row=row, share=one.share)
    return EarlierPassage(session, row.time_ms, passage) if passage else None


def _rows(store: Store, scope: str, session: str, seqs: list[int]) -> dict[int, Row]:
    """Return the rows at these places; nothing of a session that was deleted just now. `Stale` if the session is not in the scope
    or has no such rows: whatever the index says, nothing is read from elsewhere."""
    card = next(iter(store.cards(session)), None)
    if card is None:
        return {}
    if card.scope != scope or max(seqs) > card.entries:
        raise Stale(f"session {session!r} has no entry {max(seqs)} in this scope")
    try:
        return store.rows_at(session, seqs)
    except NotFound:
        return {}
