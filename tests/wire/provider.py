"""A provider to talk to: a real HTTP server that speaks the four formats and refuses what they refuse.

It knows nothing of the code under test but the independent validators. Each body is judged as it came over the wire; a body
with a problem gets a 400 in the provider's own words, any other the next reply of the script.
"""

import json
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterable
from socket import socket
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from . import events
from .turns import SPELLED, Turn
from .verdict import gemini_arguments, judge, refusal

_PATHS = {
    "/v1/chat/completions": "openai_chat",
    "/v1/responses": "openai_responses",
    "/v1/messages": "anthropic",
    "/{version:str}/models/{call}": "gemini",
}


class Provider:
    """Replies by script, remembers every body. One server for all tests; `begin` makes it new for the next."""

    def __init__(self) -> None:
        self._script: deque[Turn | dict[str, Any]] = deque()
        self.bodies: list[dict[str, Any]] = []
        self.raw: list[bytes] = []
        self.counted = 100
        """The size of a prompt where the turn does not say: the host, who knows it, sets it before the call."""
        self.url = ""
        self._ready = threading.Event()
        routes = [Route(path, self._answer, methods=["POST"], name=name) for path, name in _PATHS.items()]
        settings = uvicorn.Config(Starlette(routes=routes), port=0, lifespan="off", ws="none", log_level="critical")
        self._server = _Server(settings, self._ready)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def start(self) -> None:
        self._thread.start()
        if not self._ready.wait(30):
            raise RuntimeError("the server did not start")
        self.url = f"http://127.0.0.1:{self._server.port}"

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    def begin(self) -> None:
        self._script.clear()
        self.bodies.clear()
        self.raw.clear()

    def script(self, *replies: Turn | dict[str, Any]) -> None:
        """What to answer next, in order: turns, or bodies as they are."""
        self._script.extend(replies)

    @property
    def last(self) -> dict[str, Any]:
        return self.bodies[-1]

    async def _answer(self, request: Request) -> Response:
        dialect = request.scope["route"].name
        raw = await request.body()
        body: dict[str, Any] = json.loads(raw)
        if dialect == "gemini":
            body = gemini_arguments(request.path_params["call"].split(":")[0], body)
        self.raw.append(raw)
        self.bodies.append(body)
        if problems := judge(dialect, body):
            return JSONResponse(refusal(dialect, problems), status_code=400)
        if not self._script:
            return JSONResponse(refusal(dialect, ["the script is at its end"]), status_code=400)
        reply = self._script.popleft()
        if isinstance(reply, Turn):
            counted = reply.counted if reply.counted is not None else self.counted
            reply = SPELLED[dialect](reply, body["model"], len(self.bodies), counted)
        if body.get("stream"):
            return StreamingResponse(_stream(events.SPOKEN[dialect](reply)), media_type="text/event-stream")
        return JSONResponse(reply)


async def _stream(spoken: Iterable[tuple[str, dict[str, Any] | str]]) -> AsyncIterator[str]:
    for event, data in spoken:
        name = f"event: {event}\n" if event else ""
        yield f"{name}data: {data if isinstance(data, str) else json.dumps(data)}\n\n"


class _Server(uvicorn.Server):
    """Says when it listens, and where."""

    def __init__(self, config: uvicorn.Config, ready: threading.Event) -> None:
        super().__init__(config)
        self._ready = ready
        self.port = 0

    async def startup(self, sockets: list[socket] | None = None) -> None:
        await super().startup(sockets)
        self.port = self.servers[0].sockets[0].getsockname()[1]
        self._ready.set()
