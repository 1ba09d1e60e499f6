"""The server: takes requests on a loopback port, judges them as their provider would, and answers by script.

`listener.py` has the HTTP, `conversations.py` the steps of scripts, `cache.py` the usage, `replies.py` and `streams.py` the
words of each provider. No network, no key, no dependency beyond those of the package.
"""

import json
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias

import msgspec

from foveal.models.counters import encoding
from foveal.testing.provider.cache import CallUsage, InputBill, PrefixCache, PromptBlock, add_up, prompt_blocks
from foveal.testing.provider.conversations import Conversations, PlayedConversation
from foveal.testing.provider.judge import gemini_arguments, judge
from foveal.testing.provider.listener import Connection, HttpRequest, LoopbackListener
from foveal.testing.provider.paths import ModelPath, find_place, guess_dialect, is_upgrade, list_models, spell_count
from foveal.testing.provider.recorder import Recorder
from foveal.testing.provider.replies import SPELLED, RawReply, Refusal, Silence, TooLong, Turn, spell_refusal
from foveal.testing.provider.script import Script, Step
from foveal.testing.provider.streams import SPOKEN, error_event, ping
from foveal.values.errors import BadInput

Scripted: TypeAlias = Turn | Refusal | TooLong | RawReply | Silence | Mapping[str, Any]
"""One answer of a script. A mapping is the body of a reply as it is."""

_LOOK_S = 0.02
"""Seconds between two looks at the event that a stalled stream waits for."""

STATE_PATH = "/scripted"
"""Where a provider in another process tells its bill."""


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
    """Tokens of tools, system prompt and messages, as the provider counts them."""
    conversation: str = ""
    """The client's id of the conversation, or one made of its beginning."""


@dataclass(frozen=True)
class _Asked:
    """A request with the work that was done on it once."""

    request: ReceivedRequest
    number: int
    model: str
    blocks: Sequence[PromptBlock]
    sizes: Sequence[int]
    talk: PlayedConversation


class ScriptedProvider:
    """Stands for a provider: speaks OpenAI Chat, OpenAI Responses, Anthropic Messages and Gemini, and answers by script.

    A request that the provider would refuse gets a 400 in the provider's own words; any other gets the next answer of `script`,
    the next step of the conversation's `play`, or an answer of `improvise`. `window` is the largest request in tokens that is
    taken; tokens are o200k times `factor`. `record` is a folder for requests and answers, `cwd` the client's working folder,
    `keep` the number of requests that are remembered (all, if None).
    """

    def __init__(
        self,
        *,
        improvise: Callable[[ReceivedRequest], Scripted] | None = None,
        window: int | None = None,
        factor: float = 1.0,
        record: str | Path | None = None,
        cwd: str | Path = "",
        keep: int | None = None,
        port: int = 0,
    ) -> None:
        self.improvise, self.window, self._keep = improvise, window, keep
        self.is_strict = True
        """Whether a request that breaks a rule of its provider is refused."""
        self.requests: list[ReceivedRequest] = []
        """Requests since the start or the last `begin`, refused ones too."""
        self.refused: list[str] = []
        """Reasons for which requests were refused by the rules of their provider."""
        self.usages: list[CallUsage] = []
        """Prompts of the answered calls, with their cached shares."""
        self.counted: int | None = None
        """Tokens of every prompt as reported in the usage; None to count them."""
        self._script: deque[Scripted] = deque()
        self._factor = factor
        self._conversations = Conversations(cwd=str(cwd))
        self._recorder = Recorder(record) if record is not None else None
        self._lock = threading.Lock()
        self._numbers = count(1)
        self._forget_prompts()
        self._listener = LoopbackListener(self._answer, port)
        self.url = self._listener.url

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

    @property
    def bill(self) -> InputBill:
        """All answered calls, added up."""
        return add_up(list(self.usages))

    @property
    def bills(self) -> dict[str, InputBill]:
        """The answered calls of each conversation, added up."""
        held: dict[str, list[CallUsage]] = {}
        for usage in list(self.usages):
            held.setdefault(usage.conversation, []).append(usage)
        return {key: add_up(usages) for key, usages in held.items()}

    def script(self, *answers: Scripted) -> None:
        """Add the next answers, in order, whoever asks."""
        self._script.extend(answers)

    def play(self, *steps: Step, when: str = "", side: str = Script.side) -> None:
        """Add a script in operations, which every conversation plays from its first step.

        `when` keeps it for conversations whose first request holds this text; such scripts are asked first.
        """
        made = Script(steps, when, side)
        with self._lock:
            scripts = self._conversations.scripts
            scripts.insert(0, made) if when else scripts.append(made)

    def begin(self) -> None:
        """Forget scripts, requests, conversations and the cache."""
        with self._lock:
            self._script.clear()
            self._conversations.forget()
            self.requests.clear()
            self.refused.clear()
            self._forget_prompts()

    def _forget_prompts(self) -> None:
        self.usages.clear()
        self._cache = PrefixCache(encoding("o200k_base").count, self._factor)
        self._numbers = count(1)

    def start(self) -> None:
        """Begin to listen; `url` says where."""
        self._listener.start()

    def stop(self) -> None:
        """Stop listening and end every answer that waits. Stopping twice is fine."""
        self._listener.stop()

    def __enter__(self) -> "ScriptedProvider":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _answer(self, connection: Connection, request: HttpRequest) -> None:
        number = self._recorder.request(request) if self._recorder else 0
        try:
            place = find_place(request)
            if place is None:
                self._answer_beside(connection, request)
            else:
                self._answer_model(connection, request, place)
        finally:
            if self._recorder:
                self._recorder.response(number, connection)

    def _answer_beside(self, connection: Connection, request: HttpRequest) -> None:
        """Answer a request that is not to a model."""
        if request.path == STATE_PATH:
            _send(connection, 200, self._state())
        elif is_upgrade(request):
            _refuse(connection, guess_dialect(request), Refusal(426, "no WebSocket here: send the request by POST"))
        elif request.method == "HEAD":
            connection.send_head(200 if request.path == "/" else 404, {})
        elif models := list_models(request):
            _send(connection, 200, models)
        else:
            words = f"there is nothing at {request.method} {request.path}"
            _refuse(connection, guess_dialect(request), Refusal(404, words))

    def _state(self) -> dict[str, Any]:
        with self._lock:
            bills = {key: msgspec.to_builtins(bill) for key, bill in self.bills.items()}
            return {"bill": msgspec.to_builtins(self.bill), "conversations": bills, "refused": list(self.refused)}

    def _answer_model(self, connection: Connection, request: HttpRequest, place: ModelPath) -> None:
        try:
            body = msgspec.json.decode(request.raw, type=dict[str, Any])
            if place.is_count:  # Gemini may be given a whole request to count
                body = body.get("generateContentRequest") or body
            asked = self._take(request, place, body)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            _refuse(connection, place.dialect, Refusal(400, f"this is no request ({type(error).__name__}: {error})"))
            return
        if place.is_count:
            _send(connection, 200, spell_count(place.dialect, asked.request.tokens))
            return
        with self._lock:
            self.requests.append(asked.request)
            if self._keep is not None and len(self.requests) > self._keep:
                del self.requests[: len(self.requests) - self._keep]
            answer, number = self._next(asked)
            if isinstance(answer, Turn):
                answer = self._with_usage(answer, asked)
        self._give(connection, replace(asked, number=number or asked.number), answer)

    def _take(self, request: HttpRequest, place: ModelPath, body: dict[str, Any]) -> _Asked:
        dialect = place.dialect
        is_streamed = bool(body.get("stream")) or place.verb == "streamGenerateContent"
        arguments = gemini_arguments(place.model, body) if dialect == "gemini" else body
        model = place.model or str(body["model"])
        blocks = prompt_blocks(dialect, body)
        with self._lock:
            sizes = self._cache.sizes(dialect, model, blocks)
            talk = self._conversations.find(request.headers, body, request.raw, blocks)
            number = next(self._numbers)
        tokens, target = self._cache.total(sizes), request.target
        received = ReceivedRequest(
            dialect, target, request.headers, request.raw, body, arguments, is_streamed, tokens, talk.key
        )
        return _Asked(received, number, model, blocks, sizes, talk)

    def _next(self, asked: _Asked) -> tuple[Scripted, int]:
        """Return the answer to a request and the number of its ids; 0 for the request's own."""
        request = asked.request
        if self.is_strict and (problems := judge(request.dialect, request.arguments)):
            words = "; ".join(map(str, problems))
            self.refused.append(words)
            return Refusal(400, words), 0
        if self.window is not None and request.tokens > self.window:
            return TooLong(self.window, request.tokens), 0
        if self._script:
            return self._script.popleft(), 0
        try:
            played = self._conversations.play(
                asked.talk, request.dialect, request.body, raw=request.raw, blocks=asked.blocks
            )
        except BadInput as error:
            self.refused.append(str(error))
            return Refusal(400, str(error)), 0
        if played:
            return played
        if self.improvise:
            return self.improvise(request), 0
        self.refused.append("the script is at its end")
        return Refusal(400, "the script is at its end"), 0

    def _with_usage(self, turn: Turn, asked: _Asked) -> Turn:
        """Return the turn with the usage that it reports, and put that on the bill."""
        cached, written = self._cache.take(asked.request.dialect, asked.model, asked.blocks, asked.sizes)
        counted = turn.counted if turn.counted is not None else self.counted
        if counted is not None or turn.cached is not None:
            cached, written = turn.cached or 0, turn.written
        told = CallUsage(
            asked.request.conversation, asked.request.tokens if counted is None else counted, cached, written
        )
        self.usages.append(told)
        return replace(turn, counted=told.tokens, cached=cached, written=written)

    def _give(self, connection: Connection, asked: _Asked, answer: Scripted) -> None:
        dialect = asked.request.dialect
        match answer:
            case Silence():
                connection.wait(None)
                connection.hang_up()
            case Refusal() | TooLong():
                _refuse(connection, dialect, answer, asked.number)
            case RawReply():
                _send(connection, answer.status, answer.body, answer.headers)
            case Turn():
                if answer.delay_s and not connection.wait(answer.delay_s):
                    return
                reply = SPELLED[dialect](answer, asked.model, asked.number, answer.counted or 0)
                self._reply(connection, asked, reply, answer)
            case _:
                self._reply(connection, asked, dict(answer), Turn())

    def _reply(self, connection: Connection, asked: _Asked, reply: dict[str, Any], turn: Turn) -> None:
        if asked.request.is_streamed:
            _stream(connection, asked, reply, turn)
        elif turn.fails is not None:
            _refuse(connection, asked.request.dialect, turn.fails, asked.number)
        else:
            data = json.dumps(reply).encode()
            headers = {"content-type": "application/json", **_request_ids(asked.number)}
            connection.send(200, headers, data, cut=None if turn.cut_after is None else len(data) // 2)


def _stream(connection: Connection, asked: _Asked, reply: dict[str, Any], turn: Turn) -> None:
    """Send the events of a reply. They travel together but for the first one, and where the stream stalls."""
    kinds = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
    connection.begin(200, {**kinds, **_request_ids(asked.number)})
    dialect = asked.request.dialect
    last = turn.cut_after if turn.cut_after is not None else 2 if turn.fails else None
    ready = bytearray()
    for number, (name, data) in enumerate(SPOKEN[dialect](reply)):
        if number == turn.stall_after:
            connection.send_chunk(bytes(ready))
            ready.clear()
            if not _stall(connection, dialect, turn):
                connection.hang_up()
                return
        if number == last:
            break
        ready += _event(name, data)
        if number == 0:
            connection.send_chunk(bytes(ready))
            ready.clear()
    if turn.fails:
        refusal = turn.fails.refusal(dialect) if isinstance(turn.fails, TooLong) else turn.fails
        ready += _event(*error_event(dialect, refusal, reply))
    connection.send_chunk(bytes(ready))
    if last is None or turn.fails:
        connection.end_chunks()
    else:
        connection.hang_up()


def _event(name: str, data: Mapping[str, Any] | str) -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def _stall(connection: Connection, dialect: str, turn: Turn) -> bool:
    """Send nothing but pings for a while, and return whether the stream goes on."""
    if turn.stall_until is not None:
        while not turn.stall_until.is_set():
            if not connection.wait(_LOOK_S):
                return False
        return True
    left = turn.stall_s if turn.stall_s is not None else float("inf")
    while left > 0:
        pause = min(left, turn.ping_s or left)
        if not connection.wait(None if pause == float("inf") else pause):
            return False
        left -= pause
        if turn.ping_s:
            connection.send_chunk(ping(dialect))
    return turn.stall_s is not None


def _request_ids(number: int) -> dict[str, str]:
    return {"request-id": f"req_{number}", "x-request-id": f"req_{number}"}


def _refuse(connection: Connection, dialect: str, answer: Refusal | TooLong, number: int = 0) -> None:
    refusal = answer.refusal(dialect) if isinstance(answer, TooLong) else answer
    ids = _request_ids(number) if number else {}
    _send(connection, refusal.status, spell_refusal(dialect, refusal), {**ids, **refusal.headers})


def _send(
    connection: Connection, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> None:
    connection.send(status, {"content-type": "application/json", **(headers or {})}, json.dumps(body).encode())
