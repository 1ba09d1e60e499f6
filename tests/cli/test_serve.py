"""`foveal serve`: a gateway in the foreground."""

import json
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager

import anthropic
import httpx2
import pytest

from foveal.stores import open_store
from foveal.testing.provider import ScriptedProvider, Turn


@contextmanager
def _serving(*words):
    command = [sys.executable, "-m", "foveal", "serve", "--port", "0", *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield process, process.stdout.readline().split()[2].rstrip(",")
        finally:
            process.kill()


def _asked(address, **options):
    """Ask a model through the gateway; the SDK tries again until the gateway listens."""
    with anthropic.Anthropic(base_url=address, api_key="any", max_retries=8, **options) as client:
        reply = client.messages.create(
            model="claude-opus-4-8", max_tokens=100, messages=[{"role": "user", "content": "Hello."}]
        )
    return json.loads(reply.to_json())["content"][0]["text"]


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_a_gateway_serves_until_it_is_told_to_end(end, tmp_path):
    """The address works, the session is kept, and the end is clean."""
    store = tmp_path / "kept.db"
    with ScriptedProvider() as provider:
        provider.script(Turn("Hello yourself."))
        with _serving("--store", store, "--upstream", f"anthropic={provider.url}") as (process, address):
            assert _asked(address) == "Hello yourself."
            process.send_signal(end)
            process.wait(timeout=60)
            assert process.stdout
            assert process.stderr
            out, err = process.stdout.read(), process.stderr.read()  # `communicate` would lose lines read ahead
    assert (process.returncode, err) == (0, "")
    assert f"ANTHROPIC_BASE_URL={address}\n" in out
    assert f"OPENAI_BASE_URL={address}/v1\n" in out
    with open_store(store) as kept:
        assert len(kept.cards()) == 1


def test_a_token_is_demanded(tmp_path):
    """With --token a request without it is refused, and one with it is served."""
    with ScriptedProvider() as provider:
        provider.script(Turn("Hello."))
        words = ("--store", tmp_path / "kept.db", "--upstream", f"anthropic={provider.url}", "--token", "secret")
        with _serving(*words) as (_, address):
            assert _asked(address, default_headers={"x-foveal-token": "secret"}) == "Hello."
            with pytest.raises(anthropic.AuthenticationError, match="x-foveal-token"):
                _asked(address)
        assert len(provider.requests) == 1


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "gateway.example"])  # noqa: S104
def test_other_machines_need_a_token(run, monkeypatch, tmp_path, host):
    """Any host but loopback is refused without one, before anything is opened."""
    monkeypatch.delenv("FOVEAL_GATEWAY_TOKEN", raising=False)
    done = run("serve", "--host", host, "--store", tmp_path / "kept.db")
    assert (done.code, done.out) == (2, "")
    assert done.err == f"foveal: {host} needs a token: --token TOKEN or $FOVEAL_GATEWAY_TOKEN\n"
    assert list(tmp_path.iterdir()) == []


def test_a_home_that_cannot_be_written_is_told(run, monkeypatch, tmp_path):
    """Where the folder of the default store cannot be made, the error names the store and the option."""
    (tmp_path / "home").write_text("no folder")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("FOVEAL_STORE", raising=False)
    done = run("serve", "--port", "0")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("foveal: the store ~/.foveal/gateway.db cannot be made (")
    assert done.err.endswith("; name one with --store\n")


def test_a_port_in_use_is_told(run, tmp_path):
    """The error names the port and the option."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--port", port, "--store", tmp_path / "kept.db")
    assert (done.code, done.out) == (2, "")
    assert f"cannot listen on 127.0.0.1 port {port}" in done.err
    assert "--port N" in done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--upstream", "claude=http://a"), "names no provider; write anthropic=URL, openai=URL, gemini=URL"),
        (("--upstream", "openai=localhost:80"), "has no web address; write openai=https://api.openai.com"),
        (("--port", "70000"), "is not a port from 0 to 65535"),
    ],
)
def test_options_that_make_no_sense_are_told(run, words, told):
    """Each with the form that would."""
    done = run("serve", *words)
    assert (done.code, done.out) == (2, "")
    assert told in done.err


@pytest.mark.parametrize("words", [("serve",), ("wrap", "claude")])
def test_a_missing_extra_is_named(run, monkeypatch, words):
    """Without the packages of the gateway, the command says how to install them."""
    monkeypatch.setattr("foveal.cli.gateway_options.find_spec", lambda name: None)
    done = run(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("Install it in the checkout of Foveal: pip install '.[gateway]'\n")


@pytest.mark.parametrize("words", [["--help"], ["serve", "--help"], ["wrap", "--help"]])
def test_help_loads_no_package_of_the_gateway(words):
    """Help works without the extra, and as quickly."""
    code = (
        f"import sys\nfrom foveal.cli import main\nmain({words!r})\n"
        "sys.stderr.write(str([name for name in ('starlette', 'uvicorn', 'httpx2') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]"


def test_agents_are_offered(tmp_path, run):
    """`--agent` names files, read before anything is opened; callers of the HTTP API can start them and are told where."""
    (tmp_path / "mender.toml").write_text('model = "gpt-5"\n')
    with _serving("--store", tmp_path / "kept.db", "--agent", tmp_path / "mender.toml") as (process, address):
        offered = httpx2.get(f"{address}/foveal/v1/agents").json()["agents"]
        process.kill()
        assert process.stdout
        told = process.stdout.read()
    assert [one["name"] for one in offered] == ["mender"]
    assert f"  runs of mender:             {address}/foveal/v1/runs\n" in told
    done = run("serve", "--store", tmp_path / "other.db", "--agent", tmp_path / "mendr.toml")
    assert (done.code, (tmp_path / "other.db").exists()) == (2, False)
    assert "mendr.toml: cannot be read" in done.err


def test_no_more_conversations_than_named_are_kept_open(tmp_path):
    """The others are given back, and go on with their next call."""
    store = tmp_path / "g.db"
    with ScriptedProvider(improvise=lambda _: Turn("Hi.")) as provider:
        words = ("--upstream", f"anthropic={provider.url}", "--store", store, "--most-open", "1")
        with _serving(*words) as (_, address):
            for name in ("a", "b", "a"):
                assert _asked(address, default_headers={"x-session-id": name}) == "Hi."
            with open_store(store) as seen:
                end = time.monotonic() + 20
                while sum(card.holder is not None for card in seen.cards()) > 1 and time.monotonic() < end:
                    time.sleep(0.02)  # a session is given back after its reply, not before
                assert [card.holder is not None for card in seen.cards()] == [True, False]
