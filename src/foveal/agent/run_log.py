"""The log of a session read as a run: its state and its kept events, from the beginning or from where one was."""

from collections.abc import Iterator, Sequence

import msgspec

from foveal.agent.run_events import RunEvent, events_of
from foveal.agent.run_marks import AgentTook, RunBegan, StatusSet, mark_in, split_run
from foveal.agent.run_state import RunState, after, rewound
from foveal.stores import rows as log
from foveal.stores.port import Row, Store
from foveal.values.entry import Entry, Note, Rewind
from foveal.values.errors import NotFound

_UNREAD = (b'={"is":"setup"', b'={"is":"beside"', b'~{"is":"setup"', b'~{"is":"beside"')
"""Beginnings of marks of the session's own that tell nothing of a run, and are large."""
_NOTE = (b'={"is":"note"', b'~{"is":"note"')


class RunLog:
    """Follows the log of one session. Whoever writes it, in whichever process, is read here after it is durable."""

    def __init__(self, store: Store, session: str) -> None:
        self._store, self.session = store, session
        self.state = RunState(session)
        self.place = 0
        """Position up to which the log was read."""
        self._changes = [self.state]
        """The states at which something changed that belongs to the branch, in their order."""

    def pull(self) -> list[RunEvent]:
        """Read the entries that are new, and return their events."""
        told: list[RunEvent] = []
        for row in self._new_rows():
            self.place = row.seq
            if not row.payload.startswith(_UNREAD):
                told += self._taken(log.to_entry(row, self.session))
        return told

    def take(self, entries: Sequence[Entry], upto: int) -> list[RunEvent]:
        """Return the events of entries that were just written, up to this position. They are durable, and the same as the log
        returns them; if others were written before them, all are read from there."""
        if self.place + len(entries) != upto:
            return self.pull()
        told: list[RunEvent] = []
        for entry in entries:
            self.place += 1
            told += self._taken(entry)
        return told

    def _taken(self, entry: Entry) -> list[RunEvent]:
        if isinstance(entry.body, Rewind):
            self.state = rewound(self.state, self.place, self._state_at(entry.parent))
        else:
            self.state = after(self.state, self.place, entry)
        newest = self._changes[-1]
        if self.state.told != newest.told or self.state.todos != newest.todos:
            self._changes.append(self.state)
        return events_of(self.state, self.place, entry)

    def _state_at(self, entry: str | None) -> RunState:
        """Return the state at an entry, as far as it belongs to the branch."""
        found = self._store.find(self.session, entry) if entry and len(self._changes) > 1 else []
        at = found[0].seq if found else 0
        return next(state for state in reversed(self._changes) if state.seq <= at)

    def _new_rows(self) -> Iterator[Row]:
        try:
            yield from self._store.rows(self.session, after=self.place)
        except NotFound:  # a session that has not begun
            return


def read_run(store: Store, session: str) -> RunState:
    """Return the state of the newest run of a session; one without a status if it has had none."""
    follower = RunLog(store, session)
    follower.pull()
    return follower.state


def done_in(store: Store, state: RunState) -> int:
    """Return the replies and results of a run, and of the runs that its calls have begun."""
    below = (read_run(store, split_run(child)[0]) for child in state.children.values())
    return state.all_steps + state.results + sum(done_in(store, child) for child in below)


def read_events(store: Store, session: str, *, run: str = "", since: int = 0) -> Iterator[RunEvent]:
    """Yield the kept events of a session, of one run if it is named, after the event with the id `since`."""
    for event in RunLog(store, session).pull():
        if event.id > since and (not run or event.scope.run == run):
            yield event


def newest_status(store: Store, session: str, entries: int) -> StatusSet | None:
    """Return the newest status mark of a session that has so many entries, read from its end; None if it has had no run."""
    size, upto, taker = 64, entries, ""
    while upto > 0:
        rows = list(store.rows(session, after=max(0, upto - size), upto=upto))
        for row in reversed(rows):
            body = log.to_entry(row, session).body if row.payload.startswith(_NOTE) else None
            mark = mark_in(body) if isinstance(body, Note) else None
            if isinstance(mark, AgentTook):
                taker = taker or mark.agent
            if isinstance(mark, StatusSet):
                return msgspec.structs.replace(mark, agent=taker or mark.agent)
            if isinstance(mark, RunBegan):
                return StatusSet("pending", mark.run, taker or mark.agent, parent=mark.parent)
        upto, size = upto - size, size * 4
    return None
