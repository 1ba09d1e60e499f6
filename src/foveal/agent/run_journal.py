"""The session of a run while it is driven: the state of the run, and the events that are told, are made of entries of the log.

So nobody is told of anything that is not durable, and a replay tells the same. Entries that the session wrote by itself are
read from the log; those that were written here are at hand.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock, get_ident
from typing import NamedTuple, TypeAlias, TypeVar, cast

from foveal.agent.event_hub import EventHub
from foveal.agent.run_events import RunEvent, RunReleased, SessionTold, kept_id, scope_of
from foveal.agent.run_log import RunLog
from foveal.agent.run_marks import AT_REST, ENDED, RunMark, RunStatus, StatusSet, to_note
from foveal.agent.run_state import RunState
from foveal.context import FileEntry
from foveal.dialects.port import WireReply
from foveal.session.async_session import SessionTurns
from foveal.session.session import Session
from foveal.stores.port import Store
from foveal.text.redaction import Redactor
from foveal.values.entry import Body
from foveal.values.errors import LeaseLost, SessionHeld, StoreError
from foveal.values.events import CompactionStarted, Event

T = TypeVar("T")

JournalItem: TypeAlias = RunMark | Body | FileEntry | WireReply
"""A mark, a message, a file that comes with one, or a provider's reply."""

_ATTEMPTS, _PAUSE_S = 100, 0.02
"""Another process may have a session for some milliseconds that it finds free, while it sees whether there is something to do."""


class _Waiting(NamedTuple):
    """Items that were put, and the event that is told after them."""

    items: Sequence[JournalItem]
    told: RunEvent | None


class _Unsure(NamedTuple):
    """A commit of which nobody knows whether it was made."""

    place: int
    """Position of the log before it."""
    waiting: int
    """How many of the waiting items it held."""


class RunJournal:
    """Writes the log of one session for its run, and follows it."""

    def __init__(self, store: Store, session: str, open_session: Callable[[int], Session]) -> None:
        self.store, self.session = store, session
        self.hub = EventHub()
        self._open_session = open_session
        self.bills: Callable[[], Sequence[RunMark]] = tuple
        """Returns marks about calls that the session has made by itself, written with the next work."""
        self.last_bills: Callable[[], Sequence[RunMark]] = tuple
        """Returns such marks about calls under way as well, which the run will not wait for."""
        self.redact: Redactor | None = None
        """Takes the secrets out of marks; messages are redacted by the session."""
        self._log = RunLog(store, session)
        self._waiting: deque[_Waiting] = deque()
        """Items that are written with the next work."""
        self._unsure: _Unsure | None = None
        """Those of them whose commit has failed, so that the log may have them or not."""
        self._loop = asyncio.get_running_loop()
        self._telling = Lock()
        self._held: list[RunEvent] = []
        """Events that are told when the work under way has ended."""
        self._worker = 0
        """Thread in which work is done with the session; 0 for none."""
        self._turns = SessionTurns(lambda: open_session(0))
        self._is_open = False

    @property
    def state(self) -> RunState:
        """The state of the run as the log has it."""
        return self._log.state

    @property
    def is_unsure(self) -> bool:
        """Whether the newest commit has failed, so that the log may have it or not."""
        return self._unsure is not None

    async def open(self) -> RunState:
        """Open the session and read the runs that it has had. Their events are not told again."""

        def read(session: Session) -> None:
            try:
                self._log.pull()
            except BaseException:  # nobody else knows that it is open
                session.close()
                raise

        try:
            await self._turns.run(read)
        except asyncio.CancelledError:  # its thread opens it all the same
            self._is_open = True
            await self.close()
            raise
        self._is_open = True
        self.hub.last = kept_id(self.state.seq, 1 << 18)
        return self.state

    async def do(self, work: Callable[[Session], T]) -> T:
        """Do something with the session in a thread, and tell what the log has of it, even if the caller was cancelled."""

        def call(session: Session) -> T:
            self.keep(session)
            return work(session)

        return await self._turns.run(partial(self._paid_for, call), self._publish_held)

    async def write(self, *items: JournalItem) -> None:
        """Append marks and messages with one commit."""
        call = partial(self._paid_for, lambda session: self.keep(session, *items))
        await self._turns.run(call, self._publish_held)

    def _paid_for(self, work: Callable[[Session], T], session: Session) -> T:
        """Do something with the session; the bills of its own calls, of earlier ones too, are written beside it."""
        self._worker = get_ident()
        try:
            self._pay(session)
            try:
                return work(session)
            finally:
                self.follow(session)
                if self.state.status not in ENDED:
                    self._pay(session)
        finally:
            self._worker = 0

    def _pay(self, session: Session) -> None:
        """Write the bills of the session's own calls; never behind the end of a run."""
        if self._unsure is None and (paid := self.bills()):
            self.put(*paid)
            with suppress(StoreError):  # the next work writes them, or finds that they are in the log, and tells why
                self.keep(session)

    def put(self, *items: JournalItem, told: RunEvent | None = None) -> None:
        """Have items written with the next work, whatever it is, or when the session is closed: for the outcome of a step, which
        the decision about the next one follows at once. `told` is told after them."""
        if items or told is not None:
            self._waiting.append(_Waiting(items, told))

    def keep(self, session: Session, *items: JournalItem) -> None:
        """Append marks and messages with one commit, behind those that were put, and tell of them. For work that is done with
        the session.

        If the store cannot write them now, those that were put are written with the next work: a reply is paid for.
        """
        self._make_sure(session)
        waiting = len(self._waiting)
        try:
            self._keep_waiting(session, waiting, items)
        except StoreError:
            raise
        except Exception:
            # Of something that the log cannot hold: it is not tried again, and takes nothing else with it.
            for _ in range(waiting):
                try:
                    self._keep_waiting(session, 1)
                except StoreError:
                    raise
                except Exception:  # noqa: BLE001, RUF100 - the first one is told
                    self._waiting.popleft()
            raise

    def _keep_waiting(self, session: Session, count: int, items: Sequence[JournalItem] = ()) -> None:
        """Append the first ones of those that were put, and further items, with one commit."""
        place, put = self._log.place, list(self._waiting)[:count]  # a copy: more may be put meanwhile
        try:
            self._append(session, [*(item for one in put for item in one.items), *items])
        except StoreError:
            self._unsure = _Unsure(place, count)
            raise
        self._tell_kept(count)

    def _tell_kept(self, count: int) -> None:
        """Tell the events of the first ones of those that were put: they are in the log, and wait no longer."""
        kept = [self._waiting.popleft() for _ in range(count)]
        self.tell_soon(*(one.told for one in kept if one.told is not None))

    def _make_sure(self, session: Session) -> None:
        """Find out whether a commit that has failed is in the log: nobody else writes it. Then its items wait no longer."""
        if self._unsure is None:
            return
        session.extend([])  # the session catches up with its log
        self.follow(session)
        place, waiting = self._unsure
        self._unsure = None
        if session.view.facts.seq > place:
            self._tell_kept(waiting)

    def _append(self, session: Session, items: Sequence[JournalItem]) -> None:
        if items:
            entries = session.extend(list(map(self._body, items)))
            self.tell_soon(*self._log.take(entries, session.view.facts.seq))

    def _body(self, item: JournalItem) -> Body | FileEntry | WireReply:
        if isinstance(item, RunMark.__args__):
            return to_note(cast("RunMark", item), self.redact)
        return cast("Body | FileEntry | WireReply", item)

    def follow(self, session: Session) -> None:
        """Read the entries that are new, and tell of them. For work that is done with the session."""
        if session.view.facts.seq != self._log.place:
            self.tell_soon(*self._log.pull())

    def status_mark(self, status: RunStatus, reason: str = "", text: str = "") -> StatusSet:
        """Return the mark of another status of the run."""
        state = self.state
        return StatusSet(status, state.run, state.agent, reason, text, state.parent)

    async def use_model(self, place: int) -> None:
        """Go on with another model of the agent: the session is opened again, for that one.

        Whoever only looks in meanwhile is waited for. `LeaseLost` if somebody else has taken the run up.
        """
        held = await self._turns.run(lambda session: session)

        def open_again() -> Session:
            held.close()
            for _ in range(_ATTEMPTS):
                with suppress(SessionHeld):
                    return self._open_session(place)
                time.sleep(_PAUSE_S)
            self._is_open = False
            raise LeaseLost(f"session {self.session!r} was taken by another process while the run changed its model")

        self._turns = SessionTurns(open_again)
        await self._turns.run(lambda session: None)

    async def close(self) -> None:
        """Give the session up, and end the streams of all listeners."""
        try:
            if self._is_open:
                self._is_open = False
                with suppress(Exception):  # a store that is closed already has released it
                    await asyncio.shield(self._turns.run(self._left))
        finally:
            self._end_streams()

    def release(self) -> None:
        """Give the session up if nobody has: for a task that was cancelled before it began, and so ends nothing."""
        if self._is_open:
            self._is_open = False
            with suppress(Exception):  # as `close` does
                self._turns.run_now(self._left)
            with suppress(RuntimeError):  # the loop of a listener is closed
                self._end_streams()

    def _end_streams(self) -> None:
        if not self.hub.is_closed and self.state.run and self.state.status not in AT_REST:
            self.hub.publish([RunReleased(scope=scope_of(self.state))])
        self.hub.close()

    def put_last_bills(self) -> None:
        """Have the last bills written with the next work: the run ends, or another agent goes on with it."""
        self.put(*self.last_bills())

    def _left(self, session: Session) -> None:
        try:
            if self.state.run and self.state.status not in ENDED:
                self.put_last_bills()
            self.keep(session)
        finally:
            session.close()

    def tell_soon(self, *events: RunEvent) -> None:
        """Hand events to the listeners; from any thread. Those of work that is done with the session are handed together, behind
        it: to wake the event loop for each took a fifth of a step."""
        if events:
            with self._telling:
                self._held.extend(events)
            if get_ident() != self._worker:
                self._tell_held()

    def _tell_held(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody listens
            self._loop.call_soon_threadsafe(self._publish_held)

    def _publish_held(self) -> None:
        with self._telling:
            events, self._held = self._held, []
        self.hub.publish(events)

    def relay(self, event: Event) -> None:
        """Hand an event of the session to the listeners of the run; that a compaction starts, which may take long, at once."""
        self.tell_soon(SessionTold(scope=scope_of(self.state), event=event))
        if isinstance(event, CompactionStarted):
            self._tell_held()
