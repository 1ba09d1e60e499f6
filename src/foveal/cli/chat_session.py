"""A conversation with an agent: messages begin runs, wait for them or steer them; answers go to open questions.

A chat has no state that the log has not: it can be left at any moment and goes on with the same session.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing, suppress
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

import msgspec

from foveal.agent.agent import Agent
from foveal.agent.driver import RunOutcome
from foveal.agent.run_events import (
    ChildStarted,
    ChildTold,
    ModelRetried,
    RunEvent,
    StepStarted,
    SummaryBilled,
    TextCame,
    UsageCounted,
    kept_id,
)
from foveal.agent.run_log import read_events, read_run
from foveal.agent.run_marks import ENDED
from foveal.agent.runs import Runs
from foveal.agent.tools import UserQuestion
from foveal.agent.usage_cost import usage_usd
from foveal.cli.chat_names import with_files, without_files
from foveal.cli.output import Output
from foveal.cli.run_screen import answer_from, event_line, question_line
from foveal.stores.port import Store
from foveal.values.errors import BadInput, FovealError
from foveal.values.events import Pressure
from foveal.writers.faults import describe

if TYPE_CHECKING:
    from foveal.cli.chat_commands import ChatCommands

QueueMode: TypeAlias = Literal["one", "all", "steer"]
"""Messages typed while the agent works: heard one after the other, all at once, or before its next step."""

_QUEUED_AT_ONCE = {"one": 1, "all": 1_000, "steer": 1_000}
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
        """Put a text into the next input line."""
        ...

    async def talk(self, chat: "ChatSession", commands: "ChatCommands") -> None:
        """Read lines and hand them on until there are no more."""
        ...


class ChatSession:
    """One person talking to one agent, in one session at a time."""

    def __init__(
        self, agent: Agent, store: Store, terminal: ChatTerminal, *, session: str = "", folder: str = "."
    ) -> None:
        self.agent, self.store, self.terminal, self.folder = agent, store, terminal, Path(folder)
        self.runs = Runs(store, [agent])
        self.questions: list[UserQuestion] = []
        """Questions that the newest run waits for; the next line answers the first."""
        self.queue_mode: QueueMode = "one"
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
        self.pressure: Pressure | None = None
        self.usd: float | None = 0.0
        self._read_past()

    def _read_past(self) -> None:
        """Read the cost of the session's runs, and the state of the newest."""
        for event in read_events(self.store, self.session):
            self._count(event)
            if isinstance(event, ChildStarted):
                self._add(self.runs.cost(event.child).total_usd)
        state = read_run(self.store, self.session)
        self.run = state.id if state.run else ""
        self.questions = list(state.asked.values()) if state.status == "awaiting_user" else []
        self._seen = kept_id(state.seq, 1 << 18)

    @property
    def is_busy(self) -> bool:
        """Whether the agent is at work."""
        return self._is_working

    @property
    def status(self) -> str:
        """The line with the model, tokens, pressure and cost."""
        said = [self.agent.models[0].model]
        if shown := self.pressure:
            said.append(f"{shown.tokens:,} of {shown.limit:,} tokens ({shown.share:.0%})")
            said += [f"pressure {shown.level}"] if shown.level != "none" else []
        said.append("cost unknown" if self.usd is None else f"${self.usd:.4f}")
        said += [f"{self.queued} queued"] if self.queued else []
        said += ["working, Esc interrupts"] if self.is_busy else ["waits for your answer"] if self.questions else []
        return " · ".join(said)

    def greet(self) -> None:
        """Say which session this is, and the state in which its last run was left."""
        out = self.terminal.out
        out.line(
            f"{self.agent.name} ({self.agent.models[0].model}), session {self.session}. /help lists the commands.",
            "axis",
        )
        state = read_run(self.store, self.session)
        if self.questions:
            self._ask()
        elif state.run and state.status != "completed":
            out.line(f"{state.id} is {state.status}. /resume goes on with it; a message takes its place.", "limit")
        self._refresh()

    async def say(self, text: str) -> None:
        """Hear a message: an answer, words for the run under way, or the beginning of another run."""
        if self.questions:
            await self._answer(text)
        elif self.is_busy:
            await self._queue(text)
        else:
            await self.begin([text])

    async def begin(self, messages: Sequence[str]) -> None:
        """Begin a run with the first message; the others wait for its answer. A run that was left is ended."""
        state = read_run(self.store, self.session)
        if state.run and state.status not in ENDED:
            await self.runs.cancel(self.session, "the user said something else")
        text, files = self._with_files(messages[0])
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
            self.terminal.out.line(f"with {', '.join(named)}", "axis")
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
        self.terminal.out.line("heard before the next step", "axis")

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
            self.terminal.out.line("interrupted", "limit")
            self._refresh()
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
        await self.runs.follow_up(self.run, said, files=files)
        self.queued += 1
        self._refresh()

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
        self.terminal.out.line(str(error), "limit")
        self.questions = []
        outcome = self.runs.outcome(self.run)
        if outcome.status in ENDED:
            self.terminal.out.line(outcome.text)
            self._refresh()
        else:
            await self.resume()

    def _ask(self) -> None:
        question = self.questions[0]
        self.terminal.out.line(question_line(question), "strong")
        if question.kind == "approval":
            self.terminal.out.line(_HOW_TO_ANSWER, "axis")

    def _follow(self) -> None:
        self._is_working = True
        self._work = asyncio.create_task(self._followed(self.run))
        self._refresh()

    async def _followed(self, run: str) -> None:
        """Show a run until it ends or rests, and the next one if messages were left over."""
        try:
            async with aclosing(self.runs.observe(run, since=self._seen)) as events:
                async for event in events:
                    self._seen = event.id
                    self._show(event)
            outcome = await self.runs.wait(run)
            self._is_working = False
            self.terminal.end_words()
            await self._end(outcome)
        except Exception as error:  # noqa: BLE001, RUF100 - of a part that the agent brought; the log says that it failed
            self._is_working = False
            self.terminal.end_words()
            self.terminal.out.line(describe(error), "bad")
            self._refresh()

    async def _end(self, outcome: RunOutcome) -> None:
        out = self.terminal.out
        self.queued, self.questions = 0, list(outcome.questions) if outcome.status == "awaiting_user" else []
        left: Sequence[str] = ()
        match outcome.status:
            case "awaiting_user":
                self._ask()
            case "cancelled":
                out.line("interrupted; the words so far are kept", "limit")
                state = read_run(self.store, self.session)
                left = [without_files(one.text) for one in (*state.steering, *state.following)]
            case "failed" | "paused":
                out.line(f"{outcome.status}: {outcome.reason} /resume goes on with it.", "bad")
            case _:
                pass
        if left:
            await self.begin(left)
        else:
            self._refresh()

    def _show(self, event: RunEvent) -> None:
        self._count(event)
        match event:
            case TextCame(text=text):
                self.terminal.words(text)
                return
            case StepStarted(tokens=tokens, limit=limit):
                self.pressure = Pressure(tokens, limit)
            case _:
                self._tell(event)
        self._refresh()

    def _tell(self, event: RunEvent) -> None:
        """Show the line of an event, if it has one; one of a sub-agent's run under its name."""
        inner: RunEvent = event.event if isinstance(event, ChildTold) else event
        line, style = event_line(inner)
        if line:
            name = inner.scope.session.rpartition("/")[2]
            self.terminal.end_words(is_void=isinstance(event, ModelRetried))
            self.terminal.out.line(line if inner is event else f"  {name} {line}", style)

    def _count(self, event: RunEvent) -> None:
        while isinstance(event, ChildTold):
            event = event.event
        if isinstance(event, UsageCounted):
            self._add(usage_usd(event.usage))
        if isinstance(event, SummaryBilled):
            self._add(event.usd)

    def _add(self, usd: float | None) -> None:
        self.usd = None if usd is None or self.usd is None else self.usd + usd

    def _refresh(self) -> None:
        self.terminal.refresh(self.status, is_settled=not self.is_busy)
