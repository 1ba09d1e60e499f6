"""Runs after the user went back in the conversation: what was said on a branch that was left counts no more."""

import asyncio

import pytest

import foveal
from foveal.agent import Runs
from foveal.agent.built_in_tools import built_in_tools
from foveal.agent.run_log import read_run

from .conftest import FakeModel, agent_with, calls, says


def rewind(store, entry: str) -> None:
    with foveal.Session(store, "s", model="gpt-5") as session:
        session.branches.rewind(entry, "by the user")


async def talk(store, *said) -> None:
    """Let one agent after the other answer these words."""
    runs = Runs(store, [agent for agent, _ in said])
    for agent, text in said:
        await runs.wait(await runs.start(agent, text, session="s"), 10)


def shown(request) -> list[str]:
    return [one["content"] for one in request["messages"]]


def test_an_agent_is_told_its_instructions_again_when_its_branch_was_left(store):
    """They stand on the branch that was left, and the model would not know them."""
    model = FakeModel(says("1"), says("2"), says("3"), says("4"))
    first, second = (agent_with(model, name=name, instructions=f"You are {name}.") for name in ("a", "b"))
    asyncio.run(talk(store, (first, "One.")))
    end = list(store.rows("s"))[-1].id
    asyncio.run(talk(store, (second, "Two.")))
    rewind(store, end)
    asyncio.run(talk(store, (second, "Two again."), (second, "Three.")))
    assert shown(model.requests[2]) == ["You are a.", "One.", "1", "You are b.", "Two again."]
    assert shown(model.requests[3]) == [*shown(model.requests[2]), "3", "Three."]


def test_an_agent_is_not_told_its_instructions_again_where_its_branch_has_them(store):
    """Also after the session went back to the branch that was left."""
    model = FakeModel(says("1"), says("2"), says("3"), says("4"))
    agent = agent_with(model, instructions="You are careful.")
    asyncio.run(talk(store, (agent, "One.")))
    end = list(store.rows("s"))[-1].id
    asyncio.run(talk(store, (agent, "Two.")))
    left = list(store.rows("s"))[-1].id
    rewind(store, end)
    asyncio.run(talk(store, (agent, "Two again.")))
    assert shown(model.requests[2]) == ["You are careful.", "One.", "1", "Two again."]
    rewind(store, left)
    asyncio.run(talk(store, (agent, "Three.")))
    assert shown(model.requests[3]) == ["You are careful.", "One.", "1", "Two.", "2", "Three."]


def test_a_client_that_tells_its_own_list_does_not_rid_the_agent_of_its_instructions(store):
    """Its list goes on behind them, though it does not tell them; where it leaves their branch, they are told again."""
    model = FakeModel(says("Yes."), says("Fine."), says("Well."))
    agent = agent_with(model, instructions="You are careful.")
    said = [foveal.user("Hi."), foveal.assistant("Hello.")]
    with foveal.Session(store, "s", model="gpt-5") as session:
        session.follow(said)
    asyncio.run(talk(store, (agent, "Read it.")))
    with foveal.Session(store, "s", model="gpt-5") as session:
        session.follow([*said, foveal.user("Read it."), foveal.assistant("Yes.")])
    asyncio.run(talk(store, (agent, "Next.")))
    assert shown(model.requests[1]) == ["Hi.", "Hello.", "You are careful.", "Read it.", "Yes.", "Next."]
    with foveal.Session(store, "s", model="gpt-5") as session:
        session.follow([*said, foveal.user("Stop."), foveal.assistant("So be it.")])
    asyncio.run(talk(store, (agent, "Last.")))
    assert shown(model.requests[2]) == ["Hi.", "Hello.", "Stop.", "So be it.", "You are careful.", "Last."]


@pytest.mark.parametrize("is_left", [True, False], ids=["left", "taken"])
def test_todos_count_on_their_branch_alone(store, is_left):
    """The model is not told to finish todos that it cannot see."""
    todo = {"content": "Mend it.", "status": "pending"}
    model = FakeModel(calls("todo_write", todos=[todo]), says("A."), says("B."), says("Hello."), says("Still open."))
    agent = agent_with(model, *built_in_tools(["todos"], "."))
    with foveal.Session(store, "s", model="gpt-5") as session:
        before = session.append(foveal.user("Before.")).id
    asyncio.run(talk(store, (agent, "One.")))
    rewind(store, before if is_left else list(store.rows("s"))[-1].id)
    assert read_run(store, "s").todos_open == (0 if is_left else 1)
    asyncio.run(talk(store, (agent, "Hi.")))
    assert len(model.requests) == (4 if is_left else 5)
