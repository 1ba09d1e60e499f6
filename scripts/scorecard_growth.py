"""Figures about growth, counted and not timed: memory and files that stay, and rows that are read of a long log."""

import gc
import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import apsw

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

from scorecard_disk import Disk
from scorecard_parts import Failures, Figure, Plant, Tried, add_step, begun_session, folder_in_memory

import big_result
import stores
from foveal.session.options import Model
from foveal.session.session import Session
from foveal.stores.port import Draft, Opened
from foveal.stores.sqlite import SqliteStore, group_commit
from foveal.testing.counting_store import CountingStore
from foveal.values.entry import user

MOST_MB = 64
"""The scorecard's own bound for a result of a gigabyte."""
WARM = 10
"""Sessions before the first count: modules are loaded at first use, and caches fill."""
TURNS = 5
MODEL = Model("gpt-5", "openai_chat")
MOST_OBJECTS = 2.0
"""Objects that a turn may leave behind, for caches that still fill; measured 0.0."""
MOST_BYTES, UNSTEADY_BYTES = 1_024, 4 << 20
"""Bytes of memory that a turn may leave behind, and those by which the memory of a process differs from moment to moment."""


def leaks(cases: int, _seed: int) -> Tried:
    """Open a store, work and close, again and again: no object, no open file and no memory stays for each turn."""
    sessions = max(2, cases // TURNS)
    with folder_in_memory() as folder:
        for number in range(WARM):
            _lived(folder / "leak.db", number)
        before = _held()
        for number in range(WARM, WARM + sessions):
            _lived(folder / "leak.db", number)
        objects, files, memory_bytes = (now - then for now, then in zip(_held(), before, strict=True))
    turns = sessions * TURNS
    grown, most_bytes = objects / turns, MOST_BYTES * turns + UNSTEADY_BYTES
    failures = [
        *([f"{grown:.1f} objects stay for each turn; {MOST_OBJECTS} are the most"] if grown > MOST_OBJECTS else []),
        *([f"{files} files stay open after {sessions} sessions"] if files > 0 else []),
        *([f"{memory_bytes:,} bytes more; {most_bytes:,} are the most"] if memory_bytes > most_bytes else []),
    ]
    return Tried(turns, failures, told=f"{memory_bytes / (1 << 20):,.1f} MB more")


def _lived(path: Path, number: int) -> None:
    store = SqliteStore(path)
    session = begun_session(store, 0, now_ms=count(1).__next__, limit=2_500, name=f"s{number}")
    for n in range(TURNS):
        add_step(session, 0, n)
        session.prompt()
    session.close()
    store.close()


def _held() -> tuple[int, int, int]:
    """Return how many objects, open files and bytes of memory this process holds."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return len(gc.get_objects()), len(list(Path("/proc/self/fd").iterdir())), pages * os.sysconf("SC_PAGESIZE")


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


# Many sessions

ACTIVE, MOST_MORE, MOST_MB_ALL = 0.04, 1.5, 1_536
"""The share of stored sessions that is active at once, how much more SQLite may do for them than among a fifth of the sessions,
and the memory of all."""
STEPS_A_TICK = 100


def many_sessions(cases: int, _seed: int) -> Tried:
    """Let a share of so many stored sessions work at once: no error, as much work for each as among a fifth of them."""
    failures = Failures()
    few, many = (_work_among(max(10, cases // part), max(4, int(cases * ACTIVE) // 5), failures) for part in (5, 1))
    if many > MOST_MORE * few + 20:
        failures.append(f"{many:.0f} steps of SQLite for a session among {cases}, {few:.0f} among a fifth")
    if (used_mb := big_result.peak_mb()) > MOST_MB_ALL:
        failures.append(f"{used_mb:.0f} MB; {MOST_MB_ALL} are the most")
    return Tried(max(10, cases), failures)


def _work_among(stored: int, active: int, failures: Failures) -> float:
    """Let so many sessions of those that are stored make a call at once, and return the steps of SQLite for each."""
    ticks = count()
    hook = partial(_count_steps, ticks=ticks)
    apsw.connection_hooks.append(hook)
    with folder_in_memory() as folder, SqliteStore(folder / "many.db") as store, ThreadPoolExecutor(16) as pool:

        def keep(number: int) -> None:
            with Session(store, f"s{number}", model=MODEL) as session:
                session.append(user(f"Find the slow handler {number}."))

        def work(number: int) -> None:
            session = Session(store, f"s{number}", model=MODEL)
            add_step(session, number, 0)
            session.prompt()
            session.close()

        for number in range(stored):
            keep(number)
        before = next(ticks)
        for done in [pool.submit(work, number * stored // active) for number in range(active)]:
            if error := done.exception():
                failures.append(f"{type(error).__name__}: {error}")
        steps = next(ticks) - before - 1
    apsw.connection_hooks.remove(hook)
    return steps * STEPS_A_TICK / active


def _count_steps(connection: apsw.Connection, *, ticks: Iterator[int]) -> None:
    connection.set_progress_handler(lambda: next(ticks) < 0, STEPS_A_TICK)


# Commits together

WRITERS, LEAST_TOGETHER = 100, 6.0
"""Sessions that append at once, and appends that share a sync at least: a disk that makes 168 syncs a second keeps a thousand."""
SYNC_S = 0.001
"""Seconds of a sync here: files in memory have none, and whoever does not wait shares nothing."""


def group_commits(cases: int, _seed: int) -> Tried:
    """Let a hundred sessions append at once, so often in all: none fails, and syncs are shared."""
    rounds, failures = max(1, cases // WRITERS), Failures()
    disk = Disk()
    with folder_in_memory() as folder, SqliteStore(folder / "together.db") as store:
        writers = [store.acquire(f"s{number}") for number in range(WRITERS)]
        together = threading.Barrier(WRITERS + 1)

        def work(number: int) -> None:
            together.wait()
            try:
                for n in range(rounds):
                    writers[number].append([Draft(f"{number}.{n}", None, 1, "agent", stores.PAYLOADS[n % 512])])
            except Exception as error:
                failures.append(f"writer {number}: {type(error).__name__}: {error}")

        threads = [threading.Thread(target=work, args=(number,)) for number in range(WRITERS)]
        for thread in threads:
            thread.start()
        disk.syncs, disk.sync_s = 0, SYNC_S
        together.wait()
        for thread in threads:
            thread.join()
        shared = WRITERS * rounds / max(1, disk.syncs)
        kept = sum(card.entries for card in store.cards())
    if kept != WRITERS * rounds:
        failures.append(f"{kept} entries of {WRITERS * rounds}")
    if shared < LEAST_TOGETHER:
        failures.append(f"{shared:.1f} appends share a sync; {LEAST_TOGETHER} are the least")
    return Tried(kept, failures)


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


def _kept_bytes() -> None:
    """Let somebody keep a megabyte for each session that was closed: one object, that the collector does not know."""
    real, kept = Session.close, [b""]

    def close(self: Session) -> None:
        real(self)
        kept[0] += os.urandom(2 << 20)

    Session.close = close


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


def _read_catalogue() -> None:
    """Let a session that is opened look through all others."""
    real = SqliteStore.load

    def load(self: SqliteStore, *given: Any, **options: Any) -> Opened:
        self.cards()
        return real(self, *given, **options)

    SqliteStore.load = load


def _alone() -> None:
    """Let each append be committed alone."""
    group_commit.GROUP_LIMIT = 1


FIGURES = (
    Figure(
        "G4",
        "megabytes of one result: memory that grows",
        big_results,
        96,
        1_024,
        {"joined": Plant(_joined_result, "MB for a result")},
        is_alone=True,
    ),
    Figure(
        "G5",
        "rows that opening a long session and its prompt read, against one of a fifth",
        long_logs,
        120,
        20_000,
        {"whole log": Plant(_whole_log, "rows are read")},
    ),
    Figure(
        "G9",
        "turns, of five a store: objects, open files and memory that stay",
        leaks,
        20,
        100_000,
        {
            "kept sessions": Plant(_kept_sessions, "objects stay"),
            "open files": Plant(_open_files, "files stay open"),
            "kept bytes": Plant(_kept_bytes, "bytes more"),
        },
        is_alone=True,
    ),
    Figure(
        "G6",
        "sessions of an SQLite file, of which one of 25 makes a call in 16 threads: no error, at most half as many steps of "
        "SQLite again for each as among a fifth, and 1.5 GB",
        many_sessions,
        150,
        100_000,
        {"catalogue read": Plant(_read_catalogue, "steps of SQLite")},
        is_alone=True,
    ),
    Figure(
        "G8",
        "appends of a hundred sessions at once: syncs are shared",
        group_commits,
        300,
        100_000,
        {"alone": Plant(_alone, "share a sync")},
        is_alone=True,
    ),
)
