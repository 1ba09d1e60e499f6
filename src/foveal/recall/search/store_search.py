"""Search over all sessions of a store: the words that people and the model said, in one index, which can be lost at any time."""

from collections.abc import Callable, Collection

import msgspec

from foveal.recall.search.hits import best_spans
from foveal.recall.search.index import PIECE_WEIGHT, Stale, with_index
from foveal.recall.search.related import read_passage
from foveal.recall.search.scope_index import TABLES, catch_up_sessions
from foveal.recall.search.words import MOST_QUERY_CHARACTERS, query
from foveal.stores.database import Database
from foveal.stores.port import Store
from foveal.values.errors import KeyMissing, NotFound, StoreCorrupt, StoreError

_BEST = (
    "SELECT p.id, s.session, p.seq, -bm25(words, 1.0, ?) AS score FROM words JOIN passages AS p ON p.id = words.rowid"
    " JOIN sources AS s ON s.id = p.source WHERE words MATCH ? ORDER BY score DESC, p.id DESC"
)


class SessionHit(msgspec.Struct, frozen=True):
    """The best place of a session for some words."""

    session: str
    entry: str
    seq: int
    time_ms: int
    role: str
    """`user` or `assistant`."""
    snippet: str


def search_store(
    store: Store,
    words: str,
    *,
    sessions: Collection[str] | None = None,
    limit: int = 20,
    on_unreadable: Callable[[str, StoreError], None] | None = None,
) -> list[SessionHit]:
    """Return the sessions in which the words were said, best first (BM25), each with its best place; any of the words will do.
    With `sessions`, only these are looked at.

    Of a session that cannot be read to its end, because it is damaged or its key is not at hand, `on_unreadable` is told: its
    name and the reason. Without one, damage is logged and a missing key is raised.
    """
    question = query(words[:MOST_QUERY_CHARACTERS])
    if not question:
        return []

    unreadable = dict[str, StoreError]()

    def answer(db: Database) -> list[SessionHit]:
        while not catch_up_sessions(db, store, store.cards, on_unreadable=unreadable.__setitem__):
            pass
        best, lost = dict[str, SessionHit](), set[str]()
        for number, session, seq, _ in db.execute(_BEST, (PIECE_WEIGHT, question)).fetchall():
            if len(best) == limit:
                break
            if session in best or session in lost or (sessions is not None and session not in sessions):
                continue
            try:
                hit = _hit(db, store, session, (number, seq))
            except StoreCorrupt as error:  # since its words were indexed
                lost.add(session)
                unreadable[session] = error
            else:
                best |= {session: hit} if hit else {}
        return list(best.values())

    found = with_index(store.index_of_all(), answer, TABLES)
    for session, error in unreadable.items():
        if sessions is None or session in sessions:
            if on_unreadable is not None:
                on_unreadable(session, error)
            elif isinstance(error, KeyMissing):
                raise error
    spans = best_spans(question, [hit.snippet for hit in found])
    return [
        msgspec.structs.replace(hit, snippet=hit.snippet[start:end].rstrip("\n"))
        for hit, (start, end) in zip(found, spans, strict=True)
    ]


def _hit(db: Database, store: Store, session: str, place: tuple[int, int]) -> SessionHit | None:
    """Return the passage as its log has it; None if its session was deleted just now, or its artifact is damaged."""
    number, seq = place
    try:
        row = store.rows_at(session, [seq]).get(seq)
    except NotFound:
        return None
    if row is None:
        raise Stale(f"session {session!r} has no entry {seq}")
    passage = read_passage(db, store, session, number, row=row, share=1.0)
    return passage and SessionHit(session, row.id, row.seq, row.time_ms, passage.role, passage.text)
