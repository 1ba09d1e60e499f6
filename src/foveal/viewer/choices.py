"""Sessions that a viewer can open: those of a store, those of files, those that agents have left on this machine.

A choice is cheap: its figures are counted and its page is built when somebody asks for them.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import msgspec

from foveal.analysis.inspect.calls import stored_calls
from foveal.analysis.inspect.cost import CostBook
from foveal.analysis.inspect.stored_session import known_session
from foveal.analysis.recordings import Recording, read
from foveal.analysis.recordings.places import newest_sessions
from foveal.analysis.replay.bills import recorded_bill
from foveal.analysis.replay.provider_counts import RecordedCall, provider_bills, provider_counts
from foveal.analysis.replay.replay import Replay, replay
from foveal.analysis.replay.report import totals
from foveal.models.catalogue import find
from foveal.stores.port import SessionCard, Store
from foveal.text.display import visible
from foveal.values.entry import ToolCall
from foveal.values.errors import BadRecording, FovealError
from foveal.viewer.builder import OTHERWISE, RunOptions, compacted_calls, recorded_page, stored_page
from foveal.viewer.document import OverviewRow, PageChild, PageSession, in_provider_counts, with_replies
from foveal.viewer.live import LiveSession, stored_children


class SessionSource(Protocol):
    """The place that a session is read from. `options` are another way to replay it; None for the way that was asked for."""

    def page(self, options: RunOptions | None = None) -> PageSession:
        """Return the data of its page."""
        ...

    def row(self, options: RunOptions | None = None) -> OverviewRow:
        """Return its row in a list, with its bill."""
        ...


class SessionChoice(msgspec.Struct, frozen=True):
    """A session that can be opened: the first form of its row, and its source."""

    row: OverviewRow
    source: SessionSource
    is_fixed: bool = True
    """Whether its data stays the same; a session of a store may go on."""


class StoredSessions:
    """The sessions of a store that is open for reading, the newest first."""

    def __init__(
        self, store: Store, place: str, session: str | None = None, compare: Sequence[RunOptions] = ()
    ) -> None:
        self._store, self._place, self._session, self._compare = store, place, session, tuple(compare)
        self.names: list[str] = []
        """The names of the sessions, in the order in which they were told."""
        self._cards: dict[str, tuple[int, SessionCard]] = {}
        if session:
            known_session(store, session)

    def choices(self) -> list[SessionChoice]:
        """Return the sessions as they are now; the named one and then its children, if one is named."""
        return [choice for _, choice in self.changes()]

    def changes(self) -> list[tuple[int, SessionChoice]]:
        """Return the sessions that are new or have changed since the last question, each with its number."""
        found = list[tuple[int, SessionChoice]]()
        own = f"{self._session}/"
        cards = [card for card in self._store.cards() if self._session in (None, card.id) or card.id.startswith(own)]
        for card in sorted(cards, key=lambda card: (card.id != self._session, -card.updated_ms, card.id)):
            number, known = self._cards.get(card.id, (len(self.names), None))
            if known == card:
                continue
            if known is None:
                self.names.append(card.id)
            self._cards[card.id] = number, card
            found.append((number, SessionChoice(self._row(card), self._source(card.id), is_fixed=False)))
        return found

    def live(self, session: str) -> LiveSession:
        """Return a session to be followed."""
        return LiveSession(self._store, session, self._place)

    def _source(self, session: str) -> "_StoredSource":
        return _StoredSource(self._store, session, self._place, self._compare)

    def _row(self, card: SessionCard) -> OverviewRow:
        return OverviewRow(
            name=visible(card.id),
            title=visible(card.title or ""),
            source=visible(self._place),
            updated=_time(card.updated_ms / 1000),
            project=visible(card.scope or ""),
            messages=card.entries,
            is_running=card.holder is not None,
        )


def recorded_choices(files: Sequence[Path], options: Sequence[RunOptions]) -> Iterator[SessionChoice]:
    """Yield the sessions of recordings in their order. A file that cannot be read is a row that says why."""
    for file in files:
        try:
            found = list(read(file))
        except BadRecording as error:
            yield SessionChoice(_row(file, file.name, error=visible(str(error))), _Failing(error))
            continue
        for recording in found:
            own = f"{recording.id}/"
            children = tuple(one.id for one in found if one.id.startswith(own))
            source = _RecordedSource(file, recording, tuple(options), children)
            yield SessionChoice(source.first_row(), source)


def local_choices(
    options: Sequence[RunOptions], most: int, *, home: Path, environment: Mapping[str, str]
) -> Iterator[SessionChoice]:
    """Yield the newest sessions that agents have written on this machine. Their files are read and never changed."""
    return recorded_choices(newest_sessions(home, environment, most), options)


class _StoredSource(msgspec.Struct, frozen=True):
    """Reads a session as its store holds it by then."""

    store: Store
    session: str
    place: str
    compare: tuple[RunOptions, ...]

    def page(self, options: RunOptions | None = None) -> PageSession:
        compare = (options,) if options else self.compare
        page = stored_page(self.store, self.session, source=self.place, compare=compare)
        times = [call.time_ms for call in page.runs[0].calls if call.is_answered]
        return msgspec.structs.replace(page, children=stored_children(self.store, self.session, times))

    def row(self, options: RunOptions | None = None) -> OverviewRow:
        card = self.store.cards(self.session)[0]
        book, pressure = CostBook(), 0.0
        for call in stored_calls(self.store, self.session):
            book.enter(call)
            pressure = call.prompt.tokens / max(1, call.prompt.setup.limit)
        total = book.totals()
        return OverviewRow(
            name=visible(self.session),
            title=visible(card.title or ""),
            source=visible(self.place),
            model=visible(book.calls[-1].model),
            updated=_time(card.updated_ms / 1000),
            project=visible(card.scope or ""),
            messages=card.entries,
            is_running=card.holder is not None,
            calls=total.calls,
            sent_tokens=total.sent_tokens,
            cached_tokens=total.cached_tokens,
            sent_usd=with_replies(total, in_provider_counts(total, total.sent_usd)),
            whole_usd=with_replies(total, in_provider_counts(total, total.everything_usd)),
            too_large=total.too_large,
            folds=len(book.folds()),
            pressure=pressure,
        )


class _RecordedSource(msgspec.Struct, frozen=True):
    """Replays a recording."""

    file: Path
    recording: Recording
    options: tuple[RunOptions, ...]
    children: tuple[str, ...] = ()

    def page(self, options: RunOptions | None = None) -> PageSession:
        ways = (options, *self.options[1:]) if options else self.options
        page = recorded_page(self.recording, ways)
        return msgspec.structs.replace(page, children=tuple(map(self._child, self.children)))

    def first_row(self) -> OverviewRow:
        """Return the row without a replay: length and recorded bill."""
        recording, roles = self.recording, [step.message.role for step in self.recording.steps]
        bills = [
            usd
            for step in recording.steps
            if step.usage and (usd := recorded_bill(step.usage, find(step.usage.model)).cost_usd) is not None
        ]
        return _row(
            self.file,
            recording.id,
            model=visible(recording.model or ""),
            project=visible(_from_home(recording.project)),
            calls=roles.count("assistant"),
            messages=len(roles),
            recorded_usd=sum(bills) if bills else None,
        )

    def row(self, options: RunOptions | None = None) -> OverviewRow:
        way, first = options or self.options[0], self.first_row()
        done = replay(
            self.recording,
            model=way.model,
            policy=way.policy,
            dialect=way.dialect or self.recording.dialect or OTHERWISE,
            counter=way.counter,
        )
        sums, bills = totals([done]), self._provider_bills(done)
        return msgspec.structs.replace(
            first,
            model=first.model or visible(done.model),
            sent_tokens=sums.sent_tokens,
            cached_tokens=sum(call.sent.cached for call in done.calls if call.sent),
            sent_usd=bills[0] if bills else sums.sent_usd,
            whole_usd=bills[1] if bills else sums.raw_usd,
            too_large=sums.unsendable,
            folds=sum(call.fold is not None for call in done.calls),
        )

    def _provider_bills(self, done: Replay) -> tuple[float | None, float | None] | None:
        """Return the bills of the replay and of the whole history in the provider's counts, of the calls that it counted; None if
        it counted none."""
        known = [call for call in done.calls if call.recorded]
        if not known:
            return None
        first = min(compacted_calls(self.recording), default=len(done.calls) + 1)
        counts = provider_counts(
            [(call.raw.tokens, call.recorded.tokens) for call in known if call.recorded and call.number < first]
        )
        return provider_bills(
            [
                RecordedCall(call.sent, call.raw if call.is_sendable_whole else None, call.recorded)
                for call in known
                if call.recorded
            ],
            counts,
            find(done.model),
            recorded_usd=self.first_row().recorded_usd,
            is_compacted=bool(self.recording.compactions),
        )

    def _child(self, name: str) -> PageChild:
        """Return a sub-agent; older versions of Claude Code name it by the tool call that it answers."""
        call, agent = 0, name.rpartition("/")[2]
        for step in self.recording.steps:
            call += step.message.role == "assistant"
            if any(isinstance(part, ToolCall) and part.id == agent for part in step.message.parts):
                return PageChild(visible(name), call, call + 1)
        return PageChild(visible(name), 0, 0)


class _Failing(msgspec.Struct, frozen=True):
    """Raises the error of a file that could not be read."""

    error: FovealError

    def page(self, options: RunOptions | None = None) -> PageSession:
        raise self.error

    def row(self, options: RunOptions | None = None) -> OverviewRow:
        raise self.error


def _row(file: Path, name: str, **figures: object) -> OverviewRow:
    updated = _time(file.stat().st_mtime) if file.exists() else ""
    known = {"name": visible(name), "source": visible(_from_home(str(file))), "updated": updated}
    return msgspec.convert({**known, **figures}, OverviewRow)


def _from_home(text: str) -> str:
    """Return a path as its user would write it."""
    home = os.path.expanduser("~")  # noqa: PTH111 - `Path.home` raises where there is none
    return f"~{text[len(home) :]}" if len(home) > 1 and text.startswith(home) else text


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
