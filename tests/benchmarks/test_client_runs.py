"""`benchmarks/clients.py`: the measures and the verdict on runs of real clients, without any of them."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("uvicorn", reason="the gateway is not installed")
pytest.importorskip("httpx2", reason="the gateway is not installed")

import httpx2

from client_runs import tasks
from client_runs.exchanges import ClientExchange, recorded, tapped
from client_runs.install import VERSIONS
from client_runs.launch import FACTORS, PROVIDERS, environment, words
from client_runs.page import page
from client_runs.plain_relay import PlainRelay
from client_runs.run import TAP, ClientRun
from client_runs.verdict import complaints
from foveal.gateway.clients import CLIENTS
from foveal.testing.provider import Call, ScriptedProvider, Turn

RUN = ClientRun(
    client="pi",
    version="1",
    task="15 calls",
    budget=None,
    is_finished=True,
    exit_codes=(0,),
    seconds=1.0,
    calls=16,
    errors=(),
    hidden=0,
    visible=0,
    refused=(),
    upgrades=0,
    tokens=1_000,
    bill=500.0,
    first_fold=None,
    fold_tokens=None,
    cpu_ms=None,
    said="",
)
GATEWAY = msgspec.structs.replace(
    RUN, budget=16_000, tokens=400, bill=250.0, first_fold=4, fold_tokens=15_000, cpu_ms=3.0
)


def _body(*results: str) -> bytes:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
    for i, text in enumerate(results):
        messages.append(
            {"role": "assistant", "content": [{"type": "tool_use", "id": f"c{i}", "name": "r", "input": {}}]}
        )
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": f"c{i}", "content": text}]})
    return json.dumps({"model": "claude-opus-4-5", "messages": messages}).encode()


def _exchange(asked: bytes, *sent: bytes, told: bytes = b"{}", status: int = 200) -> ClientExchange:
    return ClientExchange("/v1/messages", status, asked, sent or (asked,), told)


def test_a_hidden_newest_result_is_seen() -> None:
    """A result that is cut is not hidden; one of which no line is left is, and so is one that is missing."""
    old, new = "an old line of text", "the first line of it\nthe second line of it"
    asked = _body(old, new)
    assert not _exchange(asked).hides_newest
    assert not _exchange(asked, _body("[folded]", "[cut]\nthe second line of it")).hides_newest
    assert _exchange(asked, _body(old, "[folded; ref abc]")).hides_newest
    assert _exchange(asked, _body(old)).hides_newest


def test_a_tool_of_the_gateways_is_seen() -> None:
    """Whether the client is told of it, or tells of it."""
    assert not _exchange(_body("text")).shows_own_tools
    assert _exchange(_body("text"), told=b'{"name": "recall_context"}').shows_own_tools
    assert _exchange(_body("recall_context: no such tool")).shows_own_tools


@pytest.mark.parametrize(
    ("exchange", "error"),
    [
        (_exchange(b"{}"), ""),
        (_exchange(b"{}", status=529), "529"),
        (_exchange(b"{}", status=0), "lost"),
        (_exchange(b"{}", told=b"event: message_start\ndata: {}\n\n"), "cut"),
        (_exchange(b"{}", told=b"event: message_start\ndata: {}\n\nevent: message_stop\ndata: {}\n\n"), ""),
        (_exchange(b"{}", told=b"event: error\ndata: {}\n\n"), "error event"),
        (_exchange(b"", status=426)._replace(is_upgrade=True), ""),
    ],
)
def test_errors_that_a_client_sees(exchange: ClientExchange, error: str) -> None:
    """Statuses, streams that end too early or with an error; a WebSocket that is told to use POST is none."""
    assert exchange.error == error


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"is_finished": False, "exit_codes": (1,)}, "did not finish"),
        ({"hidden": 2}, "hidden in 2 calls"),
        ({"visible": 1}, "visible in 1 calls"),
        ({"refused": ("a rule",)}, "1 requests broke a rule of the provider: a rule"),
        ({"errors": ("500",)}, "errors that it does not see directly: 500"),
        ({"upgrades": 2}, "tried a WebSocket 2 times"),
    ],
)
def test_each_thing_that_is_worse_is_told(change: dict[str, Any], words: str) -> None:
    """One line for each, with client, task and budget; the page has it too."""
    worse = msgspec.structs.replace(GATEWAY, **change)
    (line,) = complaints([RUN, worse])
    assert line.startswith("pi, 15 calls, 16,000: ")
    assert words in line
    assert line in page([RUN, worse], {"pi": "1"})


def test_a_run_that_fails_directly_too_is_no_complaint() -> None:
    """Everything that works directly must work: what a client cannot do by itself is not asked of the gateway."""
    direct = msgspec.structs.replace(RUN, is_finished=False, errors=("400",))
    assert complaints([direct, msgspec.structs.replace(GATEWAY, is_finished=False, errors=("400",))]) == []
    assert len(complaints([GATEWAY])) == 1


def test_the_page_has_a_row_for_each_run() -> None:
    """Figures of a gateway are relative to the direct run; faults have a table of outcomes."""
    fault = [msgspec.structs.replace(one, task="529", errors=("529",)) for one in (RUN, GATEWAY)]
    text = page([RUN, GATEWAY, *fault], {"pi": "1"})
    assert "**Everything that works directly works through the gateway.**" in text
    assert "| pi | direct | yes | 16 | 0 | – | – | 1,000 | 500 | – | – |" in text
    assert "| pi | 16,000 | yes | 16 | 0 | 0 | 0 | 0.40 | 0.50 | call 4, 15,000 | 3 |" in text
    assert "| 529 | finishes (529) → finishes (529) |" in text


def test_every_client_of_wrap_is_run(tmp_path: Path) -> None:
    """With a pinned version, a provider, a way to be started, and to go on with a session."""
    assert VERSIONS.keys() == CLIENTS.keys() == FACTORS.keys() == PROVIDERS.keys()
    for name in CLIENTS:
        made = environment(name, tmp_path, tmp_path / name, "http://127.0.0.1:1")
        told = "".join(path.read_text() for path in (tmp_path / name).rglob("*") if path.is_file())
        assert "http://127.0.0.1:1" in told + "".join(made.values())
        assert words(name, "Go.")[-1] == "Go." or "Go." in words(name, "Go.")
        assert words(name, "Go.") != words(name, "Go.", resumed=True)


def test_the_repository_of_the_tasks_has_its_fault(tmp_path: Path) -> None:
    """Its tests fail before the edit of the task and pass after it."""
    tasks.make_workspace(tmp_path / "work")
    test = [sys.executable, "tests/run.py"]
    assert subprocess.run(test, cwd=tmp_path / "work", capture_output=True, check=False).returncode == 1
    assert not tasks.is_mended(tmp_path / "work")
    (edit,) = (do for step in tasks.TASKS["15 calls"].steps for do in step.do if isinstance(do, tasks.Edit))
    file = tmp_path / "work" / edit.path
    file.write_text(file.read_text().replace(edit.old, edit.new))
    assert tasks.is_mended(tmp_path / "work")
    assert subprocess.run(test, cwd=tmp_path / "work", capture_output=True, check=False).returncode == 0


def test_a_tap_keeps_both_sides_of_an_exchange(tmp_path: Path) -> None:
    """The command line with a tap: bodies as asked and as sent, the answer, and processor time; the recorder tells the same."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with ScriptedProvider(record=tmp_path / "record") as provider:
        provider.script(Turn("", (Call("c1"),)), Turn("Well."))
        command = [sys.executable, str(TAP), "serve", "--port", str(port), "--store", str(tmp_path / "s.db")]
        command += ["--budget", "9000", "--upstream", f"anthropic={provider.url}"]
        made = {**os.environ, "FOVEAL_TAP": str(tmp_path / "tap"), "NO_PROXY": "127.0.0.1"}
        with subprocess.Popen(command, env=made, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout
            while "figures" not in process.stdout.readline():
                pass
            transport = httpx2.HTTPTransport(retries=8)  # it says its address a moment before it listens
            with httpx2.Client(transport=transport, timeout=30) as client:
                for _ in range(2):
                    client.post(f"http://127.0.0.1:{port}/v1/messages", content=_body("a"), headers={"x-api-key": "k"})
            process.terminate()

    seen = tapped(tmp_path / "tap")
    assert [(one.status, one.error, one.asked, one.sent) for one in seen] == [(200, "", _body("a"), [_body("a")])] * 2
    assert b"Well." in seen[1].told
    assert 0 < seen[0].cpu[0] <= seen[0].cpu[1] <= seen[1].cpu[1]
    assert [(one.status, json.loads(one.asked)) for one in recorded(tmp_path / "record")] == [
        (200, json.loads(_body("a")))
    ] * 2


def test_a_plain_relay_passes_bytes_on_until_it_is_killed() -> None:
    """The same bytes in both directions; a kill breaks the connection, and the port can be listened on again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def echo() -> None:
            for _ in range(2):
                sock, _address = listener.accept()
                with sock:
                    sock.sendall(sock.recv(100).upper())
                    sock.recv(100)

        threading.Thread(target=echo, daemon=True).start()
        target = f"http://127.0.0.1:{listener.getsockname()[1]}"
        relay = PlainRelay(target)
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", relay.port)) as client:
                client.sendall(b"hello")
                assert client.recv(100) == b"HELLO"
                relay.kill()
                assert client.recv(100) == b""
            relay = PlainRelay(target, relay.port)
        relay.kill()
