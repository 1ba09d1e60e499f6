"""Serve a gateway between agents and their providers, until it is told to end.

Agents name its address as that of their provider, and keep their own keys. Other machines are let in only with a token.
"""

import ipaddress
import os
import signal
import socket
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Sequence
from importlib import import_module
from urllib.parse import urlsplit

from foveal.agent.agent_file import read_agent
from foveal.cli.gateway_options import add_gateway, opened_gateway, require_gateway, store_file
from foveal.cli.output import Output, complain
from foveal.gateway.routes import UPSTREAMS
from foveal.values.errors import BadInput

PORT = 4141
TOKEN = "FOVEAL_GATEWAY_TOKEN"  # noqa: S105 - the name of a variable
_MOST_PORTS = 65_535


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("--host", metavar="HOST", default="127.0.0.1", help="(default: 127.0.0.1, this machine alone)")
    parser.add_argument("--port", metavar="N", type=_port, default=PORT, help=f"0 for a free one (default: {PORT})")
    parser.add_argument(
        "--upstream",
        metavar="NAME=URL",
        type=_upstream,
        action="append",
        default=[],
        help=f"another address for a provider: {', '.join(UPSTREAMS)} (repeatable; the address comes without /v1)",
    )
    parser.add_argument(
        "--agent",
        metavar="FILE",
        action="append",
        default=[],
        help="an agent that callers of the HTTP API may run, with the keys of this machine (repeatable)",
    )
    parser.add_argument("--token", metavar="TOKEN", help=f"that every request has to name (default: ${TOKEN})")
    add_gateway(parser)


def run(args: Namespace, out: Output) -> None:
    require_gateway()
    token = args.token or os.environ.get(TOKEN) or ""
    if not token and not _is_loopback(args.host):
        raise BadInput(f"{args.host} needs a token: --token TOKEN or ${TOKEN}")
    agents = [read_agent(file) for file in args.agent]
    with (
        _listener(args.host, args.port) as listener,
        opened_gateway(args, upstreams=dict(args.upstream), tell=complain, token=token, agents=agents) as gateway,
    ):
        _announce(
            args, listener.getsockname()[1], [one.name for one in agents], bool(token), out
        )  # whoever connects from now on is answered
        # The server ends by itself, and raises the signal again: it must not end us before the store is closed.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        import_module("foveal.gateway.server").serve(gateway, listener)


def _announce(args: Namespace, port: int, agents: Sequence[str], has_token: bool, out: Output) -> None:
    host = f"[{args.host}]" if ":" in args.host else args.host
    address = f"http://{host}:{port}"
    what = "Watching: everything is forwarded unchanged." if args.watch else "Ctrl-C ends it."
    out.line(f"gateway on {address}, sessions in {store_file(args)}. {what}")
    rows = (
        ("Claude Code, Anthropic SDK", f"ANTHROPIC_BASE_URL={address}"),
        ("OpenAI SDK", f"OPENAI_BASE_URL={address}/v1"),
        ("Codex", f"codex -c 'openai_base_url=\"{address}/v1\"'"),
        ("Gemini CLI", f"GOOGLE_GEMINI_BASE_URL={address}"),
        ("page, HTTP API", f"{address}/, {address}/foveal/v1"),
        ("figures", f"{address}/metrics"),
        *((f"runs of {name}", f"{address}/foveal/v1/runs") for name in agents),
    )
    for name, value in rows:
        out.line(f"  {name + ':':28}{value}")
    if has_token:
        out.line("  Every request needs the header x-foveal-token with the token.")
    out.stream.flush()


def _port(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if not 0 <= number <= _MOST_PORTS:
        raise ArgumentTypeError(f"{text!r} is not a port from 0 to {_MOST_PORTS}")
    return number


def _upstream(text: str) -> tuple[str, str]:
    name, _, address = text.partition("=")
    if name not in UPSTREAMS:
        raise ArgumentTypeError(f"{text!r:.80} names no provider; write {'=URL, '.join(UPSTREAMS)}=URL")
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ArgumentTypeError(f"{text!r:.80} has no web address; write {name}={UPSTREAMS[name]}")
    return name, address


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listener(host: str, port: int) -> socket.socket:
    """Listen on the port, or for 0 on any that is free; an error tells who has to do something."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2_048)
    except OSError as error:
        why = error.strerror or error
        raise BadInput(f"cannot listen on {host} port {port}: {why}; name another one with --port N") from None
