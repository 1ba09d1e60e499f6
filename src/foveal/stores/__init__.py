"""Stores: the places where the logs of sessions are kept."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from foveal.stores import sqlite
from foveal.stores.memory import MemoryStore
from foveal.stores.place import DatabaseAddress, find_place
from foveal.stores.port import Store
from foveal.stores.tenants import tenant_prefix
from foveal.values.errors import BadInput, MissingExtra, NotFound

if TYPE_CHECKING:
    from foveal.stores.keys import Keys

__all__ = ["MemoryStore", "Store", "open_store"]


def open_store(
    place: str | Path | DatabaseAddress = ":memory:",
    *,
    artifacts: str | Path | None = None,
    tenant: str | None = None,
    keys: "Keys | str | Path | None" = None,
    may_be_read_only: bool = False,
    must_exist: bool = False,
) -> Store:
    """Open the store at a place, made if it is new, unless it `must_exist`.

    `agent.db` and `sqlite:///agent.db` are an SQLite file, `postgresql://…` is a database for many processes and machines, and
    ":memory:" is a store that ends with the process. The artifacts of a database may lie elsewhere: in a bucket
    (`s3://BUCKET/PREFIX`, `gs://…`, `az://…`) or in a folder that all its machines share.

    With a `tenant`, the sessions of that tenant are all that there is. With `keys` (a file, `env:NAME`, or an object that asks a
    service for keys), each session that is made from now on is encrypted under a key of its own.

    A file that cannot be written is refused, unless it `may_be_read_only`: then it is read, and all that changes it is refused. A
    database is read by a role that may do no more in any case, if its tables are of this version.
    """
    if (tenant is not None or keys is not None) and find_spec("cryptography") is None:
        raise MissingExtra("A store with tenants or keys", "keys")
    if isinstance(keys, str | Path):
        keys = import_module("foveal.stores.keys").read_keys(keys)
    tenant_prefix(tenant)  # refused before a store is made
    store = _open(place, artifacts, may_be_read_only=may_be_read_only, must_exist=must_exist)
    if tenant is None and keys is None:
        return store
    try:
        return import_module("foveal.stores.private").PrivateStore(store, tenant=tenant, keys=keys)
    except BaseException:
        store.close()
        raise


def _open(
    place: str | Path | DatabaseAddress, artifacts: str | Path | None, *, may_be_read_only: bool, must_exist: bool
) -> Store:
    found = place if isinstance(place, DatabaseAddress) else find_place(place)
    if isinstance(found, Path):
        if artifacts is not None:
            raise BadInput(f"artifacts={str(artifacts)!r}: only a store in PostgreSQL keeps its artifacts elsewhere")
        is_memory = str(found) == ":memory:"
        if must_exist and not is_memory and not found.exists():
            raise NotFound(f"there is no store at {found}")
        return MemoryStore() if is_memory else sqlite.SqliteStore(found, may_be_read_only=may_be_read_only)
    if find_spec("psycopg") is None:
        raise MissingExtra("A store in PostgreSQL", "postgres")
    try:
        module = import_module("foveal.stores.postgres.store")
    except ImportError as error:  # psycopg without libpq
        raise MissingExtra("A store in PostgreSQL", "postgres", " ".join(str(error).split())) from error
    return module.PostgresStore(found.url, artifacts=artifacts, must_exist=must_exist)
