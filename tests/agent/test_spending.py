"""`Limits(max_usd=…)`: no model call is paid beyond it, whoever makes it below the run."""

import asyncio
import logging

import pytest

from foveal import Policy
from foveal.agent import Agent, ApprovalRule, Limits, ModelChoice, Runs, UserAnswer, tool
from foveal.agent.run_events import UsageCounted
from foveal.agent.run_log import read_events
from foveal.agent.run_marks import SummaryPaid
from foveal.testing.run_checks import run_problems
from foveal.values.errors import BadInput

from .conftest import FakeModel, agent_with, calls, says

CALL_USD = 0.0125 + 0.00001
"""A call of 10,000 tokens and one token of gpt-5."""
FOUND = "The cookie is set twice, in login.py, lines 12 and 40, which I have read twice over. " * 4


@tool
def look() -> str:
    """Look."""
    return "seen"


def looking(calls_made: int, **limits):
    """An agent that looks so many times before it answers, at one price a call."""
    replies = [says("", ("look", {}), tokens=10_000) for _ in range(calls_made)]
    model = FakeModel(*replies, says(FOUND, tokens=10_000))
    return model, agent_with(model, look, limits=Limits(same_call=99, **limits), name="looker")


def test_a_run_ends_before_the_call_that_would_be_over_its_limit(store):
    """What it has come to is kept, and the reason names both sums."""
    model, agent = looking(9, max_usd=2.5 * CALL_USD)
    outcome = asyncio.run(agent.run("Go.", session="s", store=store))
    assert (outcome.status, len(model.requests)) == ("failed", 3)
    assert outcome.reason == "s#1 has spent $0.0375 of $0.0313, its limit max_usd; resume it with a higher one"
    assert run_problems(read_events(store, "s")) == []


def test_a_run_that_has_spent_its_limit_goes_on_with_a_higher_one(store):
    """Nothing is done again."""
    _, agent = looking(3, max_usd=1.5 * CALL_USD)
    asyncio.run(agent.run("Go.", session="s", store=store))

    async def go_on():
        model = FakeModel(says("Done."))
        runs = Runs(store, [agent_with(model, look, limits=Limits(max_usd=1.0), name="looker")])
        await runs.resume("s")
        return await runs.wait("s", 10)

    outcome = asyncio.run(go_on())
    assert (outcome.status, outcome.text, outcome.steps) == ("completed", "Done.", 3)


def test_the_calls_of_a_sub_agent_count(store):
    """They are stopped by the limit of the run above, which then ends as well."""
    below, sub = looking(9)
    above = FakeModel(calls("delegate", task="Look."), says("Done."))
    agent = agent_with(above, agents=[sub], limits=Limits(max_usd=2.5 * CALL_USD))
    outcome = asyncio.run(agent.run("Go.", session="s", store=store))
    assert (outcome.status, len(below.requests), len(above.requests)) == ("failed", 3, 1)
    child = Runs(store).tree("s").children[0].run
    assert Runs(store).outcome(child).reason.startswith("s#1 has spent $0.0376 of $0.0313")
    assert (Runs(store).cost("s").total_usd or 0.0) < 4 * CALL_USD


def test_what_was_spent_before_a_crash_counts(store):
    """The log says it, in any process."""

    async def talk():
        looked = asyncio.Event()

        @tool(name="look")
        async def look_for_long() -> str:
            looked.set()
            await asyncio.Event().wait()
            return "never"

        model = FakeModel(says("", ("look", {}), tokens=10_000))
        agent = agent_with(model, look_for_long, limits=Limits(max_usd=1.5 * CALL_USD), name="looker")
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await looked.wait()
        await runs.pause(run)
        await runs.wait(run, 10)
        _, again = looking(9, max_usd=1.5 * CALL_USD)
        runs = Runs(store, [again])
        await runs.resume(run)
        outcome = await runs.wait(run, 10)
        return outcome, Runs(store).cost(run).calls

    outcome, made = asyncio.run(talk())
    assert (outcome.status, made) == ("failed", 2)


def test_the_calls_of_the_summariser_count(store):
    """Their bills are in the log of the run."""

    async def talk():
        _, agent = looking(9, max_usd=2.0)
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        runs._live.by_session["s"][0].journal.put(SummaryPaid(None, 2.5))
        return await runs.wait(run, 10)

    assert "has spent $2.5" in asyncio.run(talk()).reason


@pytest.mark.filterwarnings("ignore:nobody-knows-it")
def test_a_cost_that_is_unknown_is_told_and_ends_nothing(store, caplog):
    """The limit holds for the rest: a model without a price is no reason to leave the work."""
    model, agent = looking(2, max_usd=CALL_USD)
    agent.models = (ModelChoice("nobody-knows-it", "openai"),)
    with caplog.at_level(logging.WARNING, "foveal.runs"):
        outcome = asyncio.run(agent.run("Go.", session="s", store=store))
    assert (outcome.status, len(model.requests)) == ("completed", 3)
    (told,) = [one.getMessage() for one in caplog.records]
    assert told == "run s#1 has max_usd, and 1 of its model calls has no known cost: only the others count"


def test_the_next_run_of_a_session_has_all_of_it_before_it(store):
    """It is a limit of a run."""
    for number in (1, 2):
        _, agent = looking(0, max_usd=CALL_USD / 2)
        outcome = asyncio.run(agent.run("Go.", session="s", store=store))
        assert (outcome.run, outcome.status) == (f"s#{number}", "completed")


@pytest.mark.parametrize("most", [0, -1, float("nan"), float("inf")])
def test_a_limit_of_nothing_is_refused(most):
    """And so is one that is no sum of money."""
    with pytest.raises(BadInput, match="max_usd"):
        Limits(max_usd=most)


def test_prices_of_the_policy_are_those_of_the_run(store):
    """A model that the built-in table does not know has a cost, in the report, in the audit trail and for the limit."""
    prices = {"own-model": {"window": 100_000, "price_input": 100.0, "price_output": 0.0}}
    replies = [says("", ("look", {}), tokens=10_000) for _ in range(9)]
    agent = Agent(
        model=ModelChoice("own-model", "openai"),
        tools=[look],
        policy=Policy(max_context_tokens=60_000, models=prices),
        limits=Limits(same_call=99, max_usd=1.5),
        open_model=lambda _: FakeModel(*replies),
    )
    outcome = asyncio.run(agent.run("Go.", session="s", store=store))
    assert outcome.reason == "s#1 has spent $2.0000 of $1.5000, its limit max_usd; resume it with a higher one"
    assert Runs(store).cost("s").own_usd == pytest.approx(2.0)
    assert [one.usd for one in read_events(store, "s") if isinstance(one, UsageCounted)] == [1.0, 1.0]


def priced(prices, *replies):
    """An agent of a model of its own, with these prices of a policy."""
    policy = Policy(max_context_tokens=60_000, models=prices) if prices else Policy(max_context_tokens=60_000)
    model, rules = FakeModel(*replies), [ApprovalRule("look")]
    return Agent(
        model=ModelChoice("gpt-5", "openai"), tools=[look], approvals=rules, policy=policy, open_model=lambda _: model
    )


def test_prices_of_the_policy_are_those_of_every_run_of_the_session(store):
    """The policy is in the log once."""
    prices = {"gpt-5": {"price_input": 100.0, "price_output": 0.0}}
    for number in (1, 2):
        asyncio.run(priced(prices, says("Done.", tokens=10_000)).run("Go.", session="s", store=store))
        assert Runs(store).cost(f"s#{number}").own_usd == pytest.approx(1.0)


def test_prices_that_the_policy_has_no_longer_count_no_longer(store):
    """From the call on that is made with the new policy; the bills before it stay."""
    dear = {"gpt-5": {"price_input": 100.0, "price_output": 0.0}}
    told = []

    async def talk():
        first = priced(dear, says("", ("look", {}), tokens=10_000))
        runs = Runs(store, [first])
        run = await runs.start(first, "Go.", session="s")
        await runs.wait(run, 10)
        second = priced({}, says("Done.", tokens=10_000))
        second.on_event = told.append
        runs = Runs(store, [second])
        await runs.resume(run, UserAnswer(decision="allow"))
        await runs.wait(run, 10)
        return runs.cost(run).own_usd

    assert asyncio.run(talk()) == pytest.approx(1.0 + CALL_USD)
    assert [one.usd for one in told if isinstance(one, UsageCounted)] == [pytest.approx(CALL_USD)]


def test_an_empty_reply_is_billed_under_the_name_by_which_the_model_was_asked(store):
    """Providers answer with a dated one, which has no price."""
    dated = [says(text, tokens=10_000) | {"model": "own-model-2026-01-01"} for text in ("", "Done.")]
    prices = {"own-model": {"window": 100_000, "price_input": 100.0, "price_output": 0.0}}
    agent = priced(prices, *dated)
    agent.models = (ModelChoice("own-model", "openai"),)
    asyncio.run(agent.run("Go.", session="s", store=store))
    cost = Runs(store).cost("s")
    assert (list(cost.own), cost.own_usd) == (["own-model"], pytest.approx(2.0))
