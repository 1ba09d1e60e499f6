"""The parts that figures of the scorecard are made of: their value, a folder, a session, and ways to plant a bug."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from foveal.fit.stages.compact import Compact
from foveal.session.options import Clock, Host, Model
from foveal.session.policy import BudgetTable, Policy
from foveal.session.session import Session
from foveal.stores.port import Store
from foveal.testing.builders import MODELS, counted_ids
from foveal.values.entry import ToolCall, assistant, result, system, user

Failures = list[str]


class Tried(NamedTuple):
    """The outcome of a figure that counted its cases."""

    cases: int
    """Cases that were tried, which may be fewer than it was asked for."""
    failures: Failures
    there_are: int | None = None
    """All cases that there are, if their number is bounded."""
    told: str = ""
    """A line for the row, of what was counted beside."""


class Plant(NamedTuple):
    """A bug that a figure must find."""

    put: Callable[[], object]
    """Breaks the product in this process."""
    shows: str
    """A regular expression of the failures that the bug leads to. Failures of any other kind, as of a plant that has grown
    old, do not show it."""


class Figure(NamedTuple):
    """One line of the scorecard."""

    name: str
    what: str
    run: Callable[[int, int], Failures | Tried]
    """Runs so many cases from a seed, and returns a line for each failure; and how many it tried, where that may differ."""
    small: int
    """Cases of the run that is made with every change."""
    whole: int
    """Cases of the run whose figure is published."""
    plants: Mapping[str, Plant]
    """Bugs by name, each of which must make the small run fail, by a failure that shows it."""
    skipped: Callable[[], str] = lambda: ""
    """Reason why it cannot run here; empty if it can."""
    is_alone: bool = False
    """Whether it measures time, memory or load of the machine, and runs side by side with no other."""


def cannot_import(load: Callable[[], object], missing: str) -> str:
    """Load what a figure imports, so that its processes have it; return the reason if it is missing, else nothing."""
    try:
        load()
    except ImportError as error:
        return f"{missing} ({error})"
    return ""


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    parent = Path("/dev/shm") if Path("/dev/shm").is_dir() else None  # noqa: S108 - wiped afterwards
    # Processes that were killed, and the helpers of a browser that has ended, may write for a moment more.
    with tempfile.TemporaryDirectory(prefix="foveal-score-", dir=parent, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


planted: set[str] = set()
"""Bugs that are planted in a child of the figure, and not in this process."""


def begun_session(
    store: Store, case: int, *, now_ms: Callable[[], int], limit: int, name: str = "s", ids: str = "", **host: Any
) -> Session:
    """Return a session that has begun."""
    dialect = sorted(MODELS)[case % len(MODELS)]
    session = Session(
        store,
        name,
        model=Model(MODELS[dialect], dialect),
        policy=Policy(
            budget=BudgetTable(limit=limit, reserve=0), compact=Compact(soft=1.0, deadline_s=0.05, retries=0)
        ),
        host=Host(**host),
        clock=Clock(counted_ids(f"{case}{ids}"), now_ms, lambda: b"s" * 32),
    )
    session.append(system("Be brief."))
    session.append(user(f"Find the slow handler {case}."))
    return session


def add_step(session: Session, case: int, n: int) -> None:
    text = "\n".join(f"def handler_{case}_{n}_{i}(request): return table[{(n * 31 + i * 7) % 997}]" for i in range(12))
    session.append(assistant("", ToolCall(f"c{n}", "read_file", f'{{"path": "src/part_{n}.py"}}')))
    session.append(result(f"c{n}", text))


def replace(owner: Any, name: str, value: Any) -> Callable[[], None]:
    return lambda: setattr(owner, name, value)


def in_child(name: str) -> Callable[[], None]:
    return lambda: planted.add(name)
