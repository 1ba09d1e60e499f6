"""The gateway as an ASGI application."""

import asyncio
import re
import time
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from hmac import compare_digest
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from foveal.agent.definition import AgentDefinition
from foveal.dialects.sse import KEEP_ALIVE
from foveal.gateway.api import HttpApi, error_reply
from foveal.gateway.bodies import CLIENT_GONE, MOST_BODY_MB, BodyTooLarge, body_pieces, is_small, read_body
from foveal.gateway.conversations import MOST_OPEN, ClientConversations
from foveal.gateway.gateway_figures import GatewayFigures, gateway_figures
from foveal.gateway.operations import HEALTH_PATH, PREFIX, is_own
from foveal.gateway.page import HEADERS, page
from foveal.gateway.relay import ClientCall, Relay, RelayedReply, ReplyCut
from foveal.gateway.routes import KEY_HEADERS, UPSTREAMS, find_count, is_knock, is_of_provider
from foveal.gateway.token_counts import TokenCounts
from foveal.gateway.upstream import Upstream
from foveal.integrations.prometheus import CONTENT_TYPE, counters_text
from foveal.integrations.routes import find_route
from foveal.session.policy import Policy
from foveal.stores.port import Store

PING_S = 10.0
"""Seconds of silence after which a client that waits for a stream gets a sign of life."""

LOOK_S = 1.0
"""Seconds between two looks at the figures for a page that follows them."""

_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_LOCAL = frozenset({"127.0.0.1", "localhost", "[::1]"})
_PORT = re.compile(r":\d*\Z")
_ADDRESSES = (
    f"the gateway has / (its page), /metrics, {HEALTH_PATH} and {PREFIX}/openapi.json (its HTTP API); it passes on "
    "addresses of providers, such as /v1/messages, /v1/chat/completions, /v1/responses and /v1beta/models"
)


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
        place: str = "",
        most_body_mb: int = MOST_BODY_MB,
        most_open: int = MOST_OPEN,
        agents: Iterable[AgentDefinition] = (),
    ) -> None:
        """Open a gateway. `place` is the file of the store, for commands that people are shown.

        `agents` can be started over the HTTP API, by everybody who gets through the door.

        `most_body_mb` are the megabytes that a request with a conversation may have; uploads of files are passed on as they come.
        `most_open` conversations are kept open; any other is opened again by its next call.
        """
        self.conversations = ClientConversations(store, policy, most_open=most_open)
        self._place, self._is_watching, self._most_body_mb = place, watch, most_body_mb
        self._upstream = Upstream({**UPSTREAMS, **(upstreams or {})})
        self._relay = Relay(self.conversations, self._upstream, tell=tell, watch=watch)
        self._counts = TokenCounts(self._relay, is_whole_sent=watch)
        self.api = HttpApi(self.conversations, policy, figures=lambda: self.figures, tell=tell, agents=agents)
        routes = [
            StarletteRoute("/metrics", self._metrics),
            StarletteRoute("/{path:path}", self._serve, methods=_METHODS),
        ]
        app = Starlette(routes=routes, lifespan=self._lifespan)
        self.app: ASGIApp = Doorkeeper(app, token)

    @asynccontextmanager
    async def _lifespan(self, _app: Starlette) -> AsyncGenerator[None]:
        async with AsyncExitStack() as closing:  # each is closed, whatever becomes of the others: the last one first
            closing.callback(self.conversations.close)
            closing.push_async_callback(self._upstream.close)
            closing.push_async_callback(self.api.close)
            taking_up = asyncio.ensure_future(self.api.runs.recover())
            yield
            await taking_up

    async def _serve(self, request: Request) -> Response:
        path = request.scope.get("raw_path", request.url.path.encode()).decode("latin-1")
        query = f"?{request.url.query}" if request.url.query else ""
        if is_own(request.scope["path"]):
            return await self.api.answer(request)
        if is_for_people(request.method, path, request.headers):
            shown = page(self.figures, now_ms=time.time_ns() // 1_000_000, store=self._place)
            return HTMLResponse(shown, headers=HEADERS)
        if is_follower(request.method, path, request.headers):
            return StreamingResponse(
                self._changes(), media_type="text/event-stream", headers={"cache-control": "no-store"}
            )
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
        call = ClientCall(request.method, path + query, headers)
        if is_knock(call.method, call.path, call.named):
            return Response()
        if not is_of_provider(path, call.named, request.url.query):
            return error_reply(404, "NotFound", f"there is no address {path!r:.200}; {_ADDRESSES}")
        is_read = request.method == "POST" and bool(find_route(path) or find_count(path))
        try:
            if not is_read and not is_small(request):
                return RelayResponse(await self._relay.pass_on(call, body_pieces(request)))
            call = replace(call, body=await read_body(request, self._most_body_mb))
        except BodyTooLarge as error:
            return RelayResponse(self._relay.refused(call.provider, str(error)))
        except ClientDisconnect:
            return Response(status_code=CLIENT_GONE)
        relayed = asyncio.ensure_future(self._relayed(call, path))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait({relayed, gone}, return_when=asyncio.FIRST_COMPLETED)
            if relayed.done():
                return RelayResponse(relayed.result())
            relayed.cancel()  # nobody waits for it any more, and the next request of the conversation shall not
            await asyncio.wait({relayed})
            return Response(status_code=CLIENT_GONE)
        finally:
            gone.cancel()

    async def _relayed(self, call: ClientCall, path: str) -> RelayedReply:
        is_post = call.method == "POST"
        if is_post and (route := find_route(path)):
            return await self._relay.manage(call, route)
        if is_post and (route := find_count(path)):
            return await self._counts.answer(call, route)
        return await self._relay.pass_on(call)

    @property
    def figures(self) -> GatewayFigures:
        """The figures of all conversations since the gateway was started."""
        return gateway_figures(self.conversations, is_watching=self._is_watching)

    async def _changes(self) -> AsyncGenerator[bytes]:
        """Yield an event when the figures have changed, and signs of life until then; nothing more when the gateway ends."""
        before, waited_s = self.figures, 0.0
        while self.figures == before:
            yield b": still here\n\n" if waited_s % PING_S == 0 else b""
            await asyncio.sleep(LOOK_S)
            waited_s += LOOK_S
            if self.api.is_over:
                return
        yield b"data: changed\n\n"

    async def _metrics(self, _request: Request) -> Response:
        return PlainTextResponse(counters_text(_figures(self.conversations)), media_type=CONTENT_TYPE)


def _figures(conversations: ClientConversations) -> dict[str, Any]:
    figures = conversations.figures
    return {name: getattr(figures, name) for name in figures.__struct_fields__}


async def _disconnected(request: Request) -> None:
    """Wait until the client hangs up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


class Heartbeat:
    """Sends signs of life to a client that waits, between the pieces of a stream."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._sent_s: float | None = None
        """The time of the last piece; None before the first one and after the last one."""

    async def send(self, message: Message) -> None:
        """Send a piece."""
        self._sent_s = None
        await self._send(message)
        self._sent_s = time.monotonic() if message.get("more_body", True) else None

    async def beat(self) -> None:
        """Send a sign of life after each while of silence, until it is cancelled."""
        while True:
            silent_s = 0.0 if self._sent_s is None else time.monotonic() - self._sent_s
            if silent_s >= PING_S:
                await self.send({"type": "http.response.body", "body": KEEP_ALIVE, "more_body": True})
            else:
                await asyncio.sleep(PING_S - silent_s)


class RelayResponse(StreamingResponse):
    """The answer to a client. When it ends, whichever way, the turn of its conversation is given back."""

    def __init__(self, reply: RelayedReply) -> None:
        super().__init__(reply.pieces, status_code=reply.status)
        self.raw_headers = reply.headers
        self._reply = reply

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        heartbeat = Heartbeat(send)
        beating = asyncio.ensure_future(heartbeat.beat()) if self._reply.is_stream else None
        try:
            await super().__call__(scope, receive, heartbeat.send if beating else send)
        except ReplyCut:
            pass  # without an end, which makes the server close the connection: the client sees a cut
        finally:
            if beating:
                beating.cancel()
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
        if scope["method"] == "GET" and scope["path"] == HEALTH_PATH:  # of probes, which have no token
            await self._app(scope, receive, send)
            return
        host = _PORT.sub("", headers.get("host", "")).lower()
        if self._token:
            if _is_read_by_browsers(scope) and self._is_token(_password(headers.get("authorization", ""))):
                # Its browser was asked for it. It is no key of a provider, and is for nobody behind the door.
                kept = [(name, value) for name, value in scope["headers"] if name.lower() != b"authorization"]
                scope = {**scope, "headers": kept}
            elif not self._is_token(headers.get("x-foveal-token", "")):
                refusal = _refuse(401, "name the gateway's token in the header x-foveal-token")
                if _is_read_by_browsers(scope) and "text/html" in headers.get("accept", ""):
                    refusal.headers["www-authenticate"] = 'Basic realm="Foveal gateway: any name, its token"'
                await refusal(scope, receive, send)
                return
        elif host not in _LOCAL:
            await _refuse(403, f"this gateway serves its own machine only, not {host!r}")(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_token(self, given: str) -> bool:
        return compare_digest(given.encode(), self._token.encode())


def is_for_people(method: str, path: str, headers: Mapping[str, str]) -> bool:
    """Return whether a browser asks for the page. A client that asks its provider's root names a key, or wants no HTML."""
    return _is_browser(method, path, headers) and "text/html" in headers.get("accept", "")


def is_follower(method: str, path: str, headers: Mapping[str, str]) -> bool:
    """Return whether the page asks for changes of its figures."""
    return _is_browser(method, path, headers) and headers.get("accept", "") == "text/event-stream"


def _is_browser(method: str, path: str, headers: Mapping[str, str]) -> bool:
    has_key = any(headers.get(name) and not headers[name].lower().startswith("basic ") for name in KEY_HEADERS)
    return method == "GET" and path == "/" and not has_key


def _is_read_by_browsers(scope: Scope) -> bool:
    return scope["method"] == "GET" and (scope["path"] in ("/", "/metrics") or is_own(scope["path"]))


def _password(authorization: str) -> str:
    """Return the password that a browser sends; empty if it sends none."""
    scheme, _, encoded = authorization.partition(" ")
    with suppress(ValueError):
        return b64decode(encoded, validate=True).decode().partition(":")[2] if scheme.lower() == "basic" else ""
    return ""


def _refuse(status: int, text: str) -> PlainTextResponse:
    return PlainTextResponse(text + "\n", status_code=status)
