"""A run on the terminal: its words as they come, its calls, its questions, and a last line with tokens and cost."""

import asyncio
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Generator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from itertools import count
from types import MappingProxyType

import msgspec

from foveal.agent.driver import RunOutcome
from foveal.agent.run_events import (
    ChildEnded,
    ChildStarted,
    ContextFolded,
    HandedOver,
    ModelFellBack,
    ModelReplied,
    ModelRetried,
    RunEvent,
    TextCame,
    ToolCalled,
    ToolEnded,
    WentBack,
)
from foveal.agent.runs import RunCost, Runs
from foveal.agent.tools import UserAnswer, UserQuestion, in_thread
from foveal.cli.agent_options import SCRIPTED, go_on_options
from foveal.cli.arguments import command_line
from foveal.cli.output import Output, complain, tell_aside
from foveal.stores.port import Store
from foveal.text.display import visible, visible_line
from foveal.values.errors import BadInput, SessionHeld

_SHORT_CHARS = 100
"""Characters of a value in a line about an event or a run: enough to know it by."""
WAITS = 3
_LINE_BYTES = 1 << 16
"""More than a terminal gives as one line."""


async def shown(runs: Runs, run: str, args: Namespace, out: Output) -> int:
    """Show a run until it ends or rests, print its end and return the exit code. A command that is interrupted tells how the run
    goes on.

    Where the output is no terminal, it has the answer alone, for whoever reads it; everything else goes to stderr.
    """
    told = out if out.is_json or out.is_terminal else Output(sys.stderr)
    try:
        outcome = await _followed(runs, run, told)
        if told is not out and outcome.status == "completed":
            out.raw(outcome.text if outcome.text.endswith("\n") else f"{outcome.text}\n")
        return tell_end(outcome, runs.cost(run), args, out)
    except asyncio.CancelledError:
        await runs.drain(0)
        tell_end(runs.outcome(run), runs.cost(run), args, out)
        raise


async def _followed(runs: Runs, run: str, out: Output) -> RunOutcome:
    """Show a run until it ends or rests; on a terminal, ask the user for it and go on."""
    seen, tools = 0, dict[str, str]()
    while True:
        async with aclosing(runs.observe(run, since=seen)) as events:
            is_line_open = False
            async for event in events:
                seen = event.id
                if isinstance(event, ToolCalled):
                    tools[event.call] = event.tool
                if not out.is_json:
                    is_line_open = _show(event, tools, out, is_line_open=is_line_open)
            if is_line_open:
                out.line()
        outcome = await runs.wait(run)
        if outcome.status != "awaiting_user" or out.is_json or not sys.stdin.isatty():
            return outcome
        for question in outcome.questions:
            if not await _is_answered(runs, run, question, out):
                return outcome
        if runs.outcome(run).status == "awaiting_user":  # nobody else has answered, and gone on with it
            await runs.resume(run)


async def _is_answered(runs: Runs, run: str, question: UserQuestion, out: Output) -> bool:
    """Ask a question on the terminal until it has an answer, and return True; False at the end of the input."""
    while True:
        out.line(question_line(question), "strong")
        if (words := await _typed_line(out)) is None:
            return False
        try:
            answer = answer_from(question, words)
        except BadInput as error:
            complain(error)
            continue
        try:
            await runs.answer(run, answer)
        except BadInput as error:  # its time is up, or somebody else has answered it
            complain(error)
        return True


async def _typed_line(out: Output) -> str | None:
    """Return the next line that is typed; None at the end. Read without a lock: a command that is interrupted must not wait for
    its input."""
    out.stream.write("> ")
    out.stream.flush()
    typed = await in_thread(lambda: os.read(sys.stdin.fileno(), _LINE_BYTES))
    return typed.decode("utf-8", "replace") if typed else None


def tell_end(outcome: RunOutcome, cost: RunCost, args: Namespace, out: Output) -> int:
    """Print the end of a run and return its exit code."""
    if out.is_json:
        out.document({"outcome": outcome, "calls": cost.calls, "usd": cost.total_usd})
        return exit_code(outcome)
    match outcome.status:
        case "completed":
            pass
        case "awaiting_user":
            tell_questions(outcome.run, outcome.questions, args)
        case "paused" | "failed":
            complain(f"{_end_sentence(outcome)} Go on with: {resume_command(outcome.run, args)}")
        case _:
            complain(_end_sentence(outcome))
    usd = "cost unknown" if cost.total_usd is None else f"${cost.total_usd:.4f}"
    billed = ", of which the scripted provider bills nothing" if args.provider == SCRIPTED and cost.total_usd else ""
    complain(f"{outcome.run}: {outcome.status}, {outcome.steps} steps, {cost.calls} model calls, {usd}{billed}")
    return exit_code(outcome)


def tell_questions(run: str, questions: Sequence[UserQuestion], args: Namespace) -> None:
    """Print the questions that a run waits for, each with the command that answers it."""
    for question in questions:
        words = "allow" if question.kind == "approval" else "ANSWER"
        named = f" --question {shlex.quote(question.id)}" if len(questions) > 1 else ""
        tell_aside(f"{run} waits: {question_line(question)}")
        complain(f"answer with: {resume_command(run, args, f' {words}{named}')}")


def resume_command(run: str, args: Namespace, words: str = "") -> str:
    """Return the command that goes on with a run, with the words of an answer."""
    return f"{command_line()} resume {shlex.quote(run)}{words}{go_on_options(args)}"


@contextmanager
def holder_told(store: Store) -> Generator[None]:
    """Tell whoever finds a session held which program has it, and what to do: a command cannot take it over."""
    try:
        yield
    except SessionHeld as error:
        held = [card for name in error.sessions for card in store.cards(name) if card.holder is not None]
        if not held:
            raise
        raise SessionHeld(
            f"session {held[0].id} is held by {held[0].holder}. Wait until its run there has ended "
            f"({command_line()} runs wait {shlex.quote(held[0].id)}), or close that program",
            error.sessions,
        ) from None


def exit_code(outcome: RunOutcome) -> int:
    """Return the exit code of a command that has seen a run end or rest: 0 for an answer, 3 if it waits for the user, else 1."""
    return {"completed": 0, "awaiting_user": WAITS, "paused": WAITS}.get(outcome.status, 1)


def _end_sentence(outcome: RunOutcome) -> str:
    """Return the sentence about a run that has no answer."""
    status = "has failed" if outcome.status == "failed" else f"is {outcome.status}"
    said = f"{outcome.run} {status}: {outcome.reason}" if outcome.reason else f"{outcome.run} {status}"
    return said if said.endswith((".", "!", "?")) else f"{said}."


def _show(event: RunEvent, tools: Mapping[str, str], out: Output, *, is_line_open: bool) -> bool:
    """Print an event, and return whether the line goes on. `tools` are the tools of the calls so far."""
    if isinstance(event, TextCame):
        out.stream.write(visible(event.text))
        out.stream.flush()
        return not event.text.endswith("\n")
    if isinstance(event, ModelReplied) and is_line_open:
        out.line()
        return False
    text, style = event_line(event, tools)
    if text:
        if is_line_open:
            out.line()
        out.line(text, style)
        return False
    return is_line_open


def event_line(event: RunEvent, tools: Mapping[str, str] = MappingProxyType({})) -> tuple[str, str]:
    """Return the line that tells of an event, and its style; an empty one for events that need none. `tools` are the tools of
    calls, which name an error."""
    match event:
        case ToolCalled(tool=tool, arguments=arguments):
            return f"→ {tool} {shortened(arguments)}", "axis"
        case ToolEnded(call=call, status=status, text=text) if status != "ok":
            tool = f"{tools[call]} " if call in tools else ""
            return f"  {tool}{status}: {shortened(text)}", "bad"
        case ModelRetried(because=because, pause_s=pause):
            return f"asked again in {pause:g} s: {because}", "limit"
        case ModelFellBack(model=model, because=because):
            return f"goes on with {model}: {because}", "limit"
        case ContextFolded(before=before, after=after):
            return f"folded: {before:,} → {after:,} tokens", "fold"
        case ChildStarted(child=child):
            return f"sub-agent {child}", "axis"
        case ChildEnded(child=child, status=status):
            return f"sub-agent {child} is {status}", "axis"
        case HandedOver(agent=agent):
            return f"handed over to {agent}", "axis"
        case WentBack():
            return "goes on from an earlier message", "axis"
        case _:
            return "", ""


def shortened(text: str, most: int = _SHORT_CHARS) -> str:
    """Return a text on one line; a long one ends with a mark that says so."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[:most]} …"


def question_line(question: UserQuestion, *, is_short: bool = False) -> str:
    """Return a question on one line, with the call or the options that it is about.

    Whoever may answer it sees the whole call: `is_short` is for a list of many runs.
    """
    arguments = shortened(question.arguments) if is_short else visible_line(question.arguments)
    call = f" ({question.tool} {arguments})" if question.kind == "approval" else ""
    options = f" [{'/'.join(question.options)}]" if question.options else ""
    return f"{question.text}{call}{options}"


def answer_from(question: UserQuestion, words: str) -> UserAnswer:
    """Return the answer that somebody typed. For an approval, words that are no decision are a denial with that reason."""
    said = words.strip()
    if question.kind == "question":
        by_number = dict(zip(map(str, count(1)), question.options, strict=False))
        return UserAnswer(by_number.get(said, said), question=question.id)
    decision, _, rest = said.partition(" ")
    match decision.lower():
        case "allow" | "y" | "yes" if not rest:
            return UserAnswer(decision="allow", question=question.id)
        case "always" | "a" if not rest:
            return UserAnswer(decision="always", question=question.id)
        case "edit" | "e":
            return UserAnswer(decision="edit", arguments=_arguments(rest), question=question.id)
        case "deny" | "n" | "no":
            return UserAnswer(rest.strip(), "deny", question=question.id)
        case _:
            return UserAnswer(said, "deny", question=question.id)


def _arguments(text: str) -> dict[str, object]:
    try:
        return msgspec.json.decode(text, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise BadInput(f'`edit` takes the arguments as a JSON object, such as edit {{"path": "a"}}: {error}') from None
