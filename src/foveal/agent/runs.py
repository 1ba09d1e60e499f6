"""Supervised runs: started, watched, steered, answered, paused, cancelled, resumed and listed, in this process or another one.

    runs = Runs(store, [agent])
    run = await runs.start("agent", "Mend the tests.")
    async for event in runs.observe(run): …
    await runs.steer(run, "Leave the slow ones.")
    outcome = await runs.wait(run)

A run is its session's log and nothing else: `SESSION#NUMBER` names it, and whoever has the store can read it. Wishes go
through the inbox of the session, whoever works at the run: this process, or with a queue the workers, `await runs.work()`.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Generator, Iterable, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from secrets import token_hex
from typing import Literal

import msgspec

from foveal.agent.abandoned_runs import AbandonedRun, AbandonedRuns
from foveal.agent.deadlines import first_deadline, is_overdue, overdue_answers
from foveal.agent.definition import AgentDefinition, with_successors
from foveal.agent.delegation import agent_tools
from foveal.agent.driver import UNDER_WAY, RunDriver, RunOutcome
from foveal.agent.inbox import FollowUp, Letter, QuestionReply, Steering, StopRequest, is_inbox, letters, post
from foveal.agent.near_names import did_you_mean
from foveal.agent.run_events import (
    ChildStarted,
    RunEnded,
    RunEvent,
    RunStarted,
    StatusChanged,
    SummaryBilled,
    UsageCounted,
)
from foveal.agent.run_files import RunFile, read_run_files
from foveal.agent.run_log import RunLog, newest_status, read_events, read_run
from foveal.agent.run_marks import AT_REST, ENDED, RunStatus, StatusSet, run_name, split_run
from foveal.agent.run_queue import RunQueue, StoreQueue
from foveal.agent.run_state import RunState, RunUsage
from foveal.agent.tools import UserAnswer, UserQuestion
from foveal.agent.usage_cost import usage_usd
from foveal.session.options import now_ms
from foveal.stores.port import SessionCard, Store
from foveal.values.entry import Usage
from foveal.values.errors import BadInput, FovealError, LeaseLost, NotFound, SessionHeld
from foveal.writers.faults import describe

ENDING = "the program is ending"
"""Reason of a pause by `drain`."""
_LOOK_S = 0.2
"""Seconds between two looks at a run that another process drives."""
_SEARCH_S, _SEARCH_SHARE = 1.0, 20
"""Seconds between two searches of a worker for runs that nobody drives; and at least so many times as long as one takes, for
the cards of all sessions are read."""
_LETTING_GO_S = 5.0
"""Seconds for which a process may still hold the session of a run that it has let rest; it takes some milliseconds."""

logger = logging.getLogger("foveal.runs")


class RunCard(msgspec.Struct, frozen=True):
    """The newest run of a session, as a list shows it."""

    run: str
    session: str
    agent: str
    status: RunStatus
    reason: str
    parent: str
    updated_ms: int
    is_held: bool
    """Whether a process has the session open."""


class RunCost(msgspec.Struct, frozen=True):
    """The model calls of a run, and of the whole tree below it; each call is counted once."""

    run: str
    own: dict[str, RunUsage]
    """By model."""
    own_usd: float | None
    """With the summaries. None if a price is unknown, or if the session was deleted; never zero for that reason."""
    children: "tuple[RunCost, ...]" = ()
    summaries: dict[str, RunUsage] = {}
    """Calls of the summariser, by model; of one that tells no model, under an empty name."""

    @property
    def total_usd(self) -> float | None:
        """The cost of the tree; None if any price in it is unknown."""
        parts = [self.own_usd, *(child.total_usd for child in self.children)]
        return None if None in parts else sum(part for part in parts if part is not None)

    @property
    def calls(self) -> int:
        """Model calls of the tree."""
        own = (*self.own.values(), *self.summaries.values())
        return sum(one.calls for one in own) + sum(child.calls for child in self.children)


class RunTree(msgspec.Struct, frozen=True):
    """A run with the runs of its sub-agents."""

    run: str
    agent: str
    status: RunStatus | None
    """None for a sub-agent's run whose session was deleted."""
    children: "tuple[RunTree, ...]" = ()


class Runs:
    """The runs of one store. `agents` are those that may be started and resumed here, by their names.

    Without a `queue`, this process drives what it starts and resumes; with one, workers do.
    """

    def __init__(self, store: Store, agents: Iterable[AgentDefinition] = (), *, queue: RunQueue | None = None) -> None:
        self.store, self._queue = store, queue
        self._agents = with_successors(agents)
        self._live: dict[str, tuple[RunDriver, asyncio.Task[RunOutcome]]] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        """Of sessions whose runs wait for an answer that has a deadline."""
        self._late: set[asyncio.Future[None]] = set()
        self._is_draining = False

    async def start(
        self, agent: str | AgentDefinition, text: str, *, session: str = "", files: Sequence[RunFile] = ()
    ) -> str:
        """Begin a run in the background and return its id. A session that has had runs goes on with its conversation.

        The files are read first: `BadInput` for one that cannot be sent, and nothing has begun.
        """
        named = self._agent(agent) if isinstance(agent, str) else agent
        if is_inbox(session) or split_run(session)[1] is not None:
            raise BadInput(f"{session!r} cannot name a session of runs: '#' and a number end the id of a run")
        read = await asyncio.to_thread(read_run_files, files, named.models[0]) if files else ()
        await self._is_at_work(session)
        driver = self._driver(named, session or f"{named.name}-{token_hex(4)}")
        await driver.begin(text, files=read)
        return await self._hand_on(driver)

    async def resume(self, run: str, answer: UserAnswer | str | None = None) -> str:
        """Go on with a run that rests, failed, or was left behind; with the answer to its question, if it has one.

        The id is returned; `wait` has the outcome.
        """
        state = self.state(run)
        if answer is not None:
            await self.answer(run, answer)
        elif self._is_unanswered(state) and not letters(self.store, state.session, state.inbox):
            asked = "; ".join(question.text for question in state.asked.values())
            raise BadInput(f"run {state.id} waits for an answer: {asked} Give one: resume(run, answer)")
        if await self._is_at_work(state.session):
            return state.id
        deadline = time.monotonic() + _LETTING_GO_S
        while True:
            driver = self._driver(self._agent(state.agent), state.session)
            try:
                await driver.go_on(is_wished=True)
                return await self._hand_on(driver)
            except SessionHeld:
                if self._queue is not None and self.state(run).status in UNDER_WAY:
                    return state.id  # whoever drives it reads the inbox once more before it rests
                if self._queue is None or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_LOOK_S)

    async def steer(self, run: str, text: str) -> None:
        """Say something to a run under way. It is heard before the next step, and calls that have not begun are left out."""
        await self._post(run, Steering(text))

    async def follow_up(self, run: str, text: str) -> None:
        """Say something that waits until the run has given its answer; the run then goes on with it."""
        await self._post(run, FollowUp(text))

    async def answer(self, run: str, answer: UserAnswer | str) -> None:
        """Answer an open question of a run; the only one, or the one that the answer names. `resume` goes on with the run."""
        given = UserAnswer(answer) if isinstance(answer, str) else msgspec.structs.replace(answer, source="user")
        asked = self.state(run).asked
        if not given.question and len(asked) == 1:
            given = msgspec.structs.replace(given, question=next(iter(asked)))
        if given.question not in asked:
            open_ones = ", ".join(asked) or "none"
            raise BadInput(
                f"run {run} has not asked {given.question or 'one single question'!r}; open questions: {open_ones}"
            )
        if is_overdue(asked[given.question], now_ms()):
            raise BadInput(f"the time for an answer of run {run} is up; resume goes on without one")
        await self._post(run, QuestionReply(given))

    async def approve(
        self,
        run: str,
        decision: Literal["allow", "deny", "edit", "always"] = "allow",
        *,
        reason: str = "",
        arguments: dict[str, object] | None = None,
        question: str = "",
    ) -> None:
        """Decide about a call that waits for approval: allow it, deny it with a reason, edit its arguments, or allow its
        tool always."""
        if (decision == "edit") != (arguments is not None):
            raise BadInput("the decision 'edit' comes with the new arguments, and no other one does")
        await self.answer(run, UserAnswer(reason, decision, arguments, question))

    async def cancel(self, run: str, reason: str = "") -> None:
        """End a run. Its model call, its tools and its sub-agents are given up; open calls get results that say so."""
        state = self.state(run)
        if state.status in ENDED:
            raise BadInput(f"run {state.id} is {state.status} already")
        await self._post(run, StopRequest("cancelled", reason))
        await self._see_to(state)

    async def pause(self, run: str, reason: str = "") -> None:
        """Let a run rest after what it is doing is given up; `resume` goes on."""
        state = self.state(run)
        if state.status in AT_REST:
            raise BadInput(f"run {state.id} is {state.status}; only a run under way can be paused")
        await self._post(run, StopRequest("paused", reason))
        await self._see_to(state)

    async def wait(self, run: str, timeout_s: float | None = None) -> RunOutcome:
        """Return the outcome of a run when it ends or rests, however that comes about. `TimeoutError` if it takes longer."""
        if (past := self._past(run)) is not None:
            return _outcome(past)
        session = split_run(run)[0]
        state = self.state(run)
        is_late = state.status == "awaiting_user" and bool(overdue_answers(state, now_ms()))
        if is_late and state.agent in self._agents and not self._is_live(session):
            with suppress(SessionHeld):  # somebody else has just done so
                await self.resume(run)
        async with asyncio.timeout(timeout_s):
            if session in self._live:
                with suppress(LeaseLost):  # somebody else has taken it up
                    outcome = await asyncio.shield(self._live[session][1])
                    if outcome.status in AT_REST:
                        return outcome
            async with aclosing(self.observe(run)) as events:
                async for _ in events:
                    pass
        return self.outcome(state.id)  # its session may have gone on with another run meanwhile

    async def observe(self, run: str, *, since: int = 0) -> AsyncGenerator[RunEvent, None]:
        """Yield the events of a run: the kept ones after the id `since`, then those to come, until it ends or rests.

        Of a run that another process drives, only kept events are seen.
        """
        if (past := self._past(run)) is not None:
            for event in past:
                if event.id > since:
                    yield event
            return
        state = self.state(run)
        if self._is_live(state.session):
            driver = self._live[state.session][0]
            stream = driver.journal.hub.listen(
                lambda: read_events(self.store, state.session, run=state.id, since=since)
            )
            async for event in stream:
                yield event
                since = event.id
            if driver.state.status in AT_REST:
                return  # otherwise another process goes on with it
        follower = RunLog(self.store, state.session)
        while True:
            for event in follower.pull():
                if event.id > since and event.scope.run == state.id:
                    yield event
            if follower.state.status in AT_REST or follower.state.id != state.id:
                return
            await asyncio.sleep(_LOOK_S)

    def state(self, run: str) -> RunState:
        """Return the state of a run. `NotFound` if there is none, and for a run that is not the newest of its session."""
        session, number = split_run(run)
        state = read_run(self.store, session)
        if not state.run or (number is not None and number > state.run):
            raise NotFound(f"there is no run {run!r} in this store")
        if number is not None and number < state.run:
            raise NotFound(f"run {run!r} has ended, and its session goes on with {state.id}; `wait` has its outcome")
        return state

    def outcome(self, run: str) -> RunOutcome:
        """Return the outcome of a run, or the point that it has come to."""
        past = self._past(run)
        return RunOutcome.of(self.state(run)) if past is None else _outcome(past)

    def list(self, *, status: RunStatus | None = None) -> "list[RunCard]":
        """Return the newest run of each session, most recently used first; of one status, if it is named."""
        cards = filter(None, map(self._newest_run, self.store.cards()))
        return [card for card in cards if status in (None, card.status)]

    def _newest_run(self, card: SessionCard) -> RunCard | None:
        """Return the newest run of a session; None if it has had none."""
        found = None if is_inbox(card.id) else newest_status(self.store, card.id, card.entries)
        return found and _card(card.id, found, card.updated_ms, is_held=card.holder is not None)

    def tree(self, run: str) -> RunTree:
        """Return a run with the runs of its sub-agents, at any depth."""
        events = self._events(run)
        agent = next(one.agent for one in events if isinstance(one, RunStarted))
        statuses: list[RunStatus] = [one.status for one in events if isinstance(one, StatusChanged)]
        begun = [one for one in events if isinstance(one, ChildStarted)]
        children = tuple(
            self.tree(one.child) if self._is_there(one.child) else RunTree(one.child, one.agent, None) for one in begun
        )
        return RunTree(events[0].scope.run, agent, statuses[-1], children)

    def cost(self, run: str) -> RunCost:
        """Return the model calls of a run and of its sub-agents, with their cost."""
        events = self._events(run)
        prices = [usage_usd(event.usage) for event in events if isinstance(event, UsageCounted)]
        prices += [event.usd for event in events if isinstance(event, SummaryBilled)]
        own_usd = None if None in prices else sum(price for price in prices if price is not None)
        begun = [one.child for one in events if isinstance(one, ChildStarted)]
        children = tuple(self.cost(one) if self._is_there(one) else RunCost(one, {}, None) for one in begun)
        bills = [event.usage or Usage("", 0, 0) for event in events if isinstance(event, SummaryBilled)]
        return RunCost(events[0].scope.run, _usage_in(events), own_usd, children, _summed(bills))

    def _is_there(self, run: str) -> bool:
        """Return whether the session of a run was not deleted."""
        return bool(self.store.cards(split_run(run)[0]))

    def _events(self, run: str) -> "list[RunEvent]":
        """Return the kept events of a run; of the newest one, if a session is named."""
        session, number = split_run(run)
        named = run if number is not None else read_run(self.store, session).id
        if not (events := list(read_events(self.store, session, run=named))):
            raise NotFound(f"there is no run {run!r} in this store")
        return events

    async def recover(self, policy: Literal["resume", "fail"] = "resume") -> "list[str]":
        """Take up the runs that a process left behind when it died, and return their ids. Runs that wait or rest stay as
        they are.

        `fail` ends them instead. Runs of sub-agents go on with the run above them. One that cannot be taken up keeps no other
        waiting; it is told in the program's log.
        """
        found: list[str] = []
        for session in self.store.cards():
            with _told(f"the run of session {session.id} cannot be taken up"):
                card = self._newest_run(session)
                if card is not None and await self._recovered(card, policy):
                    found.append(card.run)
        return found

    async def _recovered(self, card: RunCard, policy: Literal["resume", "fail"]) -> bool:
        """Take a run up if it was left behind, and return whether it was. One whose question is overdue always goes on."""
        is_left = not card.parent and self._is_left_behind(card)
        if not is_left or (driver := await self._taken(card.run, card.agent)) is None:
            return False
        if policy == "resume" or card.status == "awaiting_user":
            self._drive(driver)
        else:
            await driver.fail("the process that drove it has died")
        return True

    async def work(self, *, at_once: int = 16) -> None:
        """Drive runs that nobody drives, so many at once, until `drain`, which waits for them, or until the caller is
        cancelled: then they are left to other workers.

        Those that others have put into the queue, and those of workers that died: on this machine after some seconds,
        elsewhere when the lease of the store has run out.
        """
        queue, abandoned = self._queue or StoreQueue(), AbandonedRuns(self.store)
        async with queue.serving(self._agents, self._take_up, at_once):
            try:
                while not self._is_draining:
                    took_s = await self._search(abandoned, queue)
                    await asyncio.sleep(max(_SEARCH_S, _SEARCH_SHARE * took_s))
                await asyncio.gather(*(task for _, task in self._live.values()), return_exceptions=True)
            finally:
                await self.leave()

    async def _search(self, abandoned: AbandonedRuns, queue: RunQueue) -> float:
        """Put the runs that nobody drives into the queue, and return the seconds that the look into the store took."""
        began, found = time.monotonic(), list[AbandonedRun]()
        with _told("the store cannot be searched for runs that nobody drives"):
            found = await asyncio.to_thread(abandoned.look)
        took_s = time.monotonic() - began
        for one in found:
            if one.agent in self._agents and not self._is_live(split_run(one.run)[0]):
                with _told(f"run {one.run} cannot be taken up"):
                    await queue.put(one.run, one.agent)
        return took_s

    async def leave(self) -> None:
        """Give up the runs that are driven here, as they are, and start nothing more: workers go on with them."""
        self._end_timers()
        while live := self._under_way():  # a run that is given up may just have begun another one
            for driver, _ in live:
                driver.stop("running")
            await asyncio.wait([task for _, task in live])

    async def _take_up(self, run: str, agent: str) -> asyncio.Task[RunOutcome] | None:
        """Drive a run that is under way, if nobody does; return the task of it."""
        driver = await self._taken(run, agent)
        if driver is not None and self._is_draining:  # since it was opened
            await driver.let_go()
            return None
        return None if driver is None else self._drive(driver)

    async def _taken(self, run: str, agent: str) -> RunDriver | None:
        """Return the driver of a run that is under way and that nobody drives; None for any other, and of other agents."""
        session = split_run(run)[0]
        # A session that was deleted, or is one of another store, would be made by opening it.
        is_there = await asyncio.to_thread(self.store.cards, session)
        if not is_there or agent not in self._agents or self._is_live(session) or self._is_draining:
            return None
        driver = self._driver(self._agents[agent], session)
        try:
            return driver if await driver.take_up() else None
        except SessionHeld:  # its process lives
            return None

    def _is_left_behind(self, card: RunCard) -> bool:
        """Return whether a run should be under way. One that waits for an answer is minded until its deadline."""
        if card.status == "awaiting_user":
            state = read_run(self.store, card.session)
            is_overdue_now = bool(overdue_answers(state, now_ms()))
            if not is_overdue_now:
                self._mind(card.session, state.asked.values())
            return is_overdue_now
        return card.status in UNDER_WAY

    def _is_unanswered(self, state: RunState) -> bool:
        return state.status == "awaiting_user" and bool(state.asked) and not overdue_answers(state, now_ms())

    def _mind(self, session: str, questions: Iterable[UserQuestion], least_s: float = 0.0) -> None:
        """Go on with a run that waits when its first question is overdue. A timer costs nothing until then."""
        until_ms = first_deadline(questions)
        if until_ms is not None and not self._is_draining:
            if session in self._timers:
                self._timers[session].cancel()
            delay_s = max(least_s, (until_ms - now_ms()) / 1_000)
            self._timers[session] = asyncio.get_running_loop().call_later(delay_s, self._time_up, session)

    def _time_up(self, session: str) -> None:
        async def go_on() -> None:
            with suppress(FovealError):  # deleted, or its agent is not known here
                state = self.state(session)
                if state.status == "awaiting_user" and overdue_answers(state, now_ms()):
                    try:
                        await self.resume(session)
                    except SessionHeld:  # by somebody who goes on with it, or who only reads it
                        self._mind(session, state.asked.values(), _LETTING_GO_S)

        self._timers.pop(session, None)
        task = asyncio.ensure_future(go_on())
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def drain(self, timeout_s: float | None = None) -> None:
        """Start nothing more, and wait for the runs under way; after the time they are paused."""
        self._end_timers()
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while live := self._under_way():  # those that they have spawned meanwhile, too
            left_s = None if until is None else max(0.0, until - time.monotonic())
            _, late = await asyncio.wait([task for _, task in live], timeout=left_s)
            for driver, task in live:
                if task in late:
                    driver.stop("paused", ENDING)
            if late:
                await asyncio.wait(late)

    def _end_timers(self) -> None:
        """Begin to drain: what is overdue from here on is for others."""
        self._is_draining = True
        for timer in self._timers.values():
            timer.cancel()

    def _under_way(self) -> "list[tuple[RunDriver, asyncio.Task[RunOutcome]]]":
        return [one for one in self._live.values() if not one[1].done()]

    def _past(self, run: str) -> "list[RunEvent] | None":
        """Return the events of a run after which its session had others; None for the newest one."""
        session, number = split_run(run)
        is_past = number is not None and number < read_run(self.store, session).run
        return self._events(run) if is_past else None

    def _agent(self, name: str) -> AgentDefinition:
        if name not in self._agents:
            raise BadInput(f"there is no agent {name!r} here. {did_you_mean(name, self._agents)}")
        return self._agents[name]

    def _driver(self, agent: AgentDefinition, session: str) -> RunDriver:
        if self._is_draining:
            raise BadInput("the program is ending; nothing more is started")
        if self._is_live(session):
            raise BadInput(f"session {session!r} has a run under way; steer it, or wait for it")
        return RunDriver(agent, self.store, session, more_tools=partial(agent_tools, self._drive))

    async def _hand_on(self, driver: RunDriver) -> str:
        """Drive a run that has begun or goes on, or have a worker drive it; return its id."""
        run, agent = driver.state.id, driver.agent.name
        if self._queue is None and not self._is_draining:
            self._drive(driver)
            return run
        await driver.let_go()
        if self._queue is not None:
            await self._queue.put(run, agent)
        return run

    def _drive(self, driver: RunDriver) -> asyncio.Task[RunOutcome]:
        task = asyncio.create_task(driver.drive(), name=f"foveal run {driver.session}")
        self._live[driver.session] = driver, task
        task.add_done_callback(lambda ended: self._forget(driver, ended))
        return task

    def _forget(self, driver: RunDriver, task: asyncio.Task[RunOutcome]) -> None:
        """Forget a driver that has ended, unless another one drives its session by now."""
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.warning("the run of session %s is no longer driven here: %s", driver.session, error)
        if self._live.get(driver.session, (None, None))[0] is driver:
            del self._live[driver.session]
            if driver.state.status == "awaiting_user":
                self._mind(driver.session, driver.state.asked.values())

    def _is_live(self, session: str) -> bool:
        """Return whether a run of the session is driven here. A task that has ended counts no longer."""
        return session in self._live and not self._live[session][1].done()

    async def _is_at_work(self, session: str) -> bool:
        """Return whether a driver here will read the inbox of a session once more. One whose run rests is letting go: it is
        waited for, since nobody would hear it."""
        while self._is_live(session):
            if self.state(session).status in UNDER_WAY:
                return True
            await asyncio.wait({self._live[session][1]}, timeout=_LOOK_S)
        return False

    async def _see_to(self, state: RunState) -> None:
        """Have a wish to stop a run granted, here if nobody drives it. Whoever drives it reads its inbox, unless the run has
        come to rest and is being let go."""
        deadline = time.monotonic() + _LETTING_GO_S
        while self._is_live(state.session) or not await self._settle(state):
            if self.state(state.session).status not in AT_REST - ENDED:
                return
            if time.monotonic() > deadline:
                raise SessionHeld(
                    f"run {state.id} rests, and a process that does not drive it has had its session for {_LETTING_GO_S:g} "
                    "seconds; the wish is kept, and granted when it is said again after that session is closed"
                )
            await asyncio.sleep(_LOOK_S)

    async def _post(self, run: str, letter: Letter) -> None:
        state = self.state(run)
        if state.status in ENDED and not isinstance(letter, StopRequest):
            raise BadInput(f"run {state.id} is {state.status}; say it with a new run of session {state.session!r}")
        await asyncio.to_thread(post, self.store, state.session, letter)
        if state.session in self._live:
            self._live[state.session][0].wake()

    async def _settle(self, state: RunState) -> bool:
        """Let a run that nobody drives read its inbox once: a wish to end it is granted. Return whether nobody else has it."""
        # Nothing is asked: any model will do to write the end of a run whose agent is not known here.
        stand_in = AgentDefinition(model=next(iter(state.usage), "gpt-5"), name=state.agent)
        driver = self._driver(self._agents.get(state.agent, stand_in), state.session)
        try:
            await driver.settle()
        except SessionHeld:
            return False
        return True


@contextmanager
def _told(failure: str) -> Generator[None]:
    """Let a worker go on after an error of one run or of the store, which may be mended: it is told in the program's log."""
    try:
        yield
    except Exception as error:  # noqa: BLE001, RUF100 - also of a part that the host brought
        logger.warning("%s: %s", failure, error if isinstance(error, FovealError) else describe(error))


def _card(session: str, found: StatusSet, updated_ms: int, *, is_held: bool) -> RunCard:
    name = run_name(session, found.run)
    return RunCard(name, session, found.agent, found.status, found.reason, found.parent, updated_ms, is_held)


def _outcome(events: Sequence[RunEvent]) -> RunOutcome:
    """Return the outcome of a run that ended long ago, from its events."""
    ended = next((one for one in reversed(events) if isinstance(one, RunEnded)), None)
    scope = events[-1].scope
    return RunOutcome(
        run=scope.run,
        session=scope.session,
        status=ended.status if ended else "failed",
        text=ended.text if ended else "",
        reason=ended.reason if ended else "the session went on without it",
        steps=scope.step,
        usage=_usage_in(events),
    )


def _usage_in(events: Iterable[RunEvent]) -> dict[str, RunUsage]:
    """Return the model calls of a run, by model."""
    return _summed(event.usage for event in events if isinstance(event, UsageCounted))


def _summed(usages: Iterable[Usage]) -> dict[str, RunUsage]:
    found: dict[str, RunUsage] = {}
    for usage in usages:
        found[usage.model] = found.get(usage.model, RunUsage()).plus(usage)
    return found
