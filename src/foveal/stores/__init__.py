"""Where logs are kept."""

from pathlib import Path

from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store

__all__ = ["MemoryStore", "Store", "open_store"]


def open_store(path: str | Path = ":memory:") -> Store:
    """The store in this SQLite file, made if it is new; or one that lives and dies with the process."""
    if str(path) == ":memory:":
        return MemoryStore()
    from foveal.stores.sqlite import SqliteStore  # noqa: PLC0415 - SQLite is loaded when a file is opened

    return SqliteStore(path)
