"""Go on with a run that rests, has failed, or was left behind by a process that died.

The answer that it waits for comes with it.
"""

from argparse import ArgumentParser, Namespace

import msgspec

from foveal.agent.agent import Agent
from foveal.agent.definition import AgentDefinition, with_successors
from foveal.agent.next_step import DECISIONS
from foveal.agent.run_reports import run_state
from foveal.agent.run_state import RunState
from foveal.agent.runs import Runs
from foveal.agent.tools import UserAnswer
from foveal.cli.agent_options import DEFAULT_AGENT, add_agent, check_models, opened_agent
from foveal.cli.arguments import add_store, existing_store
from foveal.cli.interrupts import run_interruptible
from foveal.cli.output import Output
from foveal.cli.queue_options import add_detach, detached_queue, tell_detached
from foveal.cli.run_screen import answer_from, holder_told, shown, tell_questions
from foveal.values.errors import BadInput


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="ID", help="the run, or its session for the newest run of it")
    parser.add_argument(
        "answer",
        metavar="ANSWER",
        nargs="?",
        help="to its question; about a call: allow, always, 'deny REASON' or 'edit JSON', and any other words deny it",
    )
    parser.add_argument(
        "--decision", choices=DECISIONS, help="about a call that waits for approval; ANSWER is then the reason"
    )
    parser.add_argument("--arguments", metavar="JSON", help="in place of the model's, for --decision edit")
    parser.add_argument("--question", metavar="Q", default="", help="which question, if there are several")
    add_agent(parser)
    add_detach(parser)
    add_store(parser)


def run(args: Namespace, out: Output) -> int:
    queue = detached_queue(args)
    with existing_store(args.store) as store:
        state = run_state(store, args.run_id)
        _check_default(state, args)
        with opened_agent(args, state.first_model, driven=state.agent) as agent:
            driven = _agent_of(state, agent, args)
            if queue is None:
                check_models(driven)
            return run_interruptible(_resume(Runs(store, [agent], queue=queue), state, args, out))


def _check_default(state: RunState, args: Namespace) -> None:
    """Raise `BadInput` if the default agent has not had the run, or nobody can tell which model it has had."""
    if args.agent is None and state.agent != DEFAULT_AGENT:
        raise BadInput(f"run {state.id} is one of the agent {state.agent!r}; name its file with --agent")
    if args.agent is None and not (state.first_model or args.model or args.provider):
        raise BadInput(
            f"run {state.id} was begun by an older Foveal, which has not kept the model and its address; "
            "name them, so that its words go nowhere else: --model MODEL, or --model openai:MODEL@URL"
        )


def _agent_of(state: RunState, agent: Agent, args: Namespace) -> AgentDefinition:
    """Return the agent that drives a run: this one, or one that works for it or takes over from it. `BadInput` if it is none of
    them, or now names another model than the run began with."""
    if (named := with_successors([agent]).get(state.agent)) is None:
        raise BadInput(f"run {state.id} is one of the agent {state.agent!r}; name its file with --agent")
    now, is_named = named.models[0].spelled, args.model is not None or args.provider is not None
    if not is_named and state.first_model not in ("", now):
        raise BadInput(
            f"run {state.id} began with {state.first_model}, and {args.agent} names {now}. "
            f"Say which one goes on: --model {state.first_model}, or --model {now}"
        )
    return named


async def _resume(runs: Runs, state: RunState, args: Namespace, out: Output) -> int:
    try:
        with holder_told(runs.store):
            named = await _resumed(runs, state, args)
        if args.detach:
            return tell_detached(runs, named, out)
        return await shown(runs, named, args, out)
    finally:
        await runs.drain(0)


async def _resumed(runs: Runs, state: RunState, args: Namespace) -> str:
    """Go on with a run and return its id. The error for one that waits, and was not told which question is answered, comes behind
    the commands that answer them."""
    answer = _answer(state, args)
    try:
        return await runs.resume(args.run_id, answer)
    except BadInput:
        if answer is None or not answer.question:
            tell_questions(state.id, tuple(state.asked.values()), args)
        raise


def _answer(state: RunState, args: Namespace) -> UserAnswer | None:
    """Return the answer that the command line gives; words without a decision mean what they mean on a terminal."""
    if args.answer is None and args.decision is None:
        return None
    try:
        arguments = None if args.arguments is None else msgspec.json.decode(args.arguments, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise BadInput(f"--arguments is no JSON object: {error}") from None
    if (args.decision == "edit") != (arguments is not None):
        raise BadInput("--decision edit and --arguments JSON come together")
    question = args.question or (next(iter(state.asked)) if len(state.asked) == 1 else "")
    asked = state.asked.get(question)
    if asked is not None and args.answer is not None and args.decision is None:
        return answer_from(asked, args.answer)
    if args.decision == "allow" and asked is not None and asked.kind == "question":
        raise BadInput(
            f"{asked.text} That is a question of a tool, and no call that waits: give an answer, no --decision"
        )
    return UserAnswer(args.answer or "", args.decision or "", arguments, question)
