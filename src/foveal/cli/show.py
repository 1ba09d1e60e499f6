"""Print a prompt as it was (or would be) sent, for reading.

Fences and reminders are shown in their places among the messages. Control characters are made visible, so that nothing in a
tool's output can drive the terminal. With --json, the request itself.
"""

from argparse import ArgumentParser, Namespace

import msgspec

from foveal.analysis.inspect.part_texts import part_texts
from foveal.analysis.inspect.stored_session import stored_messages, tool_name
from foveal.cli.arguments import add_call, add_store, existing_store
from foveal.cli.output import Output
from foveal.values.entry import Message
from foveal.values.prompt import Prompt


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION")
    add_call(parser)
    add_store(parser)


def run(args: Namespace, out: Output) -> None:
    with existing_store(args.store) as store:
        prompt, messages = stored_messages(store, args.session, args.call)
    if out.is_json:
        out.document(prompt.request)
        return
    out.line(
        f"{prompt.session}, call {prompt.call}: {prompt.setup.model} in the {prompt.setup.dialect} dialect", "strong"
    )
    for message, block in messages:
        _print(message, "" if block is None else f", {block.kind} {block.name}", out)
    out.line()
    out.line(_footer(prompt), "strong")


def _footer(prompt: Prompt) -> str:
    tools = [tool_name(tool) for tool in msgspec.json.decode(prompt.setup.tools)]
    offered = f"tools {', '.join(tools)} ({prompt.setup.tools_tokens:,} tokens)" if tools else "no tools"
    return f"{prompt.tokens:,} of {prompt.setup.limit:,} tokens; {offered}"


def _print(message: Message, beside: str, out: Output) -> None:
    """Print a message under its title; `beside` names the fence or the reminders that it is."""
    for part in message.parts:
        for title, text in part_texts(message.role, part):
            out.line()
            out.line(f"── {title}{beside}", "sent")
            out.line(text)
