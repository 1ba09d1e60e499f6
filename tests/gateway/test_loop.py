"""Long tool loops through the gateway, with every SDK."""

import json
from typing import Any

import pytest

from foveal.testing.provider import Call, ReceivedRequest, Refusal, ScriptedProvider, Turn

from .clients import AGENTS, SYSTEM, Reading, tool_names
from .conftest import Gateways

STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
EVERY = pytest.mark.parametrize("dialect", AGENTS)
EXTRAS: dict[str, dict[str, Any]] = {
    "anthropic": {"metadata": {"user_id": "u-1"}, "extra_body": {"new_field": {"b": 1, "a": [1.0]}}},
    "openai_chat": {"temperature": 0.5, "seed": 7, "extra_body": {"new_field": {"b": 1, "a": [1.0]}}},
    "openai_responses": {"temperature": 0.5, "extra_body": {"new_field": {"b": 1, "a": [1.0]}}},
    "gemini": {"temperature": 0.5, "seed": 7},
}


def _fixed(request: ReceivedRequest) -> dict[str, Any]:
    """Return everything of a request but messages, tools and the wish for a usage."""
    changing = ("messages", "input", "contents", "tools", "stream_options")
    return {key: value for key, value in request.body.items() if key not in changing}


@EVERY
@STREAMED
def test_forty_steps_fit_into_a_small_budget(
    start: Gateways, provider: ScriptedProvider, dialect: str, stream: bool
) -> None:
    """A client with a history of five budgets works to its end: requests are valid and small, and hold what they must."""
    model = provider.improvise = Reading(40, every=9, thinks=True)
    gateway = start(10_000)
    agent = AGENTS[dialect](gateway.url, stream=stream, **EXTRAS[dialect])
    agent.say("Read the modules.")

    steps, seen = 0, 0
    while calls := agent.step():
        sent, seen = provider.requests[seen:], len(provider.requests)
        assert steps == 0 or all(f"end of m{steps}.py" in json.dumps(request.body) for request in sent)
        assert [call.name for call in calls] == ["read"]
        agent.answer(calls)
        steps += 1

    assert (steps, model.read) == (40, 40), gateway.lines
    assert provider.refused == []
    assert gateway.figures.unmanaged == 0, gateway.lines
    assert model.own > 0
    assert gateway.figures.recalls == model.own
    assert gateway.figures.folds > 1
    assert max(request.tokens for request in provider.requests) < 11_000
    assert gateway.figures.sent_tokens < gateway.figures.asked_tokens / 2
    assert "own_" not in repr(agent.list)
    assert "search_context" not in repr(agent.list)
    first = provider.requests[0]
    for request in provider.requests:
        assert _fixed(request) == _fixed(first)
        assert SYSTEM in json.dumps(request.body)
        assert tool_names(request)[0] == "read"
        assert request.path == first.path
        assert len(request.body["tools"]) == 1 or dialect != "gemini"
    assert len(tool_names(provider.last)) > 1


@EVERY
@STREAMED
def test_own_calls_beside_a_clients_calls_are_invisible(
    start: Gateways, provider: ScriptedProvider, dialect: str, stream: bool
) -> None:
    """A reply that calls an own tool and the client's shows the client its own call alone, and the model both answers."""
    model = provider.improvise = Reading(18, every=4, is_mixed=True, thinks=True)
    gateway = start(8_000)
    agent = AGENTS[dialect](gateway.url, stream=stream)
    agent.say("Read the modules.")

    agent.run()

    assert provider.refused == []
    assert gateway.figures.unmanaged == 0, gateway.lines
    assert gateway.figures.recalls == 0
    assert model.own > 0
    assert "own_" not in repr(agent.list)
    assert "search_context" not in repr(agent.list)
    answered = [request for request in provider.requests if json.dumps(request.body).count("own_") >= 2]
    assert len(answered) >= model.own
    for request in answered:  # shown once, not by the log and by the client
        assert json.dumps(request.body).count('"Both."') <= model.own


@EVERY
@pytest.mark.parametrize("fault", ["circles", "refused", "cut"])
def test_a_recall_that_leads_nowhere_ends_the_reply(
    start: Gateways, provider: ScriptedProvider, dialect: str, fault: str
) -> None:
    """A model that recalls without end is stopped, and a recall whose answer the provider does not take ends the reply: the
    client gets one that its SDK reads, and the conversation goes on."""
    gateway = start(8_000)
    agent = AGENTS[dialect](gateway.url, stream=True)
    agent.say("Read the modules.")
    provider.improvise = Reading(12)
    while agent.step():
        if len(tool_names(provider.last)) > 1:
            break
        agent.answer([Call(f"call_{len(provider.requests)}", "read", {"path": f"m{len(provider.requests)}.py"})])
    agent.answer([Call(f"call_{len(provider.requests)}", "read", {"path": f"m{len(provider.requests)}.py"})])
    asked = len(provider.requests)
    own = [Turn("Hm.", (Call(f"own_{i}", "search_context", {"query": "module"}),)) for i in range(20)]
    after = {"circles": own[1:], "refused": [Refusal(500, "no")], "cut": [Turn("A cut reply.", cut_after=0)]}
    provider.script(own[0], *after[fault])

    if fault == "cut":
        with pytest.raises(Exception, match=r"incomplete chunked read|Connection error"):
            agent.step()
    else:
        assert agent.step() == []
        assert "Hm." in repr(agent.list[-1])
        assert len(provider.requests) - asked == (8 if fault == "circles" else 2)
        agent.say("Go on.")
    assert "own_" not in repr(agent.list)
    provider.begin()
    provider.script(Turn("Well."))
    assert agent.step() == []
    assert (provider.refused, gateway.figures.unmanaged) == ([], 0), gateway.lines
