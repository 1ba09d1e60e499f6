"""A conversation with an agent: messages begin runs, wait for them or steer them; answers go to open questions.

A chat has no state that the log has not: it can be left at any moment and goes on with the same session.
"""

import asyncio
import textwrap
from collections.abc import Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from foveal.agent.agent import Agent
from foveal.agent.driver import RunOutcome
from foveal.agent.inbox import FollowUp, Steering, letters
from foveal.agent.run_events import (
    ChildStarted,
    ChildTold,
    ModelReminded,
    ModelReplied,
    ModelRetried,
    QuestionAsked,
    RunEvent,
    StatusChanged,
    StepStarted,
    TextCame,
    ToolCalled,
    ToolEnded,
    UserSpoke,
    kept_id,
    place_of,
)
from foveal.agent.run_log import read_events, read_run
from foveal.agent.run_marks import ENDED
from foveal.agent.run_reports import child_cost
from foveal.agent.runs import Runs
from foveal.agent.spending import bills_in
from foveal.agent.tools import UserQuestion
from foveal.analysis.inspect.stored_session import branch_of
from foveal.cli.chat_history import LAST_WORDS, past_of
from foveal.cli.chat_names import with_files, without_files
from foveal.cli.output import Output
from foveal.cli.run_screen import answer_from, event_line, question_line
from foveal.stores import rows as log
from foveal.stores.port import Store
from foveal.text.display import one_line, visible
from foveal.values.entry import Message, Stored, Text, ToolCall, ToolResult
from foveal.values.errors import BadInput, FovealError, StoreError
from foveal.values.events import Pressure
from foveal.writers.faults import describe

if TYPE_CHECKING:
    from foveal.cli.chat_commands import ChatCommands

QueueMode: TypeAlias = Literal["one", "all", "steer"]
"""Messages typed while the agent works: heard one after the other, all at once, or before its next step."""

_QUEUED_AT_ONCE = {"one": 1, "all": 1_000, "steer": 1_000}
_PAST_EXCHANGES = 2
_PAST_ROWS = 6
"""Rows of an earlier answer that are shown again: two exchanges take less than half of a usual screen."""
_LINE_CHARS = 200
_DIGEST_CHARS = 100
_HOW_TO_ANSWER = "y: allow · a: always · e JSON: with other arguments · anything else: deny, with that reason"


class ChatTerminal(Protocol):
    """The place where somebody reads and types."""

    @property
    def out(self) -> Output: ...

    def words(self, text: str) -> None:
        """Show words of a reply as they come."""
        ...

    def end_words(self, *, is_void: bool = False) -> None:
        """End a reply; `is_void`: it is asked for again."""
        ...

    def refresh(self, status: str, *, is_settled: bool) -> None:
        """Show the line with tokens, pressure and cost. `is_settled`: the agent has come to an end or waits."""
        ...

    def suggest(self, text: str) -> None:
        """Offer a text that was taken back, to be said again."""
        ...

    async def talk(self, chat: "ChatSession", commands: "ChatCommands") -> None:
        """Read lines and hand them on until there are no more."""
        ...


class ChatSession:
    """One person talking to one agent, in one session at a time."""

    def __init__(
        self,
        agent: Agent,
        store: Store,
        terminal: ChatTerminal,
        *,
        session: str = "",
        folder: str = ".",
        is_scripted: bool = False,
    ) -> None:
        self.agent, self.store, self.terminal, self.folder = agent, store, terminal, Path(folder)
        self.runs = Runs(store, [agent])
        self.questions: list[UserQuestion] = []
        """Questions that the newest run waits for; the next line answers the first."""
        self.queue_mode: QueueMode = "one"
        self.is_scripted = is_scripted
        """Whether the scripted provider answers, which bills nothing."""
        self._is_just_typed = False
        """Whether the next message is not shown when it is heard: it is on the screen."""
        self._newest_call = ""
        """The call whose line is the last one on the screen."""
        self._has_come = False
        """Whether words or calls have come since the newest message."""
        self._work: asyncio.Task[None] | None = None
        self._is_working = False
        self.use(session or self._new_name())

    def use_new(self) -> None:
        """Begin another conversation."""
        self.use(self._new_name())

    def _new_name(self) -> str:
        return f"{self.agent.name}-{token_hex(4)}"

    def use(self, session: str) -> None:
        """Go on with the conversation of this name."""
        self.session, self.run, self._seen, self.queued = session, "", 0, 0
        self._own_place = 0
        """Place in the log behind a reminder: a message there is of the run."""
        self._tools: dict[str, str] = {}
        """The tool of each call that was shown, or that an earlier chat has shown."""
        self.pressure: Pressure | None = None
        self.usd: float | None
        self._read_past()

    def _read_past(self) -> None:
        """Read the cost of the session's runs, and the state of the newest."""
        self._read_cost()
        state = read_run(self.store, self.session)
        self.run = state.id if state.run else ""
        self.questions = list(state.asked.values()) if state.status == "awaiting_user" else []
        self._seen = kept_id(state.seq, 1 << 18)

    def _read_cost(self) -> None:
        """Read the cost of the session's runs from the store: nobody tells the calls of detached sub-agents as they happen."""
        self.usd = 0.0
        for event in read_events(self.store, self.session):
            self._count(event)
            if isinstance(event, ChildStarted):
                self._add(self._cost_of(event.child))

    def _cost_of(self, child: str) -> float | None:
        """Return the cost of a sub-agent's run; None if it is unknown, as where its log cannot be read."""
        try:
            return child_cost(self.store, child).total_usd
        except StoreError:
            return None

    @property
    def is_busy(self) -> bool:
        """Whether the agent is at work."""
        return self._is_working

    @property
    def model_name(self) -> str:
        """The name of the model that is asked first."""
        return "scripted" if self.is_scripted else self.agent.models[0].model

    @property
    def status(self) -> str:
        """The line with the model, tokens, pressure and cost; first, whether it works or waits: a narrow screen cuts the end."""
        said = ["working, Esc interrupts"] if self.is_busy else ["waits for your answer"] if self.questions else []
        said.append("scripted, no cost" if self.is_scripted else self.model_name)
        if shown := self.pressure:
            said.append(f"{shown.tokens:,} of {shown.limit:,} tokens ({shown.share:.0%})")
            said += [f"pressure {shown.level}"] if shown.level != "none" else []
        if not self.is_scripted:
            said.append("cost unknown" if self.usd is None else f"${self.usd:.4f}")
        said += [f"{self.queued} queued"] if self.queued else []
        return " · ".join(said)

    def greet(self) -> None:
        """Say which session this is, show the end of its conversation, and the state in which its last run was left."""
        self.tell(f"{self.agent.name} ({self.model_name}), session {self.session}. /help lists the commands.", "axis")
        self._show_past()
        state = read_run(self.store, self.session)
        if self.questions:
            self._ask()
        elif state.run and state.status != "completed":
            self.tell(f"{state.id} is {state.status}. /resume goes on with it; a message takes its place.", "limit")
        self.refresh()

    def tell(self, text: str, style: str = "") -> None:
        """Print words of the chat's own; on a terminal, wrapped at words."""
        out = self.terminal.out
        for line in text.split("\n"):
            rows = textwrap.wrap(visible(line), out.columns, break_on_hyphens=False) if out.is_terminal else [line]
            for row in rows or [""]:
                out.line(row, style)

    def _show_past(self) -> None:
        """Show the last exchanges of the conversation, and say how many messages came before them."""
        past = past_of(branch_of(self.store, self.session) if self.run else [], _PAST_EXCHANGES)
        if past.earlier:
            number = f"{past.earlier:,} earlier messages are" if past.earlier != 1 else "1 earlier message is"
            self.tell(f"{number} not shown here; /rewind lists yours", "axis")
        for one in past.exchanges:
            self.tell(f"› {one_line(one.said, _LINE_CHARS)}", "axis")
            rows = one.answer.strip().splitlines()
            for row in [*rows[:_PAST_ROWS], *["…"] * (len(rows) > _PAST_ROWS)]:
                self.tell(one_line(row, _LINE_CHARS), "axis")

    async def say(self, text: str) -> None:
        """Hear a message: an answer, words for the run under way, or the beginning of another run."""
        if self.questions:
            await self._answer(text)
        elif self.is_busy:
            await self._queue(text)
        else:
            await self._begin([text], is_just_typed=True)

    async def _begin(self, messages: Sequence[str], *, is_just_typed: bool = False) -> None:
        """Begin a run with the first message; the others wait for its answer. A run that was left is ended."""
        state = read_run(self.store, self.session)
        if state.run and state.status not in ENDED:
            await self.runs.cancel(self.session, "the user said something else")
        text, files = self._with_files(messages[0])
        self._is_just_typed = is_just_typed
        self.run = await self.runs.start(self.agent, text, session=self.session, files=files)
        try:
            for one in messages[1:]:
                text, files = self._with_files(one)
                await self.runs.follow_up(self.run, text, files=files)
        finally:  # a file that cannot be sent is told, and the run goes on
            self._follow()

    def _with_files(self, message: str) -> tuple[str, list[Path]]:
        """Return a message with the texts that it mentions, and the files that come with it; show their names."""
        said = with_files(message, self.folder)
        if named := (*said.inside, *said.beside):
            self.tell(f"with {', '.join(named)}", "axis")
        for reason in said.unsent:
            self.tell(f"{reason}; sent as text", "limit")
        return said.text, [self.folder / one for one in said.beside]

    async def resume(self) -> None:
        """Go on with a run that rests, has failed or was left behind."""
        self.run = await self.runs.resume(self.session)
        self._follow()

    async def steer(self, text: str) -> None:
        """Say something that is heard before the next step."""
        if not self.is_busy:
            await self.say(text)
            return
        said, files = self._with_files(text)
        await self.runs.steer(self.run, said, files=files)
        self.tell("heard before the next step", "axis")

    def queue_by(self, mode: QueueMode) -> None:
        """Decide when messages are heard that are typed while the agent works."""
        self.agent.limits = msgspec.structs.replace(self.agent.limits, queued_at_once=_QUEUED_AT_ONCE[mode])
        self.queue_mode = mode

    async def interrupt(self) -> bool:
        """End the run under way, or the one that waits; its words are kept. Return whether there was one."""
        if not (self.is_busy or self.questions):
            return False
        self.questions = []
        with suppress(FovealError):  # it has just ended by itself
            await self.runs.cancel(self.run, "interrupted by the user")
        if not self.is_busy:
            self.tell("interrupted", "limit")
            self.refresh()
        return True

    async def settled(self) -> None:
        """Wait until the agent has come to an end, or waits for an answer."""
        while self._work is not None and not self._work.done():
            await self._work

    async def close(self) -> None:
        """Leave the conversation; a run under way is paused."""
        await self.runs.drain(0)
        await self.settled()

    async def _queue(self, text: str) -> None:
        if self.queue_mode == "steer":
            await self.steer(text)
            return
        said, files = self._with_files(text)
        try:
            await self.runs.follow_up(self.run, said, files=files)
        except BadInput:
            if self.runs.outcome(self.run).status not in ENDED:
                raise
            await self.settled()  # the run has just ended, and may be told a moment later
            await self.say(text)
            return
        self.queued += 1
        self.refresh()

    async def _answer(self, text: str) -> None:
        answer = answer_from(self.questions[0], text)
        try:
            await self.runs.answer(self.run, answer)
        except BadInput as error:
            await self._go_on_without(error)
            return
        self.questions = self.questions[1:]
        if self.questions:
            self._ask()
        else:
            await self.resume()

    async def _go_on_without(self, error: BadInput) -> None:
        """Go on with a run whose question is no longer open: its time was up, or somebody else has answered it."""
        self.tell(str(error), "limit")
        self.questions = []
        outcome = self.runs.outcome(self.run)
        if outcome.status in ENDED:
            self.tell(outcome.text)
            self.refresh()
        else:
            await self.resume()

    def _ask(self) -> None:
        question = self.questions[0]
        self.terminal.out.line(question_line(question), "strong")  # whole: no blank is lost where a row ends
        if question.kind == "approval":
            self.tell(_HOW_TO_ANSWER, "axis")

    def _follow(self) -> None:
        self._is_working = True
        self._work = asyncio.create_task(self._followed(self.run))
        self.refresh()

    async def _followed(self, run: str) -> None:
        """Show a run until it ends or rests, and the next one if messages were left over."""
        try:
            asked: tuple[UserQuestion, ...] = ()
            async with aclosing(self.runs.observe(run, since=self._seen)) as events:
                async for event in events:
                    self._seen = event.id
                    self._show(event)
                    if isinstance(event, QuestionAsked):
                        asked += (event.question,)
                    elif isinstance(event, StatusChanged) and event.status != "awaiting_user":
                        asked = ()
            outcome = await self.runs.wait(run)
            if asked and outcome.status != "awaiting_user":  # its time was up at once; whoever answers is told so
                outcome = msgspec.structs.replace(outcome, status="awaiting_user", questions=asked)
            self._is_working = False
            self.terminal.end_words()
            await self._end(outcome)
        except Exception as error:  # noqa: BLE001, RUF100 - of a part that the agent brought; the log says that it failed
            self._is_working = False
            self.terminal.end_words()
            self.tell(describe(error), "bad")
            self.refresh()

    async def _end(self, outcome: RunOutcome) -> None:
        self.queued, self.questions = 0, list(outcome.questions) if outcome.status == "awaiting_user" else []
        self._read_cost()
        left: Sequence[str] = ()
        match outcome.status:
            case "awaiting_user":
                self._ask()
            case "cancelled":
                kept = "the words so far are kept" if self._has_come else "nothing had come yet"
                self.tell(f"interrupted; {kept}", "limit")
                state = read_run(self.store, self.session)
                words = (without_files(one.text) for one in (*state.steering, *state.following))
                left = [one for one in words if one.strip()]  # a file that came without words is gone with its run
            case "failed" | "paused":
                self.tell(f"{outcome.status}: {outcome.reason} /resume goes on with it.", "bad")
            case _:
                self._tell_late_words()
        if left:
            await self._begin(left)
        else:
            self.refresh()

    def _tell_late_words(self) -> None:
        """Tell the messages that were kept while the run was ending: nobody has heard them yet."""
        for _, letter in letters(self.store, self.session, read_run(self.store, self.session).inbox):
            if isinstance(letter, Steering | FollowUp):
                words = one_line(without_files(letter.text), _LINE_CHARS)
                self.tell(f"came as the answer ended, and is heard with your next message: {words}", "limit")

    def _show(self, event: RunEvent) -> None:
        self._count(event)
        match event:
            case TextCame(text=text):
                self._has_come = True
                self.terminal.words(text)
                return
            case StepStarted(tokens=tokens, limit=limit):
                self.pressure = Pressure(tokens, limit)
            case UserSpoke(id=place, text=text):
                self._hear(text, place_of(place))
            case ModelReminded(id=place):
                self._own_place = place_of(place) + 1
            case ModelReplied():
                self._has_come = True
                self.terminal.end_words()
            case _:
                self._tell_event(event)
        self.refresh()

    def _hear(self, text: str, place: int) -> None:
        """Show a message that has waited, now that it is heard: the words below it are the answer to it."""
        self._has_come = False
        if place == self._own_place or text == LAST_WORDS:
            self._own_place = place + 1
            return
        if self._is_just_typed:
            self._is_just_typed = False
            return
        self.queued = max(0, self.queued - 1)
        self.terminal.end_words()
        self.tell(f"› {one_line(without_files(text), _LINE_CHARS)}", "strong")

    def _tell_event(self, event: RunEvent) -> None:
        """Show the line of an event, if it has one; one of a sub-agent's run under its name."""
        inner: RunEvent = event.event if isinstance(event, ChildTold) else event
        is_newest = isinstance(inner, ToolEnded) and inner.call == self._newest_call
        line, style = event_line(inner, {} if is_newest else self._tools)
        if isinstance(inner, ToolEnded) and not line:
            line, style = self._result_line(inner), "axis"
        if line:
            name = inner.scope.session.rpartition("/")[2]
            self.terminal.end_words(is_void=isinstance(event, ModelRetried))
            self.tell(line if inner is event else f"  {name} {line}", style)
            self._newest_call = ""
            if isinstance(inner, ToolCalled):
                self._newest_call, self._tools[inner.call] = inner.call, inner.tool

    def _result_line(self, event: ToolEnded) -> str:
        """Return the first line of a result and its size; with its tool, if the call is not on the line above."""
        rows = self.store.find(event.scope.session, event.entry)
        body = log.to_entry(rows[0], event.scope.session).body if rows else None
        parts = body.parts if isinstance(body, Message) else ()
        results = [one for one in parts if isinstance(one, ToolResult) and one.call == event.call]
        texts = [one for result in results for one in result.content if isinstance(one, Text | Stored)]
        size = sum(len(one.text.encode()) if isinstance(one, Text) else one.size_bytes for one in texts)
        lines = sum(len(one.text.splitlines()) if isinstance(one, Text) else one.lines for one in texts)
        first = one_line(event.text.strip().partition("\n")[0], _DIGEST_CHARS) or "nothing"
        whole = "" if lines <= 1 and size <= _DIGEST_CHARS else f" ({lines:,} line{'s' * (lines != 1)}, {size:,} bytes)"
        tool = "" if event.call == self._newest_call else f"{self._tool_of(event)}: "
        return f"  {tool}{first}{whole}"

    def _tool_of(self, event: ToolEnded) -> str:
        """Return the tool of a call; that of one that this chat has not shown is in the log."""
        if event.call not in self._tools:
            for entry in branch_of(self.store, event.scope.session):
                parts = entry.body.parts if isinstance(entry.body, Message) else ()
                self._tools |= {one.id: one.name for one in parts if isinstance(one, ToolCall)}
        return self._tools.get(event.call, event.call)

    def _count(self, event: RunEvent) -> None:
        while isinstance(event, ChildTold):
            event = event.event
        for usd in bills_in([event]):
            self._add(usd)

    def _add(self, usd: float | None) -> None:
        self.usd = None if usd is None or self.usd is None else self.usd + usd

    def refresh(self) -> None:
        """Show the line with the model, tokens, pressure and cost as it is now."""
        self.terminal.refresh(self.status, is_settled=not self.is_busy)
