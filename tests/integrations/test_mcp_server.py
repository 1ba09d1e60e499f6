"""The MCP server: a real client of the official SDK looks into some sessions of a store, and into no others."""

import asyncio
import sys

import pytest
from mcp import Client, StdioServerParameters, stdio_client

import foveal
from foveal import recall
from foveal.integrations.mcp_server import memory_server
from foveal.values.errors import NotFound


@pytest.fixture
def place(tmp_path):
    """Return the path of a store with three sessions, of which the last holds a secret."""
    path = tmp_path / "agent.db"
    with foveal.open_store(path) as store:
        for name, text in (
            ("one", "a cookie of chocolate"),
            ("two", "a cookie of the login"),
            ("three", "a cookie, secret"),
        ):
            with foveal.Session(store, name, model="gpt-5") as session:
                session.append(foveal.user("Read."))
                session.append(foveal.assistant("", foveal.ToolCall("c1", "read", "{}")))
                session.append(foveal.result("c1", f"line 0\n{text}\nline 2"), id=f"entry-{name}")
    return path


def ask(place, *calls, sessions=("one", "two")):
    """Start `foveal mcp`, and return the answers to some calls of its tools."""
    named = [word for name in sessions for word in ("--session", name)]
    command = StdioServerParameters(command=sys.executable, args=["-m", "foveal", "mcp", "--store", str(place), *named])

    async def talk():
        async with Client(stdio_client(command)) as client:
            answers = [await client.call_tool(name, arguments) for name, arguments in calls]
            return ["\n".join(getattr(block, "text", "") for block in one.content) for one in answers]

    return asyncio.run(talk())


def test_a_client_searches_and_recalls(place):
    """A hit names its session and its reference, and the reference leads to the original."""
    listed, found, again = ask(
        place,
        ("sessions", {}),
        ("search", {"query": "login cookie"}),
        ("recall", {"ref": "entry-two", "pattern": "cookie"}),
    )
    assert '"one"' in listed
    assert '"two"' in listed
    assert "three" not in listed
    assert "[session two]" in found
    assert "a cookie of the login" in found
    assert "entry-two" in found
    assert "a cookie of the login" in again


def test_other_sessions_are_out_of_reach(place):
    """Neither by search, nor by name, nor by reference does a client learn of a session that was not named."""
    answers = ask(
        place,
        ("search", {"query": "secret"}),
        ("search", {"query": "secret", "session": "three"}),
        ("recall", {"ref": "entry-three"}),
        ("recall", {"ref": "entry-three", "session": "three"}),
    )
    assert not any("a cookie, secret" in answer for answer in answers)
    assert "there is no session 'three' here" in answers[1]


def test_references_into_the_scope_are_out_of_reach():
    """A reference to another session of the same scope, which its own session could recall, is not followed."""
    store = foveal.open_store()
    policy = foveal.Policy(memory="project")
    for name in ("mine", "other"):
        with foveal.Session(store, name, model="gpt-5", policy=policy) as session:
            session.append(foveal.user(f"The word of {name} is kumquat."), id=f"said-{name}")
    with foveal.Session(store, "mine", model="gpt-5", policy=policy) as session:
        ref = recall.memory_ref("other", "said-other")
        assert "kumquat" in session.recall(ref)
    server = memory_server(store, ["mine"])
    answer = asyncio.run(server.call_tool("recall", {"ref": ref}))
    assert "kumquat" not in str(answer)
    assert "not served here" in str(answer)
    named = asyncio.run(server.call_tool("search", {"query": "kumquat", "session": "other"}))
    assert "there is no session 'other' here" in str(named)


def test_a_session_that_is_not_there_is_an_error():
    """A name that was mistyped is told at the start, and not found out by a client that finds nothing."""
    with pytest.raises(NotFound, match="there is no session 'fix'"):
        memory_server(foveal.open_store(), ["fix"])
