"""Answering a question from the index and the log: the index says where, the log says what."""

from collections.abc import Collection, Iterator

from foveal import log
from foveal.core.entry import Message
from foveal.core.errors import StoreCorrupt
from foveal.core.view import short_ref
from foveal.recall.originals import place_of
from foveal.search.hit import Hit
from foveal.search.index import TOKENIZER, Place, Stale, catch_up, known_entries, places
from foveal.search.passages import cuts, passage_text
from foveal.search.shelf import in_memory, with_index
from foveal.search.words import indexed
from foveal.stores.database import Database
from foveal.stores.port import Row, Store

SNIPPET_CHARACTERS = 240
"""About sixty tokens: ten hits are read at a glance, and the reference gives the rest."""


def find(store: Store, session: str, question: str, *, limit: int, without: Collection[str]) -> list[Hit]:
    """The best hits, one for each part of the log; `question` is in the index's own syntax (empty: no answer)."""

    def answer(db: Database) -> list[Hit]:
        catch_up(db, store, session)
        best = _best(places(db, question, without), limit)
        return _hits(store, session, question, best)

    known_entries(store, session)  # so that no index is made for a session that is not there
    return with_index(store, session, answer) if question else []


def _best(found: Iterator[Place], limit: int) -> list[Place]:
    """The best place of each part."""
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
    for place, text, (start, end) in zip(best, texts, _best_spans(question, texts), strict=True):
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
        text = passage_text(store, part, place_of(session, row), span, is_preview=bool(place.is_preview))
    except StoreCorrupt:
        return ""  # its artifact was damaged since: the hit stands, and fetching it says what happened
    if text is None:
        raise Stale(f"part {place.part} of entry {place.seq} is shorter than that")
    return text


def _best_spans(question: str, texts: list[str]) -> list[tuple[int, int]]:
    """In each text the line that answers best, by the same words and the same ranking, and the next one if there is room."""
    spans = [list(_pieces(text)) for text in texts]
    db = in_memory()
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
    """The lines of a text, the long ones in pieces."""
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
