"""Habits of real clients: their own compaction, another model in the middle, patience with a provider that is slow."""

import json
from typing import Any

import pytest

from foveal.dialects.sse import KEEP_ALIVE
from foveal.gateway import app
from foveal.stores import Store
from foveal.stores.rows import to_entry
from foveal.testing.provider import ScriptedProvider, Turn
from foveal.values.entry import Message, Overflow, Rewind

from .clients import AGENTS
from .conftest import Gateways, RunningGateway
from .requests import PATHS, asked, names, post, said

BUDGET = 8_000
TEXT_ONLY = (
    "CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nYour task is to create a summary of the conversation."
)


def _messages_kept(store: Store, gateway: RunningGateway) -> list[str]:
    (name,) = names(gateway)
    bodies = [to_entry(row, name).body for row in store.rows(name)]
    return [str(body) for body in bodies if isinstance(body, Message)]


def test_a_compaction_of_codex_is_sent_folded(start: Gateways, provider: ScriptedProvider, store: Store) -> None:
    """Its whole history, far above the limit, with no tools and another kind of request: it fits, and the old history stays."""
    provider.improvise = lambda request: Turn("A summary of it.")
    gateway = start(BUDGET)
    headers = {"thread_id": "t-1", "session_id": "s-1", "x_codex_window_id": "t-1:0"}
    whole: dict[str, Any] = {**json.loads(asked("openai_responses", 30)), "stream": True, "parallel_tool_calls": True}
    tools = [{"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": False}]
    path = PATHS["openai_responses"]

    assert post(gateway, json.dumps({**whole, "tools": tools}).encode(), path, **headers).status_code == 200
    asks = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Write a handoff summary."}]}
    compacts = json.dumps({**whole, "input": [*whole["input"], asks], "tools": []}).encode()
    kind = json.dumps({"request_kind": "compaction", "thread_id": "t-1"})
    reply = post(gateway, compacts, path, **headers, x_codex_turn_metadata=kind)

    assert "response.completed" in reply.text
    assert provider.last.tokens <= BUDGET
    assert "Write a handoff summary." in str(provider.last.body["input"][-1])
    short = {**whole, "input": [{"role": "user", "content": "Summary: it was read."}], "tools": tools}
    headers["x_codex_window_id"] = "t-1:1"
    assert post(gateway, json.dumps(short).encode(), path, **headers).status_code == 200
    assert provider.last.raw == json.dumps(short).encode()
    kept = _messages_kept(store, gateway)
    assert any("end of m3.py" in one for one in kept)
    assert any("Summary: it was read." in one for one in kept)
    assert (gateway.figures.unmanaged, provider.refused) == (0, [])


def test_a_compaction_of_claude_code_is_sent_folded(start: Gateways, provider: ScriptedProvider, store: Store) -> None:
    """The same tools, a history without its end, and the command to answer in words: it fits, and nothing is lost."""
    provider.improvise = lambda request: Turn("<summary>It was read.</summary>")
    gateway = start(BUDGET)
    session = {"x_claude_code_session_id": "s-1"}
    assert post(gateway, said("Go.", steps=30), **session).status_code == 200

    cut = json.loads(said("Go.", steps=28))
    cut["messages"][-1]["content"].append({"type": "text", "text": TEXT_ONLY})
    reply = post(gateway, json.dumps(cut).encode(), **session)

    assert "It was read." in reply.text
    assert provider.last.tokens <= BUDGET
    assert provider.last.body["messages"][-1]["content"][-1]["text"] == TEXT_ONLY
    after = said("This session is being continued from a previous conversation.", steps=2)
    assert post(gateway, after, **session).status_code == 200
    assert provider.last.raw == after
    kept = _messages_kept(store, gateway)
    assert any("end of m29.py" in one for one in kept)
    assert any("being continued" in one for one in kept)
    assert (gateway.figures.unmanaged, provider.refused) == (0, [])


def test_another_model_in_the_middle_goes_on_with_the_session(
    start: Gateways, provider: ScriptedProvider, store: Store
) -> None:
    """A client that changes the model and back is managed by one session, within the budget, without going back in it."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start(BUDGET)
    models = ("claude-opus-4-5", "claude-sonnet-4-5", "claude-opus-4-5", "claude-haiku-4-5")
    for steps, model in enumerate(models, 20):
        body = said("Go.", steps=steps, model=model)
        assert post(gateway, body, x_claude_code_session_id="s-1").status_code == 200
        assert (provider.last.body["model"], provider.last.tokens <= BUDGET) == (model, True)
        assert f"end of m{steps - 1}.py" in provider.last.raw.decode()

    (name,) = names(gateway)
    bodies = [to_entry(row, name).body for row in store.rows(name)]
    assert not [one for one in bodies if isinstance(one, Overflow)]
    assert len([one for one in bodies if isinstance(one, Rewind)]) <= len(models)
    assert (gateway.figures.unmanaged, provider.refused) == (0, [])


@pytest.mark.parametrize("dialect", AGENTS)
def test_a_client_that_waits_gets_signs_of_life(
    start: Gateways, provider: ScriptedProvider, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the provider is silent, bytes come that every SDK overlooks; the reply is the one that it would have been."""
    monkeypatch.setattr(app, "PING_S", 0.02)
    came: list[bytes] = []

    async def counted(heartbeat: Any, message: Any) -> None:
        came.append(message.get("body"))
        await send(heartbeat, message)

    send = app.Heartbeat.send
    monkeypatch.setattr(app.Heartbeat, "send", counted)
    provider.script(Turn("Well.", stall_after=2, stall_s=0.5))
    agent = AGENTS[dialect](start(BUDGET).url, stream=True)
    agent.say("Go.")

    assert agent.step() == []
    assert "Well." in str(agent.list[-1])
    assert came.count(KEEP_ALIVE) > 1
