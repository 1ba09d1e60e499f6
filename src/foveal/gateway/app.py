"""The gateway as an ASGI application."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from hmac import compare_digest
from typing import Any

import httpx2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from foveal.gateway.conversations import ClientConversations
from foveal.gateway.relay import ClientCall, Relay, RelayedReply
from foveal.gateway.routes import UPSTREAMS, find_route, provider_of
from foveal.gateway.upstream import Upstream
from foveal.session.policy import Policy
from foveal.stores.port import Store

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]", "::1"})


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
        path = request.url.path
        query = f"?{request.url.query}" if request.url.query else ""
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
        call = ClientCall(request.method, path + query, headers, await request.body())
        route = find_route(path) if request.method == "POST" else None
        try:
            return _answer(await (self._relay.manage(call, route) if route else self._relay.pass_on(call)))
        except httpx2.HTTPError as error:
            address = self._upstream.address(provider_of(path, call.named))
            return _unreachable(address, error)

    async def _metrics(self, _request: Request) -> Response:
        lines = [f"foveal_{name}_total {value}" for name, value in _figures(self.conversations).items()]
        return PlainTextResponse("\n".join([*lines, ""]))


def _figures(conversations: ClientConversations) -> dict[str, Any]:
    figures = conversations.figures
    return {name: getattr(figures, name) for name in figures.__struct_fields__}


def _answer(reply: RelayedReply) -> Response:
    response = StreamingResponse(reply.pieces, status_code=reply.status)
    response.raw_headers = reply.headers
    return response


class Doorkeeper:
    """Lets in who may come: local names only, or the holder of the token; WebSockets are told to use HTTP."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app, self._token = app, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if headers.get("upgrade", "").lower() == "websocket" or scope["type"] == "websocket":
            await _refuse(426, "this gateway speaks HTTP; send the request as POST")(scope, receive, send)
            return
        host = headers.get("host", "").rsplit(":", 1)[0]
        if self._token:
            if not compare_digest(headers.get("x-foveal-token", "").encode(), self._token.encode()):
                await _refuse(401, "name the gateway's token in the header x-foveal-token")(scope, receive, send)
                return
        elif host not in _LOCAL:
            await _refuse(403, f"this gateway serves its own machine only, not {host!r}")(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _unreachable(address: str, error: httpx2.HTTPError) -> Response:
    """Return an error in a form that the SDKs of all providers read."""
    told = f"the gateway cannot reach {address} ({type(error).__name__}: {error}); is the address right, and the network up?"
    body = {"type": "error", "error": {"type": "api_error", "code": 502, "status": "UNAVAILABLE", "message": told}}
    return JSONResponse(body, status_code=502)


def _refuse(status: int, text: str) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    return PlainTextResponse(text + "\n", status_code=status)
