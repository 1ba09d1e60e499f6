"""The conversation behind `foveal chat`, without a terminal: the cost at its foot."""

import asyncio
import io

import pytest

from foveal.agent import Agent
from foveal.cli.chat_session import ChatSession
from foveal.cli.chat_terminal import PlainTerminal
from foveal.cli.output import Output
from foveal.stores import open_store

from ..agent.conftest import FakeModel, agent_with, damage, says

FOUND = "The cookie is set twice, in login.py, lines 12 and 40, which I have read twice over. " * 4


def chat_of(agent, store) -> ChatSession:
    return ChatSession(agent, store, PlainTerminal(Output(io.StringIO())), session="s")


def agent_that(calls: str) -> Agent:
    """An agent whose first reply gives a sub-agent a task, by `delegate` or by `spawn`."""

    def reply(request):
        is_first = not any(one["role"] == "assistant" for one in request["messages"])
        return says("", (calls, {"task": "Look."})) if is_first else says("Done.")

    looker = agent_with(FakeModel(by=lambda request: says(FOUND)), name="looker")
    inline, detached = ([looker], []) if calls == "delegate" else ([], [looker])
    return agent_with(FakeModel(by=reply), agents=inline, detached=detached)


def test_the_cost_of_detached_sub_agents_is_at_the_foot():
    """As soon as the chat has settled after their end; it is the same as that of another chat that goes on."""

    async def talk():
        agent = agent_that("spawn")
        chat = chat_of(agent, store)
        await chat.say("Go.")
        await chat.settled()
        await chat.runs.wait(chat.runs.tree("s#1").children[0].run)
        await chat.say("And?")
        await chat.settled()
        billed = sum(chat.runs.cost(run).total_usd or 0.0 for run in ("s#1", "s#2"))
        return chat.usd, chat_of(agent, store).usd, billed

    with open_store() as store:
        usd, again, billed = asyncio.run(talk())
    assert usd == pytest.approx(again)
    assert usd == pytest.approx(billed)


def test_a_chat_goes_on_whose_sub_agent_was_deleted():
    """Its cost is unknown, which is said, and nothing else is lost."""

    async def talk():
        agent = agent_that("delegate")
        chat = chat_of(agent, store)
        await chat.say("Go.")
        await chat.settled()
        store.delete([chat.runs.tree("s").children[0].run.partition("#")[0]])
        return chat_of(agent, store)

    with open_store() as store:
        chat = asyncio.run(talk())
    assert (chat.run, chat.usd) == ("s#1", None)
    assert "cost unknown" in chat.status


def test_a_chat_goes_on_whose_sub_agent_has_a_damaged_log(monkeypatch):
    """Its cost is unknown; the conversation itself is whole."""

    async def talk():
        agent = agent_that("delegate")
        chat = chat_of(agent, store)
        await chat.say("Go.")
        await chat.settled()
        damage(store, monkeypatch, chat.runs.tree("s").children[0].run.partition("#")[0])
        again = chat_of(agent, store)
        await again.say("And?")
        await again.settled()
        return again

    with open_store() as store:
        chat = asyncio.run(talk())
        assert (chat.runs.outcome("s#2").text, chat.usd) == ("Done.", None)
