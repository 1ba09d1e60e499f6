"""The conversations of a gateway: each a session with a turn of its own, opened when it is needed and closed when it rests."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from foveal.gateway.adoption import adopt, continued_in
from foveal.gateway.input_cost import InputBills, InputCost
from foveal.integrations.client_request import ClientRequest
from foveal.integrations.followed_sessions import client_policy
from foveal.record.client_list import is_reply
from foveal.session.client_session import ClientSession
from foveal.session.options import Host, Model
from foveal.session.policy import Policy
from foveal.stores.port import Store
from foveal.values.entry import Usage
from foveal.values.errors import FovealError, LeaseLost
from foveal.values.prompt import Prompt

T = TypeVar("T")

MOST_OPEN = 256
"""Sessions that are kept open. The least recently used one is closed for another."""

THREADS = 32
"""Requests that are worked on at once. Most of them wait for the disk, and those that wait together are written together."""

_MOST_NAMES = 10_000

WAIT_S = 2.0
"""Seconds that a request waits for the one before it in the same conversation."""


class CallFigures(msgspec.Struct):
    """Figures of one conversation, or of all of them, so far."""

    calls: int = 0
    """Calls that a provider answered."""
    asked_tokens: int = 0
    """Tokens of the requests as the client sent them."""
    sent_tokens: int = 0
    input_tokens: int = 0
    """Tokens that the providers counted."""
    cached_tokens: int = 0
    output_tokens: int = 0
    folds: int = 0
    recalls: int = 0
    unmanaged: int = 0
    """Requests that were passed on as they came, because the session could not be followed or asked for."""
    recovered: int = 0
    """Prompts that were too long for the provider, and sent again smaller."""
    failed: int = 0
    """Requests of conversations that a provider refused, did not answer, or broke off."""
    prompts: int = 0
    """Prompts that callers of the HTTP API were given. One is a call when its reply is kept: else nobody knows."""


class SeenClient(msgspec.Struct, frozen=True):
    """The program that a conversation was last heard from."""

    agent: str = ""
    """Its `user-agent`, as it says."""
    seen_ms: int = 0


class HandedPrompt(NamedTuple):
    """A prompt that a caller of the HTTP API may send, and the tokens that were asked for."""

    prompt: Prompt
    asked_tokens: int


class ClientConversation:
    """One conversation: the session of it, and its turn."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.figures = CallFigures()
        self.cost = InputCost()
        self.client = SeenClient()
        self.model = ""
        self.lock = asyncio.Lock()
        self.takers = 0
        """Requests that have the turn or wait for it."""
        self.opened: ClientSession | None = None
        """The session, if it is open."""
        self.closing: asyncio.Future[object] | None = None
        """The end of its closing, if another one is to be open in its place."""
        self.own_tools: Sequence[Mapping[str, Any]] = ()
        """The own tools of the last request, in the provider's form."""
        self.handed: HandedPrompt | None = None
        """The prompt that a caller of the HTTP API was given, until its reply is kept."""

    def session(self, store: Store, policy: Policy, request: ClientRequest) -> ClientSession:
        """Return the open session for the model of a request."""
        model = Model(request.model, request.dialect.name)
        if self.opened is None or self.model != _spelled(model):
            return self.open(store, model, policy=policy, host=Host(author="gateway"), takeover=True)
        return self.opened

    def open(self, store: Store, model: Model, *, policy: Policy, host: Host, takeover: bool) -> ClientSession:
        """Open the session anew, for this model. For the holder of the turn."""
        self.close()
        self.opened = ClientSession(store, self.name, model=model, policy=policy, host=host, takeover=takeover)
        self.model = _spelled(model)
        return self.opened

    def take(self, session: ClientSession, model: Model) -> None:
        """Go on with a session that was opened by another one, for this model."""
        self.opened, self.model = session, _spelled(model)

    def see(self, headers: Mapping[str, str]) -> None:
        """Note the client that a request came from."""
        self.client = SeenClient(headers.get("user-agent", ""), time.time_ns() // 1_000_000)

    def close(self) -> None:
        """Give the session back, if it is open."""
        session, self.opened = self.opened, None
        if session is not None:
            with suppress(FovealError):
                session.close()


def _close_unless_taken(one: ClientConversation) -> None:
    """Close a session, unless a request has asked for it while no thread was free."""
    if not one.takers:
        one.close()


def _spelled(model: Model) -> str:
    return f"{model.dialect} {model.id}"


class ClientConversations:
    """All conversations of a gateway, by their names."""

    def __init__(self, store: Store, policy: Policy, *, most_open: int = MOST_OPEN) -> None:
        self.store = store
        self.policy = client_policy(policy)
        self.figures = CallFigures()
        self.passed_because = ""
        """Why a request was passed on as it came, the last time."""
        self.rested = InputBills()
        """The bills of conversations that are no longer known."""
        self._most_open = most_open
        self._known: OrderedDict[str, ClientConversation] = OrderedDict()
        self._closing = 0
        """Those of them that are being closed."""
        self._names: dict[str, str] = {}
        """The sessions of conversations, by the names that their requests have."""
        self._threads = ThreadPoolExecutor(THREADS, "foveal-session")

    def __iter__(self) -> Iterator[ClientConversation]:
        return iter(self._known.values())

    def count_usage(self, conversation: ClientConversation, usage: Usage) -> None:
        """Count what a provider says of a call."""
        for figures in (conversation.figures, self.figures):
            figures.input_tokens += usage.input_tokens
            figures.cached_tokens += usage.cache_read_tokens
            figures.output_tokens += usage.output_tokens
        conversation.cost.report(usage)

    async def stored_name(self, name: str, request: ClientRequest, *, has_key: bool) -> str:
        """Return the name of the session of a conversation: with `has_key`, it may have been adopted from another key."""
        if not has_key or name in self._known:
            return name
        if name not in self._names:
            found = await self._run(lambda: self._stored_name(name, request))
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()  # they are looked up again
            self._names[name] = found
        return self._names[name]

    def _stored_name(self, name: str, request: ClientRequest) -> str:
        if self.store.cards(name):
            return continued_in(self.store, name)
        if not any(map(is_reply, request.messages)):
            return name
        return adopt(self.store, name, request.messages, dialect=request.dialect, model=request.model)

    def forget_name(self, name: str) -> None:
        """Look up the session of a conversation anew the next time."""
        self._names = {key: found for key, found in self._names.items() if name not in (key, found)}

    @asynccontextmanager
    async def turn(self, name: str) -> AsyncGenerator[ClientConversation]:
        """Take the turn of a conversation. `TimeoutError` if another request has it for longer than a moment."""
        conversation = self._known.setdefault(name, ClientConversation(name))
        self._known.move_to_end(name)
        conversation.takers += 1
        try:
            if conversation.closing is not None:  # whoever opened it meanwhile would find it held
                await asyncio.wait({conversation.closing})
            async with asyncio.timeout(WAIT_S):
                await conversation.lock.acquire()
            try:
                yield conversation
            finally:
                conversation.lock.release()
        finally:
            conversation.takers -= 1
            await self._close_resting()

    async def _close_resting(self) -> None:
        """Close sessions that nobody uses, down to the number that may be open. Others do the same while one is closed, or take
        it up, so each is looked for anew."""
        while len(self._known) - self._closing > self._most_open:
            one = next((one for one in self._known.values() if not one.takers and one.closing is None), None)
            if one is None:
                return
            self._closing += 1
            one.closing = self._run(partial(_close_unless_taken, one))
            one.closing.add_done_callback(partial(self._closed, one))
            await asyncio.wait({one.closing})

    def _closed(self, one: ClientConversation, _ended: object) -> None:
        """Forget a conversation that was closed, unless somebody has taken it up meanwhile."""
        one.closing = None
        self._closing -= 1
        if not one.takers and one.opened is None:
            del self._known[one.name]
            self.rested = self.rested.plus(one.cost.bills)

    async def in_thread(self, conversation: ClientConversation, act: Callable[[], T]) -> T:
        """Do something with a session outside of the event loop; one that another gateway took over is opened anew later."""
        acting = self._run(act)
        try:
            return await asyncio.shield(acting)
        except asyncio.CancelledError:
            while not acting.done():  # a session is not left in the middle of something, though the client has gone
                with suppress(asyncio.CancelledError):
                    await asyncio.wait({acting})
            acting.exception()
            raise
        except LeaseLost:
            conversation.close()
            raise

    def _run(self, act: Callable[[], T]) -> "asyncio.Future[T]":
        return asyncio.get_running_loop().run_in_executor(self._threads, act)

    def rest(self) -> None:
        """Give all sessions back. They are opened again when they are needed."""
        for one in self._known.values():
            one.close()

    def close(self) -> None:
        """Give all sessions back, and take no more requests."""
        self._threads.shutdown()
        self.rest()
