"""Tools of MCP servers: a real server of the official SDK, in a process of its own, over its standard streams or over HTTP."""

import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager, suppress

import pytest

import foveal
from foveal.agent.agent_file import read_agent
from foveal.agent.mcp_tools import mcp_tools
from foveal.agent.run_events import ToolEnded
from foveal.agent.run_log import read_events
from foveal.values.errors import BadInput

from .conftest import FakeModel, agent_with, calls, says

SERVER = """
import os, sys
from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("tracker")

@server.tool()
def find(words: str) -> str:
    '''Find issues.'''
    return f"issue 7: {words} for {os.environ.get('WHO')}"

@server.tool()
def whoami(ctx: Context) -> str:
    return f"token {(ctx.headers or {}).get('x-token')}"

@server.tool()
def fail() -> str:
    '''Fail.'''
    raise ValueError("no such issue")

if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run("stdio")
"""


@pytest.fixture
def command(tmp_path, monkeypatch):
    monkeypatch.setenv("USER_NAME", "Ada")
    (tmp_path / "server.py").write_text(SERVER)
    return {"command": sys.executable, "args": [str(tmp_path / "server.py")], "env": {"WHO": "$USER_NAME"}}


def test_the_tools_of_a_server_are_called(command):
    """Under the server's name, with its schema, the retention of the server and variables of ours; a failure is an error."""
    store = foveal.open_store()
    with mcp_tools("tracker", command, retain="summary") as tools:
        found = {one.name: one for one in tools}
        assert found["tracker_find"].parameters["required"] == ["words"]
        assert found["tracker_find"].retain is not None
        replies = (calls("tracker_find", words="cookie"), calls("tracker_find"), calls("tracker_fail"), says("Done."))
        outcome = agent_with(FakeModel(*replies), *tools).run_sync("Look.", session="s", store=store)
    assert outcome.text == "Done."
    results = [(one.status, one.text) for one in read_events(store, "s") if isinstance(one, ToolEnded)]
    assert results[0] == ("ok", "issue 7: cookie for Ada")
    assert [status for status, _ in results[1:]] == ["error", "error"]
    assert "fail" in results[2][1]  # the SDK keeps the words of an exception from clients


@contextmanager
def serving(command):
    """Serve the same tools over HTTP, in a process of its own; yield the address when it answers."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen([command["command"], *command["args"], str(port)], stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(3_000):
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
                    break
                threading.Event().wait(0.01)
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.kill()


def test_a_server_may_be_an_address(command, monkeypatch):
    """Streamable HTTP, by the official SDK on both sides, with headers; calls of several runs use one connection."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("WHO", "Bob")
    store = foveal.open_store()
    monkeypatch.setenv("TRACKER_TOKEN", "t-1")
    address = {"headers": {"x-token": "$TRACKER_TOKEN"}, "tools": ["find", "fail", "whoami"]}
    with serving(command) as url, mcp_tools("tracker", {"url": url, **address}) as tools:
        assert [one.name for one in tools] == ["tracker_find", "tracker_whoami", "tracker_fail"]
        both = says("", ("tracker_find", {"words": "cookie"}), ("tracker_fail", {}), ("tracker_whoami", {}))
        model = FakeModel(both, says("Done."), calls("tracker_find", words="session"), says("Done."))
        agent = agent_with(model, *tools)
        for text in ("Look.", "Again."):
            assert agent.run_sync(text, session="s", store=store).text == "Done."
    results = sorted((one.status, one.text) for one in read_events(store, "s") if isinstance(one, ToolEnded))
    assert [status for status, _ in results] == ["error", "ok", "ok", "ok"]
    told = [text for _, text in results[1:]]
    assert told == ["issue 7: cookie for Bob", "issue 7: session for Bob", "token t-1"]


def test_a_server_that_goes_away_is_an_error_of_the_call(command, monkeypatch):
    """The run goes on; nothing waits for the server."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    store = foveal.open_store()
    with ExitStack() as stack:
        server = stack.enter_context(ExitStack())
        url = server.enter_context(serving(command))
        tools = stack.enter_context(mcp_tools("tracker", {"url": url}, timeout_s=20))
        server.close()
        agent = agent_with(FakeModel(calls("tracker_find", words="x"), says("Too bad.")), *tools)
        assert agent.run_sync("Look.", session="s", store=store).text == "Too bad."
    assert [one.status for one in read_events(store, "s") if isinstance(one, ToolEnded)] == ["error"]


def test_a_file_names_servers(command, tmp_path):
    """With the tools to take; a call of a guarded server waits for a person."""
    (tmp_path / "agent.toml").write_text(
        f'model = "gpt-5"\n[mcp.servers.tracker]\ncommand = "{command["command"]}"\nargs = {command["args"]}\n'
        'tools = ["find"]\nguarded = true\n'
    )
    model = FakeModel(calls("tracker_find", words="cookie"))
    agent = read_agent(tmp_path / "agent.toml", open_model=lambda _: model)
    assert list(agent.toolset) == ["tracker_find"]
    assert agent.run_sync("Look.").status == "awaiting_user"


@pytest.mark.parametrize(
    ("server", "said"),
    [
        ({"command": "no-such-program"}, "the MCP server 'tracker' cannot be used"),
        ({}, "a command or a url"),
        ({"command": "x", "url": "http://localhost"}, "one of the two"),
        ({"command": "x", "headers": {"a": "b"}}, "a command has env"),
        ({"comand": "x"}, "comand"),
        ({"command": sys.executable, "args": ["-c", "pass"]}, "the MCP server 'tracker' cannot be used"),
        ({"url": "http://127.0.0.1:9/mcp"}, "the MCP server 'tracker' cannot be used"),
    ],
)
def test_servers_that_cannot_be_used(server, said):
    """Are told in one line, with the name of the server."""
    with pytest.raises(BadInput, match=said), mcp_tools("tracker", server):
        pass


def test_a_tool_that_a_server_does_not_have(command):
    """Is named together with those that it has."""
    with (
        pytest.raises(BadInput, match=r"no tool 'lose'; it has \['fail', 'find', 'whoami'\]"),
        mcp_tools("t", command, tools=["lose"]),
    ):
        pass


RAW = """
import json, os, sys

log, pages = sys.argv[1], (["look", "send"], ["bye"])
if os.path.exists(log + ".gone"):
    sys.exit(1)
hints = {"look": {"annotations": {"readOnlyHint": True}}, "bye": {"annotations": {"idempotentHint": True}}}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    params, answer = asked.get("params") or {}, {"error": {"code": -32601, "message": "unknown"}}
    match asked["method"]:
        case "initialize":
            about = {"name": "raw", "version": "1"}
            version = params["protocolVersion"]
            answer = {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}}
        case "tools/list":
            page = "cursor" in params
            tools = [{"name": one, "inputSchema": {"type": "object"}, **hints.get(one, {})} for one in pages[page]]
            answer = {"result": {"tools": tools, **({} if page else {"nextCursor": "more"})}}
        case "tools/call":
            with open(log, "a") as kept:
                kept.write(params["name"] + " ")
            if params["name"] == "send":
                os._exit(3)
            answer = {"result": {"content": [{"type": "text", "text": "seen"}]}}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
    if params.get("name") == "bye":
        os._exit(0)
"""


@pytest.fixture
def raw(tmp_path):
    """A server that lists its tools in two pages; one of them ends it, another one does so behind its answer."""
    (tmp_path / "raw.py").write_text(RAW)
    return {"command": sys.executable, "args": [str(tmp_path / "raw.py"), str(tmp_path / "log")]}


def told_by(store):
    return [(one.status, one.text) for one in read_events(store, "s") if isinstance(one, ToolEnded)]


def test_a_server_that_ends_during_a_call_is_connected_again_for_the_next_one(raw, tmp_path, store):
    """The call that was under way is not made again by itself: the model is told that it may have had its effect."""
    model = FakeModel(calls("raw_send"), calls("raw_look"), says("Done."))
    with mcp_tools("raw", raw) as tools:
        assert agent_with(model, *tools).run_sync("Go.", session="s", store=store).text == "Done."
    (first, told), second = told_by(store)
    assert (first, "may have had its effect" in told, "'raw'" in told) == ("error", True, True)
    assert second == ("ok", "seen")
    assert (tmp_path / "log").read_text().split() == ["send", "look"]


def test_a_server_that_has_ended_between_two_calls_is_connected_again(raw, store):
    """A model that looks again gets its answer, however soon after the end it does so."""

    def reply(request):
        last = request["messages"][-1]
        return says("Done.") if last.get("content") == "seen" and len(model.requests) > 2 else calls("raw_look")

    model = FakeModel(by=lambda request: calls("raw_bye") if len(model.requests) == 1 else reply(request))
    with mcp_tools("raw", raw) as tools:
        assert agent_with(model, *tools).run_sync("Go.", session="s", store=store).text == "Done."
    assert told_by(store)[-1] == ("ok", "seen")


def test_a_server_that_cannot_be_connected_again_runs_nothing(raw, tmp_path, store):
    """The model is told that the call was not made; the run goes on."""
    model = FakeModel(calls("raw_send"), calls("raw_look"), says("Too bad."))
    with mcp_tools("raw", raw) as tools:
        (tmp_path / "log.gone").touch()
        assert agent_with(model, *tools).run_sync("Go.", session="s", store=store).text == "Too bad."
    status, told = told_by(store)[1]
    assert (status, told.startswith("[not run: the MCP server 'raw' cannot be reached")) == ("error", True)


def test_a_call_after_the_end_of_the_connection_is_an_error(raw, store):
    """Whoever keeps the tools longer than the block gets no answer from them, and no hang."""
    with mcp_tools("raw", raw) as tools:
        pass
    assert (
        agent_with(FakeModel(calls("raw_look"), says("Done.")), *tools).run_sync("Go.", session="s", store=store).text
    )
    [(status, told)] = told_by(store)
    assert (status, "is closed" in told) == ("error", True)


def test_all_pages_of_a_list_of_tools_are_read(raw):
    """A tool on the second page is a tool as well; only one that says that it may be is run again after a crash."""
    with mcp_tools("raw", raw) as tools:
        assert {one.name: one.retry for one in tools} == {
            "raw_look": "again",
            "raw_send": "never",
            "raw_bye": "again",
        }
