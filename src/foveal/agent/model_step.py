"""One step of the model within a run: its prompt, the call, a smaller prompt if it is too long, another model if it fails."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from foveal.agent.definition import AgentDefinition
from foveal.agent.model_calls import ModelCall, Retried
from foveal.agent.model_errors import failed
from foveal.agent.model_port import ModelPort
from foveal.agent.next_step import Ask
from foveal.agent.run_events import ModelRetried, RunScope, StepStarted, TextCame, ThinkingCame, scope_of
from foveal.agent.run_journal import JournalItem, RunJournal
from foveal.agent.run_marks import ModelNudged, ModelSwitched, ReplyTruncated
from foveal.agent.tools import Tool
from foveal.context.injection import NextCall
from foveal.dialects.deltas import without_calls
from foveal.session.session import Session
from foveal.values.entry import user
from foveal.values.errors import ModelFailed
from foveal.values.prompt import Prompt

NUDGES = {
    "cut_off": "Your last reply was cut off where it ends. Go on from there.",
    "todos": "You stopped with todos left open. Finish them, or say why they cannot be done and close them.",
    "thin": "That is too short for the one who gave you the task: say what you found, where, and how sure you are.",
}
LAST_STEP = "This is your last step: no tool can be called any more. Give the answer now, with what you have."


class ModelSteps:
    """Asks the models of an agent, one step at a time."""

    def __init__(self, agent: AgentDefinition, journal: RunJournal, tools: list[Tool]) -> None:
        self._agent, self._journal = agent, journal
        self._definitions = [tool.definition for tool in tools if tool.name not in agent.on_demand]
        self._port: ModelPort | None = None

    def prepare(self, session: Session, step: Ask) -> Prompt:
        """Return the prompt of a step, with the words that go before it in the log. For work that is done with the session."""
        said, journal = _said(step, self._agent), self._journal
        nudged = [ModelNudged(step.nudge)] if step.nudge else []
        is_said = bool(nudged) and (journal.state.nudge, journal.state.newest) == (step.nudge, "user")
        if self._agent.policy.remind:
            for name, text in said:
                session.context.remind(text, name)
            journal.keep(session, *nudged)
        elif not is_said:  # in the user's place, before a call that was given up
            journal.keep(session, *nudged, *(user(f"[{text}]") for _, text in said))
        return session.prompt(self._definitions, next_call=_facts(step))

    async def ask(self, step: Ask, prompt: Prompt) -> None:
        """Ask the model and keep its reply. Falls back to the agent's next model; `ModelFailed` after the last one."""
        journal = self._journal
        try:
            await self._answered(step, prompt)
        except ModelFailed as error:
            place = journal.state.model + 1
            if place >= len(self._agent.models):
                raise
            await journal.write(ModelSwitched(place, self._agent.models[place].model, str(error)))
            await self.use_model(place)

    async def use_model(self, place: int) -> None:
        """Go on with the agent's model at this place."""
        await self.close()
        await self._journal.use_model(place)

    async def use_known(self, place: int) -> None:
        """Go on with the agent's model at a place that the log names, or with the last one if the agent has fewer by now."""
        last = len(self._agent.models) - 1
        if place > last:
            because = "the agent has fewer models than when the run was begun"
            await self._journal.write(ModelSwitched(last, self._agent.models[last].model, because))
        await self.use_model(min(place, last))

    async def close(self) -> None:
        """Give up the connections to the model."""
        port, self._port = self._port, None
        if port is not None:
            await port.close()

    async def _answered(self, step: Ask, prompt: Prompt) -> None:
        """Send the prompt until there is a reply that says something; a prompt that is too long is made smaller."""
        empty = cut = 0
        while True:
            call = await self._call(step, prompt)
            if isinstance(call, ModelFailed):
                error = call.__cause__ or call
                recovered = self._journal.do(
                    lambda session, error=error: session.compaction.recover(
                        error, self._definitions, next_call=_facts(step)
                    )
                )
                prompt = await recovered
                continue
            if not call.is_empty:
                return self._journal.put(*_whole(call))  # paid for, whoever stops the run now
            await self._journal.write(*call.bills)
            is_cut = call.ending == "length"
            empty, cut = empty + 1, cut + is_cut
            if empty > self._agent.limits.empty_replies:
                raise ModelFailed(prompt.setup.model, "rejected", *_said_nothing(empty, cut))
            self._tell_retry(
                "a reply that was cut off before it said anything" if is_cut else "an empty reply", 0.0, empty
            )

    async def _call(self, step: Ask, prompt: Prompt) -> "ModelCall | ModelFailed":
        """Make one call and return it; or the error of a prompt that is too long."""
        choice = self._agent.models[self._journal.state.model]
        dialect, scope = prompt.setup.dialect, scope_of(self._journal.state)
        try:
            self._port = self._port or self._agent.open_model(choice)
        except Exception as error:
            raise failed(choice.model, error) from error
        request = without_calls(dialect, prompt.request) if step.is_last else prompt.request
        started = StepStarted(
            scope=scope, model=choice.model, tokens=prompt.tokens, limit=prompt.setup.limit, dialect=dialect
        )
        self._journal.hub.publish([started])
        call = ModelCall(self._port, dialect, choice.model)
        try:
            await self._stream(call, request, scope)
        except ModelFailed as error:
            if error.fault == "overflow":
                return error
            self._journal.put(*call.words())
            raise
        except asyncio.CancelledError:
            self._journal.put(*(_whole(call) if call.is_whole else call.partial()))
            raise
        finally:
            self._journal.put(*call.lost)
        return call

    async def _stream(self, call: ModelCall, request: dict[str, Any], scope: RunScope) -> None:
        async with aclosing(call.ask(request)) as words:
            async for one in words:
                match one:
                    case Retried(because=because, pause_s=pause, attempt=attempt):
                        self._tell_retry(because, pause, attempt)
                    case _ if one.thinking:
                        self._journal.hub.publish([ThinkingCame(scope=scope, text=one.thinking)])
                    case _:
                        self._journal.hub.publish([TextCame(scope=scope, text=one.text)])

    def _tell_retry(self, because: str, pause_s: float, attempt: int) -> None:
        scope = scope_of(self._journal.state)
        event = ModelRetried(scope=scope, because=because, pause_s=pause_s, attempt=attempt)
        self._journal.hub.publish([event])


def _whole(call: ModelCall) -> Sequence[JournalItem]:
    """Return a whole reply as it is written: with the mark that the provider cut it, and with its bill if that is unknown."""
    cut = [ReplyTruncated(in_call=call.ends_in_call)] if call.ending == "length" else []
    return call.reply, *cut, *call.unbilled


def _said_nothing(empty: int, cut: int) -> tuple[str, str]:
    """Return that so many replies said nothing, and what to do. Those that were cut off have used up their tokens, most likely by
    thinking."""
    if not cut:
        return f"{empty} replies in a row said nothing.", "Ask in other words, or another model."
    counted = "all" if cut == empty else f"{cut:,}"
    return (
        f"{empty} replies in a row said nothing; {counted} of them were cut off at the limit of tokens.",
        "Allow the model longer replies, or let it think less.",
    )


def _facts(step: Ask) -> NextCall:
    return NextCall(steps_left=step.steps_left)


def _said(step: Ask, agent: AgentDefinition) -> list[tuple[str, str]]:
    """Return the words by which the model is told to go on or to end, each with its name."""
    if step.nudge == "final":
        return [("final", agent.finalize)]
    return ([(step.nudge, NUDGES[step.nudge])] if step.nudge else []) + ([("last", LAST_STEP)] if step.is_last else [])
