"""Stores with content, and child processes that speak through pipes."""

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from foveal.stores.port import Draft
from foveal.stores.sqlite import SqliteStore
from foveal.values.codec import encode
from foveal.values.entry import Message, Stored, ToolResult, user


class Child:
    """A Python process that runs `code`; it prints lines, and waits for lines."""

    def __init__(self, code: str, *arguments: object) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", code, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def hear(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def tell(self, line: str = "") -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def rest(self) -> str:
        output, _ = self.process.communicate()
        return output

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def child() -> Iterator[Callable[..., Child]]:
    """Start a child process; it is gone when the test ends."""
    children: list[Child] = []

    def start(code: str, *arguments: object) -> Child:
        children.append(Child(code, *arguments))
        return children[-1]

    yield start
    for each in children:
        each.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def filled(path: Path, template: Path) -> Path:
    """A closed store: sessions s0 … s2 of 30 entries each with a snapshot, every tenth naming an artifact."""
    shutil.copytree(template.parent, path.parent, dirs_exist_ok=True)
    return path


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `filled` is a copy of: a thousand syncs are enough once."""
    path = tmp_path_factory.mktemp("template") / "store.db"
    store = SqliteStore(path)
    for number in range(3):
        writer = store.acquire(f"s{number}")
        parent = None
        for i in range(30):
            name = f"s{number}-{i:03}"
            body = user(f"entry {i} of session {number}: " + "words " * (i % 7))
            if i % 10 == 9:
                card = store.artifacts.put([f"output {number} {i}\n".encode() * 3000])
                stored = Stored(card.sha256, card.size_bytes, card.lines, card.head, card.tail)
                body = Message("tool", (ToolResult(f"call{i}", (stored,)),))
            writer.append([Draft(name, parent, 1000 + i, "somebody", encode(body))], snapshot=b"view %d" % i)
            parent = name
    store.close()
    return path
