"""Suites: sets of recordings × budgets × policies, in one process or several, with the same outcomes in the same order."""

import hashlib
import multiprocessing
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from foveal.analysis.measurement.case import Case, Runner, case_of
from foveal.analysis.measurement.grounding import common_clues, text_seen
from foveal.analysis.measurement.outcome import Gauge, Job, Looks, PolicyOutcome, measure
from foveal.analysis.recordings import Recording, read
from foveal.values.errors import FovealError

_LEAST_CHARS_PER_TOKEN = 2.5
"""A lower bound: no recorded session has fewer characters per token, so that short ones need not be counted."""

Find: TypeAlias = Callable[[str], Runner]
"""Returns a runner by its name. A function of a module, so that other processes find it."""

S = TypeVar("S")
X = TypeVar("X")
Y = TypeVar("Y")


class Pick(msgspec.Struct, frozen=True):
    """The choice of sessions of a set."""

    least_tokens: int = 0
    most: int | None = None
    """The largest number of sessions: the first by the hash of their ids."""
    test_half: bool = False
    """Only sessions on which nothing is ever trained."""
    training_half: bool = False
    """Only sessions that may be trained on, and looked at."""
    skip: int = 0
    """How many are passed over first: those on which defaults were chosen."""


class Source(msgspec.Struct, frozen=True):
    """A set: its name, and the files that hold it."""

    name: str
    files: tuple[Path, ...]


class Loaded(msgspec.Struct, frozen=True):
    """The loaded sessions, and notes on sessions that were left out."""

    cases: list[Case]
    notes: list[str]


def sources_of(files: Sequence[Path]) -> list[Source]:
    """Return the sets of these files: one for each file of several sessions, and one for all files of a single session."""
    single = tuple(file for file in files if len(list(islice(read(file), 2))) < 2)
    several = [Source(file.name.partition(".")[0], (file,)) for file in files if file not in single]
    return [*several, *([Source("sessions", single)] if single else [])]


def load(pick: Pick, source: Source) -> Loaded:
    """Load the picked sessions of a set. Common clues are computed from all its sessions."""
    recordings = sorted(chain.from_iterable(map(read, source.files)), key=lambda one: session_hash(one.id))
    common = common_clues(recordings)
    found, notes, passed = list[Case](), list[str](), 0
    for recording in recordings:
        if len(found) == pick.most:
            break
        is_for_tests = session_hash(recording.id)[0] < 128
        if (pick.test_half and not is_for_tests) or (pick.training_half and is_for_tests):
            continue
        if _chars(recording) < pick.least_tokens * _LEAST_CHARS_PER_TOKEN:
            continue
        try:
            case = case_of(recording, source.name, common)
        except FovealError as error:  # for example a session that begins with a reply: no prompt could have been sent
            notes.append(f"{recording.source}: left out. {error}")
            continue
        if case.raw and case.raw[-1] >= pick.least_tokens:
            passed += 1
            if passed > pick.skip:
                found.append(case)
    return Loaded(found, notes)


def session_hash(session: str) -> bytes:
    """Return a number to order sessions by that says nothing about them."""
    return hashlib.sha256(session.encode("utf-8", "surrogatepass")).digest()


def _chars(recording: Recording) -> int:
    return sum(len(text_seen(step.message)) for step in recording.steps)


def load_all(sources: Sequence[Source], pick: Pick, *, jobs: int) -> Loaded:
    parts = list(_spread(load, sources, pick, jobs=jobs))
    return Loaded([case for part in parts for case in part.cases], [note for part in parts for note in part.notes])


def run(
    cases: Sequence[Case], work: Sequence[Job], *, find: Find, gauge: Gauge | None = None, jobs: int = 1
) -> Iterator[PolicyOutcome]:
    """Yield the outcome of every job on every case. Long sessions come first, so that no process is left with one at the end.

    `gauge` is a function of a module, as `find` is.
    """
    policies = list(dict.fromkeys(job.policy for job in work))
    units = [
        (at, tuple(job for job in work if job.policy == policy)) for policy in policies for at in range(len(cases))
    ]
    yield from chain.from_iterable(_spread(partial(_measured, find, gauge), units, longest_first(cases), jobs=jobs))


def longest_first(cases: Sequence[Case]) -> list[Case]:
    """Return the cases in the order of their outcomes."""
    return sorted(cases, key=lambda case: -sum(case.raw))


def _measured(
    find: Find, gauge: Gauge | None, cases: Sequence[Case], unit: tuple[int, tuple[Job, ...]]
) -> list[PolicyOutcome]:
    """Return the outcomes of all budgets of one policy on one case, whose messages are read once for them."""
    at, work = unit
    looks = Looks(cases[at])
    return [measure(cases[at], job, find(job.policy), looks=looks, gauge=gauge) for job in work]


def _spread(do: Callable[[S, X], Y], items: Sequence[X], shared: S, *, jobs: int) -> Iterable[Y]:
    """Yield the answer of each item, in order. `shared` is sent to each process once, and not with every item."""
    if jobs == 1 or len(items) < 2:
        yield from map(partial(do, shared), items)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(items)), context, _begin, (shared,)) as pool:
        try:
            yield from pool.map(partial(_with_shared, do), items)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


_held: list[Any] = []
"""The shared value, in a worker process."""


def _begin(shared: object) -> None:
    _held[:] = [shared]
    # Ctrl-C reaches every process of a terminal; the first one is enough to end the work.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _with_shared(do: Callable[[Any, X], Y], item: X) -> Y:
    return do(_held[0], item)
