"""Talk to an agent: its words as they come, its calls and questions, and a line with tokens, pressure and cost.

Esc, or Ctrl-C, interrupts it and keeps its words. A message that is typed while it works waits for its answer, or steers it.
`/help` lists the commands. Everything is kept: `--session S` goes on with a conversation.
"""

import asyncio
import shlex
import sys
from argparse import ArgumentParser, Namespace
from importlib import import_module
from importlib.util import find_spec

from foveal.agent.agent import Agent
from foveal.cli.agent_options import SCRIPTED, add_agent, opened_agent
from foveal.cli.arguments import add_json, command_line, open_place, store_place
from foveal.cli.chat_commands import ChatCommands
from foveal.cli.chat_session import ChatSession, ChatTerminal
from foveal.cli.chat_terminal import PlainTerminal
from foveal.cli.output import Output, complaints, has_rich
from foveal.session.model_setup import UnknownModelWarning
from foveal.stores.port import Store
from foveal.values.errors import BadInput, FovealError


def configure(parser: ArgumentParser) -> None:
    add_agent(parser)
    parser.add_argument(
        "--session", metavar="S", default="", help="the conversation to go on with (default: a new one)"
    )
    parser.add_argument("--store", metavar="PLACE", help="where it is kept (default: $FOVEAL_STORE, else ./foveal.db)")
    parser.add_argument("--plain", action="store_true", help="lines and nothing else, on a terminal as well")
    add_json(parser)


def run(args: Namespace, out: Output) -> int | None:
    if args.json:
        raise BadInput("a chat is for people; `foveal run --json` is for programs")
    with opened_agent(args) as agent, complaints(UnknownModelWarning):
        _check_keys(agent)
        with open_place(store_place(args.store)) as store:
            asyncio.run(_talk(agent, store, args, out))


def _check_keys(agent: Agent) -> None:
    """Raise the reason for which no model of the agent can be asked: a key or an SDK that is missing."""
    reasons: list[FovealError] = []
    for choice in agent.models:
        try:
            agent.open_model(choice)
        except FovealError as error:
            reasons.append(error)
        else:
            return
    raise reasons[0]


async def _talk(agent: Agent, store: Store, args: Namespace, out: Output) -> None:
    terminal = _terminal(args, out)
    is_scripted = args.provider == SCRIPTED
    chat = ChatSession(agent, store, terminal, session=args.session, folder=args.workspace, is_scripted=is_scripted)
    commands = ChatCommands(chat, store_name=args.store)
    try:
        await terminal.talk(chat, commands)
    finally:
        await chat.close()
    if chat.run:
        out.line(f"Go on with: {_going_on(chat, commands, args)}", "axis")


def _going_on(chat: ChatSession, commands: ChatCommands, args: Namespace) -> str:
    """Return the command that goes on with this conversation, with the options that were given."""
    options = {
        "--session": chat.session,
        "--store": args.store,
        "--agent": args.agent,
        "--provider": args.provider,
        "--model": commands.named_model or args.model,
        "--workspace": args.workspace if args.workspace != "." else "",
    }
    words = [word for name, value in options.items() if value for word in (name, value)]
    return f"{command_line()} chat {shlex.join([*words, *['--plain'] * args.plain])}"


def _terminal(args: Namespace, out: Output) -> ChatTerminal:
    """Return the terminal with an input line of its own, where its library is installed and people are at both ends."""
    is_screen = out.is_terminal and sys.stdin.isatty() and not args.plain
    if not (is_screen and has_rich() and find_spec("prompt_toolkit")):
        return PlainTerminal(out)
    return import_module("foveal.cli.chat_prompt").PromptTerminal()
