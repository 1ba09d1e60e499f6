"""Summarisers at an endpoint, through the providers' own SDKs and real HTTP."""

import logging
import threading
from typing import Any

import msgspec
import pytest

from foveal.summary.accept import accept
from foveal.summary.question import Question, appended_instruction, messages_of
from foveal.testing.provider import RawReply, ScriptedProvider, Silence
from foveal.values.errors import MissingExtra
from foveal.writers import endpoint as sdk_endpoint
from foveal.writers.anthropic import AnthropicSummariser
from foveal.writers.call import AcceptedSummary, FailedSummary, SummaryOutcome, ask
from foveal.writers.openai_chat import OpenAISummariser
from foveal.writers.worker import THREAD_NAME

KEY = "sk-test-0123456789abcdef"
GOOD = "\n".join(
    f"## {name}\nThe {name.lower()} of it." for name in ("Goal", "Constraints", "State", "Decisions", "Next")
)
QUESTION = Question("[1 e1] user: Make the nightly import fast. " + "And mind the tests. " * 30, tokens=150)
DIALECTS = {"openai": "openai_chat", "anthropic": "anthropic"}
KINDS = list(DIALECTS)


def chat(text: str | None, finish: str = "stop", **message: Any) -> dict[str, Any]:
    said = {"role": "assistant", "content": text} | message
    counted = {"prompt_tokens": 90, "completion_tokens": 40, "total_tokens": 130}
    usage = counted | {"prompt_tokens_details": {"cached_tokens": 64}}
    choices = [{"index": 0, "message": said, "finish_reason": finish, "logprobs": None}]
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": choices, "usage": usage}


def messages(text: str | None, stop: str = "end_turn", *blocks: dict[str, Any]) -> dict[str, Any]:
    content = [{"type": "text", "text": text}] if text else []
    usage = {"input_tokens": 26, "output_tokens": 40, "cache_read_input_tokens": 64, "cache_creation_input_tokens": 0}
    return {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [*content, *blocks],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }


CALLS = [{"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}]
USE = {"type": "tool_use", "id": "c", "name": "read", "input": {}}


def error(kind: str, status: int, text: str) -> tuple[int, dict[str, Any]]:
    inner = {"message": text, "type": "error", "code": None, "param": None}
    return status, {"error": inner} if kind == "openai" else {"type": "error", "error": inner}


ANSWERS: dict[str, tuple[dict[str, tuple[int, dict[str, Any]]], str]] = {
    "cut off": ({"openai": (200, chat(GOOD, "length")), "anthropic": (200, messages(GOOD, "max_tokens"))}, "cut_off"),
    "tool call": (
        {
            "openai": (200, chat(None, "tool_calls", tool_calls=CALLS)),
            "anthropic": (200, messages(None, "tool_use", USE)),
        },
        "tool_call",
    ),
    "declined": (
        {
            "openai": (200, chat(None, refusal="I will not.")),
            "anthropic": (200, messages("I will not.", "refusal")),
        },
        "refusal",
    ),
    "filtered": (
        {"openai": (200, chat("", "content_filter")), "anthropic": (200, messages(None, "refusal"))},
        "refusal",
    ),
    "empty": ({"openai": (200, chat("")), "anthropic": (200, messages(None))}, "empty"),
    "429": ({kind: error(kind, 429, "Rate limit reached, tokens per min") for kind in KINDS}, "rate_limited"),
    "too long": (
        {
            "openai": error("openai", 400, "This model's maximum context length is 8192 tokens."),
            "anthropic": error("anthropic", 400, "prompt is too long: 210000 tokens > 200000 maximum"),
        },
        "too_long",
    ),
    "wrong key": ({kind: error(kind, 401, f"Incorrect API key provided: {KEY}") for kind in KINDS}, "rejected"),
    "broken": ({kind: error(kind, 500, "oops") for kind in KINDS}, "raised"),
}


def made(kind: str, endpoint: ScriptedProvider, **options: Any) -> OpenAISummariser | AnthropicSummariser:
    pytest.importorskip(kind, reason=f"the SDK of {kind} is not installed")
    if kind == "openai":
        return OpenAISummariser("m", base_url=f"{endpoint.url}/v1", api_key=KEY, **options)
    return AnthropicSummariser("m", base_url=endpoint.url, api_key=KEY, **options)


def put(
    summariser: OpenAISummariser | AnthropicSummariser, question: Question = QUESTION, **options: Any
) -> SummaryOutcome:
    def judge(answer: str, asked: Question):
        return accept(answer, asked, count=lambda text: len(text.split()), smaller_than=100)

    return ask(summariser, question, **({"deadline_s": 60, "judge": judge, "retries": 0} | options))


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_comes_with_its_usage(kind, endpoint):
    """All that was sent, what was read from the cache, what was written."""
    endpoint.script(RawReply(200, chat(GOOD) if kind == "openai" else messages(GOOD)))
    outcome = put(made(kind, endpoint))
    assert isinstance(outcome, AcceptedSummary)
    assert outcome.text == GOOD
    (usage,) = outcome.spent.usage
    assert (usage.input_tokens, usage.output_tokens, usage.cache_read_tokens) == (90, 40, 64)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", ANSWERS)
def test_what_goes_wrong_is_typed(kind, case, endpoint):
    """Each provider's own way of saying it comes to the same reason, after one call, and no key is told."""
    answers, reason = ANSWERS[case]
    endpoint.script(RawReply(*answers[kind]))
    outcome = put(made(kind, endpoint))
    assert isinstance(outcome, FailedSummary)
    assert outcome.reason == reason
    assert KEY not in outcome.detail
    assert len(endpoint.arguments) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_off_answer_is_paid_for_and_asked_again(kind, endpoint):
    """The retry says why; both calls are in what was spent."""
    endpoint.script(RawReply(*ANSWERS["cut off"][0][kind]))
    endpoint.script(RawReply(200, chat(GOOD) if kind == "openai" else messages(GOOD)))
    outcome = put(made(kind, endpoint), retries=1)
    assert isinstance(outcome, AcceptedSummary)
    assert len(outcome.spent.usage) == 2
    assert "write a shorter one" in str(endpoint.arguments[1]["messages"])


@pytest.mark.parametrize("kind", KINDS)
def test_an_endpoint_that_never_answers_is_left_at_the_deadline(kind, endpoint):
    """The caller goes on; the thread ends with the connection."""
    endpoint.script(Silence())
    outcome = put(made(kind, endpoint), deadline_s=0.2)
    assert isinstance(outcome, FailedSummary)
    assert outcome.reason == "deadline"
    endpoint.stop()
    for thread in threading.enumerate():
        if thread.name.startswith(THREAD_NAME):
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.parametrize("kind", KINDS)
def test_a_server_that_is_gone_is_a_failure(kind, endpoint):
    """No connection is an outcome like any other."""
    summariser = made(kind, endpoint)
    endpoint.stop()
    outcome = put(summariser)
    assert isinstance(outcome, FailedSummary)
    assert outcome.reason == "raised"


def test_the_question_goes_out_as_it_is_in_the_chat_format(endpoint):
    """Rules as system, the rest as user; compatible servers know the old name of the limit."""
    endpoint.script(RawReply(200, chat(GOOD)))
    put(made("openai", endpoint, thinking_tokens=1_000, options={"temperature": 0.1}))
    assert endpoint.arguments == [
        {"model": "m", "max_tokens": 1_150, "temperature": 0.1, "messages": messages_of(QUESTION)},
    ]
    assert [request.path for request in endpoint.requests] == ["/v1/chat/completions"]


def test_the_question_goes_out_as_it_is_in_anthropics_format(endpoint):
    """The rules stand beside the messages."""
    endpoint.script(RawReply(200, messages(GOOD)))
    put(made("anthropic", endpoint))
    rules, asked = messages_of(QUESTION)
    assert endpoint.arguments == [{"model": "m", "max_tokens": 150, "system": rules["content"], "messages": [asked]}]


OWN: dict[str, dict[str, Any]] = {
    "openai": {
        "model": "m",
        "messages": [{"role": "system", "content": "Be good."}, {"role": "user", "content": "Make it fast."}],
        "tools": [{"type": "function", "function": {"name": "read", "parameters": {}}}],
        "prompt_cache_key": "k",
    },
    "anthropic": {
        "model": "m",
        "max_tokens": 9,
        "system": [{"type": "text", "text": "Be good.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": "Make it fast."}],
        "tools": [{"name": "read", "input_schema": {"type": "object"}}],
        "thinking": {"type": "enabled", "budget_tokens": 1_024},
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_conversations_own_prefix_is_sent_again_unchanged(kind, endpoint):
    """Tools, system and messages are the ones that the provider's cache knows; only one message is new, at the end."""
    endpoint.is_strict = False  # Anthropic takes two messages of a user in a row; our own rules do not
    endpoint.script(RawReply(200, chat(GOOD) if kind == "openai" else messages(GOOD)))
    question = msgspec.structs.replace(QUESTION, request=OWN[kind], dialect=DIALECTS[kind])
    assert isinstance(put(made(kind, endpoint), question), AcceptedSummary)
    (sent,) = endpoint.arguments
    own = OWN[kind]
    assert sent["messages"] == [*own["messages"], {"role": "user", "content": appended_instruction(question)}]
    same = set(own) - {"messages", "max_tokens"}
    assert {key: sent[key] for key in same} == {key: own[key] for key in same}
    assert sent["max_tokens"] > QUESTION.tokens


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("other", [{"request": {"model": "large"}}, {"dialect": "gemini"}], ids=["model", "dialect"])
def test_a_prefix_of_another_model_or_format_is_not_sent(kind, other, endpoint):
    """A cache belongs to a model and messages to a format; whoever else summarises gets the small question."""
    endpoint.script(RawReply(200, chat(GOOD) if kind == "openai" else messages(GOOD)))
    own = {"dialect": DIALECTS[kind]} | other | {"request": OWN[kind] | other.get("request", {})}
    put(made(kind, endpoint), msgspec.structs.replace(QUESTION, **own))
    assert "tools" not in endpoint.arguments[0]


@pytest.mark.parametrize("kind", KINDS)
def test_no_key_is_shown(kind, endpoint, caplog):
    """Neither by the summariser's own words nor in any log, be it of the SDK at its most talkative."""
    caplog.set_level(logging.DEBUG)
    endpoint.script(RawReply(*ANSWERS["broken"][0][kind]))
    summariser = made(kind, endpoint)
    outcome = put(summariser)
    assert KEY in str([request.headers for request in endpoint.requests])
    assert KEY not in f"{summariser!r} {outcome!r} {vars(summariser)} {caplog.text}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_environments_key_stays_with_the_provider(kind, endpoint):
    """An address of one's own gets the key that was given with it, or none; never that of the account."""
    pytest.importorskip(kind, reason=f"the SDK of {kind} is not installed")
    endpoint.script(RawReply(200, chat(GOOD) if kind == "openai" else messages(GOOD)))
    url = endpoint.url
    put(OpenAISummariser("m", base_url=f"{url}/v1") if kind == "openai" else AnthropicSummariser("m", base_url=url))
    assert "sk-of-the-environment" not in str([request.headers for request in endpoint.requests])


def test_a_password_in_an_address_is_not_shown(endpoint):
    """Addresses of proxies hold them."""
    pytest.importorskip("openai")
    assert repr(OpenAISummariser("m", base_url="https://me:hunter2@host/v1")) == "OpenAIChat('m', https://***@host/v1)"


@pytest.mark.parametrize(("make", "extra"), [(OpenAISummariser, "openai"), (AnthropicSummariser, "anthropic")])
def test_without_the_sdk_the_command_is_told(monkeypatch, make, extra):
    """The error is the line to type, when the summariser is made and not when it is needed."""
    monkeypatch.setattr(sdk_endpoint, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=rf"pip install '\.\[{extra}\]'"):
        make("m")
