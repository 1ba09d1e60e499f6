"""The progress of a long replay, on stderr, if it is a terminal."""

import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path

from foveal.analysis.recordings import read
from foveal.cli.output import has_rich
from foveal.values.errors import BadRecording

LONG_WORK_CALLS = 500
"""About a third of a second of replaying: below it a bar would only flicker."""

_BAR = 30


@contextmanager
def progress(files: Iterable[Path]) -> Generator[Callable[[int], None]]:
    """Yield a function to call with the number of calls done since the last time."""
    with bar(_count_calls(files) if sys.stderr.isatty() else 0) as tick:
        yield tick


@contextmanager
def bar(total: int, doing: str = "replaying", *, least: int | None = None) -> Generator[Callable[[int], None]]:
    """Yield such a function for work of `total` calls; a bar is shown from `least` on, for long work unless given."""
    if total < (LONG_WORK_CALLS if least is None else least) or not sys.stderr.isatty():
        yield lambda done: None
    elif has_rich():
        yield from _rich_bar(total, doing)
    else:
        yield from _plain_bar(total, doing)


def _count_calls(files: Iterable[Path]) -> int:
    """Count the calls of all files. Reading takes a twentieth of the time of replaying: an honest bar is worth it."""
    total = 0
    for file in files:
        with suppress(BadRecording):  # reported when the file is replayed
            for recording in read(file):
                total += sum(step.message.role == "assistant" for step in recording.steps)
    return total


def _rich_bar(total: int, doing: str) -> Generator[Callable[[int], None]]:
    from rich.console import Console  # noqa: PLC0415 - only a terminal needs it
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn(doing), BarColumn(), MofNCompleteColumn(), TextColumn("calls"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda done: bar.advance(task, done)


def _plain_bar(total: int, doing: str) -> Generator[Callable[[int], None]]:
    count = shown = 0

    def advance(done: int) -> None:
        nonlocal count, shown
        count += done
        if (filled := count * _BAR // total) != shown or count == done:
            shown = filled
            sys.stderr.write(f"\r{doing} [{'#' * filled:<{_BAR}}] {count:,} of {total:,} calls")
            sys.stderr.flush()

    try:
        yield advance
    finally:
        sys.stderr.write("\r\x1b[K")
        sys.stderr.flush()
