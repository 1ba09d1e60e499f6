"""Calls whose price nobody tells: the cost of their run is unknown, and never too low."""

import asyncio
import threading
from functools import partial

import pytest

from foveal import Policy, stages
from foveal.agent import Agent, ModelChoice, Runs, tool
from foveal.agent.model_calls import ModelCall
from foveal.agent.run_log import read_events, read_run
from foveal.testing.crash_points import cut_log
from foveal.testing.provider import ScriptedProvider, Turn
from foveal.testing.run_checks import run_problems

from .conftest import FakeModel, agent_with, calls, says


async def no_pause(_):
    """Wait for nothing between two attempts."""


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr("foveal.agent.model_step.ModelCall", partial(ModelCall, sleep=no_pause))


def half(text):
    """The beginning of a reply."""
    reply = says(text)
    reply["choices"][0]["finish_reason"] = None
    del reply["usage"]
    return reply


def without_usage(reply):
    return {key: value for key, value in reply.items() if key != "usage"}


def cost_of(store, *replies, **more):
    agent = agent_with(FakeModel(*replies), **more)

    async def talk():
        runs = Runs(store, [agent])
        await runs.wait(await runs.start(agent, "Go.", session="s"), 20)
        return runs.cost("s")

    return asyncio.run(talk())


def test_a_counted_reply_has_a_price(store):
    """What is told is added up."""
    assert cost_of(store, says("Done.")).own_usd


@pytest.mark.parametrize(
    "replies",
    [
        [without_usage(says("Done."))],
        [[half("D"), ConnectionError("gone")], says("Done.")],
        [*[[half("D"), ConnectionError("gone")]] * 4],
        [TimeoutError("no answer"), says("Done.")],
        [asyncio.CancelledError("by a library"), says("Done.")],
        [without_usage(says("")), says("Done.")],
        [[half("D") | {"usage": says("D")["usage"]}, ConnectionError("gone")], says("Done.")],
        [[], says("Done.")],
        [ConnectionResetError("gone"), says("Done.")],
    ],
    ids=[
        "no usage",
        "broken once",
        "broken for good",
        "timed out",
        "given up by a library",
        "empty",
        "counted too early",
        "no events",
        "no answer",
    ],
)
def test_a_call_that_was_not_counted_makes_the_cost_unknown(store, replies):
    """Whatever else was counted."""
    assert cost_of(store, *replies).own_usd is None


def test_a_refused_call_costs_nothing(store):
    """No model has read it."""
    assert cost_of(store, ConnectionRefusedError("nobody there"), says("Done.")).own_usd


@pytest.mark.parametrize(
    "model",
    ["openai:gpt-5@{}/v1", "openai-responses:gpt-5@{}/v1", "anthropic:claude-sonnet-5@{}", "google:gemini-2.5-pro@{}"],
)
def test_a_stream_that_breaks_has_an_unknown_price_in_every_format(store, model, monkeypatch):
    """Also where the provider counts from the beginning, as if it were to say one token."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "k")
    with ScriptedProvider() as server:
        server.script(Turn("word " * 400, cut_after=4), Turn("Done."))
        agent = Agent("You are careful.", model=model.format(server.url))

        async def talk():
            runs = Runs(store, [agent])
            outcome = await runs.wait(await runs.start(agent, "Go.", session="s"), 20)
            return outcome.text, runs.cost("s")

        text, cost = asyncio.run(talk())
    assert (text, cost.own_usd) == ("Done.", None)


def test_a_reply_without_a_count_is_not_paid_by_the_next_one(store):
    """Each call has its own bill."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    agent = agent_with(FakeModel(without_usage(says("", ("look", {}))), says("Done.")), look)

    async def talk():
        runs = Runs(store, [agent])
        await runs.wait(await runs.start(agent, "Go.", session="s"), 20)
        return runs.cost("s")

    assert asyncio.run(talk()).own_usd is None


@pytest.mark.parametrize("come", [0, 1], ids=["before its first word", "after it"])
def test_a_call_that_was_given_up_has_an_unknown_price(store, come):
    """The provider may bill it, or not."""
    begun = asyncio.Event()
    agent = agent_with(FakeModel([*[half("D")] * come, begun]), fallbacks=[ModelChoice("gpt-5-mini", "openai")])

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await begun.wait()
        await runs.cancel(run)
        await runs.wait(run, 20)
        return runs.cost(run)

    assert asyncio.run(talk()).own_usd is None


def test_a_call_whose_process_died_has_an_unknown_price(store):
    """Before anybody goes on with the run, and when it has ended: the provider may bill it, or not."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    agent = agent_with(FakeModel(says("", ("look", {})), says("Done."), *[says("Done.")] * 20), look)
    asyncio.run(agent.run("Go.", session="s", store=store))
    asking, costs = [], []
    for entries in range(4, store.cards("s")[0].entries):
        left = cut_log(store, "s", entries)
        asking.append(read_run(left, "s").is_asking)
        before = Runs(left).cost("s").own_usd

        async def go_on(left=left):
            runs = Runs(left, [agent])
            await runs.recover()
            return (await runs.wait("s", 20)).status

        assert asyncio.run(go_on()) == "completed"
        costs.append((before is None, Runs(left).cost("s").own_usd is None))
    assert costs == [(one, one) for one in asking]
    assert asking == [True, True, False, False, False, True, False, False]


def test_an_empty_reply_has_the_price_of_the_model_that_was_asked(store):
    """Whatever name the server gives itself: the tokens are paid for, and the whole reply behind it is billed so, too."""
    named = {"model": "accounts/x/some-name"}
    cost = cost_of(store, says("") | named, says("Done.") | named)
    assert (cost.own_usd is not None, list(Runs(store).outcome("s").usage)) == (True, ["gpt-5"])


@tool
def read(part: int) -> str:
    """Read a part."""
    return f"part {part}: " + " ".join(f"word{n}x{part}" for n in range(400))


async def never(begun):
    begun.set()
    await asyncio.Event().wait()


async def in_time(begun):
    begun.set()
    raise TimeoutError("no answer")


async def refused(begun):
    begun.set()
    raise ConnectionRefusedError("nobody there")


def folding(summarise, deadline_s=60.0):
    """An agent whose prompts are folded again and again; the second value is set when its summariser is asked."""
    begun = threading.Event()
    policy = Policy(max_context_tokens=3_000, remind=True, compact=stages.Compact(deadline_s=deadline_s))
    model = FakeModel(*(calls("read", part=n) for n in range(8)), says("It is all there, in eight parts. " * 10))
    return agent_with(model, read, policy=policy, summariser=lambda question: summarise(begun)), begun


@pytest.mark.parametrize("summarise", [never, in_time])
def test_a_summary_that_nobody_waited_for_has_an_unknown_price(store, summarise):
    """Its deadline came, and its provider may bill it, or not."""
    agent, begun = folding(summarise, deadline_s=0.1)
    asyncio.run(agent.run("Read it.", session="s", store=store))
    assert (begun.is_set(), Runs(store).cost("s").own_usd) == (True, None)
    assert run_problems(read_events(store, "s")) == []


def test_a_summary_that_was_refused_costs_nothing(store):
    """No model has read the question."""
    agent, begun = folding(refused)
    asyncio.run(agent.run("Read it.", session="s", store=store))
    assert begun.is_set()
    assert Runs(store).cost("s").own_usd


@pytest.mark.parametrize("wish", ["cancel", "pause"])
def test_a_summary_under_way_is_billed_before_its_run_stops(store, wish):
    """Once: what it tells after that is not heard."""
    agent, begun = folding(never)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Read it.", session="s")
        await asyncio.to_thread(begun.wait, 10)
        await getattr(runs, wish)(run)
        await runs.wait(run, 20)
        return runs.cost(run)

    cost = asyncio.run(talk())
    assert (cost.own_usd, sum(one.calls for one in cost.summaries.values())) == (None, 1)
    assert run_problems(read_events(store, "s")) == []
