"""Figures about the gateway: random requests, slow and huge ones, strangers at the same time, forged addresses, and its cost."""

import asyncio
import json
import os
import random
import re
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from importlib import import_module
from itertools import cycle
from pathlib import Path
from select import select
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))

import httpx2
from scorecard_parts import Failures, Figure, Plant, Tried, cannot_import, replace

import gateway as gateway_benchmark
from foveal import Policy
from foveal.gateway import api, routes, server, session_names, slow_clients
from foveal.gateway import app as gateway_app
from foveal.gateway.app import Gateway
from foveal.gateway.bodies import BodyTooLarge
from foveal.gateway.server import served
from foveal.gateway.upstream import Upstream
from foveal.stores.memory import MemoryStore
from foveal.testing.provider import Call, RawReply, ReceivedRequest, ScriptedProvider, Turn
from foveal.values.own_tools import SEARCH_TOOL

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
API = "/foveal/v1"
MOST_AT_ONCE = 1_000
"""Connections at the same time."""


class Running(NamedTuple):
    """A gateway before a scripted provider."""

    url: str
    provider: ScriptedProvider

    @property
    def place(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").partition(":")
        return host, int(port)


@contextmanager
def _gateway(limit: int = 10_000, **options: Any) -> Iterator[Running]:
    """Start a gateway before a provider that answers everything."""
    os.environ["NO_PROXY"] = "127.0.0.1"
    with ScriptedProvider(improvise=lambda _request: Turn("Well."), keep=1) as provider:
        upstreams: dict[str, str] = dict.fromkeys(routes.UPSTREAMS, provider.url)
        app = Gateway(MemoryStore(), Policy(max_context_tokens=limit), upstreams=upstreams, **options)
        with served(app) as url:
            yield Running(url, provider)


# Random requests


@cache
def _api_tests() -> tuple[Any, Any]:
    """Return the tests' own caller of the API, which holds each answer against the OpenAPI document, and its random bodies."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    return import_module("tests.gateway.api_client"), import_module("tests.gateway.test_api_security")


def random_requests(cases: int, seed: int) -> Failures:
    """Send bodies and parameters of any shape to every operation: no error of ours, and answers as the document says."""
    callers, security = _api_tests()
    failures, rng = Failures(), random.Random(seed)
    with _gateway() as running, callers.ApiClient(running) as caller:
        operations = {name: one for name, one in caller._operations.items() if name not in ("events", "run_events")}
        for case in range(cases):
            if case % 20 == 0:
                caller.send("create", name="s", model="gpt-5")
            name = rng.choice(list(operations))
            method, _, described = operations[name]
            given = {
                field: security._anything(rng) for field in _fields(described, caller.document) if rng.random() < 0.9
            }
            if method != "POST":
                given = {field: json.dumps(value) for field, value in given.items()}
            try:
                reply = caller.send(name, rng.choice(("s", "s", "s", "absent", "%00", "a/b")), **given)
                problem = f"{reply.status_code} {reply.text:.120}" if reply.status_code >= 500 else ""
            except (AssertionError, ValueError, KeyError, httpx2.HTTPError) as error:
                problem = f"{type(error).__name__}: {error!s:.200}"
            failures += [f"{name} {given!r:.120}: {problem}"] if problem else []
    return failures


def _fields(described: dict[str, Any], document: dict[str, Any]) -> list[str]:
    """Return the names of an operation's parameters, or of the fields of its body."""
    asked = described.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    schema = document["components"]["schemas"][asked["$ref"].rpartition("/")[2]] if "$ref" in asked else asked
    query = [one["name"] for one in described.get("parameters", ()) if one["in"] == "query"]
    return [*schema.get("properties", {}), *query]


# Slow connections

SLOW = (
    b"",
    b"POST /v1",
    f"POST {MESSAGES} HTTP/1.1\r\nhost: localhost\r\n".encode(),
    f"POST {MESSAGES} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000\r\n\r\n{{".encode(),
    f"POST {MESSAGES} HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{{".encode(),
    f"POST {API}/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n".encode(),
)
LOOKS_S, MOST_LOOKS = 0.5, 6.0
"""Seconds between two looks of a gateway under test, and looks after which a connection must be closed: 15 s for looks of 7 s
would be two; the rest is for a busy machine."""


def slow_connections(cases: int, _seed: int) -> Failures:
    """Open connections that send half a request: all are closed, and whoever sends a whole one is answered in the meantime."""
    failures = Failures()
    slow_clients.PATIENCE_S = LOOKS_S
    with _gateway() as running:
        for first in range(0, cases, MOST_AT_ONCE):
            failures += _slow_ones(running, min(MOST_AT_ONCE, cases - first))
    return failures


def _slow_ones(running: Running, number: int) -> Failures:
    """Open so many connections at once, and return those that stay, and requests that were not answered."""
    failures = Failures()
    with ExitStack() as stack:
        lines = [stack.enter_context(socket.create_connection(running.place)) for _ in range(number)]
        for sent, line in zip(cycle(SLOW), lines):
            line.sendall(sent)
            line.settimeout(LOOKS_S * MOST_LOOKS)
        for _ in range(5):
            reply = httpx2.post(running.url + MESSAGES, json=_said("Go."), headers={"x-api-key": "k"}, timeout=60)
            failures += [] if reply.status_code == 200 else [f"a whole request is answered by {reply.status_code}"]
        for sent, line in zip(cycle(SLOW), lines):
            try:
                line.recv(1_000)
            except ConnectionError:
                pass
            except TimeoutError:
                failures.append(f"a connection that sent {sent[:60]!r} is still open")
                for other in lines:
                    other.settimeout(0.01)  # none of them has more time than this one had
    return failures


def _said(text: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    return {"model": "claude-opus-4-5", "max_tokens": 500, "messages": messages, **more}


# Huge bodies

LIMIT_MB, MOST_GROWTH_MB = 8, 32
"""The gateway's limit of a body here, and the memory that bodies above it may take, however large they are."""


def huge_bodies(cases: int, _seed: int) -> Tried:
    """Send a body of so many megabytes, declared or not, to two conversations and to the API: 413, and memory stays."""
    failures, megabytes = Failures(), max(cases, 40)  # the API reads 32 MB
    with _gateway(most_body_mb=LIMIT_MB) as running:
        httpx2.post(running.url + MESSAGES, json=_said("Go."), headers={"x-api-key": "k"}, timeout=60)
        _reset_peak()
        before = _peak_mb()
        for path in (MESSAGES, CHAT, f"{API}/sessions"):
            for is_declared in (True, False):
                status = _sent(running, path, megabytes, is_declared=is_declared)
                failures += [] if status == 413 else [f"{path}, {is_declared=}: {status} and not 413"]
        grown_mb = _peak_mb() - before
    most = MOST_GROWTH_MB + 32  # the API reads up to 32 MB of its own
    failures += [f"{grown_mb:.0f} MB for bodies of {megabytes} MB; {most} are the most"] if grown_mb > most else []
    return Tried(megabytes, failures, told=f"{grown_mb:.0f} MB more")


def _sent(running: Running, path: str, megabytes: int, *, is_declared: bool) -> int:
    """Send a body until it is refused, and return the status."""
    piece = b"x" * (1 << 20)
    length = f"content-length: {megabytes << 20}" if is_declared else "transfer-encoding: chunked"
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\nx-api-key: k\r\ncontent-type: application/json\r\n{length}\r\n\r\n"
    )
    with socket.create_connection(running.place, timeout=60) as line, suppress(ConnectionError):
        line.sendall(head.encode())
        with suppress(ConnectionError):
            for _ in range(megabytes):
                if select([line], [], [], 0)[0]:
                    break  # it has answered
                line.sendall(piece if is_declared else b"100000\r\n" + piece + b"\r\n")
            else:
                line.sendall(b"" if is_declared else b"0\r\n\r\n")
        found = re.match(rb"HTTP/1.1 (\d+)", line.recv(1_000))
        return int(found[1]) if found else 0
    return 0


def _reset_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _peak_mb() -> float:
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) / 1024


# Strangers at the same time

CANARY = re.compile(r"canary-(\d+)-")
STEPS = 10


def strangers_at_once(cases: int, seed: int) -> Failures:
    """Let clients of as many keys call at once, with the same names and beginnings: nobody gets a byte of another."""
    failures, salt = Failures(), f"{random.Random(seed).getrandbits(32):x}"

    def improvise(request: ReceivedRequest) -> Turn:
        key = int(request.headers["authorization"].rpartition("-")[2])
        seen = {int(number) for number in CANARY.findall(request.raw.decode())}
        if foreign := seen - {key}:
            failures.append(f"a request of key {key} holds bytes of {sorted(foreign)[:3]}")
        is_offered = SEARCH_TOOL in json.dumps(request.body.get("tools", []))
        if is_offered and request.body["messages"][-1]["role"] != "tool":
            return Turn("", (Call(f"call-{key}", SEARCH_TOOL, {"query": "canary"}),))
        return Turn(f"I saw canary-{key}-{salt}.")

    with _gateway(limit=4_000) as running:
        running.provider.improvise, running.provider.is_strict = improvise, False
        for first in range(0, cases, MOST_AT_ONCE):
            keys = range(first, min(cases, first + MOST_AT_ONCE))
            asyncio.run(_all_at_once(running.url, keys, salt, failures))
    return failures


async def _all_at_once(url: str, keys: range, salt: str, failures: Failures) -> None:
    limits = httpx2.Limits(max_connections=len(keys))
    async with httpx2.AsyncClient(base_url=url, timeout=600, limits=limits) as client:

        async def ask(key: int, path: str, body: dict[str, Any] | None = None) -> None:
            headers = {"authorization": f"Bearer k-{key}", "x-session-id": "main"}
            reply = await client.request("GET" if body is None else "POST", path, json=body, headers=headers)
            foreign = {int(number) for number in CANARY.findall(reply.text)} - {key}
            if foreign or reply.status_code != 200:
                failures.append(
                    f"key {key} is answered {reply.status_code} by {path}, with bytes of {sorted(foreign)[:3]}: {reply.text:.200}"
                )

        async def live(key: int) -> None:
            if key % 2:
                secret = {"is": "message", "role": "user", "parts": [{"is": "text", "text": f"canary-{key}-{salt}"}]}
                await ask(key, f"{API}/sessions", {"name": "notes", "model": "gpt-5"})
                await ask(key, f"{API}/sessions/notes/append", {"item": secret})
                await ask(key, f"{API}/sessions/notes/search?words=canary")
                await ask(key, f"{API}/sessions/notes/prompt", {})
            else:
                await ask(key, CHAT, {"model": "gpt-5", "messages": _worked(key, salt)})

        await asyncio.gather(*map(live, keys))


def _worked(key: int, salt: str) -> list[dict[str, Any]]:
    """Return a conversation that begins like all others, with the client's own canary in each result."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Find it."}]
    for n in range(STEPS):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "read", "arguments": f'{{"path": "{n}.py"}}'}}
        text = f"canary-{key}-{salt}\n" + "\n".join(f"line {i} of file {n}: value {i * n}" for i in range(60))
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": text})
    return [*messages, {"role": "user", "content": "And now?"}]


# Forged addresses

HOSTS = ("127.0.0.1", "127.1", "2130706433", "0x7f000001", "017700000001", "localhost", "0.0.0.0", "127.0.0.9", "[::1]")  # noqa: S104
FORMS = ("http://{}/latest/meta-data", "http://x@{}/", "//{}/", "http://{}", "https://{}/", "http:\\\\{}/", "{}/v1")
FIELDS = ("base_url", "api_base", "endpoint", "url", "webhook", "callback_url", "proxy", "upstream", "metadata")
HEADERS = (
    "x-forwarded-host",
    "x-original-url",
    "forwarded",
    "x-base-url",
    "x-upstream",
    "referer",
    "x-rewrite-url",
    "via",
)


def _redirect(running: Running, address: str, rng: random.Random) -> httpx2.Request:
    """Let the provider send the gateway somewhere else."""
    moved = RawReply(rng.choice((301, 302, 303, 307, 308)), {}, {"location": address, "refresh": f"0; url={address}"})
    running.provider.improvise = lambda _request: moved
    return _request(running, _said("Go."))


def _header(running: Running, address: str, rng: random.Random) -> httpx2.Request:
    """Name an address in a header."""
    return _request(running, _said("Go."), {rng.choice(HEADERS): address})


def _field(running: Running, address: str, rng: random.Random) -> httpx2.Request:
    """Name an address in a field of the body."""
    return _request(running, _said("Go.", **{rng.choice(FIELDS): address}))


def _image(running: Running, address: str, _rng: random.Random) -> httpx2.Request:
    """Show an image that is at an address, and a server of tools."""
    shown = [
        {"type": "image", "source": {"type": "url", "url": address}},
        {"type": "text", "text": f"See {address} @{address}"},
    ]
    servers = [{"type": "url", "url": address, "name": "x"}]
    return _request(running, _said("Go.", mcp_servers=servers) | {"messages": [{"role": "user", "content": shown}]})


def _query(running: Running, address: str, rng: random.Random) -> httpx2.Request:
    """Name an address in the query."""
    return httpx2.Request("GET", f"{running.url}/v1/models", params={rng.choice(FIELDS): address})


def _target(running: Running, address: str, _rng: random.Random) -> httpx2.Request:
    """Name an address where the path belongs."""
    return httpx2.Request("GET", running.url, extensions={"target": address.encode()})


def _api_item(running: Running, address: str, rng: random.Random) -> httpx2.Request:
    """Name an address to the API."""
    parts = [{"is": "image", "media_type": "image/png", "url": address}, {"is": "text", "text": address}]
    body = {
        "name": address,
        "model": "gpt-5",
        "item": {"is": "message", "role": "user", "parts": parts},
        "data": address,
    }
    path = rng.choice(("sessions", "sessions/s/append", "sessions/s/attach", "sessions/s/follow"))
    return httpx2.Request("POST", f"{running.url}{API}/{path}", json=body)


FORGERIES = (_redirect, _header, _field, _image, _query, _target, _api_item)


def _request(running: Running, body: dict[str, Any], headers: dict[str, str] | None = None) -> httpx2.Request:
    return httpx2.Request("POST", running.url + MESSAGES, json=body, headers={"x-api-key": "k", **(headers or {})})


def forged_addresses(cases: int, seed: int) -> Failures:
    """Name addresses to the gateway in every way that a client or a provider has: nobody is called but the provider."""
    failures, rng = Failures(), random.Random(seed)
    with _listener() as (port, calls), _gateway() as running, httpx2.Client(timeout=60) as client:
        for case in range(cases):
            forge = FORGERIES[case % len(FORGERIES)]
            address = rng.choice(FORMS).format(f"{rng.choice(HOSTS)}:{port}")
            running.provider.improvise = lambda _request: Turn("Well.")
            status = 0
            with suppress(httpx2.HTTPError, httpx2.InvalidURL):  # the gateway hung up, or no client sends this
                status = client.send(forge(running, address, rng)).status_code
            if calls or status == 500:
                failures.append(
                    f"case {case}, {forge.__name__.strip('_')} {address}: {len(calls)} calls, status {status}"
                )
                calls.clear()
    return failures


@contextmanager
def _listener() -> Iterator[tuple[int, list[object]]]:
    """Listen on all addresses of this machine, and note who calls."""
    calls = list[object]()
    server = socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)

    def take() -> None:
        with suppress(OSError):
            while True:
                line, caller = server.accept()
                calls.append(caller)
                line.close()

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1], calls
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


# Cost

MOST_CALL_MS = 10.0
"""CPU of a call: a hundred calls a second and core."""
CALLS = 4
_program = ("-m", "foveal")


def call_cost(cases: int, _seed: int) -> Tried:
    """Let conversations of 30,000 tokens, all of which are kept open, make so many calls at once: none fails, and a core makes a
    hundred a second."""
    conversations = max(1, cases // CALLS)
    found = gateway_benchmark.run_way("gateway, nothing folded", conversations, CALLS, program=_program)
    failures = [
        *([f"{found.failed} calls failed"] if found.failed else []),
        *(
            [f"{found.call_ms:.1f} ms of CPU a call; {MOST_CALL_MS} are the most"]
            if found.call_ms > MOST_CALL_MS
            else []
        ),
    ]
    return Tried(conversations * CALLS - found.failed, failures)


# Plants


def _unchecked_values() -> None:
    """Let the API take values as they come."""
    api.read_value = lambda plain, kind, _name, *, strict: kind(**plain)


def _told_traces() -> None:
    """Let an error tell more than the document says."""
    real = api.error_reply

    def error(status: int, kind: str, message: str, *rest: Any) -> Any:
        reply = real(status, kind, message, *rest)
        reply.body = json.dumps({**json.loads(bytes(reply.body)), "trace": "line 1"}).encode()
        reply.headers["content-length"] = str(len(reply.body))
        return reply

    api.error_reply = error


def _read_whole() -> None:
    """Let a body be read as a whole, whatever its length."""

    async def read_body(request: Any, _most_mb: int) -> bytes:
        return await request.body()

    gateway_app.read_body = read_body


def _kept_until_refused() -> None:
    """Let a body be read to its end, and then be refused."""

    async def read_body(request: Any, most_mb: int) -> bytes:
        pieces = [piece async for piece in request.stream()]
        if sum(map(len, pieces)) > most_mb << 20:
            raise BodyTooLarge(most_mb)
        return b"".join(pieces)

    gateway_app.read_body = read_body


def _one_key() -> None:
    """Let all keys be one."""
    for module in (routes, session_names):
        replace(module, "key_hash", lambda *_: "0" * 16)()


def _mixed_up() -> None:
    """Let a request have the body of the one before it."""
    real: Any = Upstream.send
    before = list[Any]()

    async def send(self: Upstream, *given: Any, **more: Any) -> Any:
        before.append(given[-1])
        return await real(self, *given[:-1], before[-2:][0], **more)

    Upstream.send = send


def _follows_redirects() -> None:
    real = Upstream._client

    def client(self: Upstream, number: int) -> Any:
        made = real(self, number)
        made.follow_redirects = True
        return made

    Upstream._client = client


def _named_upstream() -> None:
    """Let a client name the upstream."""
    real = Upstream.send

    async def send(self: Upstream, provider: str, method: str, path: str, headers: Any, *rest: Any, **more: Any) -> Any:
        named = next((value for name, value in headers if name in HEADERS and value.startswith("http")), None)
        self._addresses[provider] = named or self._addresses[provider]
        return await real(self, provider, method, path, headers, *rest, **more)

    Upstream.send = send


SPENDING = """
import sys, time
from foveal.cli import main
from foveal.gateway import relay
real = relay.conversation_name
def spend(*given, **options):
    until = time.process_time() + 0.03
    while time.process_time() < until:
        pass
    return real(*given, **options)
relay.conversation_name = spend
sys.exit(main())
"""


def _spends() -> None:
    """Let each call take 30 ms more of the gateway's CPU."""
    global _program  # noqa: PLW0603 - a plant is for the rest of the process
    _program = ("-c", SPENDING)


FIGURES = (
    Figure(
        "S3",
        "clients of other keys at the same time: bytes of one in a request or a reply of another",
        strangers_at_once,
        4,
        20_000,
        {
            "one key": Plant(_one_key, r"is answered 200 .* with bytes of \[\d"),
            "mixed up": Plant(_mixed_up, "a request of key .* holds bytes"),
        },
        is_alone=True,
    ),
    Figure(
        "S6",
        "forged addresses: whom the gateway calls",
        forged_addresses,
        28,
        7_000,
        {
            "redirects followed": Plant(_follows_redirects, r"redirect .*: [1-9]\d* calls"),
            "named upstream": Plant(_named_upstream, r"header .*: [1-9]\d* calls"),
        },
    ),
    Figure(
        "G1",
        "random requests to the HTTP API: no error of the server, and answers as its document says",
        random_requests,
        100,
        200_000,
        {
            "unchecked values": Plant(_unchecked_values, ": 500 "),
            "told traces": Plant(_told_traces, "AssertionError"),
        },
        skipped=lambda: cannot_import(_api_tests, "the tests of the gateway cannot be imported"),
    ),
    Figure(
        "G2",
        "connections that send half a request: closed, and others are answered",
        slow_connections,
        30,
        5_000,
        {"patient": Plant(replace(server, "impatient", lambda protocol: protocol), "is still open")},
        is_alone=True,
    ),
    Figure(
        "G3",
        "megabytes of a body, with and without its length, to two conversations and to the API: each 413, and at most 64 MB more",
        huge_bodies,
        160,
        1_024,
        {
            "read whole": Plant(_read_whole, "and not 413"),
            "kept until refused": Plant(_kept_until_refused, "MB for bodies"),
        },
    ),
    Figure(
        "G7",
        "calls at once through the gateway, of conversations that it keeps open: a hundred a second and core",
        call_cost,
        16,
        2_000,
        {"spends": Plant(_spends, "ms of CPU a call")},
        is_alone=True,
    ),
)
