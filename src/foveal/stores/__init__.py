"""Stores: the places where the logs of sessions are kept."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from foveal.stores import sqlite
from foveal.stores.memory import MemoryStore
from foveal.stores.place import DatabaseAddress, find_place
from foveal.stores.port import Store
from foveal.values.errors import MissingExtra

__all__ = ["MemoryStore", "Store", "open_store"]


def open_store(place: str | Path | DatabaseAddress = ":memory:") -> Store:
    """Open the store at a place, made if it is new.

    `agent.db` and `sqlite:///agent.db` are an SQLite file, `postgresql://…` is a database for many processes and machines, and
    ":memory:" is a store that ends with the process.
    """
    if str(place) == ":memory:":
        return MemoryStore()
    found = place if isinstance(place, DatabaseAddress) else find_place(place)
    if isinstance(found, Path):
        return sqlite.SqliteStore(found)
    if find_spec("psycopg") is None:
        raise MissingExtra("A store in PostgreSQL", "postgres")
    return import_module("foveal.stores.postgres.store").PostgresStore(found.url)
