"""The asyncio driver of a run: does what `next_step` says, writes the outcome, and reads the state from the log again.

Every effect is in the log before the next one begins, so that a run goes on from its log after any end of the process. The
session is used from threads, one call at a time; the model and the tools run on the event loop.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import takewhile
from typing import Any, TypeVar, assert_never

import msgspec

from foveal.agent.deadlines import overdue_answers, with_deadline
from foveal.agent.definition import AgentDefinition
from foveal.agent.inbox import FollowUp, Letter, QuestionReply, Steering, StopRequest, letter_at, letters, post
from foveal.agent.model_step import ModelSteps
from foveal.agent.next_step import LEFT_BRANCH, Ask, Done, HandOver, Hear, Run, Wait, next_step
from foveal.agent.run_files import read_posted
from foveal.agent.run_journal import RunJournal
from foveal.agent.run_log import answered_below, done_in, newest_status
from foveal.agent.run_marks import (
    AT_REST,
    ENDED,
    AgentTook,
    CallUnbilled,
    FirstModelNamed,
    InboxRead,
    MessageQueued,
    QueueTaken,
    ResumedAlone,
    RunBegan,
    RunLeft,
    RunMark,
    RunStatus,
    RunTaken,
    SpawnEnded,
    UserAnswered,
    UserAsked,
    split_run,
)
from foveal.agent.run_state import RunState, RunUsage
from foveal.agent.spending import Spending
from foveal.agent.summary_meter import SummaryMeter
from foveal.agent.tool_batch import ToolBatch
from foveal.agent.tool_calls import CANCELLED, GIVEN_UP, STOPPED, calls_at_work, refused
from foveal.agent.tools import Tool, UserQuestion
from foveal.context import FileEntry
from foveal.session.options import Host, now_ms
from foveal.session.session import Session
from foveal.stores.port import Store
from foveal.values.entry import Message, ToolCall, system, user
from foveal.values.errors import BadInput, FovealError, LeaseLost, SessionHeld, StoreError
from foveal.writers.faults import describe

T = TypeVar("T")

logger = logging.getLogger("foveal.runs")

UNDER_WAY: frozenset[RunStatus] = frozenset({"pending", "running"})
"""Statuses in which somebody works at the run, or should: if nobody has its session, anybody may take it up."""

MOST_TAKE_UPS = 5
"""Times in a row that a run is taken up without one more reply or result; then it fails. A run that ends whoever drives it, by
its memory or by a tool that crashes, would else end all workers, one after the other."""

LOST_FILES = "[files came with this message; they are not in the inbox of the run any more]"
"""Stands in the place of files that cannot be read from the inbox, so that the model does not look for them."""

LETTING_GO_S = 5.0
"""Seconds for which a process may still hold the session of a run that it has let rest; it takes some milliseconds."""
LETTING_GO_LOOK_S = 0.2
"""Seconds between two looks whether it has."""

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
            questions=() if state.status in ENDED else tuple(state.asked.values()),
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
        above: "RunDriver | None" = None,
        opened: Session | None = None,
        meter: SummaryMeter | None = None,
        more_tools: "Callable[[RunDriver], Sequence[Tool]]" = lambda driver: (),
    ) -> None:
        self.agent, self.store, self.session = agent, store, session
        self._parent, self._opened, self._more_tools = parent, opened, more_tools
        self._above = above
        self._spending: dict[str, Spending] = {}
        """The money that was spent by this run and by those above it, where that is limited."""
        self.journal = RunJournal(store, session, self._open_session)
        if agent.on_event is not None and not parent:  # of a sub-agent, the run above tells
            self.journal.hub.tell(agent.on_event)
        self._take(agent, meter)
        self._stop: StopRequest | None = None
        self._act: asyncio.Task[Any] | None = None
        """The model call or the tools that are under way."""
        self._wake = asyncio.Event()
        self.children: set[RunDriver] = set()
        """The drivers of sub-agents that are at work for this run."""

    def _take(self, agent: AgentDefinition, meter: SummaryMeter | None = None) -> None:
        """Go on as this agent: with its models, its tools and its bounds."""
        self.agent = agent
        self.tools = {tool.name: tool for tool in (*agent.toolset.values(), *self._more_tools(self))}
        self.journal.put_last_bills()  # of the agent before
        self._meter = meter or SummaryMeter(agent)
        self.journal.bills, self.journal.last_bills = self._meter.take, self._meter.give_up
        self.journal.redact = agent.redact
        self._model = ModelSteps(agent, self.journal, list(self.tools.values()))
        self._batch = ToolBatch(self.journal, agent.limits)

    @property
    def state(self) -> RunState:
        """The state of the run as the log has it."""
        return self.journal.state

    async def begin(self, text: str, *, files: Sequence[FileEntry] = (), is_told: bool = False) -> str:
        """Begin a run with the user's words and files, and return its id. `is_told`: the session has them already."""
        async with self._opened_journal() as state:
            if state.status is not None and state.status not in ENDED:
                raise BadInput(
                    f"run {state.id} of this session is {state.status}; resume or cancel it before another begins"
                )
            if state.status == "failed":  # it could have been resumed until now
                reason = "the call that it worked for was given up: its session has another run"
                await self._stop_children(StopRequest("cancelled", reason))
            await self._write_beginning(state, [] if is_told else [*files, user(text)], is_told=is_told)
        return self.state.id

    async def _write_beginning(self, state: RunState, said: Sequence[Message | FileEntry], *, is_told: bool) -> None:
        # Words that came too late for the run before are heard in this one; wishes about that run are void.
        late = await asyncio.to_thread(letters, self.store, self.session, state.inbox)
        words = [_queued(place, one) for place, one in late if isinstance(one, Steering | FollowUp)]
        words = [msgspec.structs.replace(one, is_steering=False) for one in words]
        began = (
            RunBegan(
                state.run + 1,
                self.agent.name,
                self._parent,
                first_model=self.agent.models[0].spelled,
                session=self.session,
            ),
            *([late[-1][0]] if late else ()),
        )

        def write(session: Session) -> None:
            left = self._given_up(session) if state.run else []
            is_unknown = state.told != self.agent.name
            lead = [system(self.agent.instructions)] if self.agent.instructions and not is_told and is_unknown else []
            self.journal.keep(session, *lead, *left, *began, *words, *said)

        await self.journal.do(write)

    async def go_on(self, *, wished_at: InboxRead | None = None) -> str:
        """Take up the newest run, which rests or was left behind by a process that died; return its id.

        `wished_at`: somebody has said so, when this was the newest message of the inbox. Wishes up to there to end it or to let
        it rest are void, later ones count, and it is under way from here on, whoever drives it.
        """
        async with self._opened_journal() as state:
            self._keep_bounds(state)
            if state.status is None or state.status in ("completed", "cancelled"):
                named = state.id if state.run else self.session
                raise BadInput(f"there is nothing to go on with: {named} is {state.status or 'no run'}")
            if state.run_on_branch != state.run:
                raise BadInput(f"run {state.id} cannot go on: {LEFT_BRANCH}")
            if wished_at is not None:
                # Of a run that has failed, the first model may answer again.
                if other_model(state, self.agent) or (state.status == "failed" and state.model):
                    await self.journal.write(FirstModelNamed(self.agent.models[0].spelled))
                await self.journal.do(lambda session: self._void_wishes(session, wished_at))
        return state.id

    async def take_up(self) -> bool:
        """Take up the newest run if it is under way, or waits for an answer that is overdue; return whether that is so. One of
        another agent, or of another model, is left alone.

        `SessionHeld` if somebody drives it.
        """
        async with self._opened_journal() as state:
            self._keep_bounds(state)
            is_late = state.status == "awaiting_user" and bool(overdue_answers(state, now_ms()))
            is_ours = state.agent == self.agent.name and not other_model(state, self.agent)
            is_due = is_ours and (state.status in UNDER_WAY or is_late)
            if is_due and is_late:
                await self.journal.do(partial(self._take_letters, is_alone=bool(state.parent)))
            if is_due and state.status == "running":
                is_due = await self._is_survived(state)
        if not is_due:
            await self.journal.close()
        return is_due

    async def _is_survived(self, state: RunState) -> bool:
        """Count that the run is taken up, and return True; end it if those who took it up before have ended at the same place."""
        done = await asyncio.to_thread(done_in, self.store, state)
        if state.take_ups < MOST_TAKE_UPS or state.done != done:
            await self.journal.write(RunTaken(done))
            return True
        reason = (
            f"{state.take_ups} processes in a row that took it up have ended without one more reply or result; something in it "
            f"may have ended them, such as a tool that crashes. Mend that; resume({state.id!r}) goes on"
        )
        await self._end("failed", None, reason)
        return False

    async def settle(self, wish: StopRequest | None = None) -> None:
        """Grant a wish to end the run or to let it rest, this one or one of the inbox, without driving it. Without one, nothing
        happens."""
        try:
            state = await self._opened_state()
            new = await asyncio.to_thread(letters, self.store, self.session, state.inbox)
            self._stop = wish or _wish_in(new)
            if self._stop is not None and state.status not in ENDED:
                await self._rest(self._stop)
        finally:
            await self.journal.close()

    async def _opened_state(self) -> RunState:
        """Open the session and return the state of its newest run. A model call that a process began before it died may have been
        billed, and nobody knows how much."""
        state = await self.journal.open()
        if state.is_asking:
            known = self.agent.models[min(state.model, len(self.agent.models) - 1)]
            await self.journal.write(CallUnbilled(known.model))
        return self.state

    def _keep_bounds(self, state: RunState) -> None:
        """Go on with a sub-agent's run within the bounds that it began with, whoever takes it up."""
        if (state.parent or state.spawned_by is not None) and not state.handoffs:
            self._take(self.agent.as_sub_agent(), self._meter)

    @asynccontextmanager
    async def _opened_journal(self) -> AsyncGenerator[RunState]:
        """Open the session; give it up again if the run cannot be begun."""
        try:
            yield await self._opened_state()
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
        except LeaseLost:  # another process has taken the run up
            raise
        except StoreError as error:
            if not self._parent:
                return await self._end("failed", None, str(error))
            with suppress(StoreError):  # the run above fails, and goes on with this one when it is resumed
                await self._rest(StopRequest("paused", str(error)))
            raise
        except FovealError as error:
            return await self._end("failed", None, str(error))
        except Exception as error:  # of a part that the host brought; the run can be resumed when that is mended
            await self._end("failed", None, describe(error))
            raise
        finally:
            watcher.cancel()
            with suppress(Exception):  # of a port that the host brought: the run has its outcome
                await self._model.close()
            await self.journal.close()

    async def let_go(self) -> None:
        """Give the session up, also one that was opened for the run and never used, and leave the run to whoever takes it up."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await asyncio.to_thread(opened.close)
        await self.journal.close()

    async def fail(self, reason: str) -> RunOutcome:
        """End the run as failed, without driving it."""
        try:
            return await self._end("failed", None, reason)
        finally:
            await self.journal.close()

    def stop(self, status: RunStatus, reason: str = "") -> None:
        """Ask the run to end (`cancelled`) or to rest (`paused`); its model, its tools and its sub-agents are told.

        With a status of `UNDER_WAY` it is given up here and left to whoever takes it up.
        """
        self._stop = self._stop or StopRequest(status, reason)
        if self._act is not None and not self._act.cancelling():  # once: its tools have some time to end
            self._act.cancel()
        for child in self.children:
            child.stop(status, reason)

    def is_to_stop(self) -> bool:
        """Return whether somebody wishes that the run ends or rests, in the inbox or here."""
        return self._stop is not None or _wish_in(letters(self.store, self.session, self.state.inbox)) is not None

    def wake(self) -> None:
        """Look into the inbox now."""
        self._wake.set()

    async def _driven(self) -> RunOutcome:
        if self.state.model:
            await self._model.use_known(self.state.model)
        while True:
            step = await self._unless_stopped(self._next())
            if self._stop is not None:
                return await self._rest(self._stop)
            match step:
                case Hear():
                    await self._hear(step)
                case HandOver(agent=name):
                    await self._hand_over(name)
                case Wait(questions=questions):
                    asked = map(UserAsked, self._unasked(questions))
                    await self.journal.write(*asked, self.journal.status_mark("awaiting_user"))
                    # Whoever answered before that was durable has found the run under way, and counts on this look.
                    if not await asyncio.to_thread(letters, self.store, self.session, self.state.inbox):
                        return RunOutcome.of(self.state)
                case Done(text=text):
                    return RunOutcome.of(self.state, text)
                case None:
                    pass
                case _:
                    assert_never(step)

    async def _next(self) -> Hear | HandOver | Wait | Done | None:
        """Decide about the next step. Model calls and tools are done at once; any other step is returned, and None if the run is
        to stop."""
        while self._stop is None and not _is_cancelled():
            step, act = await self.journal.do(partial(self._decided, at_work=calls_at_work()))
            if act is None:
                return step
            await act()
        return None

    def _decided(
        self, session: Session, *, at_work: Collection[str]
    ) -> "tuple[Hear | HandOver | Wait | Done | None, Callable[[], Awaitable[None]] | None]":
        """Return the next step, or the act that it is: with its prompt, or with the marks in the log that its tools start.
        `at_work` as `next_step` has it."""
        calls = self._open_calls(session)
        if self._stop is not None:
            return None, None
        agent = self.agent
        step = next_step(
            self.state,
            calls,
            self.tools,
            limits=agent.limits,
            rules=agent.approvals,
            finalizes=bool(agent.finalize),
            at_work=at_work,
        )
        if isinstance(step, Ask) and (reason := self._overspent()):
            step = Done("failed", self.state.answer, reason)
        match step:
            case Ask():
                return None, partial(self._model.ask, step, self._model.prepare(session, step))
            case Run(refused=(_, *_)) if self.state.children:
                return None, partial(self._refuse_and_run, step)
            case Run():
                return None, partial(self._batch.do, step, self._batch.begin(session, step))
            case Done(
                status=status, text=text, reason=reason
            ):  # here, where the inbox was read: nobody's words come between
                self._write_end(session, status, text, reason)
                return step, None
            case _:
                return step, None

    def _overspent(self) -> str:
        """Return why no further model call may be paid: this run, or one above it, has spent its limit. Empty if one may."""
        one = self
        while one is not None:
            run, most = one.state.id, one.agent.limits.max_usd
            if most is not None:
                spent = self._spending.setdefault(run, Spending(self.store, run))
                was_unknown = spent.unknown
                spent.read()
                if one is self and spent.unknown and not was_unknown:
                    logger.warning(
                        "run %s has max_usd, and %d of its model calls has no known cost: only the others count",
                        run,
                        spent.unknown,
                    )
                if spent.usd >= most:
                    return f"{run} has spent ${spent.usd:.4f} of ${most:.4f}, its limit max_usd; resume it with a higher one"
            one = one._above
        return ""

    async def _refuse_and_run(self, step: Run) -> None:
        """Do a step in which calls are refused that may have sub-agents at work: those end before the call has its result, or are
        told to by then."""
        wish = StopRequest("cancelled", "the call that it worked for was given up")
        await self._stop_children(wish, but={one.key for one in step.ready})
        await self._batch.do(step, await self.journal.do(lambda session: self._batch.begin(session, step)))

    def _open_calls(self, session: Session) -> Sequence[ToolCall]:
        """Take the messages of the inbox into the log, in their order; answer calls of Foveal's own tools; return the others."""
        self._take_letters(session)
        calls = session.serve()
        self.journal.follow(session)  # the results of Foveal's own tools
        if given := answered_below(self.store, self.state) or overdue_answers(self.state, now_ms()):
            self.journal.keep(session, *given)
        if not calls and self.state.spawned:
            self._tell_ended(session)
        return calls

    def _take_letters(self, session: Session, *, is_alone: bool = False) -> None:
        """Write the messages of the inbox into the log, and that the run is under way. If the run is to stop, they are left
        there: `_rest` writes them together with the end that one of them may wish for. `is_alone`: the run of a sub-agent goes
        on although the run above may rest."""
        new = letters(self.store, self.session, self.state.inbox)
        self._stop = self._stop or _wish_in(new)
        if self._stop is None:
            self._keep_taken(session, new, *((ResumedAlone(),) if is_alone else ()))

    def _void_wishes(self, session: Session, upto: InboxRead) -> None:
        """Write the messages of the inbox into the log, those up to one without their wishes to stop: somebody has resumed the
        run after them. The first newer wish, and what follows it, is left there."""
        new = letters(self.store, self.session, self.state.inbox)
        taken = takewhile(lambda one: one[0].place <= upto.place or not isinstance(one[1], StopRequest), new)
        alone = (ResumedAlone(),) if self.state.parent else ()
        self._keep_taken(session, list(taken), *alone)

    def _keep_taken(self, session: Session, taken: Sequence[tuple[InboxRead, Letter]], *more: RunMark) -> None:
        """Write messages that are taken from the inbox, and that the run is under way."""
        running = () if self.state.status == "running" else (self.journal.status_mark("running"),)
        self.journal.keep(session, *self._marks_of(taken), *running, *more)

    def _marks_of(self, new: Sequence[tuple[InboxRead, Letter]]) -> list[RunMark]:
        """Return the marks of messages that are taken from the inbox."""
        marks, asked = list[RunMark](), set(self.state.asked)
        for place, letter in new:
            match letter:
                case Steering() | FollowUp():
                    marks.append(_queued(place, letter))
                case QuestionReply(answer=answer):
                    named = answer.question or next(iter(self.state.asked), "")
                    if named in asked:  # the first answer counts, and one to a question that nobody asks is void
                        asked.remove(named)
                        marks.append(UserAnswered(named, answer))
                case StopRequest():
                    pass
        return [*marks, new[-1][0]] if new else marks

    def _unasked(self, questions: Iterable[UserQuestion]) -> list[UserQuestion]:
        return [
            with_deadline(question, self.agent.limits.question_s, now_ms())
            for question in questions
            if question.id not in self.state.asked
        ]

    async def _unless_stopped(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Do something, or give it up when the run is to end or to rest: then None is returned."""
        self._act = act = asyncio.create_task(work)
        if self._stop is not None:
            act.cancel()
        try:
            done = await act
        except asyncio.CancelledError:
            if self._stop is None or _is_cancelled():
                raise
            return None
        if _is_cancelled():  # and a part that the host brought has swallowed it
            raise asyncio.CancelledError
        return done

    async def _hear(self, step: Hear) -> None:
        """Let the user's queued words become messages, with the mark that they were taken."""
        taken = (*self.state.steering[: step.steering], *self.state.following[: step.following])

        def write(session: Session) -> None:
            said = (item for one in taken for item in self._said(one))
            self.journal.keep(session, QueueTaken(step.steering, step.following), *said)

        await self.journal.do(write)

    def _said(self, queued: MessageQueued) -> list[Message | FileEntry]:
        """Return the words of a message that has waited, behind its files."""
        if not (place := queued.letter):
            return [user(queued.text)]
        letter = letter_at(self.store, self.session, place)
        files = read_posted(letter.files) if isinstance(letter, Steering | FollowUp) else []
        return [*files, user(queued.text if files else f"{queued.text}\n\n{LOST_FILES}")]

    async def _hand_over(self, name: str) -> None:
        """Let another agent go on. Its instructions stand where it takes over, so that the prompt before them stays as it is."""
        taker = self.agent.handoffs.get(name)
        if taker is None:
            raise BadInput(
                f"the agent {self.agent.name!r} cannot hand over to {name!r}: it knows no such agent any more"
            )
        told = system(f"The agent {name} goes on with this conversation.\n{taker.instructions}".strip())
        await self.journal.write(AgentTook(name, taker.models[0].spelled), told)
        await self._model.close()
        self._take(taker)
        await self._model.use_model(0)

    def _tell_ended(self, session: Session) -> None:
        """Take the ends of detached runs into the log, as words that the model hears before its next step."""
        ended: dict[str, RunStatus] = {
            child: status for child in self.state.spawned if (status := self._status_of(child)) and status in ENDED
        }
        if ended:
            told = "; ".join(f"{child} is {status}" for child, status in ended.items())
            told = f"[{told}. The tool `spawned` returns the answers.]"
            words = MessageQueued(told, is_steering=True, is_own=True)
            self.journal.keep(session, *(SpawnEnded(child, status) for child, status in ended.items()), words)

    def _status_of(self, child: str) -> RunStatus | None:
        """Return the status of a sub-agent's run; one whose session was deleted will not go on."""
        for card in self.store.cards(split_run(child)[0]):
            found = newest_status(self.store, card.id, card.entries)
            return found.status if found else None
        return "cancelled"

    async def _end(self, status: RunStatus, text: str | None, reason: str = "") -> RunOutcome:
        await self.journal.do(lambda session: self._write_end(session, status, text, reason))
        return RunOutcome.of(self.state, text)

    def _write_end(self, session: Session, status: RunStatus, text: str | None, reason: str) -> None:
        if self.state.status not in ENDED:  # nor by a commit that only seemed to fail
            answer = self.state.answer if text is None else text
            self.journal.put_last_bills()
            self.journal.keep(session, *self._batch.not_begun(), self.journal.status_mark(status, reason, answer))

    async def _rest(self, stop: StopRequest) -> RunOutcome:
        """End or pause the run as somebody wished. The open calls of a cancelled one get results, so that a chat can go on.

        Words that wait in the inbox are in the state that the run is left in. One that is left to others has its inbox as it is.
        """
        if stop.status in UNDER_WAY:

            def leave(session: Session) -> None:
                self.journal.keep(session, *self._batch.not_begun(), RunLeft())

            await self.journal.do(leave)
            return RunOutcome.of(self.state)
        await self._stop_children(stop)

        def write(session: Session) -> None:
            new = letters(self.store, self.session, self.state.inbox)
            wish = (
                stop if stop.status == "cancelled" else _wish_in(new) or stop
            )  # of the user, before the program's own
            is_cancelled = wish.status == "cancelled"
            if self.state.status in ENDED:  # the wish came too late
                return
            ends: list[Message | RunMark] = [*self._given_up(session)] if is_cancelled else []
            if not is_cancelled:
                ends.extend(self._batch.not_begun())
            if is_cancelled:
                self.journal.put_last_bills()
            if is_cancelled or self.state.status not in AT_REST:
                ends.append(self.journal.status_mark("cancelled" if is_cancelled else "paused", wish.reason))
            self.journal.keep(session, *self._marks_of(new), *ends)

        await self.journal.do(write)
        if self.state.status == "cancelled" and stop.status != "cancelled":  # by a wish in the inbox, read with the end
            await self._stop_children(StopRequest("cancelled", self.state.reason))
        return RunOutcome.of(self.state)

    def _given_up(self, session: Session) -> list[Message]:
        """Return the results of the open calls of a run that does not go on. For work that is done with the session."""
        state, calls = self.state, session.serve()
        begun = state.started - {mark.key for mark in self._batch.not_begun()}
        keys = state.keys_of(calls)
        return [
            refused(call.id, GIVEN_UP if key in state.asking else STOPPED if key in begun else CANCELLED, "interrupted")
            for call, key in zip(calls, keys, strict=True)
        ]

    async def _stop_children(self, wish: StopRequest, *, but: Collection[str] = ()) -> None:
        """End the runs of sub-agents that are not driven for this one, or let them rest: the calls that wait for them are given
        up. `but` are the keys of calls that are not."""
        for key, child in self.state.children.items():
            if key in but or child in self.state.spawned:
                continue
            try:
                await self._stop_child(child, wish)
            except StoreError as error:
                if wish.status == "cancelled":
                    raise
                # It can be paused or taken up later, and the run above may rest all the same.
                logger.warning("run %s is not paused with run %s: %s", child, self.state.id, error)

    async def _stop_child(self, child: str, wish: StopRequest) -> None:
        """Have a sub-agent's run end or rest: at once if nobody drives it. Whoever drives it, under its own name, reads the wish
        in its inbox."""
        session, until = split_run(child)[0], time.monotonic() + LETTING_GO_S
        stand_in = AgentDefinition(model=self.agent.models[0], name=self.agent.name)  # nothing is asked
        nothing_to_do, is_told = {None, *(AT_REST if wish.status == "paused" else ENDED)}, False
        while await asyncio.to_thread(self._status_of, child) not in nothing_to_do:
            try:
                await RunDriver(stand_in, self.store, session, parent=self.state.id).settle(wish)
                return
            except SessionHeld as held:
                if not is_told:
                    await asyncio.to_thread(post, self.store, session, wish, redact=self.agent.redact)
                    is_told = True
                if await asyncio.to_thread(self._status_of, child) in UNDER_WAY:
                    return
                if time.monotonic() > until:
                    logger.warning("run %s is not %s with run %s: %s", child, wish.status, self.state.id, held)
                    return
            await asyncio.sleep(LETTING_GO_LOOK_S)

    async def _watch(self) -> None:
        """Look into the inbox from time to time while a step is under way."""
        while True:
            # `wait_for` of Python 3.11 swallows a cancellation that comes with the wake-up.
            with suppress(TimeoutError):
                async with asyncio.timeout(INBOX_PAUSE_S):
                    await self._wake.wait()
            self._wake.clear()
            with suppress(Exception):  # of the store, which the next look may find again
                for _, letter in await asyncio.to_thread(letters, self.store, self.session, self.state.inbox):
                    if isinstance(letter, StopRequest):
                        self.stop("cancelled" if letter.status == "cancelled" else "paused", letter.reason)

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
            redact=agent.redact,
        )
        return Session(
            self.store, self.session, model=agent.models[place].session_model, policy=agent.policy, host=host
        )


def other_model(state: RunState, agent: AgentDefinition) -> str:
    """Return why an agent must not go on with a run unless somebody says so; empty if it is the one that the run has had."""
    now = agent.models[0].spelled
    if state.agent != agent.name or state.first_model in ("", now):
        return ""
    return (
        f"{state.id} began with {state.first_model}, and the agent {agent.name!r} has {now} here. Drive it where the agent has "
        "its model (foveal runs work --model MODEL), or resume it with this one (foveal resume --model MODEL)"
    )


def _is_cancelled() -> bool:
    """Return whether somebody has cancelled the task that is at work, also if that was swallowed."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _queued(read: InboxRead, letter: Steering | FollowUp) -> MessageQueued:
    """Return the mark of words that were taken from this place of the inbox."""
    return MessageQueued(letter.text, isinstance(letter, Steering), read.place if bytes(letter.files) else 0)


def _wish_in(new: Iterable[tuple[InboxRead, Letter]]) -> StopRequest | None:
    """Return the wish among messages that a run stops: the first that ends it, else the first."""
    wishes = [letter for _, letter in new if isinstance(letter, StopRequest)]
    return next((one for one in wishes if one.status == "cancelled"), next(iter(wishes), None))
