"""Counts of tokens that clients ask for: of the request that would be sent, and no error that the provider would not give."""

import json
from typing import Any

import httpx2
import pytest

from foveal.stores import Store
from foveal.testing.provider import Call, ScriptedProvider, Turn

from .conftest import Gateways, RunningGateway
from .requests import PATHS, asked, names, post
from .upstreams import PlainAnswer, PlainUpstream

COUNTS = {
    "anthropic": "/v1/messages/count_tokens",
    "openai_responses": "/v1/responses/input_tokens",
    "gemini": "/v1beta/models/gemini-2.5-pro:countTokens",
}
EVERY = pytest.mark.parametrize("dialect", COUNTS)
BUDGET = 8_000


def _counted(gateway: RunningGateway, dialect: str, body: bytes) -> int:
    if dialect == "gemini":
        nested = {"generateContentRequest": {"model": "models/gemini-2.5-pro", **json.loads(body)}}
        body = json.dumps(nested).encode()
    reply = post(gateway, body, COUNTS[dialect])
    assert reply.status_code == 200, reply.text
    found = reply.json()
    return found.get("input_tokens") or found["totalTokens"]


@EVERY
def test_a_count_is_that_of_the_request_that_would_be_sent(
    start: Gateways, provider: ScriptedProvider, store: Store, dialect: str
) -> None:
    """After a fold, a client that counts its history learns the size of the folded one; nothing is written for it."""
    call = Call("u12" if dialect == "anthropic" else "c12", "read", {"path": "m12.py"})
    provider.improvise = lambda request: Turn("", (call,))
    gateway = start(BUDGET)
    post(gateway, asked(dialect, 12), PATHS[dialect])
    sent = provider.last.tokens
    (name,) = names(gateway)
    entries = store.cards(name)[0].entries

    now, later = (_counted(gateway, dialect, asked(dialect, steps)) for steps in (12, 13))

    assert abs(now - sent) < 250
    assert sent < later < BUDGET + 1_000
    assert store.cards(name)[0].entries == entries
    assert gateway.figures.calls == 1


@EVERY
def test_counts_of_other_texts_are_the_providers(start: Gateways, provider: ScriptedProvider, dialect: str) -> None:
    """Before a fold, with another key, and for texts that are no part of the conversation, the body goes on as it came."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start(40_000)
    body = asked(dialect, 2)
    post(gateway, body, PATHS[dialect])
    whole = provider.last.tokens
    assert abs(_counted(gateway, dialect, body) - whole) < 60
    assert _counted(gateway, dialect, asked(dialect, 1)) < whole


def _answering(status: int, body: bytes) -> PlainUpstream:
    return PlainUpstream(lambda request: PlainAnswer(status=status, body=body))


def test_the_same_text_is_counted_once(start: Gateways) -> None:
    """Editors count dozens of texts at their start, again and again: the provider is asked once for each, and by each key."""
    with _answering(200, b'{"input_tokens": 7}') as upstream:
        gateway = start(upstream=upstream.url)
        for key in ("k-1", "k-1", "k-2"):
            for body in (asked("anthropic", 0), asked("anthropic", 1)):
                reply = post(gateway, body, COUNTS["anthropic"], x_api_key=key)
                assert (reply.status_code, reply.json()) == (200, {"input_tokens": 7})
        assert len(upstream.requests) == 4


@EVERY
def test_a_provider_that_cannot_count_is_stood_in_for(start: Gateways, dialect: str) -> None:
    """Servers that imitate a provider often have no such address: the client gets an estimate in the provider's form."""
    with _answering(404, b"not found") as upstream:
        gateway = start(upstream=upstream.url)
        assert 1_000 < _counted(gateway, dialect, asked(dialect, 3)) < 10_000


def test_other_refusals_are_the_providers(start: Gateways) -> None:
    """A wrong key or a limit of requests is told as it came, and not remembered."""
    with _answering(429, b'{"error": "slow down"}') as upstream:
        gateway = start(upstream=upstream.url)
        replies: list[httpx2.Response] = [post(gateway, asked("anthropic", 1), COUNTS["anthropic"]) for _ in range(2)]
        told: list[Any] = [(reply.status_code, reply.content) for reply in replies]
        assert told == [(429, b'{"error": "slow down"}')] * 2
        assert len(upstream.requests) == 2


def test_a_folded_request_that_cannot_be_counted_is_counted_whole(start: Gateways, provider: ScriptedProvider) -> None:
    """Where the provider refuses to count our request, it is asked about the client's own."""
    provider.improvise = lambda request: Turn("Well.")
    plain = asked("anthropic", 12)

    def answer(request: Any) -> PlainAnswer:
        if request.path != COUNTS["anthropic"]:
            reply = httpx2.post(provider.url + request.path, content=request.body, headers={"x-api-key": "k"})
            return PlainAnswer(body=reply.content)
        return PlainAnswer(body=b'{"input_tokens": 9}') if request.body == plain else PlainAnswer(400)

    with PlainUpstream(answer) as upstream:
        gateway = start(BUDGET, upstream=upstream.url)
        post(gateway, plain)
        assert gateway.figures.folds == 1
        assert post(gateway, plain, COUNTS["anthropic"]).json() == {"input_tokens": 9}
        assert upstream.requests[-2].body != plain
