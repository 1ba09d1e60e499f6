"""Sub-agents: tools that give a task to an agent with a window of its own, in line or detached.

The sub-agent's session is named after the call, so that a call that is run again, after a crash or after an answer of the
user, goes on with the same session. `delegate` waits for the answer: it is shown to the parent up to a limit, and the whole can
be recalled; questions reach the user through the runs above. `spawn` returns at once: the run is one of its own, and the parent
is told when it has ended.
"""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from typing import Annotated, Any, TypeAlias

import msgspec

from foveal.agent.definition import AgentDefinition, with_successors
from foveal.agent.driver import LETTING_GO_LOOK_S, LETTING_GO_S, UNDER_WAY, RunDriver, RunOutcome
from foveal.agent.handoff import handoff_tools, listed, no_agent
from foveal.agent.inbox import QuestionReply, post
from foveal.agent.run_events import ChildTold, RunEvent, scope_of
from foveal.agent.run_log import RunLog, read_run
from foveal.agent.run_marks import ENDED, ChildBegan, SpawnedBy, run_name, split_run, to_note
from foveal.agent.run_state import RunState, run_below
from foveal.agent.summary_meter import SummaryMeter
from foveal.agent.tools import AskUser, Tool, ToolContext, ToolOutput, tool
from foveal.session.options import Host
from foveal.session.session import Session
from foveal.values.errors import FovealError, LeaseLost, SessionHeld, StoreError

ANSWER_TOKENS = 2_000
"""Tokens of a sub-agent's answer that its parent is shown at once; a model that was shown less fetched the rest again and
again."""
AT_ONCE = 4
"""Sub-agents of one run that work at the same time."""
MOST_SPAWNED = 8
"""Detached sub-agents of one session that have not ended; a model that spawns more has lost count."""
_OFFERED = ("delegate", "spawn", "spawned", "handoff")
_ANSWER = {"mode": "summary", "limit_tokens": ANSWER_TOKENS}
_OWN: Mapping[str, Any] = {"raises": (StoreError,), "grace_s": None}
"""A store that fails is no result; and a sub-agent that was given up writes its end before the run above goes on."""

Drive: TypeAlias = Callable[[RunDriver], object]
"""Drives a run that was begun, in the background."""

Task: TypeAlias = Annotated[str, msgspec.Meta(description="the whole task: the sub-agent knows nothing else")]
AgentName: TypeAlias = Annotated[str, msgspec.Meta(description="name of the sub-agent")]
References: TypeAlias = Annotated[list[str], msgspec.Meta(description="references of results that it may read")]
InheritedTurns: TypeAlias = Annotated[
    int, msgspec.Meta(description="newest turns of this conversation that it sees before its task", ge=0, le=20)
]


class SubAgentTask(msgspec.Struct, frozen=True):
    """A task for a sub-agent, as the model gives it."""

    text: str
    refs: Sequence[str] = ()
    inherit_turns: int = 0
    metadata: Mapping[str, str] = {}
    """Facts about a detached run, kept with it for the program."""


def agent_tools(drive: Drive, driver: RunDriver) -> Sequence[Tool]:
    """Return the tools by which the agent of this driver uses others: to delegate, to spawn, to hand over."""
    return (*_delegate_tools(drive, driver), *_spawn_tools(drive, driver), *handoff_tools(driver))


def _delegate_tools(drive: Drive, driver: RunDriver) -> Sequence[Tool]:
    agents = driver.agent.agents
    if not agents:
        return ()
    places, first = asyncio.Semaphore(AT_ONCE), next(iter(agents))

    async def delegate(
        ctx: ToolContext,
        task: Task,
        agent: AgentName = first,
        refs: References = [],  # noqa: B006 - copied
        inherit_turns: InheritedTurns = 0,
    ) -> ToolOutput:
        if (named := agents.get(agent)) is None:
            return no_agent(agent, agents)
        async with places:
            return await _delegated(drive, driver, named, ctx, SubAgentTask(task, refs, inherit_turns))

    made = tool(name="delegate", timeout_s=None, retain=_ANSWER)(delegate)
    described = "Give a task to a sub-agent and get its answer. Several calls in one reply run side by side. Agents: "
    return (msgspec.structs.replace(made, description=described + listed(agents, driver.agent), **_OWN),)


def _spawn_tools(drive: Drive, driver: RunDriver) -> Sequence[Tool]:
    agents = driver.agent.detached
    if not agents:
        return ()
    first = next(iter(agents))

    async def spawn(
        ctx: ToolContext,
        task: Task,
        agent: AgentName = first,
        *,
        refs: References = [],  # noqa: B006 - copied
        inherit_turns: InheritedTurns = 0,
        metadata: dict[str, str] = {},  # noqa: B006 - copied
    ) -> ToolOutput:
        if (named := agents.get(agent)) is None:
            return no_agent(agent, agents)
        return await _spawned(drive, driver, named, ctx, SubAgentTask(task, refs, inherit_turns, metadata))

    @tool(retain=_ANSWER, may_repeat=True)
    async def spawned(run: str) -> ToolOutput:
        """Return the answer of a sub-agent that was spawned, or how far it is."""
        session = split_run(run_below(driver.state, run))[0]
        is_own = session.startswith(f"{driver.session}/")
        state = await asyncio.to_thread(read_run, driver.store, session) if is_own else None
        if state is None or state.spawned_by is None:
            return ToolOutput(f"There is no spawned run {run!r} of this session.", "error")
        if state.status in ENDED:
            return _output(RunOutcome.of(state))
        return ToolOutput(
            f"[{state.id} is {state.status} after {state.all_steps} steps; you are told when it has ended]"
        )

    described = (
        "Give a task to a sub-agent that works in the background, and get the name of its run at once. You are told when it "
        f"has ended. Agents: {listed(agents, driver.agent)}"
    )
    made = tool(name="spawn", timeout_s=None, serial=True)(spawn)  # each counts those before it
    return msgspec.structs.replace(made, description=described, **_OWN), spawned


def _child_name(agent: AgentDefinition, ctx: ToolContext) -> str:
    return f"{agent.name}-{sha256(ctx.key.encode()).hexdigest()[:10]}"


async def _delegated(
    drive: Drive, driver: RunDriver, agent: AgentDefinition, ctx: ToolContext, task: SubAgentTask
) -> ToolOutput:
    """Return the answer of a sub-agent. If somebody drives its run under its own name, that is waited for, and taken up where it
    rests."""
    log = RunLog(driver.store, f"{driver.session}/{_child_name(agent, ctx)}")
    until = time.monotonic() + LETTING_GO_S
    while True:
        await asyncio.to_thread(log.pull)
        if log.state.status in ENDED:  # here, before its answer was kept, or elsewhere
            return _output(RunOutcome.of(log.state))
        try:
            outcome = await _worked(drive, driver, agent, ctx, task, state=log.state)
        except SessionHeld:
            await asyncio.to_thread(log.pull)
            if log.state.status in UNDER_WAY:
                until = time.monotonic() + LETTING_GO_S
            elif log.state.status not in ENDED and time.monotonic() > until:  # whoever has it does not drive it
                raise
            await asyncio.sleep(LETTING_GO_LOOK_S)
        else:
            if outcome.status in ENDED:  # otherwise it rests by a wish that came too late for whoever drove it
                return _output(outcome)


async def _worked(
    drive: Drive,
    driver: RunDriver,
    agent: AgentDefinition,
    ctx: ToolContext,
    task: SubAgentTask,
    *,
    state: RunState,
) -> RunOutcome:
    """Begin the run of a sub-agent, which is in this state, or go on with it, until it ends or rests. `SessionHeld` if somebody
    else drives it; `AskUser` if it has a question."""
    name, session = _child_name(agent, ctx), state.session
    if ctx.answer is not None and ctx.answer.source != "sub_agent" and ctx.answer.question in state.asked:
        # Once, although this call may be run again before the sub-agent has taken it.
        answered = f"{ctx.key} {driver.state.times_asked.get(ctx.key, 0)}"
        await asyncio.to_thread(
            post, driver.store, session, QuestionReply(ctx.answer), key=answered, redact=agent.redact
        )
    taker = with_successors([agent]).get(state.agent) if state.handoffs else None
    bounded, is_new = taker or agent.as_sub_agent(), state.status is None
    meter = SummaryMeter(bounded)
    opened = await _begun(
        driver,
        lambda parent: _opened(parent, bounded, name, task, meter=meter, model=None if is_new else state.model),
    )
    child = RunDriver(
        bounded,
        driver.store,
        session,
        parent=driver.state.id,
        above=driver,
        opened=opened,
        meter=meter,
        more_tools=partial(agent_tools, drive),
    )
    return await _driven(driver, child, ctx, run_name(session, max(1, state.run)), is_new=is_new)


async def _spawned(
    drive: Drive, driver: RunDriver, agent: AgentDefinition, ctx: ToolContext, task: SubAgentTask
) -> ToolOutput:
    """Begin a run of its own for a sub-agent. Called again after a crash, it finds the run that it has begun."""
    name = _child_name(agent, ctx)
    session = f"{driver.session}/{name}"
    state = await asyncio.to_thread(read_run, driver.store, session)
    more = partial(agent_tools, drive)
    if state.status is None:
        if ctx.key not in driver.state.children and len(driver.state.spawned) >= MOST_SPAWNED:
            return ToolOutput(
                f"[not spawned: {MOST_SPAWNED} sub-agents are at work. Wait until one has ended.]", "error"
            )
        await _tell_spawned(driver, ctx, agent, session)  # first: whoever is stopped here finds it all the same
        bounded, spawner = agent.as_sub_agent(), SpawnedBy(driver.state.id, dict(task.metadata))
        meter = SummaryMeter(agent)

        def open_child(parent: Session) -> Session:
            opened = _opened(parent, bounded, name, task, meter=meter, model=None)
            try:
                opened.append(to_note(spawner, agent.redact))
            except BaseException:
                opened.close()
                raise
            return opened

        opened = await _begun(driver, open_child)
        child = RunDriver(bounded, driver.store, session, opened=opened, meter=meter, more_tools=more)
        beginning = asyncio.ensure_future(child.begin("", is_told=True))
        try:
            await asyncio.shield(beginning)
        except asyncio.CancelledError:  # the call is given up; the run is one of its own
            with suppress(FovealError):
                await beginning
                drive(child)
            raise
        drive(child)
    elif state.status in UNDER_WAY and state.agent == agent.name:
        child = RunDriver(agent, driver.store, session, more_tools=more)
        with suppress(SessionHeld):  # by whoever drives it
            if await child.take_up():
                drive(child)
    await _tell_spawned(driver, ctx, agent, session)
    run = f"{session}#1"
    return ToolOutput(f"[{run} is under way; spawned({run!r}) returns its answer when it has ended]", data={"run": run})


async def _tell_spawned(driver: RunDriver, ctx: ToolContext, agent: AgentDefinition, session: str) -> None:
    if ctx.key not in driver.state.children:
        await driver.journal.write(ChildBegan(ctx.key, f"{session}#1", agent.name, is_detached=True))


async def _begun(driver: RunDriver, open_child: Callable[[Session], Session]) -> Session:
    """Return the session of a sub-agent. If that fails or is given up, it is closed again: nobody else could have it."""
    opened: list[Session] = []
    opening = asyncio.ensure_future(driver.journal.do(lambda parent: opened.append(open_child(parent))))
    try:
        await asyncio.shield(opening)
    except BaseException:
        with suppress(Exception):  # a call that was given up opens it all the same
            await opening
        for one in opened:
            await asyncio.to_thread(one.close)
        raise
    return opened[0]


def _opened(
    parent: Session,
    agent: AgentDefinition,
    name: str,
    task: SubAgentTask,
    *,
    meter: SummaryMeter,
    model: int | None,
) -> Session:
    """Open the session of a sub-agent: a new one, or one that goes on with its model at this place."""
    is_new = model is None
    return parent.children.open(
        name,
        task.text,
        system=agent.instructions,
        inherit_turns=task.inherit_turns if is_new else 0,
        tools=[*agent.toolset, *_OFFERED],
        refs=task.refs if is_new else (),
        model=agent.models[model or 0].session_model,
        policy=agent.policy,
        host=Host(summariser=meter.summariser, environment=agent.environment, redact=agent.redact),
    )


async def _driven(driver: RunDriver, child: RunDriver, ctx: ToolContext, run: str, *, is_new: bool) -> RunOutcome:
    """Drive the run of a sub-agent, its events told by the run above. That it begins is in the log of that one first: who ends
    that one ends this one too."""

    def tell(event: RunEvent) -> None:
        driver.journal.hub.publish([ChildTold(scope=scope_of(driver.state), event=event, call=ctx.call)])

    child.journal.hub.relays.append(tell)
    driver.children.add(child)
    try:
        if ctx.key not in driver.state.children:
            await driver.journal.write(ChildBegan(ctx.key, run, child.agent.name))
        await _gone_on(child, is_new=is_new)
        outcome = await child.drive()
    except LeaseLost as error:  # of the sub-agent: somebody else has taken it up
        raise SessionHeld(str(error)) from error
    finally:
        driver.children.discard(child)
        await child.let_go()  # also if it was given up before it was driven
    if outcome.status == "awaiting_user" and outcome.questions:
        raise AskUser(outcome.questions[0].text, question=outcome.questions[0])
    return outcome


async def _gone_on(child: RunDriver, *, is_new: bool) -> None:
    """Begin the run of a sub-agent, or take it up. If that is given up, the run rests or ends as the one above it does."""
    going = asyncio.ensure_future(child.begin("", is_told=True) if is_new else child.go_on())
    try:
        await asyncio.shield(going)
    except asyncio.CancelledError:
        child.stop("paused", "the run above it was given up")  # unless that has told it something else
        with suppress(FovealError):
            await going
            await child.drive()
        raise


def _output(outcome: RunOutcome) -> ToolOutput:
    """Return the answer of a sub-agent, or why it has none and how far it came."""
    if outcome.status == "completed":
        return ToolOutput(outcome.text, summary=f"answer of {outcome.run} after {outcome.steps} steps", data=outcome)
    told = f"[{outcome.run} {outcome.status} after {outcome.steps} steps: {outcome.reason}]\n{outcome.text}"
    return ToolOutput(told.strip(), "error", data=outcome)
