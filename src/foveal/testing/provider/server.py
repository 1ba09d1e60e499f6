"""The server: takes requests on a loopback port, judges them as their provider would, and answers by script.

A thread of the standard library's HTTP server; no network, no key, no other dependency. Every answer closes its connection, so
that a client that stays connected cannot hold the provider up when it stops.
"""

import json
import re
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, TypeAlias

from foveal.models.counters import encoding
from foveal.testing.oracles import strings
from foveal.testing.provider.judge import gemini_arguments, judge
from foveal.testing.provider.replies import SPELLED, RawReply, Refusal, Silence, TooLong, Turn, spell_refusal
from foveal.testing.provider.streams import SPOKEN, StreamEvents

Scripted: TypeAlias = Turn | Refusal | TooLong | RawReply | Silence | Mapping[str, Any]
"""One answer of a script. A mapping is the body of a reply as it is."""

_PATHS = (
    (re.compile(r"/chat/completions$"), "openai_chat"),
    (re.compile(r"/responses$"), "openai_responses"),
    (re.compile(r"/messages$"), "anthropic"),
    (re.compile(r"/models/(?P<model>[^/:]+):(?P<verb>generateContent|streamGenerateContent)$"), "gemini"),
)


@dataclass(frozen=True)
class ReceivedRequest:
    """A request as it came over the wire."""

    dialect: str
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    raw: bytes
    body: dict[str, Any]
    arguments: dict[str, Any]
    """Keyword arguments of the SDK that lead to this body: the body itself, but for Gemini."""
    is_streamed: bool
    tokens: int
    """o200k tokens of all text in the body."""


class ScriptedProvider:
    """Stands for a provider: speaks OpenAI Chat, OpenAI Responses, Anthropic Messages and Gemini, and answers by script.

    A request that the provider would refuse gets a 400 in the provider's own words; any other gets the next answer of the
    script, or of `improvise` when the script is at its end. `window` is the largest request in tokens that is taken.
    """

    def __init__(
        self, *, improvise: Callable[[ReceivedRequest], Scripted] | None = None, window: int | None = None
    ) -> None:
        self.improvise, self.window = improvise, window
        self.is_strict = True
        """Whether a request that breaks a rule of its provider is refused."""
        self.requests: list[ReceivedRequest] = []
        """All requests since the start or the last `begin`, refused ones too."""
        self.refused: list[str] = []
        """Reasons for which requests were refused by the rules of their provider."""
        self.counted: int | None = None
        """Tokens of every prompt as reported in the usage; None to count them."""
        self._script: deque[Scripted] = deque()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        provider = self

        class Answering(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.close_connection = True
                with suppress(ConnectionError):  # the client has gone
                    provider._answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
                """Say nothing."""

        self._server = _LoopbackServer(("127.0.0.1", 0), Answering)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables that lead the providers' own SDKs here."""
        key = "scripted"
        keys = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), key)
        urls = {"ANTHROPIC_BASE_URL": self.url, "GOOGLE_GEMINI_BASE_URL": self.url}
        return {**keys, **urls, "OPENAI_BASE_URL": f"{self.url}/v1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}

    @property
    def last(self) -> ReceivedRequest:
        """The newest request."""
        return self.requests[-1]

    @property
    def arguments(self) -> list[dict[str, Any]]:
        """The keyword arguments of all requests."""
        return [request.arguments for request in self.requests]

    def script(self, *answers: Scripted) -> None:
        """Add the next answers, in order."""
        self._script.extend(answers)

    def begin(self) -> None:
        """Forget the script and the requests."""
        self._script.clear()
        self.requests.clear()
        self.refused.clear()

    def start(self) -> None:
        """Begin to listen; `url` says where."""
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and end every answer that waits. Stopping twice is fine."""
        if not self._stopped.is_set():
            self._stopped.set()
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def __enter__(self) -> "ScriptedProvider":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _answer(self, connection: BaseHTTPRequestHandler) -> None:
        raw = connection.rfile.read(int(connection.headers["content-length"] or 0))
        request = _received(connection, raw)
        if request is None:
            _send(connection, 404, {"error": {"message": f"there is nothing at {connection.path}"}})
            return
        with self._lock:
            self.requests.append(request)
            number = len(self.requests)
            answer = self._next(request)
        if isinstance(answer, Turn) and answer.delay_s:
            self._stopped.wait(answer.delay_s)
        match answer:
            case Silence():
                self._stopped.wait()
            case Refusal() | TooLong():
                refusal = answer.refusal(request.dialect) if isinstance(answer, TooLong) else answer
                _send(connection, refusal.status, spell_refusal(request.dialect, refusal), refusal.headers)
            case RawReply():
                _send(connection, answer.status, answer.body, answer.headers)
            case Turn():
                counted = answer.counted if answer.counted is not None else self.counted
                model = str(request.arguments["model"])
                tokens = counted if counted is not None else request.tokens
                self._reply(connection, request, SPELLED[request.dialect](answer, model, number, tokens), answer)
            case _:
                self._reply(connection, request, dict(answer), Turn())

    def _next(self, request: ReceivedRequest) -> Scripted:
        if self.is_strict and (problems := judge(request.dialect, request.arguments)):
            words = "; ".join(map(str, problems))
            self.refused.append(words)
            return Refusal(400, words)
        if self.window is not None and request.tokens > self.window:
            return TooLong(self.window, request.tokens)
        if self._script:
            return self._script.popleft()
        if self.improvise:
            return self.improvise(request)
        self.refused.append("the script is at its end")
        return Refusal(400, "the script is at its end")

    def _reply(
        self, connection: BaseHTTPRequestHandler, request: ReceivedRequest, reply: dict[str, Any], turn: Turn
    ) -> None:
        if request.is_streamed:
            self._stream(connection, SPOKEN[request.dialect](reply), turn)
        elif turn.cut_after is not None:
            data = json.dumps(reply).encode()
            _begin(connection, 200, {"content-type": "application/json", "content-length": str(len(data))})
            connection.wfile.write(data[: len(data) // 2])
        else:
            _send(connection, 200, reply)

    def _stream(self, connection: BaseHTTPRequestHandler, events: StreamEvents, turn: Turn) -> None:
        """Send the events as chunks, so that a client can tell a stream that was cut off from a whole one."""
        _begin(connection, 200, {"content-type": "text/event-stream", "transfer-encoding": "chunked"})
        for number, (name, data) in enumerate(events):
            if number == turn.cut_after:
                return
            if number == turn.stall_after:
                self._stopped.wait()
                return
            head = f"event: {name}\n" if name else ""
            text = f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()
            connection.wfile.write(b"%x\r\n%b\r\n" % (len(text), text))
            connection.wfile.flush()
        connection.wfile.write(b"0\r\n\r\n")


class _LoopbackServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # many clients at once


def _received(connection: BaseHTTPRequestHandler, raw: bytes) -> ReceivedRequest | None:
    """Return the request; None for a path of no provider."""
    path = connection.path.partition("?")[0]
    for pattern, dialect in _PATHS:
        if found := pattern.search(path):
            body: dict[str, Any] = json.loads(raw)
            fields = found.groupdict()
            is_streamed = bool(body.get("stream")) or fields.get("verb") == "streamGenerateContent"
            arguments = gemini_arguments(fields["model"], body) if dialect == "gemini" else body
            headers = {name.lower(): value for name, value in connection.headers.items()}
            tokens = sum(map(encoding("o200k_base").count, strings(body)))
            return ReceivedRequest(dialect, connection.path, headers, raw, body, arguments, is_streamed, tokens)
    return None


def _begin(connection: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str]) -> None:
    connection.send_response(status)
    for name, value in headers.items():
        connection.send_header(name, value)
    connection.send_header("connection", "close")
    connection.end_headers()


def _send(
    connection: BaseHTTPRequestHandler, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> None:
    data = json.dumps(body).encode()
    _begin(
        connection,
        status,
        {"content-type": "application/json", "content-length": str(len(data)), **(headers or {})},
    )
    connection.wfile.write(data)
