"""HTTP transports for the client of an SDK: they do the I/O that managed calls ask for, synchronous and asynchronous."""

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any, NamedTuple

import anyio.to_thread
import httpx2

from foveal.integrations.client_request import ClientRequest
from foveal.integrations.exchange import begun
from foveal.integrations.followed_sessions import CallTurn, FollowedSessions, tell
from foveal.integrations.routes import find_route, kept_elsewhere
from foveal.integrations.wire_call import (
    Begin,
    ProviderReply,
    ReadAll,
    ReadPiece,
    Send,
    Show,
    WireAnswer,
    WireStep,
    WireSteps,
    Work,
    managed_call,
)
from foveal.session.options import Model
from foveal.values.errors import FovealError

HEADER = "x-foveal-session"
"""Names the session of one request, in place of the wrapped client's."""

_NOT_SENT = frozenset(("content-length", "accept-encoding", HEADER))
_NOT_SHOWN = frozenset(("content-length", "content-encoding", "transfer-encoding"))


class ManagedRequest(NamedTuple):
    """A request that a session manages."""

    request: ClientRequest
    name: str
    model: Model


class WireCalls(NamedTuple):
    """The calls of one HTTP client, before anything is sent."""

    sessions: FollowedSessions
    session: str

    def read(self, request: httpx2.Request) -> ManagedRequest | None:
        """Return a request that can be managed; None for any other."""
        route = find_route(request.url.path) if request.method == "POST" else None
        if route is None:
            return None
        path = request.url.raw_path.decode("ascii")
        try:
            asked = ClientRequest.read(route.dialect, request.content, route.model)
            because = kept_elsewhere(asked.body, path, route.dialect)
            if because:
                tell(f"passed on as it came: {because}")
                return None
            model = Model(asked.model, route.dialect)
            name = self.sessions.lane(request.headers.get(HEADER) or self.session, asked.messages, model)
        except FovealError as error:
            tell(f"passed on as it came: {error}")
            return None
        return ManagedRequest(asked, name, model)

    def steps(self, turn: CallTurn, managed: ManagedRequest) -> WireSteps | None:
        """Return the steps of a call; None if its session cannot prepare it: then it goes on as it is."""
        try:
            return managed_call(turn, *turn.begin(partial(begun, managed.request)))
        except Exception as error:  # of any kind: the client's work goes on
            turn.end()
            tell(f"{managed.name} was passed on as it came: {type(error).__name__}: {error}")
            return None


class FittingTransport(httpx2.BaseTransport):
    """Sends the requests of a wrapped client through the HTTP client that it had."""

    def __init__(self, calls: WireCalls, inner: httpx2.Client) -> None:
        self._calls, self._inner = calls, inner

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        request.read()
        managed = self._calls.read(request)
        turn = self._calls.sessions.free_turn(managed.name, managed.model) if managed else None
        steps = self._calls.steps(turn, managed) if turn and managed else None
        if steps is None:
            return self._inner.send(_as_it_is(request), stream=True)
        call = _Call(steps, request, self._inner)
        try:
            step = call.advance()
        except BaseException:
            steps.close()
            raise
        return _response(step, steps, call)

    def close(self) -> None:
        self._calls.sessions.close()
        self._inner.close()


class _Call(httpx2.SyncByteStream):
    """One call, which does the I/O that its steps ask for. It is the body of a streamed reply."""

    def __init__(self, steps: WireSteps, request: httpx2.Request, inner: httpx2.Client) -> None:
        self._steps, self._request, self._inner = steps, request, inner
        self._pieces: Iterator[bytes] = iter(())
        self.reply = httpx2.Response(200)

    def advance(self) -> WireStep | None:
        """Do what is asked for until there is something for the client, and return that; None at the end."""
        outcome: Any = None
        failed: Exception | None = None
        while True:
            try:
                step = self._steps.send(outcome) if failed is None else self._steps.throw(failed)
            except StopIteration:
                return None
            try:
                outcome, failed = self._do(step), None
            except Exception as error:
                failed = error
            if isinstance(step, WireAnswer | Begin | Show):
                return step

    def _do(self, step: WireStep) -> object:
        match step:
            case Send(body):
                self.reply.close()
                self.reply = self._inner.send(_with_body(self._request, body), stream=True)
                self._pieces = self.reply.iter_raw()
                return _head(self.reply)
            case ReadAll():
                return self.reply.read()
            case ReadPiece():
                return next(self._pieces, None)
            case Work(act):
                return act()
            case WireAnswer() | Begin() | Show():
                return None

    def __iter__(self) -> Iterator[bytes]:
        while isinstance(step := self.advance(), Show):
            yield step.piece

    def close(self) -> None:
        self._steps.close()
        self.reply.close()


class AsyncFittingTransport(httpx2.AsyncBaseTransport):
    """Sends the requests of a wrapped asynchronous client through the HTTP client that it had."""

    def __init__(self, calls: WireCalls, inner: httpx2.AsyncClient) -> None:
        self._calls, self._inner = calls, inner

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        await request.aread()
        managed = await anyio.to_thread.run_sync(self._calls.read, request)
        turn = await self._calls.sessions.free_turn_async(managed.name, managed.model) if managed else None
        steps = await anyio.to_thread.run_sync(self._calls.steps, turn, managed) if turn and managed else None
        if steps is None:
            return await self._inner.send(_as_it_is(request), stream=True)
        call = _AsyncCall(steps, request, self._inner)
        try:
            step = await call.advance()
        except BaseException:
            steps.close()
            raise
        return _response(step, steps, call)

    async def aclose(self) -> None:
        await anyio.to_thread.run_sync(self._calls.sessions.close)
        await self._inner.aclose()


class _AsyncCall(httpx2.AsyncByteStream):
    """One call of an asynchronous client."""

    def __init__(self, steps: WireSteps, request: httpx2.Request, inner: httpx2.AsyncClient) -> None:
        self._steps, self._request, self._inner = steps, request, inner
        self._pieces: AsyncIterator[bytes] | None = None
        self.reply = httpx2.Response(200)

    async def advance(self) -> WireStep | None:
        """Do what is asked for until there is something for the client, and return that; None at the end."""
        outcome: Any = None
        failed: Exception | None = None
        while True:
            try:
                step = self._steps.send(outcome) if failed is None else self._steps.throw(failed)
            except StopIteration:
                return None
            try:
                outcome, failed = await self._do(step), None
            except Exception as error:
                failed = error
            if isinstance(step, WireAnswer | Begin | Show):
                return step

    async def _do(self, step: WireStep) -> object:
        match step:
            case Send(body):
                if self._pieces is not None:
                    await self.reply.aclose()
                self.reply = await self._inner.send(_with_body(self._request, body), stream=True)
                self._pieces = self.reply.aiter_raw()
                return _head(self.reply)
            case ReadAll():
                return await self.reply.aread()
            case ReadPiece():
                return await anext(self._pieces, None) if self._pieces else None
            case Work(act):
                return await anyio.to_thread.run_sync(act)
            case WireAnswer() | Begin() | Show():
                return None

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while isinstance(step := await self.advance(), Show):
            yield step.piece

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._steps.close)
            await self.reply.aclose()


def _with_body(request: httpx2.Request, body: bytes) -> httpx2.Request:
    """Return a request with another body. Its reply is not to be compressed: events are read as they come."""
    kept = [(name, value) for name, value in request.headers.multi_items() if name.lower() not in _NOT_SENT]
    headers = [*kept, ("accept-encoding", "identity")]
    return httpx2.Request(request.method, request.url, headers=headers, content=body, extensions=request.extensions)


def _as_it_is(request: httpx2.Request) -> httpx2.Request:
    """Return a request without the header that is for Foveal alone."""
    if HEADER in request.headers:
        del request.headers[HEADER]
    return request


def _head(reply: httpx2.Response) -> ProviderReply:
    return ProviderReply(reply.status_code, reply.headers.get("content-type", "").startswith("text/event-stream"))


def _shown_headers(reply: httpx2.Response) -> list[tuple[str, str]]:
    return [(name, value) for name, value in reply.headers.multi_items() if name.lower() not in _NOT_SHOWN]


def _response(step: WireStep | None, steps: WireSteps, call: "_Call | _AsyncCall") -> httpx2.Response:
    """Return the client's reply: one with this answer, one that is streamed by the call, or the provider's last as it came."""
    headers, reply = _shown_headers(call.reply), call.reply
    match step:
        case WireAnswer(body):
            steps.close()
            return httpx2.Response(200, headers=headers, content=body)
        case Begin():
            return httpx2.Response(200, headers=headers, stream=call)
        case _ if reply.is_stream_consumed:
            return httpx2.Response(reply.status_code, headers=headers, content=reply.content)
        case _:
            return reply
