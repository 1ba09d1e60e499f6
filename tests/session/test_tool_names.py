"""Tools whose names providers refuse: offered under a mended name, known to the host by their own."""

import json
from typing import Any

import pytest

from foveal.testing import oracles
from foveal.testing.builders import MODELS, Asks, Player, open_session
from foveal.text.tool_names import is_usable, sent_name
from foveal.values.entry import Message, Pin, ToolCall, result, user

DIALECTS = sorted(MODELS)
ODD = ("github.search", "github_search", "mcp:files/read", "n" * 200, "1st", "é", "has space")


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}, **more}}


def offered(dialect: str, request: dict[str, Any]) -> list[str]:
    match dialect:
        case "openai_chat":
            return [tool["function"]["name"] for tool in request["tools"]]
        case "gemini":
            return [one["name"] for tool in request["config"]["tools"] for one in tool["function_declarations"]]
        case _:
            return [tool["name"] for tool in request["tools"]]


def called(dialect: str, name: str) -> dict[str, Any]:
    """A reply that calls a tool, as the provider's SDK returns it."""
    match dialect:
        case "openai_chat":
            call = {"id": "c1", "type": "function", "function": {"name": name, "arguments": "{}"}}
            return {"choices": [{"message": {"role": "assistant", "tool_calls": [call]}}]}
        case "openai_responses":
            return {"output": [{"type": "function_call", "call_id": "c1", "name": name, "arguments": "{}"}]}
        case "anthropic":
            return {"content": [{"type": "tool_use", "id": "c1", "name": name, "input": {}}]}
        case _:
            part = {"function_call": {"id": "c1", "name": name, "args": {}}}
            return {"candidates": [{"content": {"role": "model", "parts": [part]}}]}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ODD)
def test_a_call_of_a_renamed_tool_comes_back_under_the_hosts_name(dialect: str, name: str) -> None:
    """Offered, called, served, answered and sent again: the provider sees one name, the host its own."""
    session = open_session(dialect=dialect)
    session.append(user("Go."))
    tools = [tool(one) for one in ODD]
    prompt = session.prompt(tools)
    assert oracles.problems(prompt) == []
    assert oracles.recount(prompt) <= prompt.tokens
    names = {prompt.renamed_tools.get(sent, sent): sent for sent in offered(dialect, prompt.request)}
    assert set(names) == set(ODD)
    session.append(called(dialect, names[name]))
    (call,) = session.serve()
    assert (call.id, call.name) == ("c1", name)
    session.append(result("c1", "found"))
    again = session.prompt(tools)
    assert oracles.problems(again) == []
    assert f'"{names[name]}"' in json.dumps(again.wires, default=str)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_renamed_tool_is_named_in_the_trace(dialect: str) -> None:
    """Whoever looks for the name that a provider complains about, or calls, finds the tool; also for a past call."""
    player = Player(dialect=dialect, tools=[tool("github.search"), tool("read")])
    player.play([user("Go."), Asks()])
    (line,) = [line for line in player.prompts[-1].trace.lines if line.kind == "tool"]
    assert line.entry == "github.search"
    assert sent_name("github.search") in line.because
    assert player.session.why(1) == player.prompts[-1].trace


def test_replies_that_are_appended_after_opening_again_are_mapped_back() -> None:
    """The log knows the offered tools: a reply that comes in another process has the host's name, and its retention."""
    player = Player(tools=[tool("github.search") | {"retention": {"mode": "reference"}}])
    player.play([user("Go."), Asks()])
    player.reopen()
    player.session.append(called("openai_chat", sent_name("github.search")))
    (call,) = player.session.serve()
    assert call.name == "github.search"
    entry = player.session.append(result("c1", "a long result " * 100))
    player.ask()
    line = next(line for line in player.prompts[-1].trace.lines if line.entry == entry.id)
    assert (line.shown, line.because) == ("reference", "github.search keeps a reference")


def test_pins_and_messages_of_the_host_go_by_its_own_names() -> None:
    """A host that appends messages of its own uses the names that it knows."""
    player = Player(tools=[tool("github.search")])
    said = Message("assistant", (ToolCall("c1", "github.search", "{}"),), MODELS["openai_chat"])
    player.play([user("Go."), Pin(tool="github.search"), said, result("c1", "found"), Asks()])
    assert player.session.view.atoms[-1].items[-1].shown[0].floor == "full"
    assert sent_name("github.search") in str(player.prompts[-1].request["messages"][1])


def test_names_that_differ_in_refused_characters_alone_stay_two() -> None:
    """A mended name ends in a mark of the original; a good name is not touched."""
    names = ["a.b", "a_b", "a:b", "a b", "x" * 65, "x" * 66, "\ud800", ""]
    assert len({sent_name(name) for name in names}) == len(names)
    assert all(map(is_usable, map(sent_name, names)))
    assert sent_name("a_b") == "a_b"
