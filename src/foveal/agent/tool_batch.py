"""The calls of one reply: started marks before, results after, side by side or one after the other, all of them to the end."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from foveal.agent.deadlines import with_deadline
from foveal.agent.inbox import Steering, letters
from foveal.agent.next_step import CachedCall, Limits, ReadyCall, RefusedCall, Run
from foveal.agent.run_events import ToolProgressed, ToolReturned, scope_of
from foveal.agent.run_journal import RunJournal
from foveal.agent.run_marks import CallStarted, HandoffAsked, UserAsked
from foveal.agent.tool_calls import SKIPPED, refused, run_call
from foveal.agent.tools import AskUser, ToolContext, UserQuestion
from foveal.session.options import now_ms
from foveal.stores import rows as log
from foveal.stores.port import Store
from foveal.values.entry import Message, Text, ToolResult


class ToolBatch:
    """Runs the calls of a run's replies. Tools see it as their scope."""

    def __init__(self, journal: RunJournal, limits: Limits) -> None:
        self._journal, self._limits = journal, limits
        self._places = asyncio.Semaphore(limits.parallel_calls)
        self._given_up: set[str] = set()

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

    def is_cancelled(self, call: str) -> bool:
        """Return whether nobody waits for this call any more."""
        return call in self._given_up

    async def do(self, step: Run) -> None:
        """Give refused calls their results, and run the others. One that fails does not keep the others from their results."""
        told = [_refusal(one) for one in step.refused]
        told += [await asyncio.to_thread(self._known_result, one) for one in step.known]
        if told:
            await self._journal.write(*told)
        for is_serial, group in groupby(step.ready, lambda one: one.tool.is_serial):
            run = self._one_by_one if is_serial else self._side_by_side
            await run(tuple(group))

    def _known_result(self, one: CachedCall) -> Message:
        """Return the result of an earlier call as that of this one."""
        rows = self.store.find(self.session, one.result.entry)
        body = log.to_entry(next(row for row in rows if row.id == one.result.entry), self.session).body
        parts = body.parts if isinstance(body, Message) else ()
        kept = tuple(part for part in parts if isinstance(part, ToolResult) and part.call == one.result.call)
        return Message("tool", tuple(msgspec.structs.replace(part, call=one.call.id) for part in kept[:1]))

    async def _one_by_one(self, calls: Sequence[ReadyCall]) -> None:
        for one in calls:
            if await asyncio.to_thread(self._is_steered):
                await self._journal.write(refused(one.call.id, SKIPPED))
            else:
                await self._run(one)

    def _is_steered(self) -> bool:
        """Return whether the user has said something that is to be heard before further calls begin."""
        journal = self._journal
        return any(isinstance(one, Steering) for _, one in letters(journal.store, journal.session, journal.state.inbox))

    async def _side_by_side(self, calls: Sequence[ReadyCall]) -> None:
        tasks = [asyncio.create_task(self._placed(one)) for one in calls]
        try:
            await asyncio.gather(*tasks)
        finally:  # of a cancelled run, or of one whose store has failed
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _placed(self, one: ReadyCall) -> None:
        async with self._places:
            await self._run(one)

    async def _run(self, one: ReadyCall) -> None:
        call, journal = one.call, self._journal
        # A result of other arguments than the model's is not kept for further calls.
        await journal.write(CallStarted(call.id, one.key, call.name, None if one.note else one.tool.cache))
        ctx = ToolContext(self, key=one.key, call=call.id, tool=call.name, answer=one.answer)
        try:
            ended = await run_call(one.tool, call, ctx)
        except AskUser as asked:
            timeout_s = asked.timeout_s if asked.timeout_s is not None else self._limits.question_s
            question = with_deadline(_question(asked, one, journal.state.id), timeout_s, now_ms())
            await journal.write(UserAsked(question))
            return
        finally:
            self._given_up.add(call.id)
        marks = (ended.data,) if isinstance(ended.data, HandoffAsked) else ()
        await asyncio.shield(journal.write(_with_note(ended.message, one.note), *marks))
        if ended.data is not None:
            journal.tell_soon(ToolReturned(scope=scope_of(journal.state), call=call.id, data=ended.data))


def _refusal(one: RefusedCall) -> Message:
    return refused(one.call.id, one.text, one.status)


def _question(asked: AskUser, one: ReadyCall, run: str) -> UserQuestion:
    """Return the question of a tool. A sub-agent's is asked in its place, under the id of the call that began it."""
    if asked.question is not None:
        return msgspec.structs.replace(asked.question, id=one.key, inner=asked.question.id)
    return UserQuestion(
        one.key,
        "question",
        asked.text,
        asked.options,
        one.call.name,
        one.call.arguments,
        run,
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
