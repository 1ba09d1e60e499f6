"""The figure about two writers: two processes fight for the same session of an SQLite file at the same moment."""

import os
import random
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, NamedTuple

from scorecard_parts import Failures, Figure, Plant, Tried, folder_in_memory

from foveal.stores.port import Draft, Store
from foveal.stores.sqlite import SqliteStore, transactions
from foveal.values.codec import encode
from foveal.values.entry import user
from foveal.values.errors import LeaseLost

FORK = get_context("fork")
LEAST, MOST = 4, 40
"""Appends of a racer to one session: so many at least, and until it was fenced once, but no more."""
MOST_RACES = 2
"""Races for a case: in one of ten, the second process comes when the first has finished."""
STOPPED_SHARE, STOPPED_S = 0.2, 0.25
"""The share of races in which a racer is stopped for a while, and the longest time: the other one may wait for a lock of it."""


class Raced(NamedTuple):
    """The part of one racer in a race."""

    acknowledged: dict[str, int]
    """Entries with their places."""
    fenced: int
    """Appends that were refused because the session had another writer."""


class Racer(NamedTuple):
    """A process that races, and the line to it."""

    process: Any
    line: Any


def races(cases: int, seed: int) -> Tried:
    """Let two processes fight for sessions. Each append that returned is there once, whole and at its place, nothing else is, and
    none is there after one of a later writer. A race counts in which both wrote, and one at least was fenced."""
    failures, rng, contested, stopped = Failures(), random.Random(seed), 0, 0
    with folder_in_memory() as folder:
        path = folder / "race.db"
        SqliteStore(path).close()
        with _racers(path) as racers, SqliteStore(path) as store:
            for case in range(MOST_RACES * cases):
                if contested == cases:
                    break
                for racer in racers:
                    racer.line.send(f"s{case}")
                if rng.random() < STOPPED_SHARE:
                    stopped += _stop_for_a_while(racers[case % 2], racers[1 - case % 2], rng)
                both = [racer.line.recv() for racer in racers]
                contested += all(one.acknowledged for one in both) and any(one.fenced for one in both)
                failures += [f"case {case}: {problem}" for problem in _audited(store, f"s{case}", both)]
    return Tried(contested, failures, told=f"in {stopped:,} races one was stopped until the other had finished")


@contextmanager
def _racers(path: Path) -> Iterator[list[Racer]]:
    """Start two racers, and end them with the block."""
    together, racers = FORK.Barrier(2), list[Racer]()
    for who in "ab":
        here, there = FORK.Pipe()
        process = FORK.Process(target=_race, args=(path, who, there, together), daemon=True)
        process.start()
        there.close()
        racers.append(Racer(process, here))
    try:
        yield racers
        for racer in racers:
            racer.line.send("")
            racer.process.join()
    finally:
        for racer in racers:
            racer.process.kill()


def _race(path: Path, who: str, line: Any, together: Barrier) -> None:
    """Race for each session that is named, until none is."""
    with SqliteStore(path) as store:
        while session := line.recv():
            together.wait()
            line.send(_fought(store, session, who))


def _fought(store: Store, session: str, who: str) -> Raced:
    acknowledged, fenced = dict[str, int](), 0
    writer = store.acquire(session, takeover=True)
    for number in range(MOST):
        name = f"{writer.epoch:08}-{who}-{number}"
        drafts = [Draft(one, None, 1, who, encode(user(one))) for one in (name, f"{name}-too")]
        try:
            acknowledged |= {draft.id: place for draft, place in zip(drafts, writer.append(drafts), strict=True)}
        except LeaseLost:
            fenced += 1
            writer = store.acquire(session, takeover=True)
        if fenced and len(acknowledged) >= 2 * LEAST:
            break
    return Raced(acknowledged, fenced)


def _stop_for_a_while(racer: Racer, other: Racer, rng: random.Random) -> bool:
    """Stop a racer at a random moment until the other has finished, and return whether that was in time."""
    time.sleep(rng.uniform(0, 0.003))
    os.kill(racer.process.pid, signal.SIGSTOP)
    is_done = other.line.poll(STOPPED_S) and not racer.line.poll(0)
    os.kill(racer.process.pid, signal.SIGCONT)
    return is_done


def _audited(store: Store, session: str, both: Sequence[Raced]) -> Failures:
    """Return what a race did to the log."""
    rows = list(store.rows(session))
    acknowledged = {name: place for one in both for name, place in one.acknowledged.items()}
    there = {row.id: row.seq for row in rows}
    epochs = [int(row.id[:8]) for row in rows]
    owners = {(epoch, row.id[9]) for epoch, row in zip(epochs, rows, strict=True)}
    problems = {
        "entries are there twice": len(rows) - len(there),
        "acknowledged entries are elsewhere or gone": sum(there.get(name) != at for name, at in acknowledged.items()),
        "entries are there that nobody was answered": len(there.keys() - acknowledged.keys()),
        "entries stand after one of a later writer": sum(one > later for one, later in pairwise(epochs)),
        "epochs had two writers": len(owners) - len(set(epochs)),
        "appends are torn": sum(
            not row.id.endswith("-too") and there.get(f"{row.id}-too") != row.seq + 1 for row in rows
        ),
    }
    return [f"{number} {problem}" for problem, number in problems.items() if number]


# Plants


def no_fence() -> None:
    """Let a writer that was succeeded go on."""
    real = transactions.append

    def unfenced(db: Any, path: Path, held: Any, batch: Any) -> list[int]:
        return real(db, path, transactions.Tables(db, path).record(held.id) or held, batch)

    transactions.append = unfenced


FIGURES = (
    Figure(
        "R7",
        "two processes fight for a session of an SQLite file at the same moment, some stopped and woken",
        races,
        20,
        10_000,
        {"no fence": Plant(no_fence, "after one of a later writer")},
    ),
)
