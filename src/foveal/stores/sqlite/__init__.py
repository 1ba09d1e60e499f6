"""The SQLite store: its file, its writer thread, its tables, the search indexes beside it, and its repair.

SQLite itself is loaded when one of these names is first used, not when Foveal is imported.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.stores.sqlite.index import MemoryIndex
    from foveal.stores.sqlite.store import SqliteStore

__getattr__ = later(__name__, {"MemoryIndex": "index", "SqliteStore": "store"})

__all__ = ["MemoryIndex", "SqliteStore"]
