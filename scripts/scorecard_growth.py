"""Figures about growth, counted and not timed: memory and files that stay, and rows that are read of a long log."""

import gc
import os
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from scorecard_parts import Failures, Figure, add_step, begun_session, folder_in_memory

from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.stores.port import Opened, Row
from foveal.stores.sqlite import SqliteStore

WARM = 10
"""Sessions before the first count: modules are loaded at first use, and caches fill."""
TURNS = 5
MOST_OBJECTS = 2.0
"""Objects that a turn may leave behind; measured 0.0 to 0.4, for caches that still fill."""


def leaks(cases: int, _seed: int) -> Failures:
    """Open a store, work and close, again and again: no object and no open file stays for each turn."""
    sessions = max(2, cases // TURNS)
    with folder_in_memory() as folder:
        for number in range(WARM):
            _lived(folder / "leak.db", number)
        before = _held()
        for number in range(WARM, WARM + sessions):
            _lived(folder / "leak.db", number)
        objects, files = (now - then for now, then in zip(_held(), before, strict=True))
    grown = objects / (sessions * TURNS)
    return [
        *([f"{grown:.1f} objects stay for each turn; {MOST_OBJECTS} are the most"] if grown > MOST_OBJECTS else []),
        *([f"{files} files stay open after {sessions} sessions"] if files > 0 else []),
    ]


def _lived(path: Path, number: int) -> None:
    store = SqliteStore(path)
    session = begun_session(store, 0, now_ms=count(1).__next__, limit=2_500, name=f"s{number}")
    for n in range(TURNS):
        add_step(session, 0, n)
        session.prompt()
    session.close()
    store.close()


def _held() -> tuple[int, int]:
    """Return how many objects and how many open files this process holds."""
    gc.collect()
    return len(gc.get_objects()), len(os.listdir("/proc/self/fd"))


class CountedStore(MemoryStore):
    """A store that counts the rows that are read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.read = 0

    def load(self, session: str, **options: Any) -> Opened:
        """Open a session, and count the rows that come with it."""
        opened = super().load(session, **options)
        self.read += len(opened.rows)
        return opened

    def rows(self, session: str, *, after: int = 0, upto: int | None = None) -> Iterator[Row]:
        """Yield rows, and count them."""
        for row in super().rows(session, after=after, upto=upto):
            self.read += 1
            yield row

    def rows_at(self, session: str, seqs: Iterable[int]) -> dict[int, Row]:
        """Return rows, and count them."""
        found = super().rows_at(session, seqs)
        self.read += len(found)
        return found


def long_logs(cases: int, _seed: int) -> Failures:
    """Open a session of so many messages, and one of a fifth, and build a prompt: as many rows are read, within half."""
    short, long = _rows_read(cases // 5), _rows_read(cases)
    return [f"{long} rows are read of {cases} messages, {short} of a fifth"] if long > 1.5 * short + 20 else []


def _rows_read(messages: int) -> int:
    store = CountedStore()
    for turns, name in ((messages // 2, "first"), (2, "again")):
        session = begun_session(store, 0, now_ms=count(1).__next__, limit=4_000, ids=name)
        store.read = store.read if name == "again" else 0
        for n in range(turns):
            add_step(session, 0, n + (messages if name == "again" else 0))
            session.prompt()
        session.close()
        if name == "first":
            store.read = 0
    return store.read


# Plants


def _kept_sessions() -> None:
    """Let somebody remember each session that was closed."""
    real, kept = Session.close, list[Session]()

    def close(self: Session) -> None:
        real(self)
        kept.append(self)

    Session.close = close


def _open_files() -> None:
    """Let a store that is closed leave a file open."""
    real = SqliteStore.close

    def close(self: SqliteStore) -> None:
        real(self)
        os.open(self.path, os.O_RDONLY)

    SqliteStore.close = close


def _no_snapshot() -> None:
    """Let the snapshot of a session be lost."""
    real = MemoryStore.load

    def load(self: MemoryStore, session: str, **options: Any) -> Opened:
        return msgspec.structs.replace(real(self, session, **options), snapshot=None, rows=())

    MemoryStore.load = load


FIGURES = (
    Figure(
        "G5",
        "rows that opening a long session and its prompt read, against one of a fifth",
        long_logs,
        400,
        100_000,
        {"no snapshot": _no_snapshot},
    ),
    Figure(
        "G9",
        "turns: objects and open files that stay",
        leaks,
        100,
        100_000,
        {"kept sessions": _kept_sessions, "open files": _open_files},
    ),
)
