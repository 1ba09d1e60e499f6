"""Run an agent on a task: it works until it has an answer.

Everything is kept, and a run that was stopped goes on with `foveal resume`. Without --agent, it is one that can read, search and
change the files of this folder, and asks before it runs a command.
"""

import sys
from argparse import ArgumentParser, Namespace

from foveal.agent.agent import Agent
from foveal.agent.runs import Runs
from foveal.cli.agent_options import add_agent, check_models, model_before, opened_agent
from foveal.cli.arguments import add_json, open_place, store_place
from foveal.cli.interrupts import run_interruptible
from foveal.cli.output import Output
from foveal.cli.queue_options import add_detach, detached_queue, tell_detached
from foveal.cli.run_screen import holder_told, shown
from foveal.values.errors import BadInput


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("task", metavar="TASK", help="what is to be done; - reads it from standard input")
    parser.add_argument(
        "--file", metavar="F", action="append", default=[], help="a file that comes with the task; once for each"
    )
    add_agent(parser)
    parser.add_argument(
        "--session", metavar="S", default="", help="the conversation to go on with (default: a new one)"
    )
    add_detach(parser)
    parser.add_argument("--store", metavar="FILE", help="where it is kept (default: $FOVEAL_STORE, else ./foveal.db)")
    add_json(parser)


def run(args: Namespace, out: Output) -> int:
    queue = detached_queue(args)
    task = _task(args.task)
    with opened_agent(args, model_before(args, args.session)) as agent:
        if queue is None:
            check_models(agent)
        with open_place(store_place(args.store)) as store:
            return run_interruptible(_run(agent, task, Runs(store, [agent], queue=queue), args, out))


def _task(words: str) -> str:
    """Return the task, read from standard input in place of `-`. `BadInput` for one without a word."""
    try:
        task = sys.stdin.buffer.read().decode("utf-8-sig") if words == "-" else words
    except UnicodeDecodeError:
        raise BadInput("standard input is no text in UTF-8; a file of another kind comes with --file") from None
    if not task.strip():
        raise BadInput("the task is empty; say what is to be done" + (" on standard input" if words == "-" else ""))
    return task


async def _run(agent: Agent, task: str, runs: Runs, args: Namespace, out: Output) -> int:
    try:
        with holder_told(runs.store):
            named = await runs.start(agent, task, session=args.session, files=args.file)
        if args.detach:
            return tell_detached(runs, named, out)
        return await shown(runs, named, args, out)
    finally:
        await runs.drain(0)
