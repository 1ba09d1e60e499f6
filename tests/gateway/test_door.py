"""The door: who is let in, and what passes through unchanged."""

import asyncio
import json
import socket
import threading
from contextlib import closing
from pathlib import Path

import httpx2
import pytest

from foveal import Policy, open_store
from foveal.gateway import server
from foveal.gateway.app import Gateway
from foveal.gateway.routes import provider_of
from foveal.stores import Store
from foveal.testing.provider import ScriptedProvider, Turn
from foveal.values.errors import BadInput

from .conftest import Gateways
from .requests import PATHS, asked, post, said
from .upstreams import PlainAnswer, PlainUpstream, SentRequest

KEY = "sk-secret-0123456789abcdef"


def _answer(request: SentRequest) -> PlainAnswer:
    headers = [
        ("content-type", "application/json"),
        ("set-cookie", "track=1; Path=/"),
        ("set-cookie", "second=2; Path=/"),
        ("date", "Mon, 01 Jan 2026 00:00:00 GMT"),
        ("server", "upstream"),
        ("x-request-id", "r-1"),
    ]
    body = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Well."}]}
    return PlainAnswer(headers=headers, body=json.dumps(body).encode())


def test_a_websocket_is_told_to_use_http(start: Gateways, capfd: pytest.CaptureFixture[str]) -> None:
    """The upgrade of a client that tries a WebSocket first is answered with 426, at which it falls back at once."""
    gateway = start()
    asks = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    reply = httpx2.get(f"{gateway.url}/v1/responses", headers=asks)
    assert reply.status_code == 426
    assert capfd.readouterr().err == ""


def test_a_gateway_that_does_not_start_leaves_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is told that it did not start in time has no server in the background, and the port is free."""

    async def begin(starting: server._Server, sockets: object = None) -> None:
        while not starting.should_exit:  # noqa: ASYNC110 - the flag is of uvicorn
            await asyncio.sleep(0.01)

    monkeypatch.setattr(server, "_STARTS_S", -1.0)
    monkeypatch.setattr(server._Server, "startup", begin)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    before = {one.name for one in threading.enumerate()}
    with pytest.raises(BadInput, match="did not start"), server.served(Gateway(store, Policy()), port):
        pass
    assert {one.name for one in threading.enumerate()} <= before
    socket.create_server(("127.0.0.1", port)).close()


OTHERS = [
    ("HEAD", "/"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/org%2Fname%20x?limit=2&a=%20b"),
    ("POST", "/v1/messages/count_tokens?beta=true"),
    ("POST", "/v1/messages/batches"),
    ("POST", "/v1beta/models/gemini-2.5-pro:countTokens"),
    ("POST", "/v1/threads/t/messages"),
    ("DELETE", "/v1/files/f"),
]


def test_other_requests_pass_through(start: Gateways) -> None:
    """What is no conversation reaches the provider with its method, path, query, headers and bytes."""
    sent = {"x-api-key": KEY, "anthropic-beta": "a,b", "user-agent": "agent/1", "x-own": "1"}
    with PlainUpstream(_answer) as upstream, httpx2.Client() as client:
        gateway = start(upstream=upstream.url)
        for method, path in OTHERS:
            body = b'{"a" : 1.0, "b": "\\u0041"}' if method == "POST" else b""
            reply = client.request(method, gateway.url + path, content=body, headers=sent)

            got = upstream.requests[-1]
            assert (got.method, got.path, got.body) == (method, path, body)
            assert {name: got.named[name] for name in sent} == sent
            assert reply.status_code == 200
            assert reply.content == (b"" if method == "HEAD" else _answer(got).body)
            assert reply.headers["content-length"] == str(len(_answer(got).body))
        assert gateway.figures.calls == gateway.figures.unmanaged == 0


def test_a_knock_is_answered_by_the_gateway(start: Gateways) -> None:
    """Some clients ask first whether anybody is there, without a key: no provider is bothered, least of all a wrong one."""
    with PlainUpstream(_answer) as upstream, httpx2.Client() as client:
        gateway = start(upstream=upstream.url)
        assert client.head(gateway.url + "/", headers={"user-agent": "Bun/1.4.0"}).status_code == 200
        assert upstream.requests == []


def test_a_key_names_its_provider() -> None:
    """A request that has no telling path goes to the provider whose header its key is in."""
    paths = ("/", "/v1/models", "/v1/files/f")
    assert {provider_of(path, {"x-api-key": KEY}) for path in paths} == {"anthropic"}
    assert {provider_of(path, {"x-goog-api-key": KEY}) for path in paths} == {"gemini"}
    assert {provider_of(path, {"authorization": f"Bearer {KEY}"}) for path in paths} == {"openai"}
    told = ("/v1/chat/completions", "/v1/responses?a=1", "/v1/threads/t/messages")
    assert {provider_of(path, {"x-api-key": KEY}) for path in told} == {"openai"}


def test_headers_come_once_and_cookies_go_to_their_owner(start: Gateways) -> None:
    """Every header of the provider comes once, none is added, and the cookie of one client never goes with another's request."""
    with PlainUpstream(_answer) as upstream:
        gateway = start(upstream=upstream.url)
        replies = [post(gateway, said("Go.")), post(gateway, said("Go."), x_api_key="k-2")]

        for reply in replies:
            assert reply.headers.get_list("date") == ["Mon, 01 Jan 2026 00:00:00 GMT"]
            assert reply.headers.get_list("server") == ["upstream"]
            assert len(reply.headers.get_list("x-request-id")) == 1
            assert reply.headers.get_list("set-cookie") == ["track=1; Path=/", "second=2; Path=/"]
            assert not any(name.startswith("access-control") for name in reply.headers)
        assert all("cookie" not in request.named for request in upstream.requests)


def test_a_clients_headers_arrive_and_none_is_added(start: Gateways) -> None:
    """The provider sees the client's headers, of a managed request too; the gateway's own stay here."""
    with PlainUpstream(_answer) as upstream:
        gateway = start(upstream=upstream.url, token="t-1")
        given = {
            "x-api-key": KEY,
            "anthropic-version": "2023-06-01",
            "anthropic-beta": "a",
            "x-stainless-timeout": "600",
        }
        raw = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        raw += "x-foveal-token: t-1\r\nx-foveal-session: mine\r\n"
        body = said("Go.")
        host, port = gateway.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as line:
            head = f"POST /v1/messages?beta=true HTTP/1.1\r\nhost: gateway.example\r\ncontent-length: {len(body)}\r\n"
            line.sendall((head + raw + "connection: close\r\n\r\n").encode() + body)
            assert line.recv(100).startswith(b"HTTP/1.1 200")

        (got,) = upstream.requests
        assert got.path == "/v1/messages?beta=true"
        ours = {"host", "content-length", "connection", "accept-encoding"}
        assert {name: value for name, value in got.named.items() if name not in ours} == given


FOREIGN = ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "[::2]:80"]
LOCAL = ["localhost", "localhost:1234", "LocalHost:80", "127.0.0.1", "[::1]", "[::1]:8080"]


def test_a_foreign_host_is_not_served(start: Gateways, provider: ScriptedProvider) -> None:
    """A page that has its own name point at this machine gets nothing: 403, and nothing is sent on."""
    gateway = start()
    for host in FOREIGN:
        assert post(gateway, said("Go."), host=host).status_code == 403, host
        assert httpx2.get(f"{gateway.url}/metrics", headers={"host": host}).status_code == 403, host
    assert provider.requests == []


def test_local_names_are_served(start: Gateways, provider: ScriptedProvider) -> None:
    """All names of this machine are served, with a port and without."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start()
    for host in LOCAL:
        assert post(gateway, said("Go."), host=host).status_code == 200, host


def test_a_token_is_asked_for(start: Gateways, provider: ScriptedProvider) -> None:
    """A gateway with a token serves its holder, under any name, and nobody else."""
    provider.script(Turn("Well."))
    gateway = start(token="t-1")
    assert post(gateway, said("Go.")).status_code == 401
    assert post(gateway, said("Go."), x_foveal_token="t-2").status_code == 401
    assert httpx2.get(f"{gateway.url}/metrics").status_code == 401
    assert provider.requests == []
    assert post(gateway, said("Go."), x_foveal_token="t-1", host="gateway.example").status_code == 200
    assert "x-foveal-token" not in provider.last.headers


def test_keys_are_neither_told_nor_kept(start: Gateways, provider: ScriptedProvider, tmp_path: Path) -> None:
    """A client's key is in no line and in no file of the store."""
    provider.improvise = lambda request: Turn("Well.")
    store = open_store(tmp_path / "sessions.db")
    gateway = start(6_000, on=store)
    for dialect, path in PATHS.items():
        for steps in (1, 12):
            headers = {"x_api_key": KEY, "authorization": f"Bearer {KEY}", "x_goog_api_key": KEY}
            assert post(gateway, asked(dialect, steps), f"{path}?key={KEY}", **headers).status_code == 200
    post(gateway, b"no json " + KEY.encode(), authorization=KEY)
    store.close()

    assert gateway.figures.folds > 0
    assert KEY not in "\n".join(gateway.lines)
    for file in tmp_path.rglob("*"):
        assert KEY.encode() not in (file.read_bytes() if file.is_file() else b""), file
