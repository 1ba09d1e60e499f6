"""Full-text search over everything that a session ever saw, on all of its branches.

SQLite is loaded when one of these names is first used, not when Foveal is imported.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.recall.search.embedding import Embedder, local_embedder
    from foveal.recall.search.hits import MOST_HITS, Hit, search
    from foveal.recall.search.related import RelatedPassage, find_related

__getattr__ = later(
    __name__,
    {
        "MOST_HITS": "hits",
        "Embedder": "embedding",
        "Hit": "hits",
        "RelatedPassage": "related",
        "local_embedder": "embedding",
        "find_related": "related",
        "search": "hits",
    },
)

__all__ = ["MOST_HITS", "Embedder", "Hit", "RelatedPassage", "find_related", "local_embedder", "search"]
