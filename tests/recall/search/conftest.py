"""A store of each kind, sessions to search in, and child processes."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from foveal import open_store
from foveal.stores.port import Store
from foveal.stores.sqlite import SqliteStore
from foveal.testing.builders import counted_ids, open_session
from foveal.values.entry import Body


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    opened = open_store(":memory:" if request.param == "memory" else tmp_path / "store.db")
    yield opened
    opened.close()


@pytest.fixture
def file_store(tmp_path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore(tmp_path / "store.db")
    yield opened
    opened.close()


@pytest.fixture
def keep() -> Callable[..., list[str]]:
    """Appends bodies to a session and gives their ids."""

    def append(store: Store, *bodies: Body, session: str = "test") -> list[str]:
        known = store.cards(session)
        new_id = counted_ids(f"{session}/{known[0].entries if known else 0}")
        with open_session(store, session, new_id=new_id) as opened:
            return [entry.id for entry in opened.extend(bodies)]

    return append


@pytest.fixture
def child() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a Python process that runs `code` and speaks in lines; it is gone when the test ends."""
    children: list[subprocess.Popen[str]] = []

    def start(code: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", code, *map(str, arguments)]
        children.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1))
        return children[-1]

    yield start
    for process in children:
        process.kill()
        process.communicate()
