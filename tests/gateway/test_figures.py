"""Figures: what the client is told of its prompt, and what the operator reads."""

import httpx2
import pytest

from foveal import open_store
from foveal.testing.provider import ScriptedProvider, Turn

from .clients import AGENTS, Reading
from .conftest import Gateways
from .requests import post, said


@pytest.mark.parametrize("dialect", AGENTS)
def test_the_client_sees_the_usage_of_the_folded_prompt(
    start: Gateways, provider: ScriptedProvider, dialect: str
) -> None:
    """Clients compact by the usage that they are told: it is the provider's, of the prompt that was sent last; `/metrics`
    adds up all of them."""
    provider.improvise = Reading(16, every=4)
    gateway = start(8_000)
    agent = AGENTS[dialect](gateway.url, stream=dialect != "openai_chat")
    agent.say("Read the modules.")
    last: list[int] = []
    while True:
        calls = agent.step()
        last.append(provider.last.tokens)
        if not calls:
            break
        agent.answer(calls)

    assert agent.usage == last
    assert max(last) < 9_000
    told = httpx2.get(f"{gateway.url}/metrics").text
    metrics = {line.split()[0]: int(line.split()[1]) for line in told.splitlines() if line[0] != "#"}
    assert metrics["foveal_calls_total"] == len(last)
    assert metrics["foveal_recalls_total"] == len(provider.requests) - len(last) > 0
    assert metrics["foveal_input_tokens_total"] == sum(request.tokens for request in provider.requests)
    assert metrics["foveal_output_tokens_total"] == 7 * len(provider.requests)
    assert metrics["foveal_folds_total"] > 0
    assert metrics["foveal_asked_tokens_total"] > metrics["foveal_sent_tokens_total"]
    parts = [conversation.figures for conversation in gateway.gateway.conversations]
    for name in ("calls", "asked_tokens", "sent_tokens", "input_tokens", "output_tokens", "folds", "recalls"):
        assert sum(getattr(part, name) for part in parts) == metrics[f"foveal_{name}_total"], name


def test_a_chat_client_that_did_not_ask_for_usage_gets_none(start: Gateways, provider: ScriptedProvider) -> None:
    """The usage of a stream that we ask the provider for, to know what a prompt cost, is not told to a client that did not."""
    provider.improvise = Reading(12)
    gateway = start(8_000)
    agent = AGENTS["openai_chat"](gateway.url, stream=True)
    agent.say("Read the modules.")
    agent.run()

    assert provider.requests[0].body.get("stream_options") is None
    assert provider.last.body["stream_options"] == {"include_usage": True}
    total = sum(request.tokens for request in provider.requests)
    # The client has its last word before the gateway has counted it.
    assert total - provider.last.tokens <= gateway.figures.input_tokens <= total


def test_watching_changes_nothing(start: Gateways, provider: ScriptedProvider) -> None:
    """A gateway that only watches sends every request as it came, and reckons what it would have sent."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start(8_000, watch=True)

    for steps in (1, 10, 20):
        assert post(gateway, said("Go.", steps=steps)).status_code == 200
        assert provider.last.raw == said("Go.", steps=steps)

    assert gateway.figures.folds > 0


def test_watching_learns_how_the_provider_counts(start: Gateways, provider: ScriptedProvider) -> None:
    """Claude is taken to count more than our counter until its usage is known: a gateway that watches learns it as well."""
    folds: list[int] = []
    for watch in (False, True):
        provider.begin()
        provider.improvise = Reading(60)
        gateway = start(12_000, watch=watch, on=open_store())
        agent = AGENTS["anthropic"](gateway.url, stream=False)
        agent.model = "claude-opus-4-8"
        agent.say("Read the modules.")
        agent.run()
        folds.append(gateway.figures.folds)
    assert folds[0] > 1
    assert abs(folds[1] - folds[0]) <= 1


def test_metrics_are_the_figures_of_all_conversations(start: Gateways, provider: ScriptedProvider) -> None:
    """An operator reads the sums over all conversations at `/metrics`, by name."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start(8_000)
    for key in ("k-1", "k-2"):
        assert post(gateway, said("Go."), x_api_key=key).status_code == 200

    told = httpx2.get(f"{gateway.url}/metrics").text
    lines = dict(line.rsplit(" ", 1) for line in told.splitlines())
    assert lines["foveal_calls_total"] == "2"
    assert int(lines["foveal_input_tokens_total"]) == gateway.figures.input_tokens > 0
