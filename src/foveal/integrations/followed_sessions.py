"""The sessions of a drop-in: each follows one list of a client, opened when it is needed and closed when it rests.

A model call takes the turn of its session until its reply is kept: the next call of the same conversation waits a moment for it.
"""

import threading
import time
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from foveal.dialects import find_dialect
from foveal.models import catalogue
from foveal.record.client_list import ListedMessage
from foveal.session.client_session import ClientSession
from foveal.session.follow import told_list
from foveal.session.options import Host, Model
from foveal.session.policy import Policy
from foveal.stores import open_store
from foveal.stores.port import Store
from foveal.values.entry import Message
from foveal.values.errors import BadInput, FovealError, LeaseLost

T = TypeVar("T")

MOST_OPEN = 64
"""Sessions that are kept open. The least recently used one is closed for another."""

WAIT_S = 2.0
"""Seconds that a call waits for the one before it in the same conversation, as in the gateway."""

_POLL_S = 0.01
_LANE_CHARS = 8
_INSTRUCTING = ("system", "developer")


def client_policy(policy: Policy) -> Policy:
    """Return a policy for the sessions of clients that hold their conversations themselves.

    The tags of a client are its own business, as they are without Foveal; ours are guarded in any case. And a request holds the
    client's words alone: nothing stands beside them, and nothing that another client has said.
    """
    return msgspec.structs.replace(policy, guard=False, foresight=0.0, memory=None)


def has_known_limit(policy: Policy, model: str) -> bool:
    """Return whether the window of a model is known, or the policy tells a limit: else nothing may be folded."""
    has_limit = policy.max_context_tokens is not None or policy.budget.limit is not None
    return has_limit or catalogue.find(model, policy.models).known


def tell(message: str) -> None:
    """Warn that a call goes on without Foveal, or without being kept."""
    warnings.warn(f"foveal: {message}", UserWarning, stacklevel=2)


def tell_of_edits(name: str, outcome: str) -> None:
    """Warn that something besides Foveal edits the history of a session: that costs the provider's cache."""
    tell(
        f"{name}: something besides Foveal changed messages that were sent before ({outcome}). Take other "
        "middleware that shortens, clears or summarises the history out: Foveal does that, and keeps the originals"
    )


class _KeptSession:
    """One session of a drop-in, and its turn."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lock = threading.Lock()
        self.takers = 0
        """Calls that have the turn or wait for it."""
        self.opened: ClientSession | None = None
        self.model: Model | None = None

    def close(self) -> None:
        session, self.opened = self.opened, None
        if session is not None:
            with suppress(FovealError):
                session.close()


class CallTurn:
    """The turn of one session, until `end`."""

    def __init__(self, sessions: "FollowedSessions", kept: _KeptSession, model: Model) -> None:
        self._sessions, self._kept, self._model = sessions, kept, model
        self._is_over = False

    @property
    def name(self) -> str:
        """The name of the session."""
        return self._kept.name

    def begin(self, act: Callable[[ClientSession], T]) -> T:
        """Do the first thing of a call with the session. One that another process had meanwhile is opened again."""
        try:
            return act(self._session())
        except LeaseLost:
            self._kept.close()
            return act(self._session())

    def _session(self) -> ClientSession:
        kept = self._kept
        if kept.opened is None or kept.model != self._model:
            kept.close()
            policy = self._sessions.policy
            kept.opened = ClientSession(
                self._sessions.store,
                kept.name,
                model=self._model,
                policy=policy,
                host=Host(author="drop-in"),
                takeover=True,
            )
            kept.model = self._model
        return kept.opened

    def end(self) -> None:
        """Let the next call have the session. A second time changes nothing."""
        if not self._is_over:
            self._is_over = True
            self._kept.lock.release()
            self._sessions.rest(self._kept)


class FollowedSessions:
    """All sessions of a drop-in, by their names. A store that it was given stays open when it is closed."""

    def __init__(self, store: Store | str | Path, policy: Policy, *, most_open: int = MOST_OPEN) -> None:
        self._owns_store = isinstance(store, str | Path)
        self.store: Store = open_store(store) if isinstance(store, str | Path) else store
        self.policy = client_policy(policy)
        self._most_open = most_open
        self._known: OrderedDict[str, _KeptSession] = OrderedDict()
        self._firsts: dict[str, str] = {}
        """The first message of the conversation that has a name to itself, by the name."""
        self._lock = threading.Lock()

    def turn(self, name: str, model: Model) -> CallTurn:
        """Take the turn of a session. `TimeoutError` if another call has it for longer than a moment."""
        kept = self._taken(name)
        if not kept.lock.acquire(timeout=WAIT_S):
            raise self._refused(kept)
        return CallTurn(self, kept, model)

    async def turn_async(self, name: str, model: Model) -> CallTurn:
        """Take the turn of a session without blocking the event loop."""
        import anyio  # noqa: PLC0415 - every asynchronous framework brings it

        kept = self._taken(name)
        ends = time.monotonic() + WAIT_S
        try:
            while not kept.lock.acquire(blocking=False):
                if time.monotonic() > ends:
                    raise self._refused(kept)
                await anyio.sleep(_POLL_S)
        except anyio.get_cancelled_exc_class():
            self.rest(kept)
            raise
        return CallTurn(self, kept, model)

    def free_turn(self, name: str, model: Model) -> CallTurn | None:
        """Take the turn of a session; None, with a warning, if its call goes on without: there is no limit, or another call."""
        try:
            return self.turn(name, model) if self._has_limit(model) else None
        except TimeoutError as error:
            return tell(f"passed on as it came: {error}")

    async def free_turn_async(self, name: str, model: Model) -> CallTurn | None:
        """Take the turn of a session as `free_turn` does, without blocking the event loop."""
        try:
            return await self.turn_async(name, model) if self._has_limit(model) else None
        except TimeoutError as error:
            return tell(f"passed on as it came: {error}")

    def _has_limit(self, model: Model) -> bool:
        is_known = has_known_limit(self.policy, model.id)
        if not is_known:
            tell(
                f"passed on as it came: the window of {model.id} is not known; give a budget, or name it in the policy"
            )
        return is_known

    def lane(self, name: str, listed: Sequence[ListedMessage], model: Model) -> str:
        """Return the session of a conversation that goes on under a name which others use as well.

        A sub-agent and a request for a title begin with other words than the conversation itself. The first one that comes has
        the name, and each other one has a session of its own behind it.
        """
        dialect = find_dialect(model.dialect or catalogue.find(model.id, self.policy.models).dialect)
        begun = next((n for n, one in enumerate(listed, 1) if _role(one) not in _INSTRUCTING), 0)
        entries = told_list(listed[:begun], dialect=dialect, model=model.id).entries
        if not entries:
            raise BadInput("the list holds no message of a conversation; there is nothing to follow")
        first = entries[0]
        with self._lock:
            held = self._firsts.get(name)
            if held is None:
                is_its_own = not self.store.cards(name) or any(row.id == first for row in self.store.find(name, first))
                if not is_its_own:
                    return f"{name}/{first[:_LANE_CHARS]}"
                held = self._firsts[name] = first
            return name if held == first else f"{name}/{first[:_LANE_CHARS]}"

    def rest(self, kept: _KeptSession) -> None:
        """Note that a call is over, and close sessions that rest if too many are open."""
        with self._lock:
            kept.takers -= 1
            resting = [one for one in self._known.values() if not one.takers]
            for one in resting[: max(0, len(self._known) - self._most_open)]:
                del self._known[one.name]
                one.close()

    def close(self) -> None:
        """Give all sessions back."""
        with self._lock:
            for one in self._known.values():
                one.close()
            self._known.clear()
        if self._owns_store:
            self.store.close()

    def _taken(self, name: str) -> _KeptSession:
        with self._lock:
            kept = self._known.setdefault(name, _KeptSession(name))
            self._known.move_to_end(name)
            kept.takers += 1
            return kept

    def _refused(self, kept: _KeptSession) -> TimeoutError:
        self.rest(kept)
        return TimeoutError(f"{kept.name} has another call under way for {WAIT_S:g} s")


def _role(one: ListedMessage) -> object:
    return one.role if isinstance(one, Message) else one.get("role")
