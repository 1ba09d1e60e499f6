"""A store of each kind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from foveal import open_store
from foveal.stores.port import Store


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(":memory:" if request.param == "memory" else tmp_path / "store.db")
    yield opened
    opened.close()
