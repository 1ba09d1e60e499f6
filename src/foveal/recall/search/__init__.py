"""Full-text search over everything that a session ever saw, on all of its branches, and over what was said in its scope.

SQLite is loaded when one of these names is first used, not when Foveal is imported.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.recall.search.earlier import (
        EarlierPassage,
        EarlierStatement,
        Moment,
        find_earlier,
        newest_statements,
        search_earlier,
    )
    from foveal.recall.search.embedding import Embedder, local_embedder
    from foveal.recall.search.hits import MOST_HITS, Hit, search
    from foveal.recall.search.related import RelatedPassage, find_related, related_texts
    from foveal.recall.search.store_search import SessionHit, search_store

__getattr__ = later(
    __name__,
    {
        "MOST_HITS": "hits",
        "EarlierPassage": "earlier",
        "EarlierStatement": "earlier",
        "Embedder": "embedding",
        "Hit": "hits",
        "Moment": "earlier",
        "RelatedPassage": "related",
        "local_embedder": "embedding",
        "find_earlier": "earlier",
        "find_related": "related",
        "newest_statements": "earlier",
        "related_texts": "related",
        "search": "hits",
        "search_earlier": "earlier",
        "SessionHit": "store_search",
        "search_store": "store_search",
    },
)

__all__ = [
    "MOST_HITS",
    "EarlierPassage",
    "EarlierStatement",
    "Embedder",
    "Hit",
    "Moment",
    "RelatedPassage",
    "SessionHit",
    "find_earlier",
    "find_related",
    "local_embedder",
    "newest_statements",
    "related_texts",
    "search",
    "search_earlier",
    "search_store",
]
