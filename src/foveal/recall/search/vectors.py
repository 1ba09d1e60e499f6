"""The points of a session's passages, kept in the file of its index and gone with it.

They are made by the first search by meaning, and only for passages that have none. How many one search makes is bounded: the
passages that the words have found come first, then the newest; the rest has its turn with later searches.
"""

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from operator import mul

import msgspec

from foveal.recall.originals import place_of
from foveal.recall.search.embedding import Embedder, QuantisedVector, points
from foveal.recall.search.index import Place, Stale, passage_at, tools_in
from foveal.recall.search.passages import cuts, passages
from foveal.stores import rows as log
from foveal.stores.database import Database
from foveal.stores.port import Store
from foveal.stores.sqlite.connection import transaction
from foveal.values.entry import Message
from foveal.values.errors import BadInput

PIECE_CHARACTERS = 500
"""Size of a piece: of 500, 1 000, 2 000 and 4 000, rare names were found best with 500; prose equally well with each."""
BATCH = 512
"""Pieces embedded at a time; each batch is kept before the next."""

_TABLE = """CREATE TABLE IF NOT EXISTS vectors (
    embedder TEXT NOT NULL,
    passage INTEGER NOT NULL,
    start INTEGER NOT NULL,
    length INTEGER NOT NULL,
    line INTEGER NOT NULL,
    norm REAL NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (embedder, passage, start)
) STRICT, WITHOUT ROWID"""


class _Piece(msgspec.Struct, frozen=True):
    passage: int
    start: int
    """Characters of the part before it."""
    line: int
    text: str


def embed_new(db: Database, store: Store, session: str, *, embedder: Embedder, size: int, first: Iterable[int]) -> None:
    """Make points of this size for passages that have none: of these entries first, then of the newest."""
    db.execute(_TABLE)
    if db.execute("SELECT 1 FROM vectors WHERE embedder <> ? LIMIT 1", (embedder.name,)).fetchall():
        db.execute("DELETE FROM vectors WHERE embedder <> ?", (embedder.name,))
    batch: list[_Piece] = []
    room = embedder.most
    for pieces in _missing(db, store, session, embedder=embedder.name, first=first):
        batch.extend(pieces)
        room -= len(pieces)
        if room <= 0:
            break
        if len(batch) >= BATCH:
            _keep(db, embedder, batch, size)
            batch = []
    _keep(db, embedder, batch, size)


def nearest(db: Database, embedder: str, point: QuantisedVector, without: Collection[str]) -> Iterator[Place]:
    """Yield the pieces nearest to the point, the newest first among equals."""
    asked = array("b", point.data)
    ranked: list[tuple[float, int, int, int, int]] = []
    kept = db.execute("SELECT norm, passage, start, length, line, data FROM vectors WHERE embedder = ?", (embedder,))
    for norm, passage, start, length, line, data in kept:
        if len(data) != len(asked):
            raise Stale(f"a vector of {embedder} has {len(data)} numbers, and the question has {len(asked)}")
        score = sum(map(mul, asked, array("b", data))) / (norm * point.norm) if norm and point.norm else 0.0
        ranked.append((score, passage, start, length, line))
    skipped = set(without)
    for score, passage, start, length, line in sorted(ranked, reverse=True):
        place = passage_at(db, passage, score)
        if place.kind not in skipped:
            yield msgspec.structs.replace(place, start=start, length=length, line=line)


def _missing(
    db: Database, store: Store, session: str, *, embedder: str, first: Iterable[int]
) -> Iterator[list[_Piece]]:
    """Yield the pieces of passages without points, passage by passage."""
    lacking: dict[int, dict[tuple[int, int], int]] = {}
    listed = db.execute(
        "SELECT seq, part, start, id FROM passages WHERE id NOT IN (SELECT passage FROM vectors WHERE embedder = ?)"
        " ORDER BY id DESC",
        (embedder,),
    ).fetchall()
    for seq, part, start, number in listed:
        lacking.setdefault(seq, {})[part, start] = number
    for seq in dict.fromkeys((*first, *lacking)):
        if seq in lacking:
            yield from _pieces(db, store, session, seq=seq, numbers=lacking[seq])


def _pieces(
    db: Database, store: Store, session: str, *, seq: int, numbers: dict[tuple[int, int], int]
) -> Iterator[list[_Piece]]:
    row = store.rows_at(session, [seq]).get(seq)
    body = log.to_entry(row, session).body if row else None
    if row is None or not isinstance(body, Message):
        raise Stale(f"the log has no message at entry {seq}")
    for passage in passages(store.artifacts_for(session), body, place_of(session, row), tools_in(db)):
        number = numbers.get((passage.part, passage.start))
        if number is not None:
            text, line = passage.text, passage.line
            pieces: list[_Piece] = []
            for start, end in cuts(text, PIECE_CHARACTERS):
                pieces.append(_Piece(number, passage.start + start, line, text[start:end]))
                line += text.count("\n", start, end)
            yield pieces


def _keep(db: Database, embedder: Embedder, batch: Sequence[_Piece], size: int) -> None:
    if not batch:
        return
    made = points(embedder, [piece.text for piece in batch])
    if len(made[0].data) != size:
        what = f"vectors of {len(made[0].data)} numbers for passages and of {size} for the question"
        raise BadInput(f"the embedder {embedder.name!r} gave {what}; they must be of one length")
    with transaction(db):
        for piece, point in zip(batch, made, strict=True):
            db.execute(
                "INSERT OR IGNORE INTO vectors VALUES (?, ?, ?, ?, ?, ?, ?)",
                (embedder.name, piece.passage, piece.start, len(piece.text), piece.line, point.norm, point.data),
            )
