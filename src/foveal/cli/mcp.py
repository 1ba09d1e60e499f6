"""Serve search and recall over some sessions to an MCP client, over standard input and output.

The client is offered the tools `sessions`, `search` and `recall`. It sees the sessions that are named here, and no others.
"""

from argparse import ArgumentParser, Namespace
from importlib import import_module
from importlib.util import find_spec

from foveal.cli.arguments import existing_store
from foveal.cli.output import Output
from foveal.values.errors import MissingExtra


def configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--session", metavar="NAME", action="append", required=True, help="a session to serve (repeatable)"
    )
    parser.add_argument("--store", metavar="FILE", help="the store to read (default: $FOVEAL_STORE, else ./foveal.db)")
    parser.set_defaults(json=False)


def run(args: Namespace, out: Output) -> None:
    if find_spec("mcp") is None:
        raise MissingExtra("The MCP server", "mcp")
    with existing_store(args.store) as store:
        import_module("foveal.integrations.mcp_server").memory_server(store, args.session).run("stdio")
