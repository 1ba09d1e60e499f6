"""Built-in tools: todos, questions, a shell and the web, the last two only where a person has allowed them."""

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

import foveal
from foveal.agent import ApprovalRule, Runs, UserAnswer
from foveal.agent import built_in_tools as built_in
from foveal.agent.built_in_tools import built_in_tools
from foveal.agent.run_events import TodosChanged, ToolEnded, ToolProgressed
from foveal.agent.run_log import read_events
from foveal.testing.provider.listener import LoopbackListener

from .conftest import FakeModel, agent_with, calls, collect, says

ALLOW = [ApprovalRule("*", verdict="allow")]


def ended(store, session="s"):
    return [(one.status, one.text) for one in read_events(store, session) if isinstance(one, ToolEnded)]


def test_todos_are_told_and_held_against_an_early_end(store):
    """The list is an event; a model that stops with open ones is reminded."""
    todos = [{"content": "a", "status": "completed"}, {"content": "b"}]
    model = FakeModel(calls("todo_write", todos=todos), says("Done."), says("b cannot be done."))
    outcome = asyncio.run(agent_with(model, *built_in_tools(["todos"])).run("Go.", session="s", store=store))
    assert outcome.text == "b cannot be done."
    assert ended(store) == [("ok", "[kept: 2 todos, 1 open]")]
    (told,) = [one for one in read_events(store, "s") if isinstance(one, TodosChanged)]
    assert told.todos[1] == {"content": "b"}
    assert "todos left open" in model.requests[-1]["messages"][-1]["content"]


def test_the_user_is_asked(store):
    """`ask_human` waits in the log for the answer."""
    model = FakeModel(calls("ask_human", question="Which?", options=["a", "b"]), says("b then."))
    agent = agent_with(model, *built_in_tools(["ask_human"]))

    async def talk():
        waiting = await agent.run("Go.", session="s", store=store)
        runs = Runs(store, [agent])
        await runs.resume(waiting.run, "b")
        return waiting, await runs.wait(waiting.run)

    waiting, outcome = asyncio.run(talk())
    assert (waiting.questions[0].options, outcome.text, ended(store)) == (("a", "b"), "b then.", [("ok", "b")])


@pytest.mark.parametrize("answer", [UserAnswer(decision="deny"), ""], ids=["denied", "empty"])
def test_a_question_that_the_user_leaves_open_is_told_as_such(store, answer):
    """An empty result could be taken for anything."""
    agent = agent_with(
        FakeModel(calls("ask_human", question="Which?"), says("Then a.")), *built_in_tools(["ask_human"])
    )

    async def talk():
        await agent.run("Go.", session="s", store=store)
        runs = Runs(store, [agent])
        await runs.resume("s", answer)
        await runs.wait("s")

    asyncio.run(talk())
    assert ended(store) == [("ok", "[no answer was given]")]


@pytest.mark.parametrize(
    ("name", "arguments"), [("shell", {"command": "true"}), ("fetch", {"url": "http://127.0.0.1:1/"})]
)
def test_shell_and_web_are_off_until_allowed(store, tmp_path, name, arguments):
    """Without a rule, each call waits for a person."""
    agent = agent_with(FakeModel(calls(name, **arguments)), *built_in_tools([name], tmp_path))
    outcome = asyncio.run(agent.run("Go.", session="s", store=store))
    assert (outcome.status, outcome.questions[0].kind, ended(store)) == ("awaiting_user", "approval", [])


def test_a_command_runs_in_the_workspace(store, tmp_path):
    """Its output and its exit code are the result, and its output is told as it comes."""
    (tmp_path / "a.txt").write_text("hello\n")
    model = FakeModel(calls("shell", command="cat a.txt; echo oops >&2; exit 3"), says("Bad."))
    agent = agent_with(model, *built_in_tools(["shell"], tmp_path), approvals=ALLOW)
    live = asyncio.run(collect(agent.stream("Go.", session="s", store=store)))
    assert ended(store) == [("error", "hello\noops\n\n[exit code 3]")]
    assert any("hello" in one.text for one in live if isinstance(one, ToolProgressed))


def test_a_command_that_hangs_is_ended_with_its_children(store, tmp_path):
    """After its time nothing of it runs on."""
    command = "(sleep 60; echo late > late.txt) & echo $! > pid; wait"
    model = FakeModel(calls("shell", command=command, timeout_s=0.3), says("Bad."))
    agent = agent_with(model, *built_in_tools(["shell"], tmp_path), approvals=ALLOW)
    asyncio.run(agent.run("Go.", session="s", store=store))
    assert ended(store)[0] == ("error", "[given up after 0.3 s]")
    child = Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}/stat")
    assert not child.exists() or child.read_text().split()[2] in "ZX"


def test_the_output_of_a_command_that_is_given_up_is_its_result(store, tmp_path):
    """The model sees how far it came: it may have had its effect, and is not run again."""
    command = "echo half done; sleep 60"
    model = FakeModel(calls("shell", command=command, timeout_s=1), says("Bad."))
    agent = agent_with(model, *built_in_tools(["shell"], tmp_path), approvals=ALLOW)
    asyncio.run(agent.run("Go.", session="s", store=store))
    assert ended(store)[0] == ("error", "half done\n\n[given up after 1 s]")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("lead", ["", "setsid "], ids=["beside it", "in a session of its own"])
def test_a_command_that_leaves_a_program_running_has_ended(store, tmp_path, monkeypatch, lead):
    """A server that was begun with `&` holds its output open; nobody waits for that until the time of the command is over."""
    monkeypatch.setattr(built_in, "LEFT_S", 0.2)
    command = f"{lead}sh -c 'echo $$ > pid; exec sleep 60' & until [ -s pid ]; do :; done; echo begun"
    model = FakeModel(calls("shell", command=command, timeout_s=20), says("Good."))
    agent = agent_with(model, *built_in_tools(["shell"], tmp_path), approvals=ALLOW)
    asyncio.run(agent.run("Go.", session="s", store=store))
    with suppress(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    left = "[programs that it left running were given up]"
    assert ended(store)[0] == ("ok", f"begun\n\n[exit code 0]\n{left}")


def test_words_that_come_behind_the_end_of_a_command_are_its_output(store, tmp_path):
    """A program that it has begun is about to end as well."""
    model = FakeModel(calls("shell", command="(sleep 0.05; echo late) & echo now"), says("Good."))
    agent = agent_with(model, *built_in_tools(["shell"], tmp_path), approvals=ALLOW)
    asyncio.run(agent.run("Go.", session="s", store=store))
    assert ended(store)[0] == ("ok", "now\nlate\n\n[exit code 0]")


def test_a_page_is_fetched(store):
    """As text; other schemes are refused."""
    served = LoopbackListener(lambda connection, _: connection.send(200, {"content-type": "text/plain"}, b"a page"), 0)
    served.start()
    try:
        model = FakeModel(calls("fetch", url=served.url), calls("fetch", url="file:///etc/passwd"), says("Read."))
        agent = agent_with(model, *built_in_tools(["fetch"]), approvals=ALLOW)
        asyncio.run(agent.run("Go.", session="s", store=store))
    finally:
        served.stop()
    assert ended(store)[0] == ("ok", "a page")
    assert "only http and https" in ended(store)[1][1]


def test_an_unknown_tool_is_told_with_the_nearest():
    """When the agent is made."""
    with pytest.raises(foveal.BadInput, match="Did you mean shell"):
        built_in_tools(["shel"])
