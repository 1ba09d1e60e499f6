"""Full-text search over everything that a session ever saw, on all of its branches."""

from collections.abc import Collection

from foveal.recall.search.embedding import Embedder, local_embedder
from foveal.recall.search.hit import Hit
from foveal.recall.search.words import MOST_QUERY_CHARACTERS, query
from foveal.stores.port import Store
from foveal.values.errors import BadInput

__all__ = ["MOST_HITS", "Embedder", "Hit", "local_embedder", "search"]

MOST_HITS = 100
"""Of one search: more are not read by anybody."""


def search(
    store: Store,
    session: str,
    words: str,
    *,
    limit: int = 10,
    without: Collection[str] = (),
    embedder: Embedder | None = None,
) -> list[Hit]:
    """The parts of the session that hold the words, best first (BM25); any of them will do, and rare ones count more.

    The words are data: quotes, operators and wildcards in them mean nothing. `without` names kinds that are left out, such
    as the tool that searches. The index is brought up to date first.

    With an embedder (`local_embedder()`, or one of your own), what is near in meaning is found as well, and both rankings are
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
    from foveal.recall.search.finding import find  # noqa: PLC0415 - SQLite is loaded by whoever searches

    return find(
        store, session, query(words), limit=limit, without=without, like=(embedder, words) if embedder else None
    )
