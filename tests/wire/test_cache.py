"""What a provider's prompt cache sees from call to call."""

import json
from typing import Any

import pytest

from foveal import Policy, result, system, user
from foveal.stores import Store
from foveal.testing.provider import ScriptedProvider
from foveal.testing.provider.replies import Call, Turn

from .lines import Line
from .test_loop import TOOLS, listing

pytestmark = pytest.mark.parametrize("line", ["anthropic"], indirect=True)


def marks(body: dict[str, Any]) -> list[str]:
    """The places of the cache breakpoints, in the order in which the provider reads the request."""
    places = [f"tools[{i}]" for i, tool in enumerate(body.get("tools", ())) if "cache_control" in tool]
    places += [f"system[{i}]" for i, block in enumerate(body.get("system", ())) if "cache_control" in block]
    for i, message in enumerate(body["messages"]):
        places += [f"messages[{i}][{k}]" for k, b in enumerate(message["content"]) if "cache_control" in b]
    return places


def blocks(body: dict[str, Any], *, upto: str | None = None) -> list[str]:
    """The request as the cache compares it: block by block, without the marks; as far as a breakpoint, if one is given."""
    listed: list[str] = []
    for name in ("tools", "system"):
        listed += [f"{name} {_plain(block)}" for block in body.get(name, ())]
    for i, message in enumerate(body["messages"]):
        for k, block in enumerate(message["content"]):
            listed.append(f"{message['role']} {_plain(block)}")
            if upto == f"messages[{i}][{k}]":
                return listed
    return listed


def _plain(block: dict[str, Any]) -> str:
    return json.dumps({key: value for key, value in block.items() if key != "cache_control"})


def play(provider: ScriptedProvider, line: Line, store: Store, policy: Policy | None = None) -> list[bool]:
    """Nine calls with tools, a word of the user, and an interruption. Which of them began with a fold?"""
    session = line.session(store, policy=policy)
    session.append(system("You repair programs."))
    session.append(user("Find the bug."))
    folded: list[bool] = []
    for i in range(9):
        provider.script(Turn(f"Step {i}.", (Call(f"a{i}"), Call(f"b{i}")), thinking=f"thought {i}"))
        prompt, _ = line.send(provider, session, TOOLS)
        folded.append(prompt.fold is not None)
        session.append(result(f"a{i}", listing(f"a{i}.py", 20)))
        if i != 4:
            session.append(result(f"b{i}", "fine"))
        if i in (2, 4):
            session.append(user("Go on, but faster."))
    return folded


def test_breakpoints_stand_after_the_system_prompt_at_the_previous_end_and_at_the_end(
    provider: ScriptedProvider, line: Line, store: Store
) -> None:
    """At most four, and where each call reads what the call before it wrote."""
    play(provider, line, store)
    assert marks(provider.arguments[0]) == ["system[0]", "messages[0][0]"]
    for before, after in zip(provider.arguments, provider.arguments[1:], strict=False):
        placed = marks(after)
        last = len(after["messages"]) - 1
        assert len(placed) <= 4
        assert placed == [
            "system[0]",
            marks(before)[-1],
            f"messages[{last}][{len(after['messages'][last]['content']) - 1}]",
        ]


def test_without_a_system_prompt_the_tools_end_with_a_breakpoint(
    provider: ScriptedProvider, line: Line, store: Store
) -> None:
    """Tools come first in the cached prefix; where no system prompt follows them, they carry the mark."""
    provider.script(Turn("Hello."))
    session = line.session(store)
    session.append(user("Hi."))
    line.send(provider, session, TOOLS)
    assert marks(provider.last.arguments) == ["tools[0]", "messages[0][0]"]


def test_between_folds_each_request_begins_with_all_of_the_one_before(
    provider: ScriptedProvider, line: Line, store: Store
) -> None:
    """Without the marks, what was sent is a prefix of what is sent next: same blocks, same bytes, same order."""
    folded = play(provider, line, store, Policy(max_context_tokens=4_000))
    assert any(folded)
    assert not all(folded)
    for before, after, fold in zip(provider.arguments, provider.arguments[1:], folded[1:], strict=False):
        if not fold:
            ours = blocks(before, upto=marks(before)[-1])
            assert blocks(after)[: len(ours)] == ours
            assert marks(before)[-1] in marks(after)
            assert plain_messages(after)[: len(before["messages"])] == plain_messages(before)


def plain_messages(body: dict[str, Any]) -> list[Any]:
    return [(m["role"], [_plain(block) for block in m["content"]]) for m in body["messages"]]
