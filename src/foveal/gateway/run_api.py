"""The operations of the HTTP API on runs of agents: the verbs of `Runs`, each for a caller's own sessions.

The agents work on an event loop of their own, in a thread: no relayed request waits while one of them reads its log, and a
listener that is slow holds up nobody.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import suppress
from itertools import islice
from secrets import token_hex
from typing import Any, TypeVar

import msgspec

from foveal.agent.audit import audit_trail
from foveal.agent.deadlines import is_overdue
from foveal.agent.definition import AgentDefinition, everybody, with_successors
from foveal.agent.driver import RunOutcome, other_model
from foveal.agent.near_names import did_you_mean
from foveal.agent.run_events import RunEvent
from foveal.agent.run_marks import ENDED, run_name, split_run
from foveal.agent.run_reports import newest_runs
from foveal.agent.runs import ENDING, RunCard, Runs, RunTree, check_session
from foveal.agent.tools import UserAnswer
from foveal.gateway.api_types import AttachRequest, NoParameters
from foveal.gateway.run_types import (
    AgentList,
    OfferedAgent,
    RunAnswer,
    RunAudit,
    RunBill,
    RunDecision,
    RunFilter,
    RunList,
    RunResume,
    RunStart,
    RunStop,
    RunWait,
    RunWords,
)
from foveal.gateway.session_api import SessionApi
from foveal.gateway.session_names import ApiCaller
from foveal.session.options import now_ms
from foveal.values.entry import File
from foveal.values.errors import BadInput, BadPolicy, FovealError

T = TypeVar("T")

LOOK_S = 0.25
"""Seconds of silence after which a stream of events looks whether it is still wanted, and at a run that rests."""


class AgentLoop:
    """An event loop in a thread of its own, which begins with the first work for it."""

    def __init__(self) -> None:
        self._begun: tuple[asyncio.AbstractEventLoop, threading.Thread] | None = None
        self._callers: asyncio.AbstractEventLoop | None = None
        """The loop of the callers."""

    @property
    def has_begun(self) -> bool:
        """Whether it has had any work."""
        return self._begun is not None

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the loop, and wait for it on the caller's."""
        if self._begun is None:
            self._callers = asyncio.get_running_loop()
            loop = asyncio.new_event_loop()
            self._begun = loop, threading.Thread(target=loop.run_forever, name="foveal-agents", daemon=True)
            self._begun[1].start()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._begun[0]))

    async def do_above(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the loop of the callers, and wait for it on this one."""
        if self._callers is None:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._callers))

    async def close(self) -> None:
        """End the loop."""
        if self._begun is not None:
            loop, thread = self._begun
            loop.call_soon_threadsafe(loop.stop)
            await asyncio.to_thread(thread.join)
            loop.close()


class RunApi:
    """The operations, each for a caller and one of its runs, by its id or by the name of its session."""

    def __init__(
        self, sessions: SessionApi, agents: Iterable[AgentDefinition], tell: Callable[[str], None] = lambda line: None
    ) -> None:
        self._sessions, self._tell = sessions, tell
        self._agents = {one.name: _offered(one) for one in agents}
        self._loop = AgentLoop()
        self._runs = Runs(
            sessions.conversations.store,
            self._agents.values(),
            on_held=lambda session: self._loop.do_above(self._given_up(session)),
        )

    async def recover(self) -> None:
        """Go on with the runs of this gateway's agents that its last process left behind, or paused when it ended."""
        if not self._agents:
            return
        try:
            await self._loop.do(self._runs.recover())
            cards = await self._sessions.read(lambda: self._runs.list(status="paused"))
        except Exception as error:  # of any kind: nobody waits for this, who could be told
            self._tell(f"runs of the last process could not all be taken up: {_said(error)}")
            return
        known = with_successors(self._agents.values())
        for card in cards:
            if card.reason == ENDING and card.agent in known and not card.parent:
                try:
                    state = await self._sessions.read(lambda run=card.run: self._runs.state(run))
                    if reason := other_model(state, known[card.agent]):
                        raise BadInput(reason)
                    await self._loop.do(self._runs.resume(card.run))
                except Exception as error:  # of this run alone
                    self._tell(f"run {card.run} could not be taken up: {_said(error)}")

    async def end(self) -> None:
        """Begin nothing more, and pause the runs under way: requests that wait for them are answered."""
        if self._loop.has_begun:
            await self._loop.do(self._runs.drain(0))

    async def close(self) -> None:
        """Release everything."""
        await self.end()
        await self._loop.close()

    async def agents(self, _caller: ApiCaller, _name: str, _given: NoParameters) -> AgentList:
        """List the agents that can be started here."""
        return AgentList(tuple(map(_described, self._agents.values())))

    async def start(self, caller: ApiCaller, _name: str, given: RunStart) -> RunOutcome:
        """Begin a run of an agent with the user's words and files. A session that has had runs goes on with its conversation."""
        agent = self._agents.get(given.agent)
        if agent is None:
            hint = did_you_mean(given.agent, self._agents) if self._agents else "Offer some: foveal serve --agent FILE"
            raise BadInput(f"there is no agent {given.agent!r:.200} here. {hint}")
        check_session(given.session)  # before it gets the hash of a key
        session = await self._sessions.own_name(caller, given.session or f"{agent.name}-{token_hex(4)}")
        files = _given_files(given.files)
        async with self._sessions.released(session):
            run = await self._loop.do(self._runs.start(agent, given.text, session=session, files=files))
            return await self._so_far(run)

    async def list(self, caller: ApiCaller, _name: str, given: RunFilter) -> RunList:
        """List the newest run of each session of the caller's key, most recently used first."""

        def found() -> tuple[RunCard, ...]:
            newest = newest_runs(self._runs.store, self._sessions.cards_of(caller), given.status)
            return tuple(islice(newest, given.limit))

        return RunList(await self._sessions.read(found))

    async def show(self, caller: ApiCaller, name: str, _given: NoParameters) -> RunOutcome:
        """Return a run as far as it has come: status, text, questions, usage."""
        return await self._so_far(await self.known(caller, name))

    async def steer(self, caller: ApiCaller, name: str, given: RunWords) -> RunOutcome:
        """Say something to a run under way; it is heard before its next step."""
        files = _given_files(given.files)
        return await self._on(caller, name, lambda run: self._runs.steer(run, given.text, files=files))

    async def follow_up(self, caller: ApiCaller, name: str, given: RunWords) -> RunOutcome:
        """Say something that is heard when the run has given its answer; it then goes on."""
        files = _given_files(given.files)
        return await self._on(caller, name, lambda run: self._runs.follow_up(run, given.text, files=files))

    async def answer(self, caller: ApiCaller, name: str, given: RunAnswer) -> RunOutcome:
        """Answer an open question of a run. `resume` goes on with it."""
        told = UserAnswer(given.text, question=given.question)
        return await self._on(caller, name, lambda run: self._runs.answer(run, told))

    async def approve(self, caller: ApiCaller, name: str, given: RunDecision) -> RunOutcome:
        """Decide about a call that waits for approval. `resume` goes on with the run."""
        fields = msgspec.structs.asdict(given)
        return await self._on(caller, name, lambda run: self._runs.approve(run, **fields))

    async def cancel(self, caller: ApiCaller, name: str, given: RunStop) -> RunOutcome:
        """End a run; its model call, its tools and its sub-agents are given up."""
        return await self._stopped(caller, name, lambda run: self._runs.cancel(run, given.reason))

    async def pause(self, caller: ApiCaller, name: str, given: RunStop) -> RunOutcome:
        """Let a run rest; `resume` goes on."""
        return await self._stopped(caller, name, lambda run: self._runs.pause(run, given.reason))

    async def resume(self, caller: ApiCaller, name: str, given: RunResume) -> RunOutcome:
        """Go on with a run that rests, has failed or was left behind, with the answer to its question if it has one."""
        run = await self.known(caller, name)
        async with self._sessions.released(split_run(run)[0]):
            return await self._so_far(await self._loop.do(self._runs.resume(run, given.answer)))

    async def wait(self, caller: ApiCaller, name: str, given: RunWait) -> RunOutcome:
        """Return a run when it ends or rests, or after the time as far as it has come."""
        run = await self.known(caller, name)
        if any(is_overdue(one, now_ms()) for one in (await self._so_far(run)).questions):
            await self._given_up(split_run(run)[0])  # it goes on without an answer
        with suppress(TimeoutError):
            return await self._loop.do(self._runs.wait(run, given.timeout_s))
        return await self._so_far(run)

    async def tree(self, caller: ApiCaller, name: str, _given: NoParameters) -> RunTree:
        """Return a run with the runs of its sub-agents."""
        run = await self.known(caller, name)
        return await self._sessions.read(lambda: self._runs.tree(run))

    async def cost(self, caller: ApiCaller, name: str, _given: NoParameters) -> RunBill:
        """Return the model calls of a run and of its sub-agents, with their cost."""
        run = await self.known(caller, name)
        cost = await self._sessions.read(lambda: self._runs.cost(run))
        return RunBill(cost, cost.total_usd, cost.calls)

    async def audit(self, caller: ApiCaller, name: str, _given: NoParameters) -> RunAudit:
        """Return who decided what in a run and in those of its sub-agents, without secrets."""
        run = await self.known(caller, name)
        return await self._sessions.read(
            lambda: RunAudit(tuple(audit_trail(self._runs.store, self._runs.tree(run).run)))
        )

    async def known(self, caller: ApiCaller, name: str) -> str:
        """Return the id of a caller's run. `NotFound` if its session is not there, or another's."""
        session, number = split_run(name)
        stored = (await self._sessions.known(caller, session)).id
        return stored if number is None else run_name(stored, number)

    async def observed(self, run: str, after: int) -> AsyncGenerator[RunEvent | None]:
        """Yield the events of a run after an id until it has ended, also over its rests; None after each moment of silence."""
        session, entries = split_run(run)[0], -1
        while True:
            cards = await self._sessions.read(lambda: self._sessions.conversations.store.cards(session))
            if cards and cards[0].entries == entries:  # it still rests
                await asyncio.sleep(LOOK_S)
                yield None
                continue
            entries = cards[0].entries if cards else -1
            async for event in self._listened(run, after):
                after = event.id if event else after
                yield event
            if (await self._so_far(run)).status in ENDED:
                return

    async def _listened(self, run: str, after: int) -> AsyncGenerator[RunEvent | None]:
        """Yield the events of a run until it ends or rests. Only one is asked for at a time, whoever is slow."""
        events = self._runs.observe(run, since=after)

        async def following() -> RunEvent | None:
            return await anext(events, None)

        asked: asyncio.Future[RunEvent | None] | None = None
        try:
            while True:
                asked = asked or asyncio.ensure_future(self._loop.do(following()))
                if not (await asyncio.wait({asked}, timeout=LOOK_S))[0]:
                    yield None
                    continue
                event, asked = asked.result(), None
                if event is None:
                    return
                yield event
        finally:
            if asked is not None:
                asked.cancel()
                await asyncio.gather(asked, return_exceptions=True)
            await self._loop.do(events.aclose())

    async def _on(self, caller: ApiCaller, name: str, act: Callable[[str], Coroutine[Any, Any, None]]) -> RunOutcome:
        run = await self.known(caller, name)
        await self._loop.do(act(run))
        return await self._so_far(run)

    async def _stopped(
        self, caller: ApiCaller, name: str, act: Callable[[str], Coroutine[Any, Any, None]]
    ) -> RunOutcome:
        """Stop a run. One that rests needs its session for that, which another operation may have left open here."""
        async with self._sessions.released(split_run(await self.known(caller, name))[0]):
            return await self._on(caller, name, act)

    async def _given_up(self, session: str) -> None:
        async with self._sessions.released(session):
            pass

    async def _so_far(self, run: str) -> RunOutcome:
        return await self._sessions.read(lambda: self._runs.outcome(run))


def _said(error: Exception) -> str:
    """Return the words of an error; one that is not Foveal's own is named as well."""
    return str(error) if isinstance(error, FovealError) else f"{type(error).__name__}: {error}"


def _given_files(given: Iterable[AttachRequest]) -> "list[File]":
    """Return the files of a request; their types are found out when they are read."""
    return [File("", one.name, one.data) for one in given]


def _offered(agent: AgentDefinition) -> AgentDefinition:
    """Return an agent that can be offered to all keys; `BadPolicy` if it, or an agent that works for it, has a memory."""
    for one in everybody([agent]):
        if one.policy.memory is not None:
            raise BadPolicy(
                f"the agent {one.name!r} has memory = {one.policy.memory!r:.80} in its policy; over HTTP all keys would share "
                "it; leave it out"
            )
    return agent


def _described(agent: AgentDefinition) -> OfferedAgent:
    model = agent.models[0].model
    return OfferedAgent(agent.name, agent.description, model, tuple(agent.toolset), tuple(agent.agents))
