"""The asyncio driver of a run: does what `next_step` says, writes the outcome, and reads the state from the log again.

Every effect is in the log before the next one begins, so that a run goes on from its log after any end of the process. The
session is used from threads, one call at a time; the model and the tools run on the event loop.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, assert_never

import msgspec

from foveal.agent.deadlines import overdue_answers, with_deadline
from foveal.agent.definition import AgentDefinition
from foveal.agent.inbox import FollowUp, Letter, QuestionReply, Steering, StopRequest, letters
from foveal.agent.model_step import ModelSteps
from foveal.agent.next_step import Ask, Done, HandOver, Hear, NextStep, Run, Wait, next_step
from foveal.agent.run_journal import RunJournal, now_ms
from foveal.agent.run_log import newest_status
from foveal.agent.run_marks import (
    AT_REST,
    ENDED,
    AgentTook,
    InboxRead,
    MessageQueued,
    QueueTaken,
    RunBegan,
    RunMark,
    RunStatus,
    SpawnEnded,
    UserAnswered,
    UserAsked,
    split_run,
    to_note,
)
from foveal.agent.run_state import RunState, RunUsage
from foveal.agent.summary_meter import SummaryMeter
from foveal.agent.tool_batch import ToolBatch
from foveal.agent.tool_calls import CANCELLED, refused
from foveal.agent.tools import Tool, UserQuestion
from foveal.session.options import Host
from foveal.session.session import Session
from foveal.stores.port import Store
from foveal.values.entry import Message, system, user
from foveal.values.errors import BadInput, FovealError
from foveal.writers.faults import describe

INBOX_PAUSE_S = 0.25
"""Seconds between two looks into the inbox while a model or a tool is at work; a wish of this process is seen at once."""


class RunOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run, or the point at which it rests."""

    run: str
    session: str
    status: RunStatus
    text: str
    """The answer; of a run that has none, the model's last words."""
    reason: str = ""
    steps: int = 0
    usage: dict[str, RunUsage] = {}
    """The model calls of this run, by model, without those of sub-agents."""
    questions: tuple[UserQuestion, ...] = ()
    """The questions that a run in `awaiting_user` waits for."""

    @classmethod
    def of(cls, state: RunState, text: str | None = None) -> "RunOutcome":
        """Return the outcome of a run in this state."""
        return cls(
            run=state.id,
            session=state.session,
            status=state.status or "pending",
            text=state.answer if text is None else text,
            reason=state.reason,
            steps=state.all_steps,
            usage=dict(state.usage),
            questions=tuple(state.asked.values()),
        )


class RunDriver:
    """Drives the runs of one session, one at a time: `begin` or `go_on`, then `drive`."""

    def __init__(
        self,
        agent: AgentDefinition,
        store: Store,
        session: str,
        *,
        parent: str = "",
        opened: Session | None = None,
        meter: SummaryMeter | None = None,
        more_tools: "Callable[[RunDriver], Sequence[Tool]]" = lambda driver: (),
    ) -> None:
        self.agent, self.store, self.session = agent, store, session
        self._parent, self._opened, self._more_tools = parent, opened, more_tools
        self.journal = RunJournal(store, session, self._open_session)
        self._take(agent, meter)
        self._stop: StopRequest | None = None
        self._void_stops = 0
        """Place in the inbox up to which wishes to stop are void."""
        self._wake, self._stopping = asyncio.Event(), asyncio.Event()
        self.children: set[RunDriver] = set()
        """The drivers of sub-agents that are at work for this run."""

    def _take(self, agent: AgentDefinition, meter: SummaryMeter | None = None) -> None:
        """Go on as this agent: with its models, its tools and its bounds."""
        self.agent = agent
        self.tools = {tool.name: tool for tool in (*agent.toolset.values(), *self._more_tools(self))}
        self._meter = meter or SummaryMeter(agent)
        self.journal.bills = self._meter.take
        self._model = ModelSteps(agent, self.journal, list(self.tools.values()))
        self._batch = ToolBatch(self.journal, agent.limits)

    @property
    def state(self) -> RunState:
        """The state of the run as the log has it."""
        return self.journal.state

    async def begin(self, text: str, *, is_told: bool = False) -> str:
        """Begin a run with the user's words and return its id. `is_told`: the session has them already."""
        async with self._opened_journal() as state:
            if state.status is not None and state.status not in ENDED:
                raise BadInput(
                    f"run {state.id} of this session is {state.status}; resume or cancel it before another begins"
                )
            await self._write_beginning(state, [] if is_told else [user(text)], is_told=is_told)
        return self.state.id

    async def _write_beginning(self, state: RunState, said: Sequence[Message], *, is_told: bool) -> None:
        # Words that came too late for the run before are heard in this one; wishes about that run are void.
        late = await asyncio.to_thread(letters, self.store, self.session, state.inbox)
        words = [MessageQueued(one.text) for _, one in late if isinstance(one, Steering | FollowUp)]
        began = (RunBegan(state.run + 1, self.agent.name, self._parent), *map(InboxRead, [late[-1][0]] if late else ()))

        def write(session: Session) -> None:
            left = [refused(call.id, CANCELLED, "interrupted") for call in session.serve()] if state.run else []
            is_unknown = not state.run or state.agent != self.agent.name
            lead = [system(self.agent.instructions)] if self.agent.instructions and not is_told and is_unknown else []
            session.extend([*lead, *left, *map(to_note, (*began, *words)), *said])

        await self.journal.do(write)

    async def go_on(self, *, is_wished: bool = False) -> str:
        """Take up the newest run, which rests or was left behind by a process that died; return its id.

        `is_wished`: somebody has just said so, and earlier wishes to end it or to let it rest are void.
        """
        async with self._opened_journal() as state:
            if state.status is None or state.status in ("completed", "cancelled"):
                named = state.id if state.run else self.session
                raise BadInput(f"there is nothing to go on with: {named} is {state.status or 'no run'}")
            late = await asyncio.to_thread(letters, self.store, self.session, state.inbox)
            self._void_stops = late[-1][0] if late and is_wished else 0
        return state.id

    @asynccontextmanager
    async def _opened_journal(self) -> AsyncGenerator[RunState]:
        """Open the session; give it up again if the run cannot be begun."""
        state = await self.journal.open()
        try:
            yield state
        except BaseException:
            await self.journal.close()
            raise

    async def drive(self) -> RunOutcome:
        """Drive the run until it ends or rests. If the caller is cancelled, it is left paused."""
        watcher = asyncio.create_task(self._watch())
        try:
            return await self._driven()
        except asyncio.CancelledError:
            stop = self._stop or StopRequest("paused", "the program was interrupted")
            with suppress(FovealError):
                await asyncio.shield(self._rest(stop))
            raise
        except FovealError as error:
            return await self._end("failed", None, str(error))
        except Exception as error:  # of a part that the host brought; the run can be resumed when that is mended
            await self._end("failed", None, describe(error))
            raise
        finally:
            watcher.cancel()
            await self._model.close()
            await self.journal.close()

    async def fail(self, reason: str) -> RunOutcome:
        """End the run as failed, without driving it."""
        try:
            return await self._end("failed", None, reason)
        finally:
            await self.journal.close()

    def stop(self, status: RunStatus, reason: str = "") -> None:
        """Ask the run to end (`cancelled`) or to rest (`paused`); its model, its tools and its sub-agents are told."""
        self._stop = self._stop or StopRequest(status, reason)
        self._stopping.set()
        for child in self.children:
            child.stop(status, reason)

    def wake(self) -> None:
        """Look into the inbox now."""
        self._wake.set()

    async def _driven(self) -> RunOutcome:
        if self.state.model:
            await self._model.use_model(self.state.model)
        while True:
            step = await self.journal.do(self._decide)
            if self._stop is not None:
                return await self._rest(self._stop)
            match step:
                case Ask():
                    await self._unless_stopped(self._model.ask(step))
                case Run():
                    await self._unless_stopped(self._batch.do(step))
                case Hear():
                    await self._hear(step)
                case HandOver(agent=name):
                    await self._hand_over(name)
                case Wait(questions=questions):
                    await self.journal.write(*map(UserAsked, self._unasked(questions)))
                    await self.journal.set_status("awaiting_user")
                    return RunOutcome.of(self.state)
                case Done(status=status, text=text, reason=reason):
                    return await self._end(status, text, reason)
                case _:
                    assert_never(step)

    def _decide(self, session: Session) -> NextStep:
        """Take the messages of the inbox into the log, in their order, and return the next step."""
        new = letters(self.store, self.session, self.state.inbox)
        marks = [mark for place, letter in new if (mark := self._mark_of(letter, place)) is not None]
        marks += [InboxRead(new[-1][0])] if new else []
        if self._stop is None and self.state.status != "running":
            marks.append(self.journal.status_mark("running"))
        if marks:
            session.extend(list(map(to_note, marks)))
        calls = session.serve()
        self.journal.follow()  # the marks, and the results of Foveal's own tools
        if late := overdue_answers(self.state, now_ms()):
            session.extend(list(map(to_note, late)))
            self.journal.follow()
        if not calls and self.state.spawned:
            self._tell_ended(session)
        agent = self.agent
        return next_step(
            self.state,
            calls,
            self.tools,
            limits=agent.limits,
            rules=agent.approvals,
            finalizes=bool(agent.finalize),
        )

    def _unasked(self, questions: Iterable[UserQuestion]) -> list[UserQuestion]:
        return [
            with_deadline(question, self.agent.limits.question_s, now_ms())
            for question in questions
            if question.id not in self.state.asked
        ]

    async def _unless_stopped(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something, or give it up when the run is to end or to rest."""
        task, stop = asyncio.create_task(work), asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled():
            task.result()

    async def _hear(self, step: Hear) -> None:
        """Let the user's queued words become messages, with the mark that they were taken."""
        words = (*self.state.steering[: step.steering], *self.state.following[: step.following])
        await self.journal.write(QueueTaken(step.steering, step.following), *map(user, words))

    async def _hand_over(self, name: str) -> None:
        """Let another agent go on. Its instructions stand where it takes over, so that the prompt before them stays as it is."""
        taker = self.agent.handoffs.get(name)
        if taker is None:
            raise BadInput(
                f"the agent {self.agent.name!r} cannot hand over to {name!r}: it knows no such agent any more"
            )
        told = system(f"The agent {name} goes on with this conversation.\n{taker.instructions}".strip())
        await self.journal.write(AgentTook(name), told)
        await self._model.close()
        self._take(taker)
        await self._model.use_model(0)

    def _tell_ended(self, session: Session) -> None:
        """Take the ends of detached runs into the log, as words that the model hears before its next step."""
        ended: dict[str, RunStatus] = {
            child: mark.status
            for child in self.state.spawned
            for card in self.store.cards(split_run(child)[0])
            if (mark := newest_status(self.store, card.id, card.entries)) and mark.status in ENDED
        }
        if ended:
            told = "; ".join(f"{child} is {status}" for child, status in ended.items())
            words = MessageQueued(f"[{told}. The tool `spawned` returns the answers.]", is_steering=True)
            session.extend([*(to_note(SpawnEnded(child, status)) for child, status in ended.items()), to_note(words)])
            self.journal.follow()

    async def _end(self, status: RunStatus, text: str | None, reason: str = "") -> RunOutcome:
        if self.state.status not in ENDED:
            answer = self.state.answer if text is None else text
            await self.journal.set_status(status, reason, answer)
        return RunOutcome.of(self.state, text)

    async def _rest(self, stop: StopRequest) -> RunOutcome:
        """End or pause the run as somebody wished. The open calls of a cancelled one get results, so that a chat can go on."""
        is_cancelled = stop.status == "cancelled"

        def write(session: Session) -> None:
            if self.state.status in (ENDED if is_cancelled else AT_REST):  # the wish came too late
                return
            calls = session.serve() if is_cancelled else ()
            mark = self.journal.status_mark("cancelled" if is_cancelled else "paused", stop.reason)
            session.extend([*(refused(call.id, CANCELLED, "interrupted") for call in calls), to_note(mark)])

        await self.journal.do(write)
        return RunOutcome.of(self.state)

    async def _watch(self) -> None:
        """Look into the inbox from time to time while a step is under way."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), INBOX_PAUSE_S)
            self._wake.clear()
            for place, letter in await asyncio.to_thread(letters, self.store, self.session, self.state.inbox):
                if isinstance(letter, StopRequest) and place > self._void_stops:
                    self.stop("cancelled" if letter.status == "cancelled" else "paused", letter.reason)

    def _mark_of(self, letter: Letter, place: int) -> RunMark | None:
        match letter:
            case Steering(text=text):
                return MessageQueued(text, is_steering=True)
            case FollowUp(text=text):
                return MessageQueued(text)
            case QuestionReply(answer=answer):
                named = answer.question or next(iter(self.state.asked), "")
                return UserAnswered(named, answer)
            case StopRequest():
                self._stop = self._stop or (letter if place > self._void_stops else None)
                return None

    def _open_session(self, place: int) -> Session:
        """Open the session for the agent's model at this place."""
        opened, self._opened = self._opened, None
        if opened is not None:
            return opened
        agent = self.agent
        allowed = frozenset(self.tools) if self._parent else None
        host = Host(
            summariser=self._meter.summariser,
            on_event=self.journal.relay,
            environment=agent.environment,
            allowed_tools=allowed,
        )
        return Session(
            self.store, self.session, model=agent.models[place].session_model, policy=agent.policy, host=host
        )
