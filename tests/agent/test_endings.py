"""The end of a run: words that come with it, runs of sub-agents that end with it, models that are gone, bills of failed calls."""

import asyncio

import pytest

import foveal
from foveal.agent import Agent, ModelChoice, Runs, tool
from foveal.agent.audit import audit_trail
from foveal.agent.inbox import QuestionReply, post
from foveal.agent.run_events import ModelReplied, ToolProgressed
from foveal.agent.run_log import read_events
from foveal.agent.tools import UserAnswer
from foveal.testing.run_checks import run_problems
from foveal.values.errors import BadInput, ModelFailed

from .conftest import FakeModel, agent_with, calls, says

FAILURE = ModelFailed("gpt-5", "auth", "no key", "Set it.")


@tool(guarded=True)
def shell(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


def without_usage(reply):
    return {key: value for key, value in reply.items() if key != "usage"}


def test_words_that_come_with_the_last_answer_are_heard_or_refused(store):
    """Whoever has seen the answer is told that the run has ended; nobody's words are taken and forgotten."""
    model = FakeModel(says("One."), says("Two."))
    agent = agent_with(model)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        async for event in runs.observe(run):
            if isinstance(event, ModelReplied) and event.text == "One.":
                with pytest.raises(BadInput, match="is completed; say it with a new run"):
                    await runs.follow_up(run, "And now?")

    asyncio.run(talk())
    assert len(model.requests) == 1


@pytest.mark.parametrize("state", ["waits", "rests", "was left"])
def test_the_runs_of_sub_agents_end_with_a_run_that_is_cancelled(store, state):
    """Although nobody drives them, and nobody will."""
    begun = asyncio.Event()
    first = calls("shell", command="ls") if state == "waits" else [begun]
    below, above = FakeModel(first, says("x" * 300)), FakeModel(calls("delegate", task="t"), says("Done."))
    child = Agent("c", name="reader", model=ModelChoice("gpt-5", "openai"), tools=[shell], open_model=lambda _: below)
    agent = agent_with(above, agents=[child])

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        if state == "waits":
            await runs.wait(run, 10)
        else:
            await begun.wait()
            await (runs.pause(run) if state == "rests" else runs.leave())
            runs = runs if state == "rests" else Runs(store, [agent])
            if state == "rests":
                await runs.wait(run, 10)
        await runs.cancel(run, "enough")
        await runs.wait(run, 10)
        return runs.tree(run)

    tree = asyncio.run(talk())
    assert (tree.status, [one.status for one in tree.children]) == ("cancelled", ["cancelled"])


def test_a_run_goes_on_with_the_last_model_of_an_agent_that_has_fewer(store):
    """It failed on a model that the agent no longer has."""
    many = agent_with(FakeModel(FAILURE, FAILURE), fallbacks=[ModelChoice("gpt-5-mini", "openai")])
    few = agent_with(FakeModel(says("Hello.")))

    async def talk():
        await many.run("Go.", session="s", store=store)
        runs = Runs(store, [few])
        return await runs.wait(await runs.resume("s"), 10)

    assert asyncio.run(talk()).text == "Hello."


def test_a_port_that_cannot_be_closed_does_not_hide_the_answer(store):
    """It belongs to the host, and the run has ended."""

    class Stuck(FakeModel):
        async def close(self) -> None:
            raise RuntimeError("no")

    outcome = asyncio.run(agent_with(Stuck(says("Hello."))).run("Go.", session="s", store=store))
    assert (outcome.status, outcome.text) == ("completed", "Hello.")


def test_the_cost_of_a_reply_without_a_count_is_unknown(store):
    """Never zero."""
    asyncio.run(agent_with(FakeModel(without_usage(says("Hello.")))).run("Go.", session="s", store=store))
    assert Runs(store).cost("s").own_usd is None


def test_a_call_that_is_given_up_before_a_word_came_is_counted(store):
    """The provider has told the tokens of the prompt, and bills them; nobody knows what it bills beyond them."""
    begun = asyncio.Event()
    told = says("", tokens=90_000) | {"choices": []}
    model = FakeModel([told, begun])
    agent = agent_with(model)

    async def talk():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await begun.wait()
        await runs.cancel(run)
        await runs.wait(run, 10)
        return runs.cost(run)

    cost = asyncio.run(talk())
    assert (cost.own["gpt-5"].input_tokens, cost.own_usd) == (90_000, None)


def test_an_answer_to_a_question_that_is_closed_leaves_no_trace(store):
    """The first decision counts, and the audit trail tells that one."""
    agent = agent_with(FakeModel(calls("shell", command="ls"), says("Done.")), shell)

    async def talk():
        runs = Runs(store, [agent])
        asked = await runs.wait(await runs.start(agent, "Go.", session="s"), 10)
        question = asked.questions[0].id
        for decision in ("allow", "deny"):
            post(store, "s", QuestionReply(UserAnswer("", decision, None, question)))
        return await runs.wait(await runs.resume("s"), 10)

    assert asyncio.run(talk()).text == "Done."
    allowed = [one.decision for one in audit_trail(store, "s") if one.action in ("tool.allow", "wait_user.answer")]
    assert [(one.outcome, one.reason) for one in allowed] == [("allow", ""), ("allowed", "allow")]


def test_a_thread_that_was_left_behind_tells_nothing_after_the_end(store):
    """Listeners have seen the end, and nothing comes behind it."""
    told: list = []

    @tool(timeout_s=0.01)
    async def slow(ctx: foveal.agent.ToolContext) -> str:
        """Work."""
        contexts.append(ctx)
        await asyncio.sleep(60)
        return ""

    contexts: list[foveal.agent.ToolContext] = []
    agent = agent_with(FakeModel(calls("slow"), says("Done.")), slow, on_event=told.append)
    asyncio.run(agent.run("Go.", session="s", store=store))
    contexts[0].progress("still here")
    assert not any(isinstance(one, ToolProgressed) for one in told)
    assert run_problems(read_events(store, "s")) == []
