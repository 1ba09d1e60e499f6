"""Start an agent whose requests go through Foveal, and say at the end how much was sent.

The agent has a gateway of its own on this machine while it runs. Its keys, login, settings and sessions are the ones it always
has; its exit code is that of the command. Words behind -- are its own. With --watch nothing is changed.
"""

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from foveal.analysis.inspect.cost import cost
from foveal.analysis.replay.report import counted, percent
from foveal.cli.arguments import command_line
from foveal.cli.gateway_options import add_gateway, opened_gateway, require_gateway, store_file
from foveal.cli.output import Output, complain
from foveal.cli.wrap_check import SEND, check
from foveal.gateway.clients import CLIENTS, ClientUser, client_environment, find_detour
from foveal.values.errors import FovealError, NotFound

if TYPE_CHECKING:
    from foveal.gateway.app import Gateway

_CENT = 0.01
_SIGNALLED = 128
"""A shell's exit code for a program that a signal ended, less the signal's number."""


def configure(parser: ArgumentParser) -> None:
    parser.usage = "%(prog)s CLIENT [options] [-- ARGUMENT ...]"
    parser.add_argument("client", metavar="CLIENT", choices=CLIENTS, help=f"one of {', '.join(CLIENTS)}")
    parser.add_argument(
        "--check",
        nargs="?",
        const="look",
        choices=("look", SEND),
        help=f"say what is found and what is wrong, and start nothing; '{SEND}' makes one short request through the gateway",
    )
    add_gateway(parser)


def run(args: Namespace, out: Output) -> int:
    require_gateway()
    out.stream.flush()
    client, user = CLIENTS[args.client], ClientUser(os.environ, Path.home(), Path.cwd())
    program = shutil.which(client.command)
    if program is None:
        raise NotFound(f"{client.command} is not on the PATH; install it with: {client.install}")
    if args.check:
        return check(args, client, program, user, out)
    detour = find_detour(client, user)
    # The terminal is the client's until it ends.
    with opened_gateway(args, upstreams=detour.upstreams, tell=lambda line: None) as gateway:
        served = import_module("foveal.gateway.server").served
        with tempfile.TemporaryDirectory(prefix="foveal-") as folder, served(gateway) as address:
            launch = client.launch(user, detour.by(address), Path(folder))
            code = _run([program, *launch.arguments, *args.others], client_environment(user, launch))
        complain(_summary(args, gateway))
    return code


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program on this terminal and return its exit code."""
    with subprocess.Popen(command, env=environment) as process, _passed_on(process):  # noqa: S603 - the user's own
        code = process.wait()
    return _SIGNALLED - code if code < 0 else code


@contextmanager
def _passed_on(process: "subprocess.Popen[bytes]") -> Generator[None]:
    """Pass signals on to a program. Those of the terminal it gets by itself: it is ours to outlive them."""

    def stay(_number: int, _frame: Any) -> None:
        pass

    def pass_on(number: int, _frame: Any) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(number)

    terminal, others = (signal.SIGINT, signal.SIGQUIT), (signal.SIGTERM, signal.SIGHUP)
    before = {one: signal.signal(one, stay) for one in terminal}
    before |= {one: signal.signal(one, pass_on) for one in others}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _summary(args: Namespace, gateway: "Gateway") -> str:
    """Return the line at the end: calls, tokens, the cache's share, money, and the command that opens the session."""
    figures = gateway.conversations.figures
    because = gateway.conversations.passed_because
    aside = f"; {counted(figures.unmanaged, 'call')} passed on as it came: {because}" if figures.unmanaged else ""
    if not figures.calls:
        return f"no call of {args.client} was managed{aside or '; it may be set up for another address or provider'}"
    sent = _planned(gateway) if args.watch else figures.sent_tokens
    share = percent(sent / figures.asked_tokens) if figures.asked_tokens else "–"
    cached = f", {percent(figures.cached_tokens / figures.input_tokens)} cached" if figures.input_tokens else ""
    size = (
        f"asked for {figures.asked_tokens:,} tokens and got them{cached}; about {sent:,} ({share}) would have been sent"
        if args.watch
        else f"asked for {figures.asked_tokens:,} tokens, {sent:,} ({share}) sent{cached}"
    )
    main = max(gateway.conversations, key=lambda one: one.figures.calls)
    opens = f"{command_line()} {shlex.join(['view', main.name, '--store', str(store_file(args))])}"
    return f"{counted(figures.calls, 'call')}: {args.client} {size}{_money(args, gateway)}{aside}; see {opens}"


def _money(args: Namespace, gateway: "Gateway") -> str:
    """Return the words about the price of the input; none where nothing was saved, or where no price is known."""
    money = gateway.figures.money
    if abs(money.saved_usd) < _CENT / 2:
        return ""
    difference, asked = f"${abs(money.saved_usd):,.2f}", f"${money.asked_usd:,.2f}"
    if args.watch:
        return f" for about {difference} {'less' if money.saved_usd > 0 else 'more'} than {asked}"
    return (
        f", saved about {difference} of {asked}"
        if money.saved_usd > 0
        else f", cost about {difference} more than {asked}"
    )


def _planned(gateway: "Gateway") -> int:
    """Return the tokens of the prompts that the sessions made for the calls of this run, whether or not they were sent."""
    tokens, store = 0, gateway.conversations.store
    for one in gateway.conversations:
        with suppress(FovealError):
            answered = [call for call in cost(store, one.name).per_call if call.is_answered]
            newest = answered[-one.figures.calls :] if one.figures.calls else []
            tokens += sum(call.sent.tokens for call in newest if call.sent)
    return tokens
