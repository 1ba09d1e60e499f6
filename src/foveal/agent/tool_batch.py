"""The calls of one reply: started marks before, results after, side by side or one after the other, all of them to the end."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from foveal.agent.deadlines import with_deadline
from foveal.agent.inbox import Steering, letters
from foveal.agent.next_step import CachedCall, Limits, ReadyCall, RefusedCall, Run
from foveal.agent.run_events import ToolProgressed, ToolReturned, scope_of
from foveal.agent.run_journal import JournalItem, RunJournal
from foveal.agent.run_marks import CallMalformed, CallNotBegun, CallStarted, HandoffAsked, UserAsked, to_note
from foveal.agent.run_state import RunState
from foveal.agent.tool_calls import SKIPPED, CallResult, StoppedCall, refused, run_call
from foveal.agent.tools import AskUser, ToolContext, UserQuestion, question_id
from foveal.session.options import now_ms
from foveal.session.session import Session
from foveal.stores import rows as log
from foveal.stores.port import Store
from foveal.values.entry import Message, Text, ToolResult
from foveal.values.errors import BadInput

_TEXTS = "The text of AskUser, its options and its answer `otherwise` are texts, its time is a number of seconds."


MOST_QUESTIONS = 50
"""Questions of one call. A tool that asks again after each answer would go on for ever where nobody answers in time."""


class ToolBatch:
    """Runs the calls of a run's replies. Tools see it as their scope."""

    def __init__(self, journal: RunJournal, limits: Limits) -> None:
        self._journal, self._limits = journal, limits
        self._places = asyncio.Semaphore(limits.parallel_calls)
        self._at_work = 1
        """Calls that run side by side and whose outcomes are not in the log."""
        self._marked: dict[str, ToolContext | None] = {}
        """Calls whose first start was written in this step, by their keys, with the context in which their tool is called."""

    @property
    def store(self) -> Store:
        return self._journal.store

    @property
    def session(self) -> str:
        return self._journal.session

    @property
    def run(self) -> str:
        return self._journal.state.id

    @property
    def todos(self) -> Sequence[Mapping[str, Any]]:
        return self._journal.state.todos

    def report(self, call: str, text: str) -> None:
        """Tell the listeners of the run how far a call is; from any thread."""
        self._journal.tell_soon(ToolProgressed(scope=scope_of(self._journal.state), call=call, text=text))

    def begin(self, session: Session, step: Run) -> frozenset[str]:
        """Write the results of calls that are not run, and that the first ones of the others start; return the keys of those.
        For work that is done with the session."""
        refusals = (item for one in step.refused for item in _refusal(one))
        told = [*refusals, *map(self._known_result, step.known)]
        first = _first(step.ready, self._limits.parallel_calls)
        self._marked = {}
        self._mark(first)
        self._journal.keep(session, *told, *(_started(one) for one in first if not one.is_at_work))
        return frozenset(one.key for one in first)

    def _mark(self, calls: Iterable[ReadyCall]) -> None:
        """Note that the start of calls is about to be written. One that had begun before, in another process, has begun."""
        known = self._journal.state.started
        self._marked |= {one.key: None for one in calls if one.key not in known}

    def not_begun(self) -> list[CallNotBegun]:
        """Return the marks of calls whose start is in the log, and whose tool was not called: the run stopped in between. For
        work that is done with the session, behind everything that was begun."""
        started = self._journal.state.started
        marked = [key for key, ctx in self._marked.items() if ctx is None or not ctx.has_begun]
        return [CallNotBegun(key) for key in marked if key in started]

    async def do(self, step: Run, begun: Collection[str]) -> None:
        """Run the calls, of which some have begun. One that fails does not keep the others from their results."""
        for is_serial, group in groupby(step.ready, _is_serial):
            run = self._one_by_one if is_serial else self._side_by_side
            await run(tuple(group), begun)

    def _known_result(self, one: CachedCall) -> Message:
        """Return the result of an earlier call as that of this one."""
        rows = self.store.find(self.session, one.result.entry)
        body = log.to_entry(next(row for row in rows if row.id == one.result.entry), self.session).body
        parts = body.parts if isinstance(body, Message) else ()
        kept = tuple(part for part in parts if isinstance(part, ToolResult) and part.call == one.result.call)
        return Message("tool", tuple(msgspec.structs.replace(part, call=one.call.id) for part in kept[:1]))

    async def _one_by_one(self, calls: Sequence[ReadyCall], begun: Collection[str]) -> None:
        self._at_work = 1
        for one in calls:
            await self._run(one, is_begun=one.key in begun)

    def _is_steered(self) -> bool:
        """Return whether the user has said something that is to be heard before further calls begin."""
        journal = self._journal
        return any(isinstance(one, Steering) for _, one in letters(journal.store, journal.session, journal.state.inbox))

    async def _side_by_side(self, calls: Sequence[ReadyCall], begun: Collection[str]) -> None:
        self._at_work = len(calls)
        if len(calls) == 1:
            await self._run(calls[0], is_begun=calls[0].key in begun)
            return
        # A store that fails one call ends none beside it: what they do would be done again. A cancelled run cancels all.
        ended = await asyncio.gather(*(self._placed(one, begun) for one in calls), return_exceptions=True)
        for error in ended:
            if error is not None:
                raise error

    async def _placed(self, one: ReadyCall, begun: Collection[str]) -> None:
        async with self._places:
            await self._run(one, is_begun=one.key in begun)

    async def _run(self, one: ReadyCall, *, is_begun: bool) -> None:
        """Run a call, and have its outcome written. One that has not begun is left out if the user has spoken."""
        call, journal = one.call, self._journal
        if not is_begun and not one.is_at_work:
            if await asyncio.to_thread(self._is_steered):
                journal.put(refused(call.id, SKIPPED))
                await self._written()
                return
            self._mark((one,))
            await journal.write(_started(one))
        ctx = ToolContext(self, key=one.key, call=call.id, tool=call.name, answer=one.answer)
        if one.key in self._marked:
            self._marked[one.key] = ctx
        try:
            ended = await run_call(one.tool, call, ctx, is_at_work=one.is_at_work)
        except AskUser as asked:
            ended = asked
        except StoppedCall as stopped:
            self._put(one, stopped.outcome)  # written with the end of the run, or before it rests
            raise
        self._put(one, ended)
        await self._written()

    def _put(self, one: ReadyCall, outcome: CallResult | AskUser) -> None:
        """Have the outcome of a call written with the next work."""
        state = self._journal.state
        if isinstance(outcome, AskUser) and state.times_asked.get(one.key, 0) >= MOST_QUESTIONS:
            outcome = CallResult(refused(one.call.id, f"[given up: {one.call.name} asked {MOST_QUESTIONS} times]"))
        if isinstance(outcome, AskUser):
            try:
                self._journal.put(self._asked(outcome, one))
                return
            except (BadInput, TypeError, ValueError, OverflowError) as error:
                outcome = CallResult(refused(one.call.id, f"{one.call.name} asked, and {error}. {_TEXTS}"))
        data = outcome.data
        before = _malformed(one.call.id, is_so=outcome.is_malformed)
        # Before its result: who goes back to that has the conversation handed over all the same.
        marks = (data,) if isinstance(data, HandoffAsked) else ()
        told = ToolReturned(scope=scope_of(state), call=one.call.id, data=data) if data is not None else None
        self._journal.put(*before, *marks, _with_note(outcome.message, one.note), told=told)

    def _asked(self, asked: AskUser, one: ReadyCall) -> UserAsked:
        """Return the mark that a tool asks. An error if no log can keep it: the tool would be run again and again."""
        timeout_s = asked.timeout_s if asked.timeout_s is not None else self._limits.question_s
        mark = UserAsked(with_deadline(_question(asked, one, self._journal.state), timeout_s, now_ms()))
        to_note(mark)
        return mark

    async def _written(self) -> None:
        """Have the outcome of a call written: at once if others are at work beside it, else with the next work, which follows."""
        if self._at_work > 1:
            await asyncio.shield(self._journal.write())
            self._at_work -= 1


def _is_serial(one: ReadyCall) -> bool:
    return one.tool.is_serial


def _first(calls: Sequence[ReadyCall], most: int) -> tuple[ReadyCall, ...]:
    """Return the calls that start at once: a serial one alone, or those side by side that have a place."""
    group = next((tuple(group) for _, group in groupby(calls, _is_serial)), ())
    return group[: 1 if group and group[0].tool.is_serial else most]


def _started(one: ReadyCall) -> CallStarted:
    # A result of other arguments than the model's is not kept for further calls.
    return CallStarted(one.call.id, one.key, one.call.name, None if one.note else one.tool.cache)


def _refusal(one: RefusedCall) -> Sequence[JournalItem]:
    return *_malformed(one.call.id, is_so=one.is_malformed), refused(one.call.id, one.text, one.status)


def _malformed(call: str, *, is_so: bool) -> Sequence[JournalItem]:
    """Return the mark that no tool can take a call, if that is so."""
    return (CallMalformed(call),) if is_so else ()


def _question(asked: AskUser, one: ReadyCall, state: RunState) -> UserQuestion:
    """Return the question of a tool. A sub-agent's is asked in its place, under an id of the call that began it."""
    named = question_id(one.key, state.times_asked.get(one.key, 0))
    if asked.question is not None:
        return msgspec.structs.replace(asked.question, id=named, inner=asked.question.id)
    return UserQuestion(
        named,
        "question",
        asked.text,
        asked.options,
        one.call.name,
        one.call.arguments,
        state.id,
        otherwise=asked.otherwise,
    )


def _with_note(message: Message, note: str) -> Message:
    if not note:
        return message
    parts = tuple(
        msgspec.structs.replace(part, content=(Text(note), *part.content)) if isinstance(part, ToolResult) else part
        for part in message.parts
    )
    return msgspec.structs.replace(message, parts=parts)
