"""Patience with providers, and replies that are no answers."""

from typing import Any

import pytest

from foveal.analysis.agreement.senders import (
    LONGEST_PAUSE_S,
    TRIES,
    NoReply,
    opened_sender,
    patiently,
    reason_for_none,
    with_limit,
)
from foveal.testing.provider import Refusal, ScriptedProvider, Turn
from foveal.values.errors import BadInput

LIMITED = NoReply("rate_limited", "slow down", 429, 7.0)
BROKEN = NoReply("raised", "oops", 500)
WRONG = NoReply("rejected", "no such option", 400)
PATHS = {"openai_chat": "/v1", "openai_responses": "/v1", "anthropic": "", "gemini": ""}
REQUESTS = {
    "openai_chat": {"model": "m", "messages": [{"role": "user", "content": "Hello"}]},
    "openai_responses": {"model": "m", "input": [{"role": "user", "content": "Hello"}]},
    "anthropic": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hello"}]},
    "gemini": {"model": "m", "contents": [{"role": "user", "parts": [{"text": "Hello"}]}], "config": {}},
}


def scripted(*replies):
    """A sender that answers by list, the last one for ever."""
    left = list(replies)
    return lambda request: left.pop(0) if len(left) > 1 else left[0]


def test_the_pause_is_the_providers_or_doubles():
    """A rate limit names its seconds; an error of the server does not."""
    waits = []
    assert patiently(scripted(LIMITED, BROKEN, BROKEN, {"a": 1}), {}, pause=waits.append) == {"a": 1}
    assert waits == [7.0, 2.0, 4.0]


def test_patience_ends():
    """After the last try, at once where asking again would not help, and where the provider wants too long a pause."""
    waits = []
    assert patiently(scripted(BROKEN), {}, pause=waits.append) == BROKEN
    assert len(waits) == TRIES - 1
    late = NoReply("rate_limited", "tomorrow", 429, LONGEST_PAUSE_S + 1)
    for final in (WRONG, late):
        assert patiently(scripted(final), {}, pause=waits.append) == final
    assert len(waits) == TRIES - 1
    assert patiently(scripted(BROKEN, {"a": 1}), {}, pause=lambda seconds: True) == BROKEN  # somebody ended the run


@pytest.mark.parametrize("dialect", REQUESTS)
def test_refusals_come_back_as_values_in_every_dialect(dialect, monkeypatch):
    """Status, kind and pause are read from each SDK's own exception, over real HTTP; then the reply comes."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    pytest.importorskip({"anthropic": "anthropic", "gemini": "google.genai"}.get(dialect, "openai"))
    with ScriptedProvider() as provider, opened_sender(dialect, url=provider.url + PATHS[dialect]) as send:
        provider.script(
            Refusal(429, "slow down", {"retry-after": "3"}), Refusal(503, "oops"), Refusal(401, "who?"), Turn("Hi.")
        )
        replies: list[Any] = [send(REQUESTS[dialect]) for _ in range(4)]
    limited, broken, unknown, reply = replies
    assert (limited.fault, limited.status, limited.retry_after_s) == ("rate_limited", 429, 3.0)
    assert (broken.fault, broken.may_pass) == ("raised", True)
    assert unknown.is_for_all
    assert reason_for_none(dialect, reply) is None
    assert "Hi." in str(reply)


@pytest.mark.parametrize(
    ("dialect", "body", "fault"),
    [
        ("openai_chat", {"choices": [{"finish_reason": "length", "message": {}}]}, "cut_off"),
        ("openai_chat", {"choices": [{"finish_reason": "stop", "message": {"refusal": "No."}}]}, "refusal"),
        ("openai_responses", {"incomplete_details": {"reason": "max_output_tokens"}}, "cut_off"),
        ("anthropic", {"stop_reason": "refusal"}, "refusal"),
        ("gemini", {"candidates": [{"finish_reason": "SAFETY"}]}, "refusal"),
    ],
)
def test_a_reply_that_declines_or_breaks_off_is_no_answer(dialect, body, fault):
    """Each provider's own way of saying it."""
    reason = reason_for_none(dialect, body)
    assert reason is not None
    assert reason.fault == fault


def test_the_limit_of_a_reply_has_a_name_in_each_dialect():
    """OpenAI's newer models refuse the older name, and other servers know no other."""
    named = {dialect: with_limit(dialect, REQUESTS[dialect], 7, is_provider=True) for dialect in REQUESTS}
    assert named["openai_chat"]["max_completion_tokens"] == named["openai_responses"]["max_output_tokens"] == 7
    assert named["anthropic"]["max_tokens"] == named["gemini"]["config"]["max_output_tokens"] == 7
    assert with_limit("openai_chat", REQUESTS["openai_chat"], 7, is_provider=False)["max_tokens"] == 7


def test_a_key_that_is_not_there_is_named(monkeypatch):
    """The variable of a provider, or the one that was named for an address."""
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BadInput, match=r"\$OPENAI_API_KEY"), opened_sender("openai_chat"):
        pass
    with (
        pytest.raises(BadInput, match="--key-env MY_KEY"),
        opened_sender("openai_chat", url="http://x", key_variable="MY_KEY"),
    ):
        pass


def test_an_address_gets_no_key_but_the_one_named_for_it(monkeypatch):
    """The account's key stays with the provider."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")
    monkeypatch.setenv("MY_KEY", "sk-of-the-address")
    with ScriptedProvider(improvise=lambda request: Turn("Hi.")) as provider:
        for variable in (None, "MY_KEY"):
            with opened_sender("openai_chat", url=f"{provider.url}/v1", key_variable=variable) as send:
                send(REQUESTS["openai_chat"])
    first, second = (request.headers["authorization"] for request in provider.requests)
    assert "sk-of" not in first
    assert second == "Bearer sk-of-the-address"
