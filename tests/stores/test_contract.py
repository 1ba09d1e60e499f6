"""Our stores keep the promises of the port."""

from pathlib import Path

import pytest

from foveal.stores.memory import MemoryStore
from foveal.stores.port import Store
from foveal.stores.sqlite import SqliteStore
from foveal.testing.store_contract import StoreContract


class TestMemoryStore(StoreContract):
    def make_store(self) -> Store:
        return MemoryStore()


class TestSqliteStore(StoreContract):
    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.path = tmp_path / "store.db"

    def make_store(self) -> Store:
        return SqliteStore(self.path)

    def reopen(self, store: Store) -> Store:
        store.close()
        return SqliteStore(self.path)
