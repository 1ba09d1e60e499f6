"""Calls of models through the providers' own SDKs: one reply of many events, errors by class, retries that wait as told."""

import asyncio
import json
from typing import Any

import msgspec
import pytest

import foveal
from foveal.agent import ModelChoice, providers, tool
from foveal.agent.model_calls import ModelCall, Retried, StreamFailed
from foveal.agent.model_errors import fault_class, pause_s, retry_after_s
from foveal.agent.providers import open_model
from foveal.testing.provider import Call, RawReply, Refusal, ScriptedProvider, TooLong, Turn
from foveal.values.entry import Text, Thinking, ToolCall
from foveal.values.errors import MissingExtra, ModelFailed

from .conftest import says

MODELS = ["openai:gpt-5", "openai-responses:gpt-5", "anthropic:claude-sonnet-5", "google:gemini-2.5-pro"]
TWO = Turn("Hello", (Call("c1", "look", {"path": "x"}), Call("c2", "look", {"path": "y"})), thinking="hm")


@tool
def look(path: str) -> str:
    """Look."""
    return path


@pytest.fixture
def provider(monkeypatch):
    with ScriptedProvider() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


def ask(model: str, *, pauses: list[float] | None = None, **more: Any) -> Any:
    """One call: the session with the reply kept, the words that came, and the call."""

    async def called():
        choice = msgspec.structs.replace(ModelChoice.of(model), **more)
        session = foveal.Session(foveal.open_store(), "s", model=choice.session_model)
        session.append(foveal.user("Hi."))
        port = open_model(choice)

        async def sleep(seconds: float) -> None:
            if pauses is not None:
                pauses.append(seconds)

        call = ModelCall(port, choice.dialect, choice.model, sleep=sleep)
        try:
            words = [one async for one in call.ask(session.prompt([look.definition]).request)]
        finally:
            await port.close()
        session.append(call.reply)
        return session, words, call

    return asyncio.run(called())


@pytest.mark.parametrize("model", MODELS)
def test_the_events_of_a_reply_are_merged(model, provider):
    """Text, signed thinking, parallel calls and usage are those of an unstreamed reply; words come as they are said."""
    provider.script(TWO)
    session, words, _ = ask(model)
    parts = [shown.part for shown in session.view.atoms[-1].items[0].shown]
    assert "".join(one.text for one in words) == "Hello"
    assert "".join(one.thinking for one in words) == "hm"
    assert [part.text for part in parts if isinstance(part, Text) and part.text] == ["Hello"]
    assert [part.arguments.replace(" ", "") for part in parts if isinstance(part, ToolCall)] == [
        '{"path":"x"}',
        '{"path":"y"}',
    ]
    if model.startswith(("anthropic", "google")):
        assert any(part.signature for part in parts if isinstance(part, Thinking | ToolCall | Text))
    assert session.view.facts.usage
    assert provider.refused == []


@pytest.mark.parametrize("model", MODELS)
def test_a_call_that_may_succeed_later_is_made_again(model, provider):
    """A rate limit waits as long as the provider says; a stream that breaks is asked for anew, and its words are void."""
    provider.script(Refusal(429, "slow down", {"retry-after": "7"}), Turn("Half of", cut_after=4), Turn("Whole"))
    pauses: list[float] = []
    session, words, _ = ask(model, pauses=pauses)
    assert pauses == [7.0, 2.0]
    last = max(i for i, one in enumerate(words) if isinstance(one, Retried))
    assert "".join(one.text for one in words[last + 1 :]) == "Whole"
    assert session.view.facts.calls == 1


@pytest.mark.parametrize("model", MODELS)
def test_retries_come_to_an_end(model, provider):
    """After three retries the error is told, with its class."""
    provider.script(*[Refusal(503, "overloaded")] * 4)
    pauses: list[float] = []
    with pytest.raises(ModelFailed) as failed:
        ask(model, pauses=pauses)
    assert (failed.value.fault, pauses) == ("transient", [1.0, 2.0, 4.0])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Refusal(401, "invalid api key"), "auth"),
        (Refusal(402, "pay first"), "quota"),
        (Refusal(404, "no such model"), "rejected"),
        (Refusal(400, "blocked by our content policy"), "filtered"),
        (TooLong(1_000), "overflow"),
    ],
)
def test_an_error_that_would_repeat_itself_is_not_retried(model, answer, fault, provider):
    """Each has its class, and the provider is asked once."""
    provider.script(answer)
    with pytest.raises(ModelFailed) as failed:
        ask(model)
    assert (failed.value.fault, len(provider.requests)) == (fault, 1)


def test_a_rate_limit_of_google_is_waited_for(provider):
    """It is told in the words that others have for an account without credit, and names its time in the body alone."""
    said = "You exceeded your current quota, please check your plan and billing details.\nPlease retry in 38.5s."
    delay = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "38s"}
    error = {"code": 429, "message": said, "status": "RESOURCE_EXHAUSTED", "details": [delay]}
    provider.script(
        RawReply(429, {"error": error}), RawReply(429, {"error": error | {"message": "Quota."}}), Turn("Hello.")
    )
    pauses: list[float] = []
    ask(MODELS[3], pauses=pauses)
    assert pauses == [38.5, 38.0]


def test_an_account_without_credit_is_told_as_such(provider):
    """Anthropic says so with the status of a wrong request."""
    error = {"type": "invalid_request_error", "message": "Your credit balance is too low to access the Anthropic API."}
    provider.script(RawReply(400, {"type": "error", "error": error}))
    with pytest.raises(ModelFailed, match="no credit left") as failed:
        ask(MODELS[2])
    assert (failed.value.fault, len(provider.requests)) == ("quota", 1)


@pytest.mark.parametrize("model", MODELS[:3])
def test_an_error_in_a_stream_is_an_error(model, provider):
    """A provider that says 200 first and then fails is asked again."""
    provider.script(Turn("x", fails=Refusal(529, "Overloaded")), Turn("Whole"))
    session, _, _ = ask(model, pauses=[])
    assert session.view.facts.calls == 1
    assert len(provider.requests) == 2


@pytest.mark.parametrize(("model", "name"), [(MODELS[0], "OPENAI_API_KEY"), (MODELS[2], "ANTHROPIC_API_KEY")])
def test_a_missing_key_says_what_to_set(model, name, monkeypatch):
    """Before anything is sent."""
    monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("ANTHROPIC_AUTH_TOKEN", raising=False)
    with pytest.raises(ModelFailed, match=f"Set {name}"):
        open_model(ModelChoice.of(model))


def test_the_usual_key_goes_to_its_provider_alone(provider, monkeypatch):
    """Another address gets the key that was named for it, or none."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-openai")
    provider.script(Turn("x"), Turn("x"))
    ask(f"openai:gpt-5@{provider.url}/v1")
    assert "secret" not in provider.last.headers["authorization"]


def test_a_missing_package_says_what_to_install(monkeypatch):
    """The error names the extra."""
    monkeypatch.setattr("foveal.agent.providers._is_installed", lambda package: False)
    with pytest.raises(MissingExtra, match=r"\.\[google\]"):
        open_model(ModelChoice.of("google:gemini-2.5-pro"))


def test_an_unknown_provider_is_told_with_the_nearest():
    """A slip of the pen costs one reading."""
    with pytest.raises(foveal.BadInput, match="Did you mean anthropic"):
        ModelChoice("claude-sonnet-5", "antropic")


def test_pauses_double_and_end_at_a_minute():
    """1, 2, 4 seconds; never more than 60, whatever a provider asks for."""
    assert [pause_s(n, None) for n in (1, 2, 3, 9)] == [1.0, 2.0, 4.0, 60.0]
    assert pause_s(1, 3_600.0) == 60.0


class Headers(Exception):
    def __init__(self, **headers: str) -> None:
        super().__init__("slow")
        self.response = type("Response", (), {"headers": {k.replace("_", "-"): v for k, v in headers.items()}})


@pytest.mark.parametrize(
    ("error", "seconds"),
    [
        (Headers(retry_after="2.5"), 2.5),
        (Headers(retry_after_ms="250"), 0.25),
        (Headers(retry_after="Thu, 01 Jan 1970 00:01:40 GMT"), 10.0),
        (Headers(retry_after="soon"), None),
        (Headers(), None),
    ],
)
def test_the_time_to_wait_is_read_in_all_its_forms(error, seconds):
    """Seconds, milliseconds or a date; nonsense is no time."""
    assert retry_after_s(error, now_s=90.0) == seconds


def test_errors_without_a_status_are_transient_unless_they_are_ours():
    """A broken connection may pass; a wrong argument will not."""
    assert fault_class(ConnectionError("reset")) == "transient"
    assert fault_class(TypeError("no such argument")) == "rejected"
    assert fault_class(StreamFailed({"code": 529, "message": "Overloaded"})) == "transient"


class Broken:
    """A model port whose first replies cannot be read."""

    def __init__(self, *replies: Any) -> None:
        self.replies, self.asked = list(replies), 0

    async def complete(self, request: Any) -> Any:
        self.asked += 1
        for one in self.replies.pop(0):
            if isinstance(one, Exception):
                raise one
            yield one


def replied(model: str, *replies: Any) -> tuple[Broken, ModelCall]:
    """Ask a port that answers so, without pauses."""

    async def sleep(_: float) -> None: ...

    async def called() -> tuple[Broken, ModelCall]:
        port = Broken(*replies)
        call = ModelCall(port, "openai_chat", model, sleep=sleep)  # pyright: ignore[reportArgumentType]
        async for _ in call.ask({}):
            pass
        return port, call

    return asyncio.run(called())


@pytest.mark.parametrize("is_first", [True, False], ids=["the first event", "a later one"])
def test_a_stream_that_breaks_in_the_middle_of_an_event_is_asked_again(is_first):
    """The provider took the request: only its reply was damaged."""
    damage = json.JSONDecodeError("Expecting value", "{", 1)
    start = [] if is_first else [says("Hel")]
    port, call = replied("gpt-5", [*start, damage], [says("Hello.")])
    assert (port.asked, call.reply.message.parts) == (2, (Text("Hello."),))


def test_a_reply_that_nobody_understands_is_asked_for_again():
    """A call without a name is no call."""
    nameless = says("", ("look", {}))
    nameless["choices"][0]["delta"]["tool_calls"][0] |= {"id": None, "function": {"name": None, "arguments": None}}
    port, _ = replied("gpt-5", [nameless], [says("Hello.")])
    assert port.asked == 2


def test_the_tokens_of_attempts_that_failed_are_told():
    """They are billed as well."""
    damage = json.JSONDecodeError("Expecting value", "{", 1)
    _, call = replied("gpt-5", [says("Hel", tokens=70), damage], [says("Hello.", tokens=80)])
    assert [(one.model, one.input_tokens) for one in call.lost if isinstance(one, foveal.Usage)] == [("gpt-5", 70)]


@pytest.mark.parametrize("model", MODELS)
def test_a_stream_that_only_says_that_it_lives_is_given_up(provider, monkeypatch, model):
    """Pings keep a connection open for ever; a run that waits behind it would never end."""
    monkeypatch.setattr(providers, "MOST_SILENT_S", 1.2)
    provider.script(Turn("Hel", stall_after=2, ping_s=0.02), Turn("Hello."))
    _, words, call = ask(model, timeout_s=1.0)
    (retried,) = [one for one in words if isinstance(one, Retried)]
    assert "has brought nothing for 1.2 s" in retried.because
    assert call.reply.message.parts[-1] == Text("Hello.")


def test_a_timeout_of_the_connection_is_told_in_its_own_words():
    """Some SDKs raise it as the same error."""

    async def events():
        yield "Hel"
        raise TimeoutError("the socket was silent")

    async def read() -> list[str]:
        return [one async for one in providers._within(events(), 60)]

    with pytest.raises(TimeoutError, match="the socket was silent"):
        asyncio.run(read())
