"""`foveal wrap`: a client runs with a gateway of its own, as it would run without it."""

import json
import re
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from foveal.cli import main
from foveal.cli.parser import parse
from foveal.gateway.clients import CLIENTS, ClientUser, client_environment, find_detour
from foveal.testing.provider import ScriptedProvider, Turn
from foveal.values.errors import BadInput

CLIENT = """#!{python}
import json, os, sys
import anthropic
messages = []
with anthropic.Anthropic() as client:
    for number in range(int(os.environ.get("CALLS", "1"))):
        messages.append({{"role": "user", "content": f"Say {{number}}. " + "many words " * int(os.environ.get("WORDS", "1"))}})
        reply = client.messages.create(model="claude-opus-4-8", max_tokens=100, messages=messages)
        messages.append({{"role": "assistant", "content": reply.content[0].text}})
print(json.dumps([reply.content[0].text, sys.argv[1:], os.environ["ANTHROPIC_BASE_URL"]]))
sys.exit(int(os.environ.get("CODE", "0")))
"""
LIGHT = """#!{python}
import json, os, sys
from urllib.request import Request, urlopen
messages, given = [], os.environ
headers = {{"content-type": "application/json", "x-api-key": given["ANTHROPIC_API_KEY"], "anthropic-version": "2023-06-01"}}
for number in range(int(given.get("CALLS", "1"))):
    messages.append({{"role": "user", "content": f"Say {{number}}. " + "many words " * int(given.get("WORDS", "1"))}})
    body = json.dumps({{"model": "claude-opus-4-8", "max_tokens": 100, "messages": messages}}).encode()
    with urlopen(Request(given["ANTHROPIC_BASE_URL"] + "/v1/messages", body, headers)) as answer:
        said = json.load(answer)["content"][0]["text"]
    messages.append({{"role": "assistant", "content": said}})
print(json.dumps([said, sys.argv[1:], given["ANTHROPIC_BASE_URL"]]))
sys.exit(int(given.get("CODE", "0")))
"""
"""The same client without its SDK, which takes a second to import: what it is told and what is kept do not depend on it."""
GATEWAY = "http://127.0.0.1:5000"


@pytest.fixture
def provider(monkeypatch):
    """A provider that the user's environment names."""
    with ScriptedProvider(improvise=lambda request: Turn("Said.")) as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a program as a client."""

    def write(text, name="claude"):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.format(python=sys.executable))
        path.chmod(0o755)
        monkeypatch.setenv("PATH", str(path.parent))

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("FOVEAL_STORE", raising=False)
    return write


@pytest.fixture
def wrap(capfd):
    """Run the command as a process of its own would: the client writes to the same streams."""

    def run(*words):
        code = main(["wrap", *map(str, words)])
        out, err = capfd.readouterr()
        return code, out, err

    return run


def test_a_client_runs_through_a_gateway_to_its_own_upstream(provider, install, wrap, tmp_path, monkeypatch):
    """Its words, its exit code and its provider are those that it has without Foveal; one line tells the figures."""
    install(CLIENT)
    store = tmp_path / "kept.db"
    monkeypatch.setenv("CODE", "7")
    code, out, err = wrap("claude", "--store", store, "--", "-p", "hello there", "--", "--store")
    said, arguments, address = json.loads(out)
    assert (code, said, arguments) == (7, "Said.", ["-p", "hello there", "--", "--store"])
    assert address.startswith("http://127.0.0.1:")
    assert address != provider.url
    assert len(provider.requests) == 1
    keys = [provider.last.headers.get(name, "") for name in ("x-api-key", "authorization")]
    assert any(key.endswith("scripted") for key in keys)
    assert err.count("\n") == 1
    assert err.startswith("foveal: 1 call: claude asked for ")
    assert f"--store {store}" in err


def test_the_last_line_opens_the_session(provider, install, wrap, tmp_path):
    """The command in it can be copied, and shows the prompts of the session."""
    install(LIGHT)
    _, _, err = wrap("claude", "--store", tmp_path / "kept.db")
    words = err.split("see ")[1].split()
    page = tmp_path / "page.html"
    assert main([*words[words.index("view") :], "--html", str(page)]) == 0
    assert "<!doctype html>" in page.read_text(encoding="utf-8")[:100].lower()


def test_a_budget_is_kept_and_watching_changes_nothing(provider, install, wrap, tmp_path, monkeypatch):
    """With a budget less is sent than asked for; with --watch all is sent, and a saving is told."""
    install(LIGHT)
    monkeypatch.setenv("CALLS", "6")
    monkeypatch.setenv("WORDS", "1500")
    _, _, err = wrap("claude", "--budget", 6000, "--store", tmp_path / "kept.db")
    asked, sent = _figures(err)
    assert sent < asked
    assert re.search(r", (saved about \$0\.\d\d of|cost about \$0\.\d\d more than) \$0\.\d\d;", err), err
    assert max(len(request.raw) for request in provider.requests) < 50_000
    provider.begin()
    _, _, err = wrap("claude", "--budget", 6000, "--watch", "--store", tmp_path / "watched.db")
    watched, planned = _figures(err)
    assert watched == pytest.approx(asked, rel=0.01)
    assert planned < watched
    assert re.search(r"would have been sent for about \$0\.\d\d (less|more) than \$0\.\d\d;", err), err
    assert [len(request.body["messages"]) for request in provider.requests] == [1, 3, 5, 7, 9, 11]
    assert all("recall_context" not in str(request.body.get("tools")) for request in provider.requests)


def _figures(line):
    numbers = [word.strip("(),;") for word in line.split() if word.strip("(),;").replace(",", "").isdigit()]
    found = [int(number.replace(",", "")) for number in numbers if "," in number]
    return found[0], found[1]


def test_a_call_that_was_passed_on_has_its_reason_in_the_line(provider, install, wrap, tmp_path):
    """The user is told what kept the gateway from its work, and the client did not notice."""
    install(LIGHT)
    code, out, err = wrap("claude", "--budget", 20, "--store", tmp_path / "kept.db")
    assert (code, json.loads(out)[0]) == (0, "Said.")
    assert err.startswith("foveal: no call of claude was managed; 1 call passed on as it came: ")
    assert "limit" in err


def test_the_store_is_in_the_home_and_its_owner_s_alone(provider, install, wrap, tmp_path):
    """Without --store, sessions are in a folder that nobody else can look into."""
    install(LIGHT)
    code, _, err = wrap("claude")
    folder = tmp_path / ".foveal"
    assert code == 0
    assert f"--store {folder}/gateway.db" in err
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("name", CLIENTS)
def test_a_client_that_is_not_installed_is_named_with_its_package(wrap, monkeypatch, tmp_path, name):
    """The error has the command that installs it, and nothing has been started or written."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    package = CLIENTS[name].package
    assert wrap(name) == (2, "", f"foveal: {name} is not on the PATH; install it with: npm install -g {package}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_client_that_asks_for_nothing_is_told(install, wrap, monkeypatch):
    """A gateway that nobody used says so: the client may be set up for another address."""
    install("#!{python}\n")
    code, _, err = wrap("claude")
    assert code == 0
    assert err == "foveal: no call of claude was managed; it may be set up for another address or provider\n"


def test_a_check_says_what_is_found_and_sends_nothing(provider, install, wrap, tmp_path, monkeypatch):
    """Client, upstream, key and store; no key is shown, and no model is asked."""
    install(LIGHT)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    code, out, err = wrap("claude", "--check", "--store", tmp_path / "kept.db")
    assert (code, err) == (0, "")
    for words in (str(tmp_path / "bin" / "claude"), f"anthropic at {provider.url} answers", "$ANTHROPIC_API_KEY"):
        assert words in out
    assert "--check send" in out
    assert "sk-secret" not in out
    assert "!!" not in out
    assert provider.requests == []


def test_a_check_sends_one_through(provider, install, wrap, tmp_path):
    """With the client itself and its own key or login: what the gateway saw of it is told."""
    install(LIGHT)
    code, out, _ = wrap("claude", "--check", "send", "--store", tmp_path / "kept.db")
    assert code == 0
    assert "1 call managed" in out
    assert len(provider.requests) == 1


def test_a_check_names_what_is_wrong(install, wrap, tmp_path, monkeypatch):
    """An upstream that does not answer, a key that is missing, a client that goes another way: each with what to do."""
    install("#!{python}\nimport sys\nprint('no quota', file=sys.stderr)\nsys.exit(3)\n", "gemini")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", "http://user:pass@127.0.0.1:9")
    monkeypatch.delenv("GEMINI_API_KEY", raising=False)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    code, out, _ = wrap("gemini", "--check", "send", "--store", tmp_path / "kept.db")
    assert code == 1
    told = [" ".join(line.split()) for line in out.splitlines() if line.startswith("!!")]
    assert [line.split()[1] for line in told] == ["upstream:", "key:", "request:", "gemini:"]
    assert "http://127.0.0.1:9" in told[0]
    assert "pass" not in told[0]
    assert "$GEMINI_API_KEY" in told[1]
    assert "exit code 3: no quota" in told[3]


def test_a_signal_is_passed_on_and_its_exit_code_is_a_shell_s(install, tmp_path):
    """SIGTERM ends the client, and the command after it, with 128 and the signal's number."""
    install("#!{python}\nimport signal, sys\nprint('up', flush=True)\nsignal.pause()\n")
    command = [sys.executable, "-m", "foveal", "wrap", "claude", "--store", str(tmp_path / "kept.db")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.startswith("foveal: no call of claude")


def test_the_words_of_the_client_are_not_read():
    """Only what comes before `--` is ours, wherever options are."""
    args = parse(["wrap", "codex", "--budget", "6000", "--", "--budget", "x", "--help"])
    assert (args.client, args.budget, args.others) == ("codex", 6000, ["--budget", "x", "--help"])
    assert parse(["wrap", "--watch", "pi"]).others == []


def _user(tmp_path, **environment):
    return ClientUser(environment, tmp_path, tmp_path)


def _launch(name, user, folder):
    detour = find_detour(CLIENTS[name], user)
    return detour.upstreams, CLIENTS[name].launch(user, detour.by(GATEWAY), folder)


@pytest.mark.parametrize(
    ("name", "variable", "own"),
    [
        ("claude", "ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
        ("gemini", "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"),
    ],
)
def test_clients_with_a_variable_get_it(tmp_path, name, variable, own):
    """Claude Code and Gemini CLI are led by one variable; an address in it before becomes the upstream of everything."""
    upstreams, launch = _launch(name, _user(tmp_path), tmp_path)
    assert (set(upstreams.values()), launch.arguments, launch.environment) == ({own}, (), {variable: GATEWAY})
    upstreams, launch = _launch(name, _user(tmp_path, **{variable: "https://llm.example/team/"}), tmp_path)
    assert set(upstreams.values()) == {"https://llm.example"}
    assert launch.environment == {variable: f"{GATEWAY}/team"}


def test_codex_gets_an_override(tmp_path):
    """Codex is led by one -c; a login with ChatGPT, and a provider of the user's own, keep their addresses behind it."""
    home = tmp_path / ".codex"
    home.mkdir()
    upstreams, launch = _launch("codex", _user(tmp_path), tmp_path)
    assert set(upstreams.values()) == {"https://api.openai.com"}
    assert launch == (("-c", f'openai_base_url="{GATEWAY}/v1"'), {})
    (home / "auth.json").write_text('{"OPENAI_API_KEY": null, "tokens": {"id": "secret"}}')
    upstreams, launch = _launch("codex", _user(tmp_path), tmp_path)
    assert upstreams["openai"] == "https://chatgpt.com"
    assert launch.arguments[1] == f'openai_base_url="{GATEWAY}/backend-api/codex"'
    (home / "config.toml").write_text(
        'model_provider = "mine"\n[model_providers.mine]\nbase_url = "https://a.example/v2"\n'
    )
    upstreams, launch = _launch("codex", _user(tmp_path), tmp_path)
    assert upstreams["openai"] == "https://a.example"
    assert launch.arguments == ("-c", f'model_providers.mine.base_url="{GATEWAY}/v2"')


def test_codex_without_an_address_to_forward_to_is_refused(tmp_path):
    """A provider without an address is told, with the place to mend."""
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text('model_provider = "mine"\n')
    with pytest.raises(BadInput, match=r"add one under \[model_providers.mine\]"):
        find_detour(CLIENTS["codex"], _user(tmp_path))


def test_pi_gets_an_extension(tmp_path):
    """pi is led by an extension in a temporary folder; addresses of its models.json become upstreams, and it stays as it is."""
    agent, folder = tmp_path / "agent", tmp_path / "temporary"
    agent.mkdir()
    folder.mkdir()
    models = '{"providers": {"anthropic": {"baseUrl": "https://a.example/x"}, "mine": {"baseUrl": "http://b.example"}}}'
    (agent / "models.json").write_text(models)
    upstreams, launch = _launch("pi", _user(tmp_path, PI_CODING_AGENT_DIR=str(agent)), folder)
    assert upstreams == {
        "anthropic": "https://a.example",
        "openai": "https://api.openai.com",
        "gemini": "https://generativelanguage.googleapis.com",
    }
    assert launch.arguments[0] == "-e"
    text = Path(launch.arguments[1]).read_text()
    for provider, path in (("anthropic", "/x"), ("openai", "/v1"), ("google", "/v1beta")):
        assert f'pi.registerProvider("{provider}", {{ baseUrl: "{GATEWAY}{path}" }});' in text
    assert (agent / "models.json").read_text() == models
    assert [path.name for path in agent.iterdir()] == ["models.json"]


def test_opencode_gets_a_config_over_the_user_s(tmp_path):
    """opencode is led by its inline config: the user's own is kept, and addresses in files become upstreams, the nearest one."""
    own = tmp_path / ".config/opencode"
    own.mkdir(parents=True)
    (own / "opencode.json").write_text(_opencode("anthropic", "https://far.example/v1"))
    (tmp_path / "opencode.jsonc").write_text(
        '{"provider": {"anthropic": {"options": {\n  "baseURL": "https://near.example/v1", // ours\n}}}}'
    )
    inline = '{"model": "anthropic/x", "provider": {"openai": {"options": {"timeout": 5}}}}'
    upstreams, launch = _launch("opencode", _user(tmp_path, OPENCODE_CONFIG_CONTENT=inline), tmp_path)
    assert (upstreams["anthropic"], upstreams["openai"]) == ("https://near.example", "https://api.openai.com")
    config = json.loads(launch.environment["OPENCODE_CONFIG_CONTENT"])
    assert config["model"] == "anthropic/x"
    assert config["provider"] == {
        "anthropic": {"options": {"baseURL": f"{GATEWAY}/v1"}},
        "openai": {"options": {"timeout": 5, "baseURL": f"{GATEWAY}/v1"}},
        "google": {"options": {"baseURL": f"{GATEWAY}/v1beta"}},
    }


def _opencode(provider, address):
    return json.dumps({"provider": {provider: {"options": {"baseURL": address}}}})


@pytest.mark.parametrize(
    "text",
    [b"not json", b'{"provider": {"anthropic": {"options": {"baseURL": "{env:PLACE}"}}}}', b'{"provider": "\xff"}'],
)
def test_an_address_that_cannot_be_followed_is_told(tmp_path, text):
    """A key is never sent to a provider's own address because the user's could not be read."""
    (tmp_path / "opencode.json").write_bytes(text)
    with pytest.raises(BadInput, match="mend it first"):
        find_detour(CLIENTS["opencode"], _user(tmp_path))


def test_a_web_proxy_is_not_between_a_client_and_its_gateway(tmp_path):
    """Where a proxy is set, the loopback address is exempt from it, beside the user's own exceptions."""
    user = _user(tmp_path, HTTPS_PROXY="http://proxy.example", NO_PROXY="intern")
    _, launch = _launch("claude", user, tmp_path)
    assert client_environment(user, launch)["NO_PROXY"] == "intern,127.0.0.1,localhost"
    assert "NO_PROXY" not in client_environment(_user(tmp_path), launch)
