"""The same session for asyncio programs: same method names, and no disk wait on the event loop."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from foveal.context.injection import NextCall
from foveal.context.mentions import Mentioned
from foveal.session.policy import Policy
from foveal.session.session import Session
from foveal.stores.port import Store
from foveal.values.entry import Body, Entry, Fold, ToolCall
from foveal.values.events import Pressure
from foveal.values.prompt import Prompt
from foveal.values.trace import Trace

if TYPE_CHECKING:
    from foveal.context.files.attachment import Attachment

P = ParamSpec("P")
T = TypeVar("T")


class AsyncSession:
    """A `Session` whose calls run one after the other in a worker thread."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._turn = asyncio.Lock()

    @classmethod
    async def open(
        cls, store: Store, name: str, *, model: str, policy: Policy | None = None, **options: Any
    ) -> "AsyncSession":
        """Open a session; `options` are those of `Session`."""
        return cls(await asyncio.to_thread(Session, store, name, model=model, policy=policy, **options))

    async def append(self, item: Body | Mapping[str, Any] | object, *, id: str | None = None) -> Entry:  # noqa: A002 - as in Session
        return await self._run(self._session.append, item, id=id)

    async def extend(self, items: Iterable[Body | Mapping[str, Any] | object]) -> list[Entry]:
        return await self._run(self._session.extend, items)

    async def prompt(self, tools: Sequence[Mapping[str, Any]] = (), *, next_call: NextCall = NextCall()) -> Prompt:  # noqa: B008 - a frozen value
        return await self._run(self._session.prompt, tools, next_call=next_call)

    async def inject(self, kind: str, text: str, *, key: str | None = None, **attributes: str) -> Entry:
        return await self._run(self._session.inject, kind, text, key=key, **attributes)

    async def remind(self, text: str, name: str = "host") -> None:
        await self._run(self._session.remind, text, name)

    async def attach(self, path: str | PathLike[str], *, name: str | None = None) -> "Attachment":
        return await self._run(self._session.attach, path, name=name)

    async def child(self, name: str, task: str, **options: Any) -> "AsyncSession":
        """A session for a sub-agent; `options` are those of `Session.child`."""
        return AsyncSession(await self._run(self._session.child, name, task, **options))

    async def compact(self, instructions: str = "") -> Fold | None:
        return await self._run(self._session.compact, instructions)

    async def recover(self, error: object, tools: Sequence[Mapping[str, Any]] = ()) -> Prompt:
        return await self._run(self._session.recover, error, tools)

    async def pressure(self) -> Pressure:
        """A method here and not a property: it waits for its turn."""
        return await self._run(lambda: self._session.pressure)

    async def mentioned(self) -> Mentioned:
        """A method here and not a property: it waits for its turn."""
        return await self._run(lambda: self._session.mentioned)

    async def serve(self) -> list[ToolCall]:
        return await self._run(self._session.serve)

    async def why(self, call: int | None = None) -> Trace:
        return await self._run(self._session.why, call)

    async def recall(self, ref: str) -> str:
        return await self._run(self._session.recall, ref)

    async def rewind(self, entry_id: str, reason: str = "") -> Entry:
        return await self._run(self._session.rewind, entry_id, reason)

    async def close(self) -> None:
        await self._run(self._session.close)

    async def __aenter__(self) -> "AsyncSession":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, call: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        async with self._turn:
            work = asyncio.ensure_future(asyncio.to_thread(call, *args, **options))
            try:
                return await asyncio.shield(work)
            except asyncio.CancelledError:
                # A thread cannot be stopped: the turn ends when it has, so that the next call finds a session at rest.
                await asyncio.wait([work])
                raise
