"""Go on with a run that rests, has failed, or was left behind by a process that died.

The answer that it waits for comes with it.
"""

import asyncio
from argparse import ArgumentParser, Namespace

import msgspec

from foveal.agent.agent import Agent
from foveal.agent.next_step import DECISIONS
from foveal.agent.runs import Runs
from foveal.agent.tools import UserAnswer
from foveal.cli.agent_options import add_agent, opened_agent
from foveal.cli.arguments import add_store, existing_store
from foveal.cli.output import Output
from foveal.cli.queue_options import add_detach, opened_queue, tell_detached
from foveal.cli.run_screen import follow, tell_end
from foveal.stores.port import Store
from foveal.values.errors import BadInput


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("run_id", metavar="ID", help="the run, or its session for the newest run of it")
    parser.add_argument(
        "answer", metavar="ANSWER", nargs="?", help="the answer to its question, or the reason of a denial"
    )
    parser.add_argument("--decision", choices=DECISIONS, help="about a call that waits for approval")
    parser.add_argument("--arguments", metavar="JSON", help="in place of the model's, for --decision edit")
    parser.add_argument("--question", metavar="Q", default="", help="which question, if there are several")
    add_agent(parser)
    add_detach(parser)
    add_store(parser)


def run(args: Namespace, out: Output) -> int:
    with opened_agent(args) as agent, existing_store(args.store) as store:
        return asyncio.run(_resume(agent, store, args, out))


async def _resume(agent: Agent, store: Store, args: Namespace, out: Output) -> int:
    runs = Runs(store, [agent], queue=opened_queue(args) if args.detach else None)
    state = runs.state(args.run_id)
    if state.agent != agent.name:
        raise BadInput(f"run {state.id} is one of the agent {state.agent!r}; name its file with --agent")
    try:
        named = await runs.resume(args.run_id, _answer(args))
        if args.detach:
            return tell_detached(runs, named, out)
        return tell_end(await follow(runs, named, out), runs.cost(named), args, out)
    finally:
        await runs.drain(0)


def _answer(args: Namespace) -> UserAnswer | None:
    if args.answer is None and args.decision is None:
        return None
    try:
        arguments = None if args.arguments is None else msgspec.json.decode(args.arguments, type=dict[str, object])
    except msgspec.MsgspecError as error:
        raise BadInput(f"--arguments is no JSON object: {error}") from None
    if (args.decision == "edit") != (arguments is not None):
        raise BadInput("--decision edit and --arguments JSON come together")
    return UserAnswer(args.answer or "", args.decision or "", arguments, args.question)
