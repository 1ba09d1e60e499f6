"""The hits of a search: the index knows the places, and the log has their text."""

from collections.abc import Collection, Iterator

import msgspec

from foveal.recall.originals import place_of
from foveal.recall.search.embedding import Embedder, points
from foveal.recall.search.index import TOKENIZER, Place, Stale, catch_up, known_entries, places, with_index
from foveal.recall.search.passages import cuts, passage_text
from foveal.recall.search.vectors import embed_new, nearest
from foveal.recall.search.words import MOST_QUERY_CHARACTERS, indexed, query
from foveal.stores import rows as log
from foveal.stores.database import Database
from foveal.stores.port import Row, Store
from foveal.stores.sqlite.connection import connect_memory
from foveal.values.entry import Message
from foveal.values.errors import BadInput, StoreCorrupt
from foveal.values.shown import short_ref

SNIPPET_CHARACTERS = 240
"""About sixty tokens: ten hits are read at a glance, and the reference gives the rest."""


MOST_HITS = 100
"""Hits of one search: more are not read by anybody."""
FUSED = 100
"""Parts of each of the two rankings that are put together."""
FUSED_RANK = 5
"""Number added to each rank before it is inverted. Of 5, 20 and 60, exact names lost least to similar ones with 5; prose was
found equally well with each."""


class Hit(msgspec.Struct, frozen=True):
    """One part of the log that answers a question. `Fetch(hit.ref, offset=hit.line - 1)` reads on from there."""

    ref: str
    kind: str
    """The role of its message, or `thinking`, or the name of the tool that was called or answered."""
    seq: int
    """The place of its entry in the log."""
    line: int
    """The number of the snippet's first line in the part, from 1."""
    score: float
    """Higher is better; it compares hits of one search and nothing else."""
    snippet: str
    """The line that answers best, verbatim, and the next one if they are short."""
    characters: int
    """Length of the whole part."""


def search(
    store: Store,
    session: str,
    words: str,
    *,
    limit: int = 10,
    without: Collection[str] = (),
    embedder: Embedder | None = None,
) -> list[Hit]:
    """Return the parts of the session that hold the words, best first (BM25); any of them will do, and rare ones count more.

    The words are data: quotes, operators and wildcards in them mean nothing. `without` names kinds that are left out, such
    as the tool that searches. The index is brought up to date first.

    With an embedder (`local_embedder()`, or one of your own), parts near in meaning are found as well, and both rankings are
    put together.
    """
    if not words.strip():
        raise BadInput("there is nothing to search for: the query is empty")
    if len(words) > MOST_QUERY_CHARACTERS:
        raise BadInput(
            f"the query has {len(words):,} characters; {MOST_QUERY_CHARACTERS:,} is the most. Search for a few words."
        )
    if type(limit) is not int or not 1 <= limit <= MOST_HITS:
        raise BadInput(f"the limit {limit!r} cannot be used; it is a whole number from 1 to {MOST_HITS}")
    question = query(words)
    known_entries(store, session)  # so that no index is made for a session that is not there
    if not question:
        return []
    point = points(embedder, [words])[0] if embedder else None

    def answer(db: Database) -> list[Hit]:
        catch_up(db, store, session)
        if not embedder or not point:
            return _hits(store, session, question, _best(places(db, question, without), limit))
        worded = _best(places(db, question, without), FUSED)
        first = [place.seq for place in worded]
        embed_new(db, store, session, embedder=embedder, size=len(point.data), first=first)
        near = _best(nearest(db, embedder.name, point, without), FUSED)
        return _hits(store, session, question, _fused(worded, near)[:limit])

    return with_index(store.index(session), answer)


def _fused(*rankings: list[Place]) -> list[Place]:
    """Return two rankings as one: scores of different kinds cannot be compared, ranks can.

    A part that both have found is shown where the one that ranks it higher has found it.
    """
    sums: dict[tuple[int, int], float] = {}
    shown: dict[tuple[int, int], tuple[int, Place]] = {}
    for ranking in rankings:
        for rank, place in enumerate(ranking):
            key = place.seq, place.part
            sums[key] = sums.get(key, 0.0) + 1 / (FUSED_RANK + rank)
            if key not in shown or rank < shown[key][0]:
                shown[key] = rank, place
    best = sorted(sums, key=lambda key: (-sums[key], *(-number for number in key)))
    return [msgspec.structs.replace(shown[key][1], score=sums[key]) for key in best]


def _best(found: Iterator[Place], limit: int) -> list[Place]:
    """Return the best place of each part."""
    best: dict[tuple[int, int], Place] = {}
    for place in found:
        best.setdefault((place.seq, place.part), place)
        if len(best) == limit:
            break
    return list(best.values())


def _hits(store: Store, session: str, question: str, best: list[Place]) -> list[Hit]:
    rows = store.rows_at(session, [place.seq for place in best])
    texts = [_text(store, session, rows.get(place.seq), place) for place in best]
    hits: list[Hit] = []
    for place, text, (start, end) in zip(best, texts, best_spans(question, texts), strict=True):
        line = place.line + text.count("\n", 0, start)
        ref = short_ref(rows[place.seq].id, place.part)
        snippet = text[start:end].rstrip("\n")
        hits.append(Hit(ref, place.kind, place.seq, line, place.score, snippet, place.characters))
    return hits


def _text(store: Store, session: str, row: Row | None, place: Place) -> str:
    body = log.to_entry(row, session).body if row else None
    if row is None or not isinstance(body, Message) or not 0 <= place.part < len(body.parts):
        raise Stale(f"the log has no part {place.part} at entry {place.seq}")
    part, span = body.parts[place.part], (place.start, place.start + place.length)
    try:
        text = passage_text(
            store.artifacts_for(session), part, place_of(session, row), span, is_preview=bool(place.is_preview)
        )
    except StoreCorrupt:
        return ""  # its artifact was damaged since: the hit is shown, and fetching it raises the error
    if text is None:
        raise Stale(f"part {place.part} of entry {place.seq} is shorter than that")
    return text


def best_spans(question: str, texts: list[str]) -> list[tuple[int, int]]:
    """Return the span of the best line of each text, by the same words and ranking, and of the next one if there is room."""
    spans = [list(_pieces(text)) for text in texts]
    db = connect_memory()
    try:
        db.execute(f"CREATE VIRTUAL TABLE words USING fts5(body, pieces, number UNINDEXED, tokenize='{TOKENIZER}')")
        for number, (text, pieces) in enumerate(zip(texts, spans, strict=True)):
            for at, (start, end) in enumerate(pieces):
                db.execute("INSERT INTO words VALUES (?, ?, ?)", (*indexed(text[start:end]), number << 32 | at))
        ranked = db.execute("SELECT number FROM words WHERE words MATCH ? ORDER BY rank DESC, rowid DESC", (question,))
        best = {number >> 32: number & 0xFFFFFFFF for (number,) in ranked}
    finally:
        db.close()
    return [_with_next(pieces, best.get(number, 0)) for number, pieces in enumerate(spans)]


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the lines of a text, the long ones in pieces."""
    start = 0
    for line in text.split("\n"):
        for first, end in cuts(line, SNIPPET_CHARACTERS):
            yield start + first, start + end
        start += len(line) + 1


def _with_next(pieces: list[tuple[int, int]], at: int) -> tuple[int, int]:
    if not pieces:
        return 0, 0
    start, end = pieces[at]
    if at + 1 < len(pieces) and pieces[at + 1][1] - start <= SNIPPET_CHARACTERS:
        end = pieces[at + 1][1]
    return start, end
