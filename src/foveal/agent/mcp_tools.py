"""Tools of MCP servers, through the official SDK (extra `mcp`).

    with mcp_tools("files", {"command": "files-server", "args": ["--root", "."]}, retain="summary") as tools:
        agent = Agent("You look.", model="claude-sonnet-5", tools=tools)

A server is a command that speaks over its standard streams, or an address that speaks HTTP. Its connection has a thread and an
event loop of its own: it belongs to one task from its beginning to its end, and runs come and go.
"""

import asyncio
import atexit
import os
import threading
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager, suppress
from importlib.util import find_spec
from typing import Any, cast

import msgspec

from foveal.agent.tools import TIMEOUT_S, BadArguments, CheckArguments, Tool, ToolContext, ToolOutput
from foveal.project.retention_layers import rule_from
from foveal.text.tool_names import is_usable
from foveal.values.entry import Image
from foveal.values.errors import BadInput, MissingExtra
from foveal.values.retention import Mode, RetentionRule
from foveal.writers.faults import describe

CONNECT_S = 30.0
"""Seconds in which a server must have listed its tools: those that fetch themselves first take about ten."""


class McpServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One server: a `command` with its `args`, or a `url`; and the way in which its tools are used."""

    command: str = ""
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    """Variables for the command, besides those that a program needs to start. A value `$NAME` is that of our own variable."""
    url: str = ""
    headers: dict[str, str] = {}
    """Headers of each request to the address; a value `$NAME` is that of our own variable."""
    tools: tuple[str, ...] = ()
    """Names of the tools to take; all, if none is named."""
    retain: Mode | dict[str, Any] | None = None
    """Retention of the results."""
    guarded: bool = False
    """Whether a person must allow each call."""
    timeout_s: float = TIMEOUT_S

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise BadInput("an MCP server has a command or a url, one of the two")
        if self.headers and not self.url:
            raise BadInput("headers of an MCP server are for a url; a command has env")


@contextmanager
def mcp_tools(name: str, server: McpServer | Mapping[str, Any], **options: Any) -> Generator[tuple[Tool, ...]]:
    """Connect to a server and yield its tools, named `NAME_TOOL`; the connection ends with the block.

    `options` are further fields of `McpServer`.
    """
    connection = _connection(name, _server(server, options))
    try:
        yield connection.open()
    finally:
        connection.close()


def lasting_tools(name: str, server: McpServer) -> tuple[Tool, ...]:
    """Connect to a server for as long as this program runs, and return its tools: for agents of a file."""
    connection = _connection(name, server)
    atexit.register(connection.close)
    return connection.open()


def _connection(name: str, server: McpServer) -> "_Connection":
    if find_spec("mcp") is None:
        raise MissingExtra(f"The MCP server {name!r}", "mcp")
    return _Connection(name, server)


def _server(given: McpServer | Mapping[str, Any], options: Mapping[str, Any]) -> McpServer:
    fields = msgspec.structs.asdict(given) if isinstance(given, McpServer) else dict(given)
    try:
        return msgspec.convert({**fields, **options}, McpServer)
    except msgspec.ValidationError as error:
        raise BadInput(f"an MCP server is not understood: {error}") from None


class _Connection:
    """One client in one thread. Only its own loop touches the client."""

    def __init__(self, name: str, server: McpServer) -> None:
        self._name, self._server = name, server
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._client: Any = None
        self._listed: Future[list[Any]] = Future()
        self._thread = threading.Thread(target=self._run, name=f"foveal-mcp-{name}", daemon=True)

    def open(self) -> tuple[Tool, ...]:
        self._thread.start()
        try:
            listed = self._listed.result(CONNECT_S)
        except TimeoutError:
            raise BadInput(f"the MCP server {self._name!r} did not answer within {CONNECT_S:g} s") from None
        except Exception as error:
            raise BadInput(f"the MCP server {self._name!r} cannot be used: {describe(error)}") from None
        known = {one.name for one in listed}
        if absent := set(self._server.tools) - known:
            raise BadInput(f"the MCP server {self._name!r} has no tool {sorted(absent)[0]!r}; it has {sorted(known)}")
        wanted = self._server.tools or known
        return tuple(self._tool(one) for one in listed if one.name in wanted)

    def close(self) -> None:
        if self._thread.is_alive():
            with suppress(RuntimeError):  # it has ended by itself at this moment
                self._loop.call_soon_threadsafe(self._end.set)
            self._thread.join(CONNECT_S)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            if not self._listed.done():
                self._listed.set_exception(error)
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        async with _client(self._server) as client:
            self._client = client
            self._listed.set_result((await client.list_tools()).tools)
            await self._end.wait()

    def _tool(self, listed: Any) -> Tool:
        name = f"{self._name}_{listed.name}"
        if not is_usable(name):
            raise BadInput(f"{name!r} cannot name a tool: letters, digits, '_' and '-', 64 at the most")

        async def invoke(given: Mapping[str, Any], ctx: ToolContext) -> object:
            call = self._client.call_tool(listed.name, dict(given))
            return _output(await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop)))

        return Tool(
            name=name,
            description=listed.description or listed.title or "",
            parameters=listed.input_schema,
            check=_checker(name),
            invoke=invoke,
            retain=_rule(self._server.retain, self._name),
            timeout_s=self._server.timeout_s,
            is_guarded=self._server.guarded,
        )


@asynccontextmanager
async def _client(server: McpServer) -> AsyncGenerator[Any]:
    from mcp import Client, StdioServerParameters  # noqa: PLC0415 - an extra

    if not server.url:
        command = StdioServerParameters(
            command=server.command, args=list(server.args), env=_filled_in(server.env) or None
        )
        async with Client(command) as client:
            yield client
        return
    import httpx2  # noqa: PLC0415 - a dependency of the extra
    from mcp.client.streamable_http import streamable_http_client  # noqa: PLC0415 - an extra

    timeout = httpx2.Timeout(CONNECT_S, read=server.timeout_s)
    async with (
        httpx2.AsyncClient(headers=_filled_in(server.headers), timeout=timeout, follow_redirects=True) as http,
        Client(streamable_http_client(server.url, http_client=http)) as client,
    ):
        yield client


def _filled_in(values: Mapping[str, str]) -> dict[str, str]:
    """Return the values with those of our own variables in the place of their names."""
    return {name: os.environ.get(value[1:], "") if value[:1] == "$" else value for name, value in values.items()}


def _rule(said: Mode | dict[str, Any] | None, name: str) -> RetentionRule | None:
    if said is None:
        return None
    return rule_from({"mode": said} if isinstance(said, str) else said, f"the retention of the MCP server {name!r}")


def _checker(name: str) -> CheckArguments:
    """Return a check that the arguments are an object; the server checks them against its schema."""

    def check(text: str) -> Mapping[str, Any]:
        try:
            return msgspec.json.decode(text if text.strip() else "{}", type=dict[str, Any])
        except msgspec.MsgspecError as error:
            raise BadArguments(f"{name} was not run: {error}. Its arguments are one JSON object") from None

    return check


def _output(result: Any) -> ToolOutput:
    """Return the result of a server as ours: texts and images; anything else as JSON."""
    content = tuple(_part(one) for one in result.content)
    return ToolOutput(content or "[done]", "error" if result.is_error else "ok", data=result.structured_content)


def _part(block: Any) -> str | Image:
    match block.type:
        case "text":
            return block.text
        case "image":
            return Image(block.mime_type, b64decode(block.data))
        case _:
            return msgspec.json.encode(
                cast("Callable[..., Any]", block.model_dump)(mode="json", exclude_none=True)
            ).decode()
