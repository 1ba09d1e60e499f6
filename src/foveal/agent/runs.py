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
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from itertools import islice
from secrets import token_hex
from typing import Any, Literal, TypeVar

import msgspec

from foveal.agent.abandoned_runs import AbandonedRun, AbandonedRuns
from foveal.agent.deadlines import is_overdue, overdue_answers
from foveal.agent.definition import AgentDefinition, with_successors
from foveal.agent.delegation import agent_tools
from foveal.agent.driver import LETTING_GO_S, UNDER_WAY, RunDriver, RunOutcome, other_model
from foveal.agent.inbox import (
    NO_FILES,
    FollowUp,
    Letter,
    QuestionReply,
    Steering,
    StopRequest,
    is_inbox,
    letters,
    post,
)
from foveal.agent.live_runs import LiveRuns, end_of
from foveal.agent.near_names import did_you_mean
from foveal.agent.next_step import DECISIONS
from foveal.agent.question_timers import QuestionTimers
from foveal.agent.run_events import RunEvent
from foveal.agent.run_files import RunFile, posted_files, read_run_files
from foveal.agent.run_log import RunLog, answered_below, answers_to, read_events, read_run
from foveal.agent.run_marks import AT_REST, ENDED, InboxRead, RunStatus, split_run
from foveal.agent.run_queue import RunQueue, StoreQueue
from foveal.agent.run_reports import (
    RunCard,
    RunCost,
    RunTree,
    cards_after,
    is_past,
    newest_run,
    newest_runs,
    read_named,
    run_cost,
    run_outcome,
    run_state,
    run_tree,
)
from foveal.agent.run_state import RunState
from foveal.agent.tools import UserAnswer
from foveal.session.options import now_ms
from foveal.stores.port import PAGE_CARDS, Store
from foveal.values.errors import BadInput, FovealError, LeaseLost, NotFound, SessionHeld, StoreError
from foveal.writers.faults import describe

ENDING = "the program is ending"
"""Reason of a pause by `drain`."""
_LOOK_S = 0.2
"""Seconds between two looks at a run that another process drives."""
_SEARCH_S, _SEARCH_SHARE = 1.0, 20
"""Seconds between two searches of a worker for runs that nobody drives; and at least so many times as long as one takes, for
the cards of all sessions are read."""

T = TypeVar("T")

logger = logging.getLogger("foveal.runs")


class Runs:
    """The runs of one store. `agents` are those that may be started and resumed here, by their names.

    Without a `queue`, this process drives what it starts and resumes; with one, workers do. `on_held` is called with a session
    whose run has a question that is overdue, and that somebody has open: this program, perhaps, which can close it.
    """

    def __init__(
        self,
        store: Store,
        agents: Iterable[AgentDefinition] = (),
        *,
        queue: RunQueue | None = None,
        on_held: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self.store, self._queue, self._on_held = store, queue, on_held
        self._agents = with_successors(agents)
        self._live = LiveRuns(self._mind)
        self._timers = QuestionTimers(self._time_up)
        self._is_draining = False
        self._wish: tuple[RunStatus, str] | None = None
        """The wish that a run is told which begins while the program ends: whoever ends it may not be able to wait."""
        self._beginning: dict[asyncio.Future[Any], str] = {}
        """The runs that are being begun or gone on with, until they are driven, with their sessions."""
        self._resuming: dict[asyncio.Future[Any], str] = {}
        """Those of them that somebody has resumed."""
        self._others: dict[str, int] = {}
        """Sessions whose runs have had other models than their agents have here, with the entries that their logs had then."""

    async def start(
        self, agent: str | AgentDefinition, text: str, *, session: str = "", files: Sequence[RunFile] = ()
    ) -> str:
        """Begin a run in the background and return its id. A session that has had runs goes on with its conversation.

        If the caller is cancelled while the run begins, it goes on all the same.

        The files are read first: `BadInput` for one that cannot be sent, and nothing has begun; so it is without words and files.
        """
        named = self._agent(agent) if isinstance(agent, str) else agent
        check_session(session)
        _check_words(text, files)
        read = await asyncio.to_thread(read_run_files, files, named.models[0], named.redact) if files else ()
        if session:
            await self._is_at_work(session)
        driver = self._driver(named, session or f"{named.name}-{token_hex(4)}")
        return await self._driven_from(driver, driver.begin(text, files=read))

    async def resume(self, run: str, answer: UserAnswer | str | None = None) -> str:
        """Go on with a run that rests, failed, or was left behind; with the answer to its question, if it has one.

        The id is returned; `wait` has the outcome.
        """
        state = self.state(run)
        said = letters(self.store, state.session, state.inbox)
        wished_at = said[-1][0] if said else state.inbox
        if answer is not None:
            await self.answer(run, answer)
        elif self._is_unanswered(state) and not said:
            asked = "; ".join(question.text for question in state.asked.values())
            raise BadInput(f"run {state.id} waits for an answer: {asked}")
        return await self._resumed(run, wished_at)

    async def _resumed(self, run: str, wished_at: InboxRead) -> str:
        """Go on with a run as soon as nobody has it, and return its id. Whoever drives it is waited for if it is to rest; a wish
        to stop it that is newer than the resumption counts."""
        is_patient, seen, until = self._queue is not None, -1, 0.0
        while True:
            session = split_run(run)[0]
            if await self._is_at_work(session) or _stops(letters(self.store, session, wished_at)):
                return self.state(run).id
            driver = self._driver(self._agent(self.state(run).agent), session)
            try:
                return await self._driven_from(driver, driver.go_on(wished_at=wished_at), is_resumed=True)
            except SessionHeld:
                state = self.state(run)
                is_stopping = _stops(letters(self.store, session, state.inbox))
                if state.status in UNDER_WAY and not is_stopping:
                    if is_patient:
                        return state.id  # whoever drives it reads the inbox once more before it rests
                    raise
                is_patient = is_patient or state.status in UNDER_WAY or self._has_just_rested(session)
                if is_patient and state.seq != seen:
                    seen, until = state.seq, time.monotonic() + LETTING_GO_S
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(_LOOK_S)

    def _has_just_rested(self, session: str) -> bool:
        """Return whether whoever let the run of a session rest may not have given the session back yet."""
        return any(now_ms() - card.updated_ms < LETTING_GO_S * 1_000 for card in self.store.cards(session))

    async def _is_at_work(self, session: str) -> bool:
        """Return whether a driver here will read the inbox of a session and go on. One whose run rests, or is to, is waited for,
        since nobody would hear it; so is one that is being begun."""
        while True:
            if begun := self._beginning_here(session):
                await asyncio.wait(begun)
            elif (driver := self._live.driver_of(session)) is None:
                return False
            elif driver.state.status in UNDER_WAY and not await asyncio.to_thread(driver.is_to_stop):
                return True
            elif (task := self._live.task_of(session)) is not None:
                await asyncio.wait({task}, timeout=_LOOK_S)

    async def steer(self, run: str, text: str, *, files: Sequence[RunFile] = ()) -> None:
        """Say something to a run under way. It is heard before the next step, and calls that have not begun are left out.

        The files are read first: `BadInput` for one that cannot be sent, and nothing is said; so it is without words and files.
        """
        _check_words(text, files)
        await self._post(run, Steering(text, await self._posted(run, files)))

    async def follow_up(self, run: str, text: str, *, files: Sequence[RunFile] = ()) -> None:
        """Say something that waits until the run has given its answer; the run then goes on with it. Files as in `steer`."""
        _check_words(text, files)
        await self._post(run, FollowUp(text, await self._posted(run, files)))

    async def answer(self, run: str, answer: UserAnswer | str) -> None:
        """Answer an open question of a run; the only one, or the one that the answer names. `resume` goes on with the run."""
        given = UserAnswer(answer) if isinstance(answer, str) else msgspec.structs.replace(answer, source="user")
        if given.decision not in ("", *DECISIONS):
            raise BadInput(f"{given.decision!r} is no decision about a call; it is one of {', '.join(DECISIONS)}")
        asked = self.state(run).asked
        if not given.question and len(asked) == 1:
            given = msgspec.structs.replace(given, question=next(iter(asked)))
        if given.question not in asked:
            open_ones = ", ".join(f"{one.id} ({one.tool or one.text:.80})" for one in asked.values()) or "none"
            if asked and not given.question:
                raise BadInput(f"run {run} has {len(asked)} open questions; name the one that is answered: {open_ones}")
            asked_for = repr(given.question) if given.question else "anything"
            raise BadInput(f"run {run} has not asked {asked_for}, or has had its answer; open questions: {open_ones}")
        if asked[given.question].kind != "approval" and given.decision in ("always", "edit"):
            raise BadInput(
                f"{given.question!r} is a question of a tool, and no call that waits for approval; answer it"
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
        if state.status in ENDED and state.session not in tuple(self._resuming.values()):
            raise BadInput(f"run {state.id} is {state.status} already")
        await self._post(run, StopRequest("cancelled", reason))
        await self._see_to(state)

    async def pause(self, run: str, reason: str = "") -> None:
        """Let a run rest after what it is doing is given up; `resume` goes on."""
        state = self.state(run)
        if state.status in AT_REST and state.session not in tuple(self._resuming.values()):
            raise BadInput(f"run {state.id} is {state.status}; only a run under way can be paused")
        if state.parent:
            raise BadInput(f"run {state.id} works for a call of run {state.parent}, which waits for it; pause that one")
        await self._post(run, StopRequest("paused", reason))
        await self._see_to(state)

    async def wait(self, run: str, timeout_s: float | None = None) -> RunOutcome:
        """Return the outcome of a run when it ends or rests, however that comes about, and another one may follow it at once.
        `TimeoutError` if it takes longer."""
        until = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        if (outcome := await self._ended_here(run, until)) is not None:
            return outcome
        await self._end_late(run)
        log, events = await asyncio.to_thread(read_named, self.store, run)
        if not is_past(log, events):
            with suppress(SessionHeld):  # somebody else has just gone on with it
                if await self._goes_on_late(log.state):
                    if (outcome := await self._ended_here(run, until)) is not None:
                        return outcome
                    log, events = await asyncio.to_thread(read_named, self.store, run)
        async with asyncio.timeout_at(until), aclosing(_followed(log, events)) as told:
            events = [event async for event in told]
        if not is_past(log, events):
            with suppress(TimeoutError, StoreError):  # the outcome is known
                async with asyncio.timeout_at(until):
                    await self._given_back(log.session, events[-1].time_ms)
        return run_outcome(log, events)

    async def _given_back(self, session: str, rested_ms: int) -> None:
        """Wait until whoever drove a run to this moment, at which it came to rest, has given its session back. Somebody else who
        has it open is not waited for longer than that may take."""
        left_s = LETTING_GO_S - max(0, now_ms() - rested_ms) / 1_000
        until = time.monotonic() + left_s
        while time.monotonic() < until:
            if not any(card.holder for card in await asyncio.to_thread(self.store.cards, session)):
                return
            await asyncio.sleep(_LOOK_S)

    async def _ended_here(self, run: str, until: float | None) -> RunOutcome | None:
        """Return the outcome of a run that is driven here when it ends or rests; None if others drive it, or do from now on."""
        task = self._live.task_of(split_run(run)[0])
        if task is not None and self._driver_of(run) is not None:
            async with asyncio.timeout_at(until):
                await asyncio.wait({task})
            if not task.cancelled():  # otherwise the log tells how it was left
                with suppress(LeaseLost):  # somebody else has taken it up
                    outcome = task.result()
                    return outcome if outcome.status in AT_REST else None
        return None

    async def _end_late(self, run: str) -> None:
        """Write that a run has failed whose driver here could not, if nobody goes on with it: nobody else would ever tell those
        who wait for it. `StoreError` if that still cannot be written."""
        session = split_run(run)[0]
        failed, reason = self._live.unended.get(session, (None, ""))
        if failed is None:
            return
        if not await asyncio.to_thread(self.store.cards, session):  # it was deleted, and opening it would make it again
            self._live.unended.pop(session, None)
            return
        driver = RunDriver(failed.agent, self.store, session)
        with suppress(SessionHeld):  # by whoever has taken it up
            if await driver.take_up():
                await driver.fail(reason)
            self._live.unended.pop(session, None)

    async def _goes_on_late(self, state: RunState) -> bool:
        """Go on with a run whose question is overdue, if its agent has the model of the run here, and return whether it does.
        Wishes that it stops count; so is one gone on with that was to, and whose store has failed. `SessionHeld` if somebody has
        its session."""
        session = state.session
        is_late = state.status == "awaiting_user" and bool(overdue_answers(state, now_ms()))
        is_left = state.status in UNDER_WAY and session in self._live.unended
        if not (is_late or is_left) or not await asyncio.to_thread(self._is_ours, state.agent, session):
            return False
        if self._is_draining or self._live.driver_of(session) is not None:
            return False
        driver = self._driver(self._agents[state.agent], session)

        async def taken_up() -> bool:
            with self._unended_kept(driver):
                is_due = await driver.take_up()
            if is_due:
                await self._hand_on(driver)
            return is_due

        return await self._unbroken(session, taken_up())

    async def observe(self, run: str, *, since: int = 0) -> AsyncGenerator[RunEvent, None]:
        """Yield the events of a run: the kept ones after the id `since`, then those to come, until it ends or rests.

        Of a run that another process drives, only kept events are seen.
        """
        if (driver := self._driver_of(run)) is not None:
            run = driver.state.id
            stream = driver.journal.hub.listen(lambda: read_events(self.store, driver.session, run=run, since=since))
            async for event in stream:
                yield event
                since = event.id
            if driver.state.status in AT_REST:
                return  # otherwise another process goes on with it
        await self._end_late(run)
        log, events = await asyncio.to_thread(read_named, self.store, run)
        async with aclosing(_followed(log, events)) as told:
            async for event in told:
                if event.id > since:
                    yield event

    def _driver_of(self, run: str) -> RunDriver | None:
        """Return the driver of a run; None if it is not driven here."""
        session, number = split_run(run)
        driver = self._live.driver_of(session)
        return driver if driver is not None and number in (None, driver.state.run) else None

    def state(self, run: str) -> RunState:
        """Return the state of a run. `NotFound` if there is none, and for a run that is not the newest of its session."""
        return run_state(self.store, run)

    def outcome(self, run: str) -> RunOutcome:
        """Return the outcome of a run, or the point that it has come to."""
        return run_outcome(*read_named(self.store, run))

    def list(self, *, status: RunStatus | None = None, limit: int | None = None) -> "list[RunCard]":
        """Return the newest run of each session, most recently used first; of one status, if it is named, and at most so many.

        A session that cannot be read has a card without a status, and its reason; it is told in the program's log.
        """
        return list(islice(newest_runs(self.store, self.store.cards(), status), limit))

    def page(self, *, after: str = "", limit: int = PAGE_CARDS, status: RunStatus | None = None) -> "list[RunCard]":
        """Return the newest run of up to `limit` sessions behind a name, in the order of their names. The cost is that of the
        sessions up to the last one returned; `after=page[-1].session` goes on."""
        return list(islice(newest_runs(self.store, cards_after(self.store, after), status), limit))

    def tree(self, run: str) -> RunTree:
        """Return a run with the runs of its sub-agents, at any depth."""
        return run_tree(self.store, run)

    def cost(self, run: str) -> RunCost:
        """Return the model calls of a run and of its sub-agents, with their cost."""
        return run_cost(self.store, run)

    async def recover(self, policy: Literal["resume", "fail"] = "resume") -> "list[str]":
        """Take up the runs that a process left behind when it died, and return their ids. Runs that wait or rest stay as
        they are.

        `fail` ends them instead. Runs of sub-agents go on with the run above them. One that cannot be taken up keeps no other
        waiting; it is told in the program's log.
        """
        found: list[str] = []
        for session in self.store.cards():
            with _told(f"the run of session {session.id} cannot be taken up"):
                card = newest_run(self.store, session)
                if card is not None and await self._recovered(card, policy):
                    found.append(card.run)
        return found

    async def _recovered(self, card: RunCard, policy: Literal["resume", "fail"]) -> bool:
        """Take a run up if it was left behind, and return whether it was. One whose question is overdue always goes on."""
        if card.parent or not self._is_left_behind(card):
            return False
        if policy == "resume" or card.status == "awaiting_user":
            return await self._take_up(card.run, card.agent) is not None
        return await self._unbroken(card.session, self._failed(card))

    async def _failed(self, card: RunCard) -> bool:
        """Fail a run if nobody drives it, and return whether that is so."""
        driver = await self._taken(card.run, card.agent)
        if driver is not None:
            await driver.fail("the process that drove it has died")
        return driver is not None

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
                await self._live.ended()
            finally:
                await self.leave()

    async def _search(self, abandoned: AbandonedRuns, queue: RunQueue) -> float:
        """Put the runs that nobody drives into the queue, and return the seconds that the look into the store took."""
        began, found = time.monotonic(), list[AbandonedRun]()
        with _told("the store cannot be searched for runs that nobody drives"):
            found = await asyncio.to_thread(abandoned.look)
        took_s = time.monotonic() - began
        for one in found:
            session = split_run(one.run)[0]
            is_left = self._others.get(session) == one.entries
            if one.agent in self._agents and not is_left and self._live.driver_of(session) is None:
                with _told(f"run {one.run} cannot be taken up"):
                    await queue.put(one.run, one.agent)
        return took_s

    async def leave(self) -> None:
        """Give up the runs that are driven here, as they are, and start nothing more: workers go on with them."""
        self._wish = self._wish or ("running", "")
        await self._begin_to_end()
        await self._live.leave()

    async def _take_up(self, run: str, agent: str) -> asyncio.Task[RunOutcome] | None:
        """Drive a run that is under way, if nobody does; return the task of it."""
        return await self._unbroken(split_run(run)[0], self._taken_and_driven(run, agent))

    async def _taken_and_driven(self, run: str, agent: str) -> asyncio.Task[RunOutcome] | None:
        driver = await self._taken(run, agent)
        if driver is not None and self._is_draining:  # since it was opened
            driver.stop("running")
            await driver.drive()
            return None
        return None if driver is None else self._live.drive(driver)

    async def _taken(self, run: str, agent: str) -> RunDriver | None:
        """Return the driver of a run that is under way and that nobody drives; None for others, also of other models."""
        session = split_run(run)[0]
        # A session that was deleted, or is one of another store, would be made by opening it.
        is_there = await asyncio.to_thread(self.store.cards, session)
        if not is_there or not await asyncio.to_thread(self._is_ours, agent, session):
            return None
        if self._is_draining or self._live.driver_of(session) is not None:
            return None
        driver = self._driver(self._agents[agent], session)
        try:
            return driver if await driver.take_up() else None
        except SessionHeld:  # its process lives
            return None

    def _has_other_model(self, session: str) -> bool:
        """Return whether the run of a session has had another model than its agent has here; that is told once."""
        state = read_run(self.store, session)
        known = self._agents.get(state.agent)
        reason = other_model(state, known) if known is not None else ""
        if reason and self._others.get(session) != state.seq:
            self._others[session] = state.seq
            logger.warning("the run is left alone: %s", reason)
        return bool(reason)

    def _is_ours(self, agent: str, session: str) -> bool:
        """Return whether a run of this agent may be driven here: its agent is known, with the model of the run."""
        return agent in self._agents and not self._has_other_model(session)

    def _is_left_behind(self, card: RunCard) -> bool:
        """Return whether a run should be under way. One that waits for an answer is minded until its deadline, where its agent
        has its model."""
        if card.status == "awaiting_user":
            state = read_run(self.store, card.session)
            is_overdue_now = bool(overdue_answers(state, now_ms()))
            if not is_overdue_now and self._is_ours(card.agent, card.session):
                self._timers.mind(card.session, state.asked.values())
            return is_overdue_now
        return card.status in UNDER_WAY

    def _is_unanswered(self, state: RunState) -> bool:
        if state.status != "awaiting_user" or not state.asked:
            return False
        return not overdue_answers(state, now_ms()) and not answered_below(self.store, state)

    def _mind(self, driver: RunDriver, *, has_failed: bool = False) -> None:
        """Go on with a run that waits here when its first question is overdue; any other has no timer. One that has failed to
        write that it goes on is tried again after some time."""
        is_waiting = driver.state.status == "awaiting_user"
        least_s = LETTING_GO_S if has_failed else 0.0
        self._timers.mind(driver.session, driver.state.asked.values() if is_waiting else (), least_s)

    async def _time_up(self, session: str) -> None:
        """Go on with a run whose question is overdue, unless it is at work, was deleted, or its agent is not known here. Any
        other error is for the timers, which try again."""
        if await self._is_at_work(session):
            return
        with suppress(NotFound):
            state = await asyncio.to_thread(self.state, session)
            try:
                await self._goes_on_late(state)
            except SessionHeld:  # by somebody who goes on with it, or who only reads it
                self._timers.mind(session, state.asked.values(), LETTING_GO_S)
                if self._on_held is not None:
                    await self._on_held(session)

    async def drain(self, timeout_s: float | None = None) -> None:
        """Start nothing more, and wait for the runs under way; after the time they are paused."""
        if timeout_s == 0:
            self._wish = self._wish or ("paused", ENDING)
        await self._begin_to_end()
        await self._live.pause(timeout_s, ENDING)

    async def _begin_to_end(self) -> None:
        """Start nothing more. Runs that are just being begun are driven first, so that they end or rest as the others do."""
        self._is_draining = True
        self._timers.end()
        begun = {end_of(task): (task, session) for task, session in tuple(self._beginning.items())}
        if begun:
            await asyncio.wait(begun)
        for task, session in begun.values():
            if not task.done():
                told = "the run of session %s is left as it is: the event loop that began it has stopped"
                logger.warning(told, session)

    def _agent(self, name: str) -> AgentDefinition:
        if name not in self._agents:
            raise BadInput(f"there is no agent {name!r} here. {did_you_mean(name, self._agents)}")
        return self._agents[name]

    def _agent_of(self, state: RunState) -> AgentDefinition | None:
        """Return the agent of a run: of the one that drives it here, or of this name; None if it is not known here."""
        driver = self._live.driver_of(state.session)
        return driver.agent if driver is not None else self._agents.get(state.agent)

    def _driver(self, agent: AgentDefinition, session: str) -> RunDriver:
        if self._is_draining:
            raise BadInput("the program is ending; nothing more is started")
        if self._live.driver_of(session) is not None:
            raise BadInput(f"session {session!r} has a run under way; steer it, or wait for it")
        return RunDriver(agent, self.store, session, more_tools=partial(agent_tools, self._live.drive))

    async def _driven_from(
        self, driver: RunDriver, beginning: Coroutine[Any, Any, str], *, is_resumed: bool = False
    ) -> str:
        """Begin or go on with a run, have it driven, and return its id."""

        async def begun() -> str:
            with self._unended_kept(driver):
                await beginning
            return await self._hand_on(driver)

        return await self._unbroken(driver.session, begun(), is_resumed=is_resumed)

    @contextmanager
    def _unended_kept(self, driver: RunDriver) -> Generator[None]:
        """Keep a driver if the store fails while its run is begun or gone on with here: whoever waits for it would wait for ever.
        With a queue, the workers find it."""
        try:
            yield
        except StoreError as error:
            if self._queue is None:
                self._live.keep_unended(driver, error)
            raise

    async def _unbroken(self, session: str, beginning: Coroutine[Any, Any, T], *, is_resumed: bool = False) -> T:
        """Begin or go on with the run of a session. That is done although the caller is cancelled meanwhile: the log may say
        already that it is under way."""
        task = asyncio.ensure_future(beginning)
        self._beginning[task] = session
        if is_resumed:
            self._resuming[task] = session
        task.add_done_callback(self._begun)
        return await asyncio.shield(task)

    def _begun(self, task: asyncio.Future[Any]) -> None:
        del self._beginning[task]
        self._resuming.pop(task, None)
        if not task.cancelled():
            task.exception()  # of a caller that was cancelled, nobody else asks for it

    def _beginning_here(self, session: str) -> "list[asyncio.Future[Any]]":
        """Return the runs of a session that are being begun or gone on with on this event loop."""
        loop, begun = asyncio.get_running_loop(), tuple(self._beginning.items())
        return [task for task, of in begun if of == session and task.get_loop() is loop]

    async def _hand_on(self, driver: RunDriver) -> str:
        """Drive a run that has begun or goes on, or have a worker drive it; return its id."""
        run, agent = driver.state.id, driver.agent.name
        if self._queue is None:
            if self._wish is not None:
                driver.stop(*self._wish)
            self._live.drive(driver)
            return run
        await driver.let_go()
        await self._queue.put(run, agent)
        return run

    async def _see_to(self, state: RunState) -> None:
        """Have a wish to stop a run granted, here if nobody drives it. Whoever drives it reads its inbox, unless the run has
        come to rest and is being let go; so does whoever is going on with it."""
        while begun := self._beginning_here(state.session):
            await asyncio.wait(begun)
        deadline = time.monotonic() + LETTING_GO_S
        while self._live.driver_of(state.session) is not None or not await self._settle(state):
            if self.state(state.session).status not in AT_REST - ENDED:
                return
            if time.monotonic() > deadline:
                raise SessionHeld(
                    f"run {state.id} rests, and a process that does not drive it has had its session for {LETTING_GO_S:g} "
                    "seconds; the wish is kept, and granted when it is said again after that session is closed"
                )
            await asyncio.sleep(_LOOK_S)

    async def _posted(self, run: str, given: Sequence[RunFile]) -> msgspec.Raw:
        """Return files as they are put into the inbox of a run, read for the model of its agent."""
        if not given:
            return NO_FILES
        state = self.state(run)
        agent = self._agent_of(state) or self._agent(state.agent)
        return await asyncio.to_thread(posted_files, given, agent.models[0], agent.redact)

    async def _post(self, run: str, letter: Letter) -> None:
        state = self.state(run)
        if state.status in ENDED and not isinstance(letter, StopRequest):
            raise BadInput(f"run {state.id} is {state.status}; say it with a new run of session {state.session!r}")
        agent, is_new = self._agent_of(state), partial(self._is_new, state)
        await asyncio.to_thread(
            post, self.store, state.session, letter, redact=agent and agent.redact, may_be_put=is_new
        )
        if (driver := self._live.driver_of(state.session)) is not None:
            driver.wake()

    def _is_new(self, state: RunState, letter: Letter) -> bool:
        """Return whether a message has not been said before: only an answer can have been. `BadInput` if its question has another
        one, which the run has not read yet."""
        if isinstance(letter, QuestionReply):
            for given in answers_to(self.store, state, letter.answer.question):
                if given == letter.answer:
                    return False
                raise BadInput(
                    f"run {state.id} has an answer to {letter.answer.question!r} already: {given.decision or given.text!r:.80}; "
                    "resume goes on with it"
                )
        return True

    async def _settle(self, state: RunState) -> bool:
        """Let a run that nobody drives read its inbox once: a wish to end it is granted. Return whether nobody else has it."""
        # Nothing is asked: any model will do to write the end of a run whose agent is not known here.
        stand_in = AgentDefinition(model=next(iter(state.usage), "gpt-5"), name=state.agent)
        driver = self._driver(self._agents.get(state.agent, stand_in), state.session)
        try:
            await driver.settle()
        except SessionHeld:
            return False
        self._mind(driver)
        return True


def check_session(name: str) -> None:
    """Raise `BadInput` for a name that no session of runs can have."""
    if is_inbox(name) or split_run(name)[1] is not None:
        raise BadInput(f"{name!r:.200} cannot name a session of runs: '#' and a number end the id of a run")


def _check_words(text: str, files: Sequence[RunFile]) -> None:
    """Raise `BadInput` for a message in which there is nothing."""
    if not files and not text.strip():
        raise BadInput("the message has no words and no files; say what is to be done")


def _stops(said: Iterable[tuple[InboxRead, Letter]]) -> bool:
    """Return whether one of these messages of an inbox is the wish that a run stops."""
    return any(isinstance(one, StopRequest) for _, one in said)


@contextmanager
def _told(failure: str) -> Generator[None]:
    """Let a worker go on after an error of one run or of the store, which may be mended: it is told in the program's log."""
    try:
        yield
    except Exception as error:  # noqa: BLE001, RUF100 - also of a part that the host brought
        logger.warning("%s: %s", failure, error if isinstance(error, FovealError) else describe(error))


async def _followed(log: RunLog, events: Sequence[RunEvent]) -> AsyncGenerator[RunEvent, None]:
    """Yield the events of a run that were read, then those to come, until it ends or rests, or its session goes on without it."""
    run = events[-1].scope.run
    while True:
        for event in events:
            yield event
        if log.state.status in AT_REST or log.state.id != run:
            return
        await asyncio.sleep(_LOOK_S)
        events = [event for event in await asyncio.to_thread(log.pull) if event.scope.run == run]
