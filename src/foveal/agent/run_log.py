"""The log of a session read as a run: its state and its kept events, from the beginning or from where one was."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from foveal.agent.inbox import QuestionReply, letters
from foveal.agent.run_events import RunEvent, events_of, rewind_events
from foveal.agent.run_marks import ENDED, AgentTook, ResumedAlone, RunBegan, StatusSet, UserAnswered, mark_in, split_run
from foveal.agent.run_state import RunState, after, rewound
from foveal.agent.tools import UserAnswer, UserQuestion, asker_of
from foveal.stores import rows as log
from foveal.stores.format import ENCRYPTED
from foveal.stores.port import Row, Store
from foveal.values.entry import Entry, Note, Rewind
from foveal.values.errors import NotFound

_SETUP = (b'={"is":"setup"', b'~{"is":"setup"')
_BESIDE = (b'={"is":"beside"', b'~{"is":"beside"')
"""Beginnings of marks of the session's own that are large, and tell nothing of a run but prices."""
_PRICED = b'\\"models\\":'
"""A part of each setup whose policy has facts about models."""
_NOTE = (b'={"is":"note"', b'~{"is":"note"', ENCRYPTED)
"""Beginnings of notes, and of entries that nobody can read who has no keys, which is an error and not a session without runs."""
_REWIND = (b'={"is":"rewind"', b'~{"is":"rewind"')
"""Beginnings of rewinds."""
_LANDMARK_ENTRIES = 64
"""Entries between two states that are kept: as many as are read again for a rewind, at most."""


class RunLog:
    """Follows the log of one session. Whoever writes it, in whichever process, is read here after it is durable."""

    def __init__(self, store: Store, session: str) -> None:
        self._store, self.session = store, session
        self.state = RunState(session)
        self.place = 0
        """Position up to which the log was read."""
        self._landmarks = [self.state]
        """States from which those between them are read again: behind each rewind, and at some of the other entries."""
        self._begun: set[str] = set()
        """Keys of the calls whose tool has begun to run, on any branch."""

    def pull(self) -> list[RunEvent]:
        """Read the entries that are new, and return their events."""
        told: list[RunEvent] = []
        for row in self._new_rows():
            self.place = row.seq
            if _is_of_run(row, self.state):
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
        before = self.state
        if isinstance(entry.body, Rewind):
            earlier = self._state_at(entry.parent)
            self.state = rewound(before, self.place, earlier, self._begun)
            self._landmarks.append(self.state)
            return rewind_events(self.state, self.place, entry, earlier.seq)
        self.state = after(before, self.place, entry)
        if self.place - self._landmarks[-1].seq >= _LANDMARK_ENTRIES:
            self._landmarks.append(self.state)
        if isinstance(entry.body, Note) and self.state.started is not before.started:
            self._begun -= before.started
            self._begun |= self.state.started
        if before.status in ENDED and self.state.status in ENDED and not _is_mark(entry):
            return []  # of somebody who uses the session between its runs
        return events_of(self.state, self.place, entry)

    def _state_at(self, entry: str | None) -> RunState:
        """Return the state that the run had at an entry."""
        found = self._store.find(self.session, entry) if entry else []
        at = found[0].seq if found else 0
        state = self._landmarks[bisect_right(self._landmarks, at, key=lambda one: one.seq) - 1]
        for row in self._store.rows(self.session, after=state.seq, upto=at):
            if _is_of_run(row, state):
                state = after(state, row.seq, log.to_entry(row, self.session))
        return state

    def _new_rows(self) -> Iterator[Row]:
        try:
            yield from self._store.rows(self.session, after=self.place)
        except NotFound:  # a session that has not begun
            return


def _is_of_run(row: Row, state: RunState) -> bool:
    """Return whether an entry may tell something of a run in this state, and is worth being decoded. A setup is if it has prices,
    or takes back those that were known."""
    if row.payload.startswith(_SETUP):
        return _PRICED in row.payload or bool(state.models)
    return not row.payload.startswith(_BESIDE)


def _is_mark(entry: Entry) -> bool:
    return isinstance(entry.body, Note) and mark_in(entry.body) is not None


def read_run(store: Store, session: str) -> RunState:
    """Return the state of the newest run of a session; one without a status if it has had none."""
    follower = RunLog(store, session)
    follower.pull()
    return follower.state


def answered_below(store: Store, state: RunState) -> list[UserAnswered]:
    """Return the answers to questions of sub-agents that were given in the sub-agent's own run, whether that has read them or
    not."""
    found: list[UserAnswered] = []
    for question in state.asked.values():
        if (below := _run_that_asks(store, state, question)) is None:
            continue
        if question.inner not in below.asked or any(answers_to(store, below, question.inner)):
            found.append(UserAnswered(question.id, _given_below(question)))
    return found


def _run_that_asks(store: Store, state: RunState, question: UserQuestion) -> RunState | None:
    """Return the state of the sub-agent's run whose question this is; None for a question of the run itself."""
    child = state.children.get(asker_of(question.id)) if question.inner else None
    return read_run(store, split_run(child)[0]) if child else None


def _given_below(question: UserQuestion) -> UserAnswer:
    return UserAnswer("answered in the run of the sub-agent", question=question.id, source="sub_agent")


def answers_to(store: Store, state: RunState, question: str) -> Iterator[UserAnswer]:
    """Yield the answers to an open question that the run has not read yet; for one of a sub-agent, also those given there."""
    for _, letter in letters(store, state.session, state.inbox):
        if isinstance(letter, QuestionReply) and letter.answer.question == question:
            yield letter.answer
    asked = state.asked.get(question)
    if asked is not None and (below := _run_that_asks(store, state, asked)) is not None:
        for one in answers_to(store, below, asked.inner):
            yield msgspec.structs.replace(one, question=question)
        if asked.inner not in below.asked:
            yield _given_below(asked)


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
    """Return the newest status mark of a session that has so many entries, read from its end; None if it has had no run. Its
    `parent` is empty while a sub-agent goes on alone."""
    size, upto, taker, is_alone, is_rewound = 64, entries, "", False, False
    while upto > 0:
        rows = list(store.rows(session, after=max(0, upto - size), upto=upto))
        for row in reversed(rows):
            body = log.to_entry(row, session).body if row.payload.startswith((*_NOTE, *_REWIND)) else None
            is_rewound = is_rewound or isinstance(body, Rewind)
            mark = mark_in(body) if isinstance(body, Note) else None
            if isinstance(mark, AgentTook):
                taker = taker or mark.agent
            is_alone = is_alone or isinstance(mark, ResumedAlone)
            if isinstance(mark, RunBegan):
                mark = StatusSet("pending", mark.run, mark.agent, parent=mark.parent)
            if isinstance(mark, StatusSet):
                agent = read_run(store, session).agent if is_rewound else taker or mark.agent
                return msgspec.structs.replace(mark, agent=agent, parent="" if is_alone else mark.parent)
        upto, size = upto - size, size * 4
    return None
