"""Sub-agents in line: a tool that gives a task to an agent with a window of its own, and returns its answer.

The sub-agent's session is named after the call, so that a call that is run again, after a crash or after an answer of the
user, goes on with the same session. Its questions reach the user through the runs above it; its answer is shown to the
parent up to a limit, and the whole can be recalled.
"""

import asyncio
from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated

import msgspec

from foveal.agent.definition import AgentDefinition
from foveal.agent.driver import RunDriver, RunOutcome
from foveal.agent.inbox import QuestionReply, post
from foveal.agent.near_names import did_you_mean
from foveal.agent.run_events import ChildTold, RunEvent, scope_of
from foveal.agent.run_log import read_run
from foveal.agent.run_marks import ENDED, ChildBegan
from foveal.agent.tools import AskUser, Tool, ToolContext, ToolOutput, tool
from foveal.session.options import Host

ANSWER_TOKENS = 2_000
"""Tokens of a sub-agent's answer that its parent is shown at once; a model that was shown less fetched the rest again and
again."""
THIN_CHARACTERS = 200
"""Answers below this were found to be of no use to the parent; such a sub-agent is asked once more."""
AT_ONCE = 4
"""Sub-agents of one run that work at the same time."""
MOST_STEPS = 20
"""Steps of a sub-agent whose own limits say nothing else."""


def delegate_tools(driver: RunDriver) -> Sequence[Tool]:
    """Return the tool by which the agent of this driver delegates; none if it has no sub-agents."""
    agents = driver.agent.agents
    if not agents:
        return ()
    places = asyncio.Semaphore(AT_ONCE)

    async def delegate(
        ctx: ToolContext,
        task: Annotated[str, msgspec.Meta(description="the whole task: the sub-agent knows nothing else")],
        agent: Annotated[str, msgspec.Meta(description="name of the sub-agent")] = next(iter(agents)),
        refs: Annotated[list[str], msgspec.Meta(description="references of results that it may read")] = [],  # noqa: B006 - copied
    ) -> ToolOutput:
        named = agents.get(agent)
        if named is None:
            return ToolOutput(f"There is no agent {agent!r}. {did_you_mean(agent, agents)}", "error")
        async with places:
            return await _delegated(driver, named, ctx, task, refs)

    listed = "; ".join(f"{one.name}: {one.description or one.instructions[:120]}" for one in agents.values())
    made = tool(name="delegate", timeout_s=None, retain={"mode": "summary", "limit_tokens": ANSWER_TOKENS})(delegate)
    described = (
        f"Give a task to a sub-agent and get its answer. Several calls in one reply run side by side. Agents: {listed}"
    )
    return (msgspec.structs.replace(made, description=described),)


async def _delegated(
    driver: RunDriver, agent: AgentDefinition, ctx: ToolContext, task: str, refs: Sequence[str]
) -> ToolOutput:
    name = f"{agent.name}-{sha256(ctx.key.encode()).hexdigest()[:10]}"
    session = f"{driver.session}/{name}"
    state = await asyncio.to_thread(read_run, driver.store, session)
    if state.status in ENDED:  # it ended before its answer was kept
        return _output(RunOutcome.of(state))
    if ctx.answer is not None and ctx.answer.question in state.asked:
        await asyncio.to_thread(post, driver.store, session, QuestionReply(ctx.answer))
    bounded = _bounded(agent)
    more = Host(summariser=agent.summariser, environment=agent.environment)
    names = [*bounded.toolset, "delegate"]
    opened = await driver.journal.do(
        lambda parent: parent.children.open(
            name,
            task,
            system=agent.instructions,
            tools=names,
            refs=refs if state.status is None else (),
            model=agent.models[state.model].session_model,
            policy=agent.policy,
            host=more,
        )
    )
    child = RunDriver(bounded, driver.store, session, parent=driver.state.id, opened=opened, more_tools=delegate_tools)
    return await _driven(driver, child, ctx, is_new=state.status is None)


async def _driven(driver: RunDriver, child: RunDriver, ctx: ToolContext, *, is_new: bool) -> ToolOutput:
    """Drive the run of a sub-agent, its events told by the run above."""

    def tell(event: RunEvent) -> None:
        driver.journal.hub.publish([ChildTold(scope=scope_of(driver.state), event=event)])

    child.journal.hub.relays.append(tell)
    driver.children.add(child)
    try:
        run = await (child.begin("", is_told=True) if is_new else child.go_on())
        if ctx.key not in driver.state.children:
            await driver.journal.write(ChildBegan(ctx.key, run, child.agent.name))
        outcome = await child.drive()
    finally:
        driver.children.discard(child)
    if outcome.status == "awaiting_user" and outcome.questions:
        raise AskUser(outcome.questions[0].text, question=outcome.questions[0])
    return _output(outcome)


def _output(outcome: RunOutcome) -> ToolOutput:
    """Return the answer of a sub-agent, or why it has none and how far it came."""
    if outcome.status == "completed":
        return ToolOutput(outcome.text, summary=f"answer of {outcome.run} after {outcome.steps} steps", data=outcome)
    told = f"[{outcome.run} {outcome.status} after {outcome.steps} steps: {outcome.reason}]\n{outcome.text}"
    return ToolOutput(told.strip(), "error", data=outcome)


def _bounded(agent: AgentDefinition) -> AgentDefinition:
    """Return the agent with the bounds of a sub-agent, where its own limits leave them open."""
    usual = type(agent.limits)()
    limits = agent.limits
    steps = MOST_STEPS if limits.max_steps == usual.max_steps else limits.max_steps
    thin = THIN_CHARACTERS if limits.thin_answer == usual.thin_answer else limits.thin_answer
    return agent.limited(msgspec.structs.replace(limits, max_steps=steps, thin_answer=thin))
