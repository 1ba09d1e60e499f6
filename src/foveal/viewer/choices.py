"""Sessions that a viewer can open: those of a store, those of files, those that agents have left on this machine.

A choice is cheap: its page is built when somebody opens it.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from foveal.analysis.inspect.stored_session import known_session
from foveal.analysis.recordings import Recording, read
from foveal.analysis.recordings.places import newest_sessions
from foveal.analysis.replay.bills import recorded_bill
from foveal.models.catalogue import find
from foveal.stores import open_store
from foveal.stores.place import DatabaseAddress
from foveal.text.display import visible
from foveal.values.errors import BadRecording, FovealError
from foveal.viewer.builder import RunOptions, recorded_page, stored_page
from foveal.viewer.document import OverviewRow, PageSession, overview_row


class SessionChoice(msgspec.Struct, frozen=True):
    """A session that can be opened: its row in the list, and the function that builds its data."""

    row: OverviewRow
    build: Callable[[], PageSession]
    is_fixed: bool = True
    """Whether its data stays the same; a session of a store may go on."""

    def built_row(self, session: PageSession) -> OverviewRow:
        """Return the row with the figures of the built session."""
        full, row = overview_row(session), self.row
        recorded = row.recorded_usd if full.recorded_usd is None else full.recorded_usd
        return msgspec.structs.replace(
            full, source=row.source, updated=row.updated, href=row.href, recorded_usd=recorded
        )


def stored_choices(
    path: Path | DatabaseAddress, session: str | None = None, compare: Sequence[RunOptions] = ()
) -> list[SessionChoice]:
    """Return the sessions of a store, the newest first; the named one alone, if one is named."""
    with open_store(path) as store:
        cards = store.cards(known_session(store, session)) if session else store.cards()
    newest = sorted((card for card in cards if session in (None, card.id)), key=lambda card: -card.updated_ms)
    return [
        SessionChoice(
            _card_row(path, card.id, card.updated_ms), _StoredBuild(path, card.id, tuple(compare)), is_fixed=False
        )
        for card in newest
    ]


def recorded_choices(files: Sequence[Path], options: Sequence[RunOptions]) -> list[SessionChoice]:
    """Return the sessions of recordings in their order. A file that cannot be read is a row that says why."""
    found = list[SessionChoice]()
    for file in files:
        try:
            found += [_recorded_choice(file, recording, options) for recording in read(file)]
        except BadRecording as error:
            found.append(SessionChoice(_row(file, file.name, error=visible(str(error))), _Failing(error)))
    return found


def local_choices(
    options: Sequence[RunOptions], most: int, *, home: Path, environment: Mapping[str, str]
) -> list[SessionChoice]:
    """Return the newest sessions that agents have written on this machine. Their files are read and never changed."""
    return recorded_choices(newest_sessions(home, environment, most), options)


class _StoredBuild(msgspec.Struct, frozen=True):
    """Builds the page of a stored session, as the store holds it by then."""

    path: Path | DatabaseAddress
    session: str
    compare: tuple[RunOptions, ...]

    def __call__(self) -> PageSession:
        with open_store(self.path) as store:
            return stored_page(store, self.session, source=str(self.path), compare=self.compare)


class _RecordedBuild(msgspec.Struct, frozen=True):
    """Builds the page of a recording by replaying it."""

    recording: Recording
    options: Sequence[RunOptions]

    def __call__(self) -> PageSession:
        return recorded_page(self.recording, self.options)


class _Failing(msgspec.Struct, frozen=True):
    """Raises the error of a file that could not be read."""

    error: FovealError

    def __call__(self) -> PageSession:
        raise self.error


def _card_row(path: Path | DatabaseAddress, name: str, updated_ms: int) -> OverviewRow:
    return OverviewRow(name=visible(name), source=visible(str(path)), updated=_time(updated_ms / 1000))


def _recorded_choice(file: Path, recording: Recording, options: Sequence[RunOptions]) -> SessionChoice:
    calls = sum(step.message.role == "assistant" for step in recording.steps)
    bills = list(_recorded_usd(recording))
    row = _row(file, recording.id, calls=calls, model=recording.model or "", usd=sum(bills) if bills else None)
    return SessionChoice(row, _RecordedBuild(recording, options))


def _recorded_usd(recording: Recording) -> Iterator[float]:
    for step in recording.steps:
        if step.usage and (usd := recorded_bill(step.usage, find(step.usage.model)).cost_usd) is not None:
            yield usd


def _row(
    file: Path, name: str, *, calls: int = 0, model: str = "", usd: float | None = None, error: str = ""
) -> OverviewRow:
    return OverviewRow(
        name=visible(name),
        source=visible(_from_home(file)),
        model=visible(model),
        updated=_time(file.stat().st_mtime) if file.exists() else "",
        error=error,
        calls=calls,
        recorded_usd=usd,
    )


def _from_home(file: Path) -> str:
    """Return a path as its user would write it."""
    home = os.path.expanduser("~")  # noqa: PTH111 - `Path.home` raises where there is none
    text = str(file)
    return f"~{text[len(home) :]}" if len(home) > 1 and text.startswith(home) else text


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
