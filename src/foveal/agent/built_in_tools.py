"""Tools that an agent may name: todos, files, a question to the user, a shell and the web. The last two ask before each call."""

import asyncio
import os
import signal
import urllib.request
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Literal
from urllib.parse import urlsplit

import msgspec

from foveal.agent.file_tools import file_tools
from foveal.agent.near_names import did_you_mean
from foveal.agent.run_state import TODO_TOOL
from foveal.agent.tools import AskUser, Tool, ToolContext, ToolOutput, tool
from foveal.values.errors import BadInput

MOST_OUTPUT_BYTES = 16 << 20
"""Output of a command, and size of a page, above which the rest is left out."""
SHELL_S, FETCH_S = 300.0, 60.0
LEFT_S = 2.0
"""Seconds for which programs that a command has left running may still say something; then they are given up. A server that was
begun with `&` would else be waited for until the time of the command is over."""
_SUMMARY = {"mode": "summary", "limit_tokens": 2_000}


class TodoItem(msgspec.Struct, frozen=True):
    """One thing to do."""

    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"] = "pending"


@tool(name=TODO_TOOL)
def todo_write(todos: list[TodoItem]) -> str:
    """Keep a list of the steps of a longer task, always as a whole. Mark one in progress, and each as soon as it is done."""
    left = sum(one.status in ("pending", "in_progress") for one in todos)
    return f"[kept: {len(todos)} todos, {left} open]"


@tool(name="todo_read")
def todo_read(ctx: ToolContext) -> str:
    """Read the list of todos as it was last written."""
    return "\n".join(f"[{one.get('status', 'pending')}] {one.get('content', '')}" for one in ctx.todos) or "[no todos]"


@tool(name="ask_human", timeout_s=None)
async def ask_human(
    ctx: ToolContext,
    question: str,
    options: Annotated[list[str], msgspec.Meta(description="answers to suggest; the user may give another")] = [],  # noqa: B006 - copied
    otherwise: Annotated[str | None, msgspec.Meta(description="the answer to go on with if nobody answers")] = None,
) -> str:
    """Ask the user, if the task cannot be done well without an answer. The answer may take long."""
    if ctx.answer is None:
        raise AskUser(question, options, otherwise=otherwise)
    return ctx.answer.text or "[no answer was given]"


def shell_tool(folder: str | os.PathLike[str]) -> Tool:
    """Return a tool that runs commands in a folder. Each call must be allowed, and none is run twice."""

    @tool(name="shell", retry="never", timeout_s=None, serial=True, guarded=True, retain=_SUMMARY)
    async def shell(ctx: ToolContext, command: str, timeout_s: float = SHELL_S) -> ToolOutput:
        """Run a command in the workspace, and return its output and its exit code. Programs that it leaves running are ended."""
        output = _CommandOutput()
        async with _pipe() as (stream, end):
            try:
                program = await asyncio.create_subprocess_exec(
                    "/bin/sh",
                    "-c",
                    command,
                    cwd=folder,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=end.fileno(),
                    stderr=asyncio.subprocess.STDOUT,
                    start_new_session=True,  # so that its children can be ended with it
                )
            finally:
                end.close()
            reading = asyncio.create_task(output.read(stream, ctx))
            try:
                async with asyncio.timeout(timeout_s):
                    code = await program.wait()
                await asyncio.wait((reading,), timeout=LEFT_S)
            except TimeoutError:
                lead = f"{output.text}\n" if output.text else ""
                return ToolOutput(f"{lead}[given up after {timeout_s:g} s]", "error")
            finally:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(program.pid, signal.SIGKILL)
                await program.wait()
                is_whole = not reading.cancel()
        left = "" if is_whole else "\n[programs that it left running were given up]"
        status = "ok" if code == 0 else "error"
        return ToolOutput(f"{output.text}\n[exit code {code}]{left}", status, f"{command[:80]}: exit code {code}")

    return shell


@asynccontextmanager
async def _pipe() -> AsyncGenerator[tuple[asyncio.StreamReader, IO[bytes]]]:
    """Open a pipe: its stream, and the end that is written. It is closed although somebody may hold that end for ever."""
    reading, writing = os.pipe()
    stream = asyncio.StreamReader()
    with os.fdopen(writing, "wb", 0) as end:
        protocol = asyncio.StreamReaderProtocol(stream)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, os.fdopen(reading, "rb", 0))
        try:
            yield stream, end
        finally:
            transport.close()


class _CommandOutput:
    """The output of a command as far as it has come, the beginning of a very long one."""

    def __init__(self) -> None:
        self._kept, self._size = list[bytes](), 0

    async def read(self, stream: asyncio.StreamReader, ctx: ToolContext) -> None:
        """Read all output of a program; its lines are told as they come."""
        while piece := await stream.read(1 << 16):
            self._size += len(piece)
            ctx.progress(piece[-2_000:].decode("utf-8", "replace"))
            if self._size <= MOST_OUTPUT_BYTES:
                self._kept.append(piece)

    @property
    def text(self) -> str:
        left_out = f"\n[{self._size - MOST_OUTPUT_BYTES:,} more bytes]" if self._size > MOST_OUTPUT_BYTES else ""
        return b"".join(self._kept).decode("utf-8", "replace") + left_out


@tool(name="fetch", timeout_s=FETCH_S, guarded=True, retain=_SUMMARY)
def fetch(url: str) -> str:
    """Fetch a page of the web as text."""
    if urlsplit(url).scheme not in ("http", "https"):
        raise BadInput(f"{url}: only http and https addresses are fetched")
    request = urllib.request.Request(url, headers={"user-agent": "foveal"})  # noqa: S310 - the scheme was looked at
    with urllib.request.urlopen(request, timeout=FETCH_S) as page:  # noqa: S310
        return page.read(MOST_OUTPUT_BYTES).decode(page.headers.get_content_charset() or "utf-8", "replace")


def built_in_tools(names: Iterable[str], workspace: str | os.PathLike[str] = ".") -> tuple[Tool, ...]:
    """Return the built-in tools of these names, for the files below a workspace. `files` stands for the five file tools."""
    known = _known(Path(workspace))
    chosen: dict[str, Tool] = {}
    for name in names:
        if name not in known:
            raise BadInput(f"there is no built-in tool {name!r}. {did_you_mean(name, known)}")
        chosen |= {one.name: one for one in known[name]}
    return tuple(chosen.values())


def _known(workspace: Path) -> Mapping[str, tuple[Tool, ...]]:
    files = file_tools(workspace)
    others = (todo_write, todo_read, ask_human, shell_tool(workspace), fetch)
    named = {one.name: (one,) for one in (*files, *others)}
    return {**named, "files": files, "todos": (todo_write, todo_read)}
