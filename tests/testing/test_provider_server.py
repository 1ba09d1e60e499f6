"""The provider as a server: the paths that clients touch, connections, the recorder, and a process of its own."""

import gzip
import http.client
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from foveal.testing.provider import Read, Refusal, ScriptedProvider, Step, Turn
from foveal.testing.provider.__main__ import improvise

from .small_agents import AGENTS, ASKED, CLIENTS, ChatAgent, GeminiAgent, MessagesAgent

PI = CLIENTS["pi"]


@pytest.fixture
def provider(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ScriptedProvider() as running:
        yield running


@contextmanager
def connection(url: str) -> Iterator[http.client.HTTPConnection]:
    made = http.client.HTTPConnection(url.removeprefix("http://"), timeout=20)
    yield made
    made.close()


def send(url: str, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, Any]:
    with connection(url) as line:
        line.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        reply = line.getresponse()
        raw = reply.read()
    return reply.status, json.loads(raw) if raw else None


CHAT = json.dumps({"model": "gpt-5", "messages": [{"role": "user", "content": ASKED}]}).encode()


def test_lists_of_models_are_read_by_the_sdks(provider):
    """Each SDK lists models, and asks for one."""
    for dialect, agent in ((name, make(provider.url, [])) for name, make in AGENTS.items()):
        listed = [model.id if dialect != "gemini" else model.name for model in agent.client.models.list()]
        assert any("gpt-5" in name for name in listed)
        if dialect == "gemini":
            assert agent.client.models.get(model="gemini-2.5-pro").name == "models/gemini-2.5-pro"
        else:
            assert agent.client.models.retrieve("my-own").id == "my-own"
        agent.close()


def test_tokens_are_counted_as_the_usage_counts_them(provider):
    """A count before the call is the count of the call."""
    messages = MessagesAgent(provider.url, PI)
    messages.say(ASKED)
    told = messages.client.messages.count_tokens(
        model=messages.model, messages=messages.messages, tools=messages.tools
    ).input_tokens
    gemini = GeminiAgent(provider.url, [])
    gemini.say(ASKED)
    total = gemini.client.models.count_tokens(model=gemini.model, contents=gemini.messages).total_tokens
    assert provider.requests == []
    provider.script(Turn("One."), Turn("Two."))
    messages.ask()
    gemini.ask()
    assert [request.tokens for request in provider.requests] == [told, total]
    chat = ChatAgent(provider.url, [])
    asked = chat.client.responses.input_tokens.count(model="gpt-5", input=ASKED)
    assert 0 < asked.input_tokens < 20
    for agent in (messages, gemini, chat):
        agent.close()


@pytest.mark.parametrize(
    ("headers", "path", "words"),
    [
        ({}, "/v1/unknown", {"error": {"type": "not_found_error", "param": None, "code": None}}),
        ({"anthropic_version": "2023-06-01"}, "/v1/odd", {"type": "error", "error": {"type": "not_found_error"}}),
        ({}, "/v1beta/odd", {"error": {"code": 404, "status": "NOT_FOUND"}}),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_unknown_paths_are_refused_in_the_providers_form(provider, method, headers, path, words):
    """A client reads the error as it would read the provider's."""
    status, body = send(provider.url, method, path, **headers)
    assert status == 404
    assert body["error"].pop("message") == f"there is nothing at {method} {path}"
    assert body == words


def test_a_websocket_is_refused_with_426(provider):
    """A client that tries a WebSocket first falls back at once."""
    status, body = send(provider.url, "GET", "/v1/responses", upgrade="websocket", connection="Upgrade")
    assert (status, "POST" in body["error"]["message"]) == (426, True)


def test_a_head_request_finds_the_provider(provider):
    """A client that looks whether somebody is there finds somebody, and nothing elsewhere."""
    assert send(provider.url, "HEAD", "/") == (200, None)
    assert send(provider.url, "HEAD", "/v1/odd") == (404, None)


def test_queries_are_no_part_of_a_path(provider):
    """`?beta=true` and `?alt=sse` change nothing but the recorded path."""
    provider.script(Turn("One."))
    assert send(provider.url, "POST", "/v1/chat/completions?beta=true", CHAT)[0] == 200
    assert provider.last.path == "/v1/chat/completions?beta=true"


@pytest.mark.parametrize("raw", [b"{", b"[]", b"{}", b'{"model": "gpt-5"}', b"\xff"])
@pytest.mark.parametrize(
    "path", ["/v1/messages", "/v1/responses", "/v1/chat/completions", "/v1beta/models/m:generateContent"]
)
def test_a_body_that_is_no_request_is_refused(provider, path, raw):
    """Whatever comes, the answer is a 400 and the provider lives on."""
    assert send(provider.url, "POST", path, raw)[0] == 400


def test_packed_and_chunked_bodies_are_read(provider):
    """A client may compress its request and send it piece by piece."""
    provider.script(Turn("One."), Turn("Two."))
    assert send(provider.url, "POST", "/v1/chat/completions", gzip.compress(CHAT), content_encoding="gzip")[0] == 200
    with connection(provider.url) as line:
        line.request("POST", "/v1/chat/completions", iter([CHAT[:9], CHAT[9:]]), encode_chunked=True)
        assert line.getresponse().status == 200
    assert [request.raw for request in provider.requests] == [CHAT, CHAT]


def test_a_connection_is_kept(provider):
    """Requests, streams and errors share one connection, in order."""
    provider.script(Turn("One."), Refusal(429, "slow down"), Turn("Two."))
    with connection(provider.url) as line:
        line.connect()
        held = line.sock
        statuses = []
        for body in (CHAT, CHAT, CHAT[:-1] + b', "stream": true}'):
            line.request("POST", "/v1/chat/completions", body)
            reply = line.getresponse()
            reply.read()
            statuses.append(reply.status)
        assert (statuses, line.sock is held) == ([200, 429, 200], True)


def test_words_that_are_no_http_end_the_connection(provider):
    """A stray client is dropped and nobody else notices."""
    host, port = provider.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as stray:
        stray.sendall(b"hello\r\n\r\n")
        assert stray.recv(100) == b""
    assert send(provider.url, "HEAD", "/") == (200, None)


def test_idle_connections_do_not_hold_a_stop_up():
    """A client that stays connected is hung up on."""
    provider = ScriptedProvider()
    provider.start()
    with connection(provider.url) as line:
        line.request("HEAD", "/")
        line.getresponse().read()
        provider.stop()
        assert line.sock is not None
        assert line.sock.recv(1) == b""


def test_a_few_requests_may_be_kept(monkeypatch):
    """A long run need not remember every body."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ScriptedProvider(keep=2) as provider:
        provider.script(*[Turn("One.")] * 5)
        for _ in range(5):
            send(provider.url, "POST", "/v1/chat/completions", CHAT)
        assert (len(provider.requests), provider.bill.calls) == (2, 5)


def test_a_recorder_keeps_requests_and_answers_without_keys(tmp_path, monkeypatch):
    """One file each, with headers; keys in headers and addresses are hidden; a second run goes on counting."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for _ in range(2):
        with ScriptedProvider(record=tmp_path / "rec") as provider:
            provider.script(Turn("One."), Refusal(529, "Overloaded"))
            agent = ChatAgent(provider.url, [])
            agent.say(ASKED)
            assert agent.ask(stream=True).text == "One."
            agent.close()
            path = "/v1beta/models/m:generateContent?key=secret&alt=sse"
            asked = json.dumps({"contents": [{"role": "user", "parts": [{"text": "Hi."}]}]}).encode()
            headers = {"x_api_key": "secret", "x_goog_api_key": "secret", "authorization": "Bearer secret"}
            assert send(provider.url, "POST", path, asked, **headers)[0] == 529
    names = [f"{i:05d}-{kind}.json" for i in range(1, 5) for kind in ("request", "response")]
    files = sorted((tmp_path / "rec").iterdir())
    assert [file.name for file in files] == names
    held = [json.loads(file.read_text()) for file in files]
    assert held[0]["body"]["messages"] == [{"role": "user", "content": ASKED}]
    assert (held[0]["headers"]["authorization"], held[1]["status"]) == ("(hidden)", 200)
    assert held[1]["headers"]["content-type"] == "text/event-stream"
    assert held[1]["body"].startswith("data: {")
    assert held[1]["body"].endswith("data: [DONE]\n\n")
    assert held[2]["target"] == "/v1beta/models/m:generateContent?key=(hidden)&alt=sse"
    assert (held[3]["status"], held[3]["body"]["error"]["message"]) == (529, "Overloaded")
    text = "".join(file.read_text() for file in files)
    assert [word for word in ("secret", "a key") if word in text] == []


@contextmanager
def served(*words: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A provider in another process."""
    line = [sys.executable, "-m", "foveal.testing.provider", *words]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout
        try:
            yield running.stdout.readline().strip(), running
        finally:
            running.terminate()


SCRIPT = """
side = "A title"
[[step]]
say = "I look."
do = [{read = "a.py"}]
faults = [{status = 429, message = "slow down"}]
[[step]]
say = "Done."
"""


def test_a_provider_serves_in_a_process_of_its_own(tmp_path, monkeypatch):
    """It prints its address, plays a script, refuses, records, tells its bill, and ends at SIGTERM."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "s.toml").write_text(SCRIPT)
    options = (
        "--script",
        str(tmp_path / "s.toml"),
        "--record",
        str(tmp_path / "rec"),
        "--window",
        "900",
        "--factor",
        "1.8",
    )
    with served("--port", "0", *options, "--cwd", "/w") as (url, running):
        agent = MessagesAgent(url, PI)
        agent.say(ASKED)
        with pytest.raises(Exception, match="slow down"):
            agent.ask()
        heard = agent.ask()
        assert (heard.text, heard.calls[0][1:]) == ("I look.", ("read", {"path": "/w/a.py"}))
        agent.tell([(heard.calls[0][0], "read", "text")])
        assert agent.ask(stream=True).text == "Done."
        agent.say("word " * 600)
        with pytest.raises(Exception, match=r"prompt is too long: \d+ tokens > 900 maximum"):
            agent.ask()
        agent.close()
        status, state = send(url, "GET", "/scripted")
        assert (status, state["bill"]["calls"], len(state["conversations"]), state["refused"]) == (200, 2, 1, [])
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0
        assert running.stderr
        assert running.stderr.read() == ""
    assert len(list((tmp_path / "rec").iterdir())) == 10


def test_a_provider_without_a_script_improvises(monkeypatch):
    """A server of its own answers anybody, and takes what breaks a rule where it is told to."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    orphan = json.dumps({"model": "gpt-5", "messages": [{"role": "tool", "tool_call_id": "c9", "content": "text"}]})
    for words, expected in ((("--port", "0"), 400), (("--lenient",), 200)):
        with served(*words) as (url, _):
            assert send(url, "POST", "/v1/chat/completions", CHAT)[0] == 200
            assert send(url, "POST", "/v1/chat/completions", orphan.encode())[0] == expected


SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
SAID = [{"role": "user", "content": "Look."}]
FORBIDDING: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {
        "messages": SAID,
        "tools": [{"type": "function", "function": {"name": "read_file", "parameters": SCHEMA}}],
        "tool_choice": "none",
    },
    "/v1/responses": {
        "input": SAID,
        "tools": [{"type": "function", "name": "read_file", "parameters": SCHEMA}],
        "tool_choice": "none",
    },
    "/v1/messages": {
        "max_tokens": 9,
        "messages": SAID,
        "tools": [{"name": "read_file", "input_schema": SCHEMA}],
        "tool_choice": {"type": "none"},
    },
    "/v1beta/models/gemini-2.5-pro:generateContent": {
        "contents": [{"role": "user", "parts": [{"text": "Look."}]}],
        "tools": [{"functionDeclarations": [{"name": "read_file", "parameters": SCHEMA}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "NONE"}},
    },
}
"""For the path of each format, a request that offers a tool and forbids to call it."""


@pytest.mark.parametrize("path", FORBIDDING)
@pytest.mark.parametrize("step", [Step("Words.", do=(Read("a.py"),)), Step(do=(Read("a.py"),)), None])
def test_no_tool_is_called_where_the_request_forbids_it(provider, path, step):
    """A step of a script is its words alone, or a side answer if it has none; an improvised answer is words, too."""
    if step:
        provider.play(step, side="Words.")
    else:
        provider.improvise = improvise
    body = {"model": "gpt-5", **FORBIDDING[path]}
    status, reply = send(provider.url, "POST", path, json.dumps(body).encode())
    told = json.dumps({name: reply[name] for name in ("choices", "output", "content", "candidates") if name in reply})
    assert (status, "read_file" in told) == (200, False)
    assert ("Words." if step else "nobody thought about it") in told


def test_a_bad_script_ends_the_server_with_its_reason(tmp_path):
    """Exit code 2 and one line."""
    (tmp_path / "s.toml").write_text("[[step]]\nsays = 1")
    with served("--script", str(tmp_path / "s.toml")) as (url, running):
        assert url == ""
        assert running.wait(30) == 2
        assert running.stderr
        assert "has 'says'" in running.stderr.read()


def test_two_hundred_conversations_at_once(provider):
    """As many connections stay open and every conversation gets its own steps."""
    provider.play(*[Step(f"Step {i}.", do=(Read("a.py"),)) for i in range(3)])
    with closing(ChatAgent(provider.url, PI)) as agent:
        tools = agent.tools
    lines = [http.client.HTTPConnection(provider.url.removeprefix("http://"), timeout=60) for _ in range(200)]
    for turn in range(3):
        for number, line in enumerate(lines):
            messages = [{"role": "user", "content": f"Task {number}, turn {turn}."}]
            body = {"model": "gpt-5", "messages": messages, "tools": tools, "stream": turn == 1}
            line.request("POST", "/v1/chat/completions", json.dumps(body), {"x-session-id": f"s{number}"})
        replies = [line.getresponse().read().decode() for line in lines]
        if turn != 1:
            assert {json.loads(one)["choices"][0]["message"]["content"] for one in replies} == {f"Step {turn}."}
    for line in lines:
        line.close()
    assert {key: bill.calls for key, bill in provider.bills.items()} == {f"s{number}": 3 for number in range(200)}
