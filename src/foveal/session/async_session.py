"""The same session for asyncio programs: same names, and no disk wait on the event loop.

Calls run in threads of Foveal's own, as many as there are sessions at work: asyncio's default pool has a few more threads than
the machine has cores, and others need them. A cancelled caller is let go at once. A summary that a model is writing for it is
given up then, and nothing of that prompt is recorded; any other call is finished in its thread. The next call of the session
begins when the cancelled one has ended.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import cache, partial
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from foveal.context.injection import NextCall
from foveal.context.mentions import Mentioned
from foveal.session.follow import Followed
from foveal.session.options import Clock, Host, Model
from foveal.session.policy import Policy
from foveal.session.session import Session
from foveal.stores.port import Store
from foveal.values.entry import Body, Entry, Fold, Message, ToolCall
from foveal.values.events import Pressure
from foveal.values.prompt import Prompt
from foveal.values.trace import Trace
from foveal.writers.call import CANCEL, Cancel

if TYPE_CHECKING:
    from foveal.context.files.attachment import Attachment

P = ParamSpec("P")
T = TypeVar("T")


MOST_THREADS = 256
"""Calls that can be under way at once. The store commits as many of them together; a thread that waits costs some 10 KB."""


@cache
def _threads() -> ThreadPoolExecutor:
    """Return the pool of all sessions of this process; a thread is started when all others are at work."""
    return ThreadPoolExecutor(MOST_THREADS, "foveal-session")


class SessionTurns:
    """Opens a session with its first call, and runs the calls one after the other in a thread."""

    def __init__(self, open_session: Callable[[], Session]) -> None:
        self._open_session = open_session
        self._session: Session | None = None
        self._turn = asyncio.Lock()

    async def run(self, call: Callable[[Session], T], behind: Callable[[], object] = lambda: None) -> T:
        """Run a call on the session. A cancelled caller does not wait for it; the next call does.

        `behind` is called on the event loop when the call has ended, before anybody goes on.
        """
        await self._turn.acquire()
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[T] = loop.create_future()
        context, cancel = copy_context(), Cancel()
        context.run(CANCEL.set, cancel)

        def tell(work: "Future[T]") -> None:
            with suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(self._rest, work, ended, behind, context=context)

        try:
            started = _threads().submit(context.run, self._run, call)
        except BaseException:
            self._turn.release()
            raise
        started.add_done_callback(tell)
        try:
            return await ended
        except asyncio.CancelledError:
            if not started.cancel():
                cancel.press()
            raise

    def run_now(self, call: Callable[[Session], T]) -> T:
        """Run a call on a session that no other call is under way on, where nobody can wait for its turn."""
        return self._run(call)

    def _rest(self, work: "Future[T]", ended: "asyncio.Future[T]", behind: Callable[[], object]) -> None:
        """Let the caller go on, and the next call begin. The error of a call whose caller has gone has no reader."""
        self._turn.release()
        try:
            behind()
        finally:
            if not ended.done():
                if (error := work.exception()) is None:
                    ended.set_result(work.result())
                elif isinstance(error, StopIteration):  # no future can hold one
                    ended.set_exception(RuntimeError(f"a call of the session raised {error!r}"))
                else:
                    ended.set_exception(error)

    def _run(self, call: Callable[[Session], T]) -> T:
        if self._session is None:
            self._session = self._open_session()
        return call(self._session)


class AsyncSession:
    """A `Session` whose calls run one after the other in a thread. The first call, or `async with`, opens it."""

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        model: str | Model,
        policy: Policy | None = None,
        host: Host = Host(),  # noqa: B008 - a frozen value
        takeover: bool = False,
        clock: Clock = Clock(),  # noqa: B008 - a frozen value
    ) -> None:
        opened = partial(Session, store, name, model=model, policy=policy, host=host, takeover=takeover, clock=clock)
        self._begin(name, SessionTurns(opened))

    def _begin(self, name: str, turns: SessionTurns) -> None:
        self.name, self._turns = name, turns
        self.context = AsyncContext(turns)
        """Content beside the conversation: `inject`, `remind`, `attach`, `mentioned`, `remember`, `forget`."""
        self.compaction = AsyncCompaction(turns)
        """Folds on demand: `fold`, `recover`, `pressure`, `forget_limit`."""
        self.branches = AsyncBranches(turns)
        """Branches of the log: `rewind`."""
        self.children = AsyncChildren(turns, self._of)
        """Sessions for sub-agents: `open`."""

    @classmethod
    def _of(cls, session: Session) -> "AsyncSession":
        """Return an open session for use in asyncio."""
        wrapped = cls.__new__(cls)
        wrapped._begin(session.name, SessionTurns(lambda: session))
        return wrapped

    async def append(self, item: Body | Mapping[str, Any] | object, *, id: str | None = None) -> Entry:  # noqa: A002 - as in Session
        """Keep what happened; see `Session.append`."""
        return await self._turns.run(lambda session: session.append(item, id=id))

    async def extend(self, items: Iterable[Body | Mapping[str, Any] | object]) -> list[Entry]:
        """Keep several items together; see `Session.extend`."""
        return await self._turns.run(lambda session: session.extend(items))

    async def prompt(
        self,
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        next_call: NextCall = NextCall(),  # noqa: B008 - a frozen value
    ) -> Prompt:
        """Build the next request; see `Session.prompt`."""
        return await self._turns.run(lambda session: session.prompt(tools, next_call=next_call))

    async def follow(
        self, messages: Sequence[Mapping[str, Any] | Message], *, system: str | Sequence[Message] | None = None
    ) -> Followed:
        """Keep what is new in a client's whole list of messages; see `Session.follow`."""
        return await self._turns.run(lambda session: session.follow(messages, system=system))

    async def serve(self) -> list[ToolCall]:
        """Answer calls to Foveal's own tools; see `Session.serve`."""
        return await self._turns.run(Session.serve)

    async def why(self, call: int | None = None) -> Trace:
        """Explain a prompt; see `Session.why`."""
        return await self._turns.run(lambda session: session.why(call))

    async def recall(self, ref: str) -> str:
        """Return the original of a reference; see `Session.recall`."""
        return await self._turns.run(lambda session: session.recall(ref))

    async def close(self) -> None:
        """Give the session up for other processes to open."""
        await self._turns.run(Session.close)

    async def __aenter__(self) -> "AsyncSession":
        await self._turns.run(lambda session: session)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _AsyncPart:
    """A part of an `AsyncSession`, whose calls take their turns with all others."""

    def __init__(self, turns: SessionTurns) -> None:
        self._turns = turns


class AsyncContext(_AsyncPart):
    """The side context of an `AsyncSession`; see `SideContext`."""

    async def inject(self, kind: str, text: str, *, key: str | None = None, **attributes: str) -> Entry:
        """Put content beside the conversation."""
        return await self._turns.run(lambda session: session.context.inject(kind, text, key=key, **attributes))

    async def remind(self, text: str, name: str = "host") -> None:
        """Show this text in the next call only."""
        await self._turns.run(lambda session: session.context.remind(text, name))

    async def attach(self, path: str | PathLike[str], *, name: str | None = None) -> "Attachment":
        """Give a file to the model."""
        return await self._turns.run(lambda session: session.context.attach(path, name=name))

    async def remember(self, text: str, key: str | None = None) -> str:
        """Keep a note for all sessions of the scope."""
        return await self._turns.run(lambda session: session.context.remember(text, key))

    async def forget(self, key: str) -> None:
        """Remove the note of this key."""
        await self._turns.run(lambda session: session.context.forget(key))

    async def mentioned(self) -> Mentioned:
        """Return the mentions of the newest request."""
        return await self._turns.run(lambda session: session.context.mentioned())


class AsyncCompaction(_AsyncPart):
    """The folds of an `AsyncSession`; see `Compaction`."""

    async def fold(self, instructions: str = "") -> Fold | None:
        """Fold now."""
        return await self._turns.run(lambda session: session.compaction.fold(instructions))

    async def recover(
        self,
        error: object,
        tools: Sequence[Mapping[str, Any]] = (),
        *,
        next_call: NextCall = NextCall(),  # noqa: B008 - a frozen value
    ) -> Prompt:
        """Return a smaller prompt after a refusal."""
        return await self._turns.run(lambda session: session.compaction.recover(error, tools, next_call=next_call))

    async def forget_limit(self) -> None:
        """Forget the limit that was learned of the model."""
        await self._turns.run(lambda session: session.compaction.forget_limit())

    async def pressure(self) -> Pressure:
        """Return how full the next prompt is."""
        return await self._turns.run(lambda session: session.compaction.pressure())


class AsyncBranches(_AsyncPart):
    """The branches of an `AsyncSession`; see `Branches`."""

    async def rewind(self, entry_id: str, reason: str = "") -> Entry:
        """Continue from an earlier entry."""
        return await self._turns.run(lambda session: session.branches.rewind(entry_id, reason))


class AsyncChildren:
    """The sub-agents of an `AsyncSession`; see `Children`."""

    def __init__(self, turns: SessionTurns, wrap: Callable[[Session], AsyncSession]) -> None:
        self._turns, self._wrap = turns, wrap

    async def open(self, name: str, task: str, **options: Any) -> AsyncSession:
        """Open a session for a sub-agent; `options` are those of `Children.open`."""
        return self._wrap(await self._turns.run(lambda session: session.children.open(name, task, **options)))
