"""The page for people: the figures of the gateway, to be believed, and safe to look at."""

import json
from base64 import b64encode
from collections import Counter
from contextlib import ExitStack
from hashlib import sha256
from html.parser import HTMLParser

import httpx2
import pytest

from foveal import Policy
from foveal.gateway.app import Gateway
from foveal.gateway.conversations import CallFigures
from foveal.gateway.gateway_figures import ConversationFigures, GatewayFigures, MoneyFigures, client_family
from foveal.gateway.page import page
from foveal.gateway.server import served
from foveal.stores import Store
from foveal.testing.provider import ScriptedProvider, Turn

from .api_client import PREFIX, ApiClient
from .clients import AGENTS, Reading
from .conftest import Gateways, RunningGateway
from .requests import names, post, said
from .upstreams import PlainAnswer, PlainUpstream

BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8", "user-agent": "Mozilla/5.0 (X11)"}
NO_MONEY = MoneyFigures(0, 0, 0, 0, 0, 0)


class Document(HTMLParser):
    """A page as a browser sees it: its words, its links, and the elements that it has."""

    VOID = frozenset({"meta", "br"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self.links: list[str] = []
        self.elements: Counter[str] = Counter()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag] += 1
        self.attributes.update(name for name, _ in attrs)
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open and "script" not in self.open:
            self.words.append(data)


def looked_at(gateway: RunningGateway, **headers: str) -> Document:
    reply = httpx2.get(gateway.url, headers=BROWSER | headers)
    assert reply.status_code == 200, reply.text
    assert reply.headers["content-type"] == "text/html; charset=utf-8"
    return Document(reply.text)


def test_an_agent_is_seen_on_the_page(start: Gateways, provider: ScriptedProvider) -> None:
    """The page and its JSON twin tell the client, its calls, tokens, folds and money; each session has a link and commands."""
    provider.improvise = Reading(16, every=4)
    gateway = start(8_000, place="/data/own sessions.db")
    agent = AGENTS["anthropic"](gateway.url, stream=False, extra_headers={"x-claude-code-session-id": "s-1"})
    agent.say("Read the modules.")
    agent.run()

    (name,) = names(gateway)
    shown = looked_at(gateway)
    with ApiClient(gateway) as api:
        figures = api.ask("figures")
    total, money = figures["total"], figures["money"]
    assert total == {field: getattr(gateway.figures, field) for field in gateway.figures.__struct_fields__}
    assert f"{total['asked_tokens']:,} tokens were asked for, {total['sent_tokens']:,}" in shown.text
    assert total["folds"] > 0
    for word in (
        f"folds {total['folds']}",
        f"recalls {total['recalls']}",
        f"calls {total['calls']}",
        "Anthropic/Python",
    ):
        assert word in shown.text, word
    assert f"foveal view --live {name} --store '/data/own sessions.db'" in shown.text
    assert f"{PREFIX}/sessions/{name}" in shown.links
    assert money["reported_calls"] == money["priced_calls"] == total["calls"]
    assert money["asked_usd"] > money["sent_usd"] > 0
    assert f"${money['saved_usd']:,.4f} of ${money['asked_usd']:,.4f}" in shown.text
    (line,) = figures["conversations"]
    assert (line["session"], line["client"].split()[0], line["model"]) == (name, "Anthropic/Python", "claude-opus-4-5")
    assert line["figures"] == total


def test_the_page_says_when_nothing_is_changed(start: Gateways, provider: ScriptedProvider) -> None:
    """Nobody believes that something is saved while nothing is: before the first call, below the budget, while watching."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start()
    assert "No call was managed so far." in looked_at(gateway).text
    post(gateway, said("Go."))
    assert "Nothing was changed so far" in looked_at(gateway).text
    post(gateway, b"no json")
    assert "1 request passed on as they came" in looked_at(gateway).text

    watching = start(6_000, watch=True)
    post(watching, said("Go.", steps=20))
    assert watching.figures.folds > 0
    assert "Watching: every request is forwarded as it came, and nothing is changed." in looked_at(watching).text


def test_a_request_that_failed_is_on_the_page(start: Gateways, provider: ScriptedProvider) -> None:
    """Requests that a provider refused or did not answer have a row, managed ones and those that were passed on."""
    answer = PlainAnswer(
        status=529, body=b'{"type": "error", "error": {"type": "overloaded_error", "message": "Later."}}'
    )
    with PlainUpstream(lambda request: answer) as upstream:
        refused = start(upstream=upstream.url)
        post(refused, said("Go."))
        post(refused, b"no json")
    post(refused, said("Go."))  # nobody is there any more
    shown = looked_at(refused).text
    assert "failed requests 3" in shown
    assert "No call was managed so far." in shown
    assert "3 requests failed: the provider refused them, did not answer or broke off." in shown


def test_a_prompt_of_the_api_is_not_called_sent(start: Gateways) -> None:
    """A prompt that a caller was given is a call, with its tokens, when its reply is kept; until then nobody knows of one."""
    gateway = start()
    with ApiClient(gateway) as api:
        api.ask("create", name="x", model="gpt-5")
        api.ask("append", "x", item={"role": "user", "content": "Go."})
        api.ask("prompt", "x")
        tokens = api.ask("prompt", "x")["tokens"]
        shown = looked_at(gateway).text
        assert "No call was managed so far." in shown
        assert "tokens sent 0" in shown
        assert "prompts for callers of the HTTP API 2" in shown
        api.ask("append", "x", item={"role": "assistant", "content": "Well."})
    assert f"tokens sent {tokens}" in looked_at(gateway).text
    assert (gateway.figures.calls, gateway.figures.prompts) == (1, 2)


def test_no_budget_is_named_where_there_is_none(start: Gateways, provider: ScriptedProvider) -> None:
    """A gateway without a budget says that nothing was changed, and not that something was below the budget."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start(None)
    post(gateway, said("Go."))
    shown = looked_at(gateway).text
    assert "Nothing was changed so far: every request was sent as it came." in shown
    assert "budget" not in shown


def test_folds_of_an_earlier_run_are_a_change(start: Gateways, provider: ScriptedProvider) -> None:
    """A gateway that was started again sends what was folded before as it was folded: the page does not call that unchanged."""
    provider.improvise = lambda request: Turn("Well.")
    post(start(6_000), said("Go.", steps=20))
    again = start(6_000)
    body = json.loads(said("Go.", steps=20))
    body["messages"] += [{"role": "assistant", "content": "Well."}, {"role": "user", "content": "On."}]
    post(again, json.dumps(body).encode())
    assert again.figures.folds == 0
    assert again.figures.sent_tokens < again.figures.asked_tokens
    assert "tokens were asked for" in looked_at(again).text


def test_an_unknown_price_is_said(start: Gateways) -> None:
    """A model without a price is in no sum, and the page says so."""
    body = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "Well."}]}
    usage = {"input_tokens": 100, "output_tokens": 5}
    with PlainUpstream(lambda request: PlainAnswer(body=json.dumps(body | {"usage": usage}).encode())) as upstream:
        models = {"house-model": {"window": 50_000}}
        gateway = start(upstream=upstream.url, policy=Policy(max_context_tokens=10_000, models=models))
        post(gateway, said("Go.", model="house-model"))
        shown = looked_at(gateway)
    assert "unknown price" in shown.text
    assert "1 call of models with an unknown price are not in it" in shown.text


def test_only_a_browser_gets_the_page(start: Gateways) -> None:
    """The root of the provider is still the client's: HEAD, other Accepts, and requests with a key are passed on."""
    with PlainUpstream(lambda request: PlainAnswer(body=b"upstream")) as upstream, httpx2.Client() as client:
        gateway = start(upstream=upstream.url)
        asks = [
            ("HEAD", {"accept": "text/html", "x-api-key": "k"}),
            ("GET", {"accept": "*/*"}),
            ("GET", {"accept": "application/json"}),
            ("GET", {"accept": "text/html", "x-api-key": "k"}),
            ("GET", {"accept": "text/html", "authorization": "Bearer k"}),
            ("POST", {"accept": "text/html"}),
        ]
        for method, headers in asks:
            client.request(method, gateway.url, headers=headers)
        assert [(request.method, request.path) for request in upstream.requests] == [
            (method, "/") for method, _ in asks
        ]
        looked_at(gateway)
        looked_at(gateway, **_basic("of an earlier gateway"))
        assert len(upstream.requests) == len(asks)


EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


def test_words_of_strangers_are_shown_as_words(start: Gateways, provider: ScriptedProvider) -> None:
    """A script in a session's name, in a model or in a user-agent is text on the page, and no element."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start()
    with ApiClient(gateway, user_agent=EVIL) as api:
        api.ask("create", name=f"x{EVIL}", model=f"gpt-5{EVIL}")
        api.ask("append", f"x{EVIL}", item={"role": "user", "content": "A secret."})
        api.ask("prompt", f"x{EVIL}")
    post(gateway, said("Go."), user_agent=EVIL, x_session_id=EVIL)
    shown = looked_at(gateway)
    assert (shown.elements["script"], shown.elements["img"]) == (1, 0)  # the page has one script of its own
    assert shown.attributes <= {"lang", "charset", "http-equiv", "content", "name", "class", "href"}
    assert f"x{EVIL}" in shown.text
    assert "A secret." not in shown.text
    assert all(link.startswith("/") for link in shown.links)


def test_controls_and_turned_letters_are_made_visible() -> None:
    """A name cannot turn the reading order of its line."""
    line = ConversationFigures("a\u202eb", "x\u202ey", 0, "m", CallFigures(calls=1), NO_MONEY)
    shown = Document(page(GatewayFigures(False, CallFigures(calls=1), NO_MONEY, (line,)), now_ms=3_600_000))
    assert "\u202e" not in shown.text
    assert "1 h ago" in shown.text


def test_a_bill_that_became_larger_is_said() -> None:
    """Where more was paid than without the gateway, the page says so."""
    money = MoneyFigures(1.0, 1.25, -0.25, 3, 3, 0)
    shown = Document(page(GatewayFigures(False, CallFigures(calls=3, folds=1), money, ()), now_ms=0))
    assert "-$0.2500 of $1.0000" in shown.text


def test_nothing_is_loaded_and_nobody_frames_the_page(start: Gateways) -> None:
    """The page allows its style, its one script and the stream of its own server: no frame, no form, no cache, no referrer."""
    reply = httpx2.get(start().url, headers=BROWSER)
    policy = reply.headers["content-security-policy"]
    style = reply.text.partition("<style>")[2].partition("</style>")[0]
    script = reply.text.partition("<script>")[2].partition("</script>")[0]
    style, script = (b64encode(sha256(text.encode()).digest()).decode() for text in (style, script))
    allowed = f"default-src 'none'; style-src 'sha256-{style}'; script-src 'sha256-{script}'; connect-src 'self'; "
    assert policy.startswith(allowed)
    assert "frame-ancestors 'none'" in policy
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert 'http-equiv="refresh"' in reply.text


def test_the_page_follows_its_figures(start: Gateways, provider: ScriptedProvider) -> None:
    """A stream at the page's own address is silent while nothing happens, and tells the next call."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start()
    with httpx2.stream("GET", gateway.url, headers={"accept": "text/event-stream"}, timeout=30) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        assert next(lines) == ": still here"
        post(gateway, said("Go."))
        assert next(line for line in lines if line.startswith("data")) == "data: changed"


def test_an_open_page_does_not_hold_up_the_end(store: Store, capfd: pytest.CaptureFixture[str]) -> None:
    """The stream of a page that is open ends with its gateway: it need not be broken off, which is an error in the log."""
    with ExitStack() as browser:
        with served(Gateway(store, Policy())) as url:
            accept = {"accept": "text/event-stream"}
            stream = browser.enter_context(httpx2.stream("GET", url, headers=accept, timeout=30))
            lines = stream.iter_lines()
            assert next(lines) == ": still here"
        assert "data: changed" not in list(lines)
    assert capfd.readouterr().err == ""


def _basic(password: str, name: str = "me") -> dict[str, str]:
    return {"authorization": "Basic " + b64encode(f"{name}:{password}".encode()).decode()}


def test_a_browser_is_asked_for_the_token(start: Gateways, provider: ScriptedProvider) -> None:
    """With a token, a browser asks its user for it as for a password; it opens the page and what it links to, for reading."""
    gateway = start(token="t-1")
    refused = httpx2.get(gateway.url, headers=BROWSER)
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Basic ")
    for wrong in (
        _basic("t-2"),
        _basic(""),
        {"authorization": "Basic !"},
        {"authorization": "Bearer t-1"},
        _basic("t-1:"),
    ):
        assert httpx2.get(gateway.url, headers=BROWSER | wrong).status_code == 401
    right = _basic("t-1")
    assert "No call" in looked_at(gateway, **right).text
    for path in ("/metrics", f"{PREFIX}/figures", f"{PREFIX}/openapi.json", f"{PREFIX}/sessions"):
        assert httpx2.get(gateway.url + path, headers=right).status_code == 200
    assert httpx2.get(f"{gateway.url}{PREFIX}/sessions").headers.get("www-authenticate") is None
    assert provider.requests == []


@pytest.mark.parametrize("path", ["/v1/messages", f"{PREFIX}/sessions", "/"])
def test_a_remembered_password_opens_nothing_else(start: Gateways, provider: ScriptedProvider, path: str) -> None:
    """A browser sends a password by itself, for pages of others too: nothing is written with it, and no call is made."""
    gateway = start(token="t-1")
    reply = httpx2.post(gateway.url + path, json={"name": "x", "model": "gpt-5"}, headers=_basic("t-1"))
    assert reply.status_code == 401
    assert provider.requests == []


AGENT_WORDS = {
    "claude-cli/2.1.197 (external, cli)": "claude-cli 2.1.197",
    "codex_cli_rs/0.166.0 (Ubuntu 24.4.0; x86_64) xterm": "codex_cli_rs 0.166.0",
    "Anthropic/JS 0.60.0": "Anthropic/JS 0.60.0",
    "OpenAI/Python 3.49.0": "OpenAI/Python 3.49.0",
    "opencode/1.18.33": "opencode 1.18.33",
    "GeminiCLI/v22.1.0 (linux; x64)": "GeminiCLI 22.1.0",
    "node": "node",
    "": "",
    "(odd)": "",
    "x" * 1_000: "x" * 60,
}


@pytest.mark.parametrize("agent", AGENT_WORDS)
def test_a_client_is_named_by_family_and_version(agent: str) -> None:
    """The beginning of a user-agent is enough to know the program by."""
    assert client_family(agent) == AGENT_WORDS[agent]
