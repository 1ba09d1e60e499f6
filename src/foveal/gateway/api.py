"""The HTTP API: addresses to operations, bodies to parameters, errors to statuses.

A web page must not reach it from a browser that runs on the same machine: a request of another origin is refused, a body must be
declared as JSON, which no page may do without being asked about, and no answer allows another origin to read it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from foveal.agent.definition import AgentDefinition
from foveal.agent.run_events import KINDS, event_kinds
from foveal.gateway.api_types import ApiError, ErrorReply, HealthReply
from foveal.gateway.bodies import CLIENT_GONE
from foveal.gateway.conversations import ClientConversations
from foveal.gateway.event_stream import event_stream, run_stream
from foveal.gateway.gateway_figures import GatewayFigures
from foveal.gateway.health import StoreHealth
from foveal.gateway.json_reply import decoded_object, encoded_json
from foveal.gateway.openapi import openapi_document
from foveal.gateway.operations import FIGURES, HEALTH, OPERATIONS, PREFIX, SESSION, ApiOperation
from foveal.gateway.run_api import RunApi
from foveal.gateway.session_api import SessionApi
from foveal.gateway.session_names import ApiCaller
from foveal.gateway.strict_values import read_value
from foveal.session.policy import Policy
from foveal.values import errors
from foveal.values.errors import BadInput, FovealError, NotFound

MOST_BYTES = 1 << 25
"""32 MiB of a body: as large as the largest request that a provider takes."""

_KEY = "key"
"""The parameter of a query that is a key, as Google's clients send it."""

_STATUSES: tuple[tuple[type[FovealError], int], ...] = (
    (errors.NotFound, 404),
    (errors.BadInput, 400),
    (errors.OverBudget, 422),
    (errors.ContextOverflow, 422),
    (errors.Unrepresentable, 422),
    (errors.SummaryFailed, 502),
    (errors.SessionBusy, 409),
    (errors.SessionHeld, 409),
    (errors.LeaseLost, 409),
    (errors.TailLost, 409),
    (errors.StoreBusy, 503),
    (errors.StoreUnavailable, 503),
    (errors.StoreFull, 507),
    (errors.MissingExtra, 501),
    (FovealError, 500),
)
"""The status of each error; the first class that fits counts."""


class _Refusal(Exception):
    """A request that reaches no operation."""

    def __init__(self, status: int, message: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


class HttpApi:
    """Answers the requests below the prefix."""

    def __init__(
        self,
        conversations: ClientConversations,
        policy: Policy,
        *,
        figures: Callable[[], GatewayFigures],
        tell: Callable[[str], None],
        agents: Iterable[AgentDefinition] = (),
    ) -> None:
        self._sessions = SessionApi(conversations, policy)
        self.runs = RunApi(self._sessions, agents, tell)
        self._health = StoreHealth(conversations.store, tell)
        self._figures, self._tell = figures, tell
        self.is_over = False
        """Whether the gateway is about to end: streams of events end as well."""

    async def end(self) -> None:
        """Answer those who wait: runs are paused, and streams end."""
        self.is_over = True
        await self.runs.end()

    async def close(self) -> None:
        """Release everything."""
        self.is_over = True
        await self.runs.close()
        self._sessions.close()

    async def answer(self, request: Request) -> Response:
        """Answer a request."""
        try:
            return await self._answer(request)
        except _Refusal as refusal:
            return error_reply(refusal.status, "BadInput", str(refusal), refusal.headers)
        except ClientDisconnect:
            return Response(status_code=CLIENT_GONE)
        except FovealError as error:
            status = next(status for kind, status in _STATUSES if isinstance(error, kind))
            return error_reply(status, type(error).__name__, str(error))
        except Exception as error:  # a defect of ours: the caller is told that it is one, and the operator which
            self._tell(f"{request.method} {request.url.path}: {type(error).__name__}: {error}")
            return error_reply(500, "InternalError", "the gateway failed; its operator sees the reason in its log")

    async def _answer(self, request: Request) -> Response:
        _check_origin(request.headers)
        operation, name = _found(request)
        query = dict(parse_qsl(request.url.query, keep_blank_values=True))
        key = {_KEY: query.pop(_KEY)} if _KEY in query else {}
        caller = ApiCaller.of(request.headers, key)
        if operation.method == "POST" and query:
            raise BadInput(f"{operation.name} has its parameters in the body; the query says {', '.join(query)[:200]}")
        plain = await _body(request) if operation.method == "POST" else query
        given: Any = read_value(plain, operation.given, operation.name, strict=operation.method == "POST")
        if operation.is_stream:
            return await self._events(request, operation, caller, name, given)
        if operation.act is not None:
            try:
                part = self.runs if operation.is_of_runs else self._sessions
                return _reply(await operation.act(part, caller, name, given))
            except NotFound:
                if SESSION in operation.path:
                    await self._sessions.known(caller, name)  # deleted meanwhile: not a word about other sessions
                raise
        if operation.name == HEALTH:
            await self._health.check()
            return _reply(HealthReply())
        return _reply(self._figures() if operation.name == FIGURES else openapi_document())

    async def _events(
        self, request: Request, operation: ApiOperation, caller: ApiCaller, name: str, given: Any
    ) -> Response:
        is_of_run, after = operation.is_of_runs, given.after
        kinds = event_kinds(given.kinds.split(",")) if is_of_run and given.kinds else KINDS
        found = await (self.runs.known(caller, name) if is_of_run else self._sessions.stored(caller, name))
        if last := request.headers.get("last-event-id"):
            if not (last.isascii() and last.isdecimal() and len(last) < 16):
                raise BadInput(f"last-event-id is {last!r:.80}; it is the id of an event, a whole number")
            after = int(last)
        begun = (
            run_stream(self.runs, found, after, kinds=kinds, is_over=lambda: self.is_over)
            if is_of_run
            else event_stream(self._sessions, found, after, is_over=lambda: self.is_over)
        )
        return StreamingResponse(begun, media_type="text/event-stream", headers=_HEADERS)


_HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}


def _reply(value: object) -> Response:
    return Response(encoded_json(value), media_type="application/json", headers=_HEADERS)


def error_reply(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an error in the form of the HTTP API."""
    body = encoded_json(ErrorReply(ApiError(kind, message)))
    return Response(body, status, media_type="application/json", headers={**_HEADERS, **(headers or {})})


def _check_origin(headers: Mapping[str, str]) -> None:
    """Refuse a request that a browser sends for a page of another address."""
    origin = headers.get("origin")
    if origin is not None and _place_of(origin) != headers.get("host", "").lower():
        raise _Refusal(403, f"the request comes from a page of {origin!r:.100}; this API is not for pages of others")


def _place_of(origin: str) -> str:
    """Return the host of an origin, with its port; "none" for one that has none, or is no address."""
    try:
        return urlsplit(origin).netloc.lower() or "none"
    except ValueError:
        return "none"


def _found(request: Request) -> tuple[ApiOperation, str]:
    """Return the operation of a request, and the name of the session or the run that its address has."""
    raw = request.scope.get("raw_path", request.url.path.encode()).decode("latin-1")
    path = raw.partition("?")[0]
    fitting = [one for one in OPERATIONS if path.startswith(one.base + "/") and _fits(one, _segments(one, path))]
    if not fitting:
        raise NotFound(f"there is no address {raw!r:.200}; {PREFIX}/openapi.json lists all of them")
    found = next((one for one in fitting if one.method == request.method), None)
    if found is None:
        allowed = ", ".join(one.method for one in fitting)
        raise _Refusal(405, f"{request.method} is not for this address; it takes {allowed}", headers={"allow": allowed})
    name = "" if found.place is None else unquote(_segments(found, path)[found.place], errors="replace")
    return found, name


def _segments(operation: ApiOperation, path: str) -> list[str]:
    return path.removeprefix(operation.base + "/").split("/")


def _fits(operation: ApiOperation, segments: list[str]) -> bool:
    path = operation.path
    return len(path) == len(segments) and all(
        segment if place == operation.place else one == segment
        for place, (one, segment) in enumerate(zip(path, segments, strict=True))
    )


async def _body(request: Request) -> dict[str, Any]:
    """Read the parameters in a body; no body has none."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise _Refusal(415, f"the content-type is {kind!r:.80}; declare the body as application/json")
    declared = request.headers.get("content-length", "0")
    size, pieces = int(declared) if declared.isdecimal() else 0, list[bytes]()
    if size <= MOST_BYTES:
        size = 0
        async for piece in request.stream():
            size += len(piece)
            if size > MOST_BYTES:
                break
            pieces.append(piece)
    if size > MOST_BYTES:
        raise _Refusal(
            413,
            f"the body has {size:,} bytes or more; {MOST_BYTES:,} is the most. Append large results one by one.",
            headers={"connection": "close"},
        )
    raw = b"".join(pieces)
    return await asyncio.to_thread(decoded_object, raw) if raw else {}
