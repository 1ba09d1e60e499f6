"""Tools of MCP servers, through the official SDK (extra `mcp`).

    with mcp_tools("files", {"command": "files-server", "args": ["--root", "."]}, retain="summary") as tools:
        agent = Agent("You look.", model="claude-sonnet-5", tools=tools)

A server is a command that speaks over its standard streams, or an address that speaks HTTP. Its connection has a thread and an
event loop of its own: it belongs to one task from its beginning to its end, and runs come and go. When it has ended, the next
call connects again.
"""

import asyncio
import atexit
import os
import threading
from base64 import b64decode
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
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
    """The way to one server, in a thread with an event loop of its own. Only that loop touches the clients."""

    def __init__(self, name: str, server: McpServer) -> None:
        self._name, self._server = name, server
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._links: list[_Link] = []
        """The connections that are open; calls use the newest one."""
        self._listed: Future[list[Any]] = Future()
        self._thread = threading.Thread(target=self._run, name=f"foveal-mcp-{name}", daemon=True)

    def open(self) -> tuple[Tool, ...]:
        self._thread.start()
        try:
            listed = self._listed.result(CONNECT_S)
        except TimeoutError:
            raise BadInput(f"the MCP server {self._name!r} did not answer within {CONNECT_S:g} s") from None
        except Exception as error:
            raise BadInput(f"the MCP server {self._name!r} cannot be used: {describe(_cause(error))}") from None
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
        try:
            client = await self._link().client()
            self._listed.set_result(await _all_tools(client))
            await self._end.wait()
        finally:
            for link in self._links:
                await link.close()

    def _link(self) -> "_Link":
        """Return the connection for the next call: a new one if the last one has ended."""
        if not self._links or self._links[-1].is_over:
            self._links = [*(one for one in self._links if not one.has_ended), _Link(self._server)]
        return self._links[-1]

    async def _call(self, tool: str, given: Mapping[str, Any]) -> ToolOutput:
        """Call a tool. One whose connection ends meanwhile is not called again: it may have had its effect."""
        link = self._link()
        try:
            await link.client()
        except Exception as error:  # noqa: BLE001, RUF100 - of a transport, whatever it raises
            told = f"[not run: the MCP server {self._name!r} cannot be reached: {describe(_cause(error))}]"
            return ToolOutput(told, "error")
        try:
            return _output(await link.call(tool, given))
        except ConnectionError as error:
            return ToolOutput(
                f"[interrupted: the connection to the MCP server {self._name!r} ended during this call ({error}). It may have "
                "had its effect; it was not made again. Look before you repeat it.]",
                "error",
            )

    def _tool(self, listed: Any) -> Tool:
        name = f"{self._name}_{listed.name}"
        if not is_usable(name):
            raise BadInput(f"{name!r} cannot name a tool: letters, digits, '_' and '-', 64 at the most")

        async def invoke(given: Mapping[str, Any], ctx: ToolContext) -> object:
            if self._end.is_set() or not self._thread.is_alive():
                return ToolOutput(f"[not run: the connection to the MCP server {self._name!r} is closed]", "error")
            call = self._call(listed.name, dict(given))
            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))

        return Tool(
            name=name,
            description=listed.description or listed.title or "",
            parameters=listed.input_schema,
            check=_checker(name),
            invoke=invoke,
            retain=_rule(self._server.retain, self._name),
            retry="again" if _may_run_again(listed) else "never",
            timeout_s=self._server.timeout_s,
            is_guarded=self._server.guarded,
        )


class _Link:
    """One connection to a server, held by a task of its own from its beginning to its end."""

    def __init__(self, server: McpServer) -> None:
        self.is_over = False
        """Whether no further call can use it."""
        self._client: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._end = asyncio.Event()
        self._held = asyncio.create_task(self._hold(server))

    @property
    def has_ended(self) -> bool:
        return self._held.done()

    async def client(self) -> Any:
        """Return the client when it is connected; the error for which it cannot be is raised."""
        await asyncio.wait((self._client,), timeout=CONNECT_S)
        if not self._client.done():
            self._give_up()
            raise TimeoutError(f"no answer within {CONNECT_S:g} s")
        return self._client.result()

    async def call(self, tool: str, given: Mapping[str, Any]) -> Any:
        """Call a tool and return its result. `ConnectionError` if the connection ends before that has come."""
        work: asyncio.Task[Any] = asyncio.create_task(self._client.result().call_tool(tool, dict(given)))
        try:
            await asyncio.wait((work, self._held), return_when=asyncio.FIRST_COMPLETED)
            error = work.exception() if work.done() and not work.cancelled() else ConnectionError("it was closed")
            if error is None or not (self.has_ended or _is_end(error)):
                return work.result()
            self.is_over = True
            self._end.set()
            raise ConnectionError(describe(error))
        finally:
            work.cancel()

    async def close(self) -> None:
        """Hang up, and wait until that is done."""
        self._end.set()
        if not self._client.done():
            self._give_up()
        await asyncio.wait((self._held,))

    def _give_up(self) -> None:
        self.is_over = True
        self._held.cancel()

    def _gone(self) -> None:
        self.is_over = True

    async def _hold(self, server: McpServer) -> None:
        try:
            async with _client(server, self._gone) as client:
                self._client.set_result(client)
                await self._end.wait()
        except BaseException as error:  # a client ends with whatever its transport raised
            if not self._client.done():
                self._client.set_exception(error if isinstance(error, Exception) else ConnectionError(describe(error)))
                self._client.exception()  # whoever waited for it may have gone
        finally:
            self.is_over = True
            self._end.set()


def _cause(error: BaseException) -> BaseException:
    """Return the error that a group of one wraps, as task groups raise it."""
    inner: Sequence[BaseException] = getattr(error, "exceptions", ())
    return _cause(inner[0]) if len(inner) == 1 else error


def _is_end(error: BaseException) -> bool:
    """Return whether an error of a call says that its connection has ended, or that the server knows it no more."""
    from anyio import BrokenResourceError, ClosedResourceError  # noqa: PLC0415 - a dependency of the extra
    from mcp import MCPError  # noqa: PLC0415 - an extra
    from mcp_types import CONNECTION_CLOSED, INVALID_REQUEST  # noqa: PLC0415 - a dependency of the extra

    if isinstance(error, MCPError):
        is_unknown = error.code == INVALID_REQUEST and "terminated" in error.message
        return is_unknown or error.code == CONNECTION_CLOSED
    return isinstance(error, OSError | BrokenResourceError | ClosedResourceError)


async def _all_tools(client: Any) -> list[Any]:
    """Return the tools that a server lists, on all pages."""
    page = await client.list_tools()
    found = list(page.tools)
    while page.next_cursor:
        page = await client.list_tools(cursor=page.next_cursor)
        found += page.tools
    return found


def _may_run_again(listed: Any) -> bool:
    """Return whether a server says that a tool only reads, or does nothing more when it is called again."""
    hints = listed.annotations
    return bool(hints and (hints.read_only_hint or hints.idempotent_hint))


@asynccontextmanager
async def _client(server: McpServer, gone: Callable[[], None]) -> AsyncGenerator[Any]:
    """Connect to a server. `gone` is called when its program has closed its output."""
    from mcp import Client, StdioServerParameters, stdio_client  # noqa: PLC0415 - an extra

    if not server.url:
        command = StdioServerParameters(
            command=server.command, args=list(server.args), env=_filled_in(server.env) or None
        )
        async with Client(_watched(stdio_client(command), gone)) as client:
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


@asynccontextmanager
async def _watched(transport: Any, gone: Callable[[], None]) -> AsyncGenerator[tuple[Any, Any]]:
    """Yield the streams of a transport, and call `gone` when its messages have ended."""
    import anyio  # noqa: PLC0415 - a dependency of the extra

    passed, received = anyio.create_memory_object_stream[Any](0)

    async def pass_on(messages: Any) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # nobody reads them any more
            async with passed:
                async for message in messages:
                    await passed.send(message)
        gone()

    async with passed, received, transport as (messages, answers), anyio.create_task_group() as group:
        group.start_soon(pass_on, messages)
        yield received, answers
        group.cancel_scope.cancel()


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
