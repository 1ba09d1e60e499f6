"""The gateway as an ASGI application."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from hmac import compare_digest
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from foveal.gateway.conversations import ClientConversations
from foveal.gateway.relay import ClientCall, Relay, RelayedReply, ReplyCut
from foveal.gateway.routes import UPSTREAMS, find_route, is_knock
from foveal.gateway.upstream import Upstream
from foveal.session.policy import Policy
from foveal.stores.port import Store

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})
_PORT = re.compile(r":\d*\Z")
_CLIENT_GONE = 499


class Gateway:
    """A gateway on a store: its conversations, and the application that serves them."""

    def __init__(
        self,
        store: Store,
        policy: Policy,
        *,
        upstreams: Mapping[str, str] | None = None,
        watch: bool = False,
        token: str = "",
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.conversations = ClientConversations(store, policy)
        self._upstream = Upstream({**UPSTREAMS, **(upstreams or {})})
        self._relay = Relay(self.conversations, self._upstream, tell=tell, watch=watch)
        routes = [
            StarletteRoute("/metrics", self._metrics),
            StarletteRoute("/{path:path}", self._serve, methods=_METHODS),
        ]
        app = Starlette(routes=routes, lifespan=self._lifespan)
        self.app: ASGIApp = Doorkeeper(app, token)

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncGenerator[None]:
        yield
        await self._upstream.close()
        self.conversations.close()

    async def _serve(self, request: Request) -> Response:
        path = request.scope.get("raw_path", request.url.path.encode()).decode("latin-1")
        query = f"?{request.url.query}" if request.url.query else ""
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
        call = ClientCall(request.method, path + query, headers, await request.body())
        if is_knock(call.method, call.path, call.named):
            return Response()
        route = find_route(path) if request.method == "POST" else None
        relayed = asyncio.ensure_future(self._relay.manage(call, route) if route else self._relay.pass_on(call))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({relayed, gone}, return_when=asyncio.FIRST_COMPLETED)
            if relayed.done():
                return RelayResponse(relayed.result())
            relayed.cancel()  # nobody waits for it any more, and the next request of the conversation shall not
            await asyncio.wait({relayed})
            return Response(status_code=_CLIENT_GONE)
        finally:
            gone.cancel()

    async def _metrics(self, _request: Request) -> Response:
        lines = [f"foveal_{name}_total {value}" for name, value in _figures(self.conversations).items()]
        return PlainTextResponse("\n".join([*lines, ""]))


def _figures(conversations: ClientConversations) -> dict[str, Any]:
    figures = conversations.figures
    return {name: getattr(figures, name) for name in figures.__struct_fields__}


async def _disconnected(request: Request) -> None:
    """Wait until the client hangs up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class RelayResponse(StreamingResponse):
    """The answer to a client. When it ends, whichever way, the turn of its conversation is given back."""

    def __init__(self, reply: RelayedReply) -> None:
        super().__init__(reply.pieces, status_code=reply.status)
        self.raw_headers = reply.headers
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except ReplyCut:
            pass  # without an end, which makes the server close the connection: the client sees a cut
        finally:
            await self._reply.pieces.aclose()
            await self._reply.held.aclose()


class Doorkeeper:
    """Lets in who may come: local names only, or the holder of the token; WebSockets are told to use HTTP."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get("upgrade", "").lower() == "websocket" or scope["type"] == "websocket":
            await _refuse(426, "this gateway speaks HTTP; send the request as POST")(scope, receive, send)
            return
        host = _PORT.sub("", headers.get("host", "")).lower()
        if self._token:
            if not compare_digest(headers.get("x-foveal-token", "").encode(), self._token.encode()):
                await _refuse(401, "name the gateway's token in the header x-foveal-token")(scope, receive, send)
                return
        elif host not in _LOCAL:
            await _refuse(403, f"this gateway serves its own machine only, not {host!r}")(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _refuse(status: int, text: str) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    return PlainTextResponse(text + "\n", status_code=status)
