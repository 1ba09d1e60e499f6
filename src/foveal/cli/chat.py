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
from foveal.cli.agent_options import add_agent, check_models, go_on_options, is_scripted, model_before, opened_agent
from foveal.cli.arguments import add_json, command_line, open_place, store_place
from foveal.cli.chat_commands import ChatCommands
from foveal.cli.chat_session import ChatSession, ChatTerminal
from foveal.cli.chat_terminal import PlainTerminal
from foveal.cli.output import Output, has_rich
from foveal.stores.port import Store
from foveal.values.errors import BadInput


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
    before = model_before(args, args.session)
    with opened_agent(args, before) as agent:
        check_models(agent)
        with open_place(store_place(args.store)) as store:
            asyncio.run(_talk(agent, store, args, out, is_scripted=is_scripted(args, before)))


async def _talk(agent: Agent, store: Store, args: Namespace, out: Output, *, is_scripted: bool) -> None:
    terminal = _terminal(args, out)
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
    named = Namespace(**vars(args) | {"model": commands.named_model or args.model})
    plain = " --plain" if args.plain else ""
    return f"{command_line()} chat --session {shlex.quote(chat.session)}{go_on_options(named)}{plain}"


def _terminal(args: Namespace, out: Output) -> ChatTerminal:
    """Return the terminal with an input line of its own, where its library is installed and people are at both ends."""
    is_screen = out.is_terminal and sys.stdin.isatty() and not args.plain
    if not (is_screen and has_rich() and find_spec("prompt_toolkit")):
        return PlainTerminal(out)
    return import_module("foveal.cli.chat_prompt").PromptTerminal()
