"""Passages on the same subject as some words: what was said before that the words may refer to.

Unlike `search`, which always gives its best hits, this may give nothing. The words of a request are weighed by how rare they are
in what was said; a passage is related if it holds enough of that weight. Words that were never said weigh as well, so that a
request about something new is related to nothing. Only words of people and of the model are looked at: contents of files and
outputs of tools change, and may not be true any more.
"""

import re
from collections.abc import Callable, Collection, Hashable, Sequence
from itertools import islice
from math import log
from typing import Generic, NamedTuple, TypeVar

import msgspec

from foveal.recall.originals import place_of
from foveal.recall.search.index import Stale, catch_up, known_entries, with_index
from foveal.recall.search.passages import passage_text
from foveal.recall.search.words import MOST_QUERY_CHARACTERS, is_unspaced, terms
from foveal.stores import rows as stored
from foveal.stores.database import Database
from foveal.stores.port import Row, Store
from foveal.values.entry import Message
from foveal.values.errors import StoreCorrupt

LEAST_SHARE = 0.5
"""Least share of the weight of the words that a related passage holds. On chats at 32k, 0.6 found 0.87 and 0.5 0.94 of the long
texts that a question was about, for 5 and 7 % of the bill."""

NEAR_CHARS = 600
"""Characters of a passage that hold the words together: in a long text, they stand far apart by chance."""

LEAST_TERMS = 2
"""Least number of the words that it holds, where there are as many: one word alone is seldom the subject."""

_MOST_TERMS = 32
LOOKS = 3
"""Passages that are read for each that is given: of some, only the index says that they are related."""
_COMMON = 0.1
"""A word in more than this share of what was said tells nothing about the subject."""
_LONG_WORD = 6
_UNSEEN = 0.5
"""Weight of a word that was never said, compared with the others: it may be the subject, or a word that tells nothing."""
_FEW, _MANY = 8, 400
"""A word in so few passages is never common, and in so many it is, however much was said."""


P = TypeVar("P", bound=Hashable)


class RelatedPassage(msgspec.Struct, frozen=True):
    """A passage, as it was recorded, and its place."""

    entry: str
    part: int
    role: str
    """`user` or `assistant`."""
    line: int
    """The number of its first line in the part, from 1."""
    text: str
    share: float
    """The share of the weight of the words that it holds."""


class Candidate(NamedTuple, Generic[P]):
    """A passage that holds enough of the words, by its number in the index, and the entry that it is of."""

    share: float
    id: int
    place: P


def find_related(
    store: Store, session: str, words: str, *, without: Collection[int] = (), limit: int = 8
) -> list[RelatedPassage]:
    """Return what people and the model said on the subject of these words, best first; nothing if nothing fits well.

    Entries at the positions `without` are not looked at. The index is brought up to date first, so that the answer follows
    from the log alone.
    """
    asked = asked_terms(words)
    if not asked or not known_entries(store, session):
        return []

    hidden = frozenset(without)

    def answer(db: Database) -> list[RelatedPassage]:
        catch_up(db, store, session)
        said = db.execute("SELECT count(*) FROM passages WHERE kind IN ('user', 'assistant')").fetchall()[0][0]

        def holders(term: str, most: int) -> list[tuple[int, int]]:
            return [row for row in _holders(db, term, most + len(hidden)) if row[1] not in hidden]

        best, weights = candidates(said, asked, holders)
        read = (_read(db, store, session, one) for one in islice(best, LOOKS * limit))
        return list(islice((found for found in read if found and is_near(found.text, weights)), limit))

    return with_index(store.index(session), answer)


def related_texts(texts: Sequence[str], words: str, *, limit: int = 4) -> list[int]:
    """Return the positions of the texts on the subject of these words, best first, by the same measure. The texts are few, and
    given newest first."""
    folded = [" " + _BETWEEN_WORDS.sub(" ", text.casefold()) for text in texts]

    def holders(term: str, most: int) -> list[tuple[int, int]]:
        stem = _stem(term) or " " + term.casefold()
        return [(-place, place) for place, text in enumerate(folded) if stem in text][: most + 1]

    best, _ = candidates(len(texts), asked_terms(words), holders)
    return [one.place for one in best[:limit]]


def asked_terms(words: str) -> list[str]:
    """Return the words of a request by which related passages are looked for."""
    return terms(words[:MOST_QUERY_CHARACTERS])[:_MOST_TERMS]


def candidates(
    said: int, asked: Collection[str], holders: Callable[[str, int], list[tuple[int, P]]]
) -> tuple[list[Candidate[P]], dict[str, float]]:
    """Return the places of all passages that hold enough of the words, the best of each entry, best first; and the weights of
    the words.

    `said` is the number of all passages; `holders` returns number and entry of the newest passages with a term, one more than
    it is asked for if there are more.
    """
    most = max(_FEW, min(int(said * _COMMON), _MANY))
    weights, held, seqs = dict[int, float](), dict[int, int](), dict[int, P]()
    of_terms, unseen = dict[str, float](), list[str]()
    for term in asked:
        found = holders(term, most)
        if len(found) > most:
            continue
        if not found:
            unseen.append(term)
            continue
        weight = of_terms[term] = log((said + 1) / (len(found) + 0.5)) * _weight(term)
        for id_, seq in found:
            weights[id_] = weights.get(id_, 0.0) + weight
            held[id_] = held.get(id_, 0) + 1
            seqs[id_] = seq
    if not of_terms:
        return [], of_terms
    least = min(LEAST_TERMS, len(of_terms) + len(unseen))
    mean = sum(of_terms.values()) / sum(map(_weight, of_terms))
    of_terms |= {term: _UNSEEN * mean * _weight(term) for term in unseen}
    total = sum(of_terms.values())
    fit = [id_ for id_, weight in weights.items() if weight >= LEAST_SHARE * total and held[id_] >= least]
    best = dict[P, Candidate[P]]()
    for id_ in sorted(fit, key=lambda one: (-weights[one], -one)):
        best.setdefault(seqs[id_], Candidate(weights[id_] / total, id_, seqs[id_]))
    return list(best.values()), of_terms


def _weight(term: str) -> float:
    """Return the weight of a word by its length: in every script with letters, words that tell little are short."""
    return min(1.0, len(term) / _LONG_WORD) if term.isalpha() else 1.0


def is_near(text: str, weights: dict[str, float]) -> bool:
    """Return whether some few lines of a text hold enough of the words together."""
    if len(text) <= NEAR_CHARS:
        return True
    stems = {stem: weight for term, weight in weights.items() if (stem := _stem(term))}
    least = LEAST_SHARE * sum(stems.values())
    folded = " " + _BETWEEN_WORDS.sub(" ", text.casefold())
    for start in range(0, len(folded), NEAR_CHARS // 2):
        held = [weight for stem, weight in stems.items() if stem in folded[start : start + NEAR_CHARS]]
        if len(held) >= min(LEAST_TERMS, len(stems)) and sum(held) >= least:
            return True
    return False


def _stem(term: str) -> str:
    """Return a word as it begins, without an ending that it may have; empty for several words, between which there may be
    anything. Characters of a script without spaces are together one."""
    words = term.casefold().split()
    if is_unspaced(term):
        return "".join(words)
    return "" if len(words) > 1 else " " + (words[0][:-2] if len(words[0]) > _ENDING else words[0])


_BETWEEN_WORDS = re.compile(r"[\W_]+")
_ENDING = 5


def _holders(db: Database, term: str, most: int) -> list[tuple[int, int]]:
    """Return number and entry of the passages with a term, the newest; one more than `most` if there are more."""
    return db.execute(
        "SELECT passages.id, passages.seq FROM words JOIN passages ON passages.id = words.rowid "
        "WHERE words MATCH ? AND passages.kind IN ('user', 'assistant') ORDER BY words.rowid DESC LIMIT ?",
        (f'"{term}"', most + 1),
    ).fetchall()


def _read(db: Database, store: Store, session: str, one: Candidate[int]) -> RelatedPassage | None:
    row = store.rows_at(session, [one.place]).get(one.place)
    return read_passage(db, store, session, one.id, row=row, share=one.share)


def read_passage(
    db: Database, store: Store, session: str, number: int, *, row: Row | None, share: float
) -> RelatedPassage | None:
    """Return the passage of this number in the index, which is of this row, as the log has it; None if its artifact is
    damaged."""
    sql = "SELECT part, kind, line, start, length, is_preview FROM passages WHERE id = ?"
    found = db.execute(sql, (number,)).fetchone()
    body = stored.to_entry(row, session).body if row else None
    if found is None or row is None or not isinstance(body, Message) or not 0 <= found[0] < len(body.parts):
        raise Stale(f"the log has no passage {number} at entry {row.seq if row else '?'}")
    part, kind, line, start, length, is_preview = found
    span, original = (start, start + length), body.parts[int(part)]
    try:
        text = passage_text(
            store.artifacts_for(session), original, place_of(session, row), span, is_preview=bool(is_preview)
        )
    except StoreCorrupt:
        return None
    if text is None:
        raise Stale(f"part {part} of entry {row.seq} is shorter than that")
    return RelatedPassage(row.id, part, kind, line, text, share)
