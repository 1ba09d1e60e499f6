"""Stores: the places where the logs of sessions are kept."""

from pathlib import Path

from foveal.stores import sqlite
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store

__all__ = ["MemoryStore", "Store", "open_store"]


def open_store(path: str | Path = ":memory:") -> Store:
    """Open the store in this SQLite file, made if it is new; for ":memory:", one that ends with the process."""
    if str(path) == ":memory:":
        return MemoryStore()
    return sqlite.SqliteStore(path)
