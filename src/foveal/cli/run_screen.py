"""A run on the terminal: its words as they come, its calls, its questions, and a last line with tokens and cost."""

import asyncio
import sys
from argparse import Namespace
from contextlib import aclosing

from foveal.agent.driver import RunOutcome
from foveal.agent.run_events import (
    ChildStarted,
    ContextFolded,
    ModelFellBack,
    ModelRetried,
    RunEvent,
    TextCame,
    ToolCalled,
    ToolEnded,
)
from foveal.agent.runs import RunCost, Runs
from foveal.agent.tools import UserAnswer, UserQuestion
from foveal.cli.arguments import command_line
from foveal.cli.output import Output, complain
from foveal.text.display import visible

_ARGUMENT_CHARS = 100
_ENDED_WELL = ("completed", "awaiting_user", "paused")


async def follow(runs: Runs, run: str, out: Output) -> RunOutcome:
    """Show a run until it ends or rests; on a terminal, ask the user for it and go on."""
    while True:
        async with aclosing(runs.observe(run)) as events:
            is_line_open = False
            async for event in events:
                if not out.is_json:
                    is_line_open = _show(event, out, is_line_open=is_line_open)
            if is_line_open:
                out.line()
        outcome = await runs.wait(run)
        if outcome.status != "awaiting_user" or out.is_json or not sys.stdin.isatty():
            return outcome
        for question in outcome.questions:
            answer = await asyncio.to_thread(_asked, question, out)
            await runs.answer(run, answer)
        await runs.resume(run)


def tell_end(outcome: RunOutcome, cost: RunCost, args: Namespace, out: Output) -> int:
    """Print the end of a run and return the exit code: 0 for an answer, 1 for anything else."""
    if out.is_json:
        out.document({"outcome": outcome, "calls": cost.calls, "usd": cost.total_usd})
        return 0 if outcome.status == "completed" else 1
    resume = f"{command_line()} resume {outcome.run} --store {args.store or 'foveal.db'}"
    match outcome.status:
        case "completed":
            pass
        case "awaiting_user":
            for question in outcome.questions:
                complain(f"{outcome.run} waits: {_question(question)}")
            complain(f"answer with: {resume} ANSWER, or {resume} --decision allow")
        case "paused" | "failed":
            complain(f"{outcome.run} {outcome.status}: {outcome.reason or 'no reason'} Go on with: {resume}")
        case status:
            complain(f"{outcome.run} {status}: {outcome.reason or 'no reason'}")
    usd = "cost unknown" if cost.total_usd is None else f"${cost.total_usd:.4f}"
    complain(f"{outcome.run}: {outcome.status}, {outcome.steps} steps, {cost.calls} model calls, {usd}")
    return 0 if outcome.status == "completed" else 1


def _show(event: RunEvent, out: Output, *, is_line_open: bool) -> bool:
    """Print an event, and return whether the line goes on."""
    if isinstance(event, TextCame):
        out.stream.write(visible(event.text))
        out.stream.flush()
        return not event.text.endswith("\n")
    text, style = _line(event)
    if text:
        if is_line_open:
            out.line()
        out.line(text, style)
        return False
    return is_line_open


def _line(event: RunEvent) -> tuple[str, str]:
    match event:
        case ToolCalled(tool=tool, arguments=arguments):
            return f"→ {tool} {arguments[:_ARGUMENT_CHARS]}", "axis"
        case ToolEnded(status=status, text=text) if status != "ok":
            return f"  {status}: {text[:_ARGUMENT_CHARS]}", "bad"
        case ModelRetried(because=because, pause_s=pause):
            return f"asked again in {pause:g} s: {because}", "limit"
        case ModelFellBack(model=model, because=because):
            return f"goes on with {model}: {because}", "limit"
        case ContextFolded(before=before, after=after):
            return f"folded: {before:,} → {after:,} tokens", "fold"
        case ChildStarted(child=child):
            return f"sub-agent {child}", "axis"
        case _:
            return "", ""


def _question(question: UserQuestion) -> str:
    call = f" ({question.tool} {question.arguments[:_ARGUMENT_CHARS]})" if question.kind == "approval" else ""
    options = f" [{'/'.join(question.options)}]" if question.options else ""
    return f"{question.text}{call}{options}"


def _asked(question: UserQuestion, out: Output) -> UserAnswer:
    """Ask on the terminal. For an approval, any word but allow and always is a denial with that reason."""
    out.line(_question(question), "strong")
    said = input("> ").strip()
    if question.kind == "question":
        return UserAnswer(said, question=question.id)
    if said in ("allow", "always", "y", "yes"):
        return UserAnswer(decision="always" if said == "always" else "allow", question=question.id)
    return UserAnswer(said.removeprefix("deny").strip(), "deny", question=question.id)
