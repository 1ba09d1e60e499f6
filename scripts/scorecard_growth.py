"""Figures about growth, counted and not timed: memory and files that stay, and rows that are read of a long log."""

import gc
import os
import sys
from itertools import count
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from scorecard_parts import Failures, Figure, add_step, begun_session, folder_in_memory

import big_result
from foveal.session.session import Session
from foveal.stores.port import Opened
from foveal.stores.sqlite import SqliteStore
from foveal.testing.counting_store import CountingStore

MOST_MB = 64
"""The scorecard's own bound for a result of a gigabyte."""
WARM = 10
"""Sessions before the first count: modules are loaded at first use, and caches fill."""
TURNS = 5
MOST_OBJECTS = 2.0
"""Objects that a turn may leave behind, for caches that still fill; measured 0.0."""


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
    return len(gc.get_objects()), len(list(Path("/proc/self/fd").iterdir()))


class CountedStore(CountingStore):
    """A store that counts all rows that are read from it, those of an opening as well."""

    def load(self, session: str, **options: Any) -> Opened:
        """Open a session, and count the rows that come with it."""
        opened = super().load(session, **options)
        self.read += len(opened.rows)
        return opened


def long_logs(cases: int, _seed: int) -> Failures:
    """Open a session of so many messages, and one of a fifth, and build a prompt: as many rows are read, within half."""
    short, long = _rows_read(cases // 5), _rows_read(cases)
    return [f"{long} rows are read of {cases} messages, {short} of a fifth"] if long > 1.5 * short + 20 else []


def _rows_read(messages: int) -> int:
    """Return the rows that are read when a session of so many messages is opened and goes on for two turns."""
    store = CountedStore()
    for ids, turns in (("first", messages // 2), ("again", 2)):
        store.read = 0
        session = begun_session(store, 0, now_ms=count(1).__next__, limit=4_000, ids=ids)
        for n in range(turns):
            add_step(session, 0, n)
            session.prompt()
        session.close()
    return store.read


def big_results(cases: int, _seed: int) -> Failures:
    """Keep a result of so many megabytes that comes in pieces: memory does not grow with it."""
    grown_mb = big_result.measure(cases << 20)["peak_growth_mb"]
    return [f"{grown_mb:.0f} MB for a result of {cases} MB; {MOST_MB} are the most"] if grown_mb > MOST_MB else []


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


def _joined_result() -> None:
    """Let the pieces of a result be joined before they are kept."""
    real = big_result.keep_stream
    big_result.keep_stream = lambda store, chunks: real(store, [b"".join(chunks)])


def _whole_log() -> None:
    """Let a prompt read the log from its beginning."""
    real = Session.prompt

    def prompt(self: Session, *given: Any, **options: Any) -> Any:
        list(self._journal.store.rows(self._journal.name))
        return real(self, *given, **options)

    Session.prompt = prompt


FIGURES = (
    Figure("G4", "megabytes of one result: memory that grows", big_results, 96, 1_024, {"joined": _joined_result}),
    Figure(
        "G5",
        "rows that opening a long session and its prompt read, against one of a fifth",
        long_logs,
        400,
        20_000,
        {"whole log": _whole_log},
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
