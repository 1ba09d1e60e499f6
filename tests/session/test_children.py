"""Children: sessions for sub-agents, which see what they are given and nothing else."""

import asyncio
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest

from foveal import AsyncSession, Policy, ToolCall, assistant, result, system, user
from foveal.context.environment import Environment
from foveal.context.fences import FenceKind
from foveal.context.injection import NextCall
from foveal.context.instructions import Instructions
from foveal.context.toolbox import toolbox
from foveal.context.workspace import Workspace
from foveal.recall.search import search
from foveal.session.options import Clock, Host, Model
from foveal.session.policy import BudgetTable
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.testing import oracles
from foveal.testing.builders import MODELS, READ_TOOL, counted_ids
from foveal.values.errors import BadInput, NotFound, OverBudget
from foveal.values.own_tools import RECALL_TOOL
from foveal.values.prompt import Prompt

DIALECTS = sorted(MODELS)
EVERY = pytest.mark.parametrize("dialect", DIALECTS)
KINDS = (
    FenceKind("rules", role="system", placement="after_system", lifetime="session", must_keep=True),
    FenceKind("docs", lifetime="turn"),
)
WRITE_TOOL = {"name": "write", "description": "Writes a file.", "parameters": {"type": "object", "properties": {}}}


def policy(limit: int) -> Policy:
    return Policy(budget=BudgetTable(limit=limit, reserve=0), fences=KINDS)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def parent_of(store: MemoryStore, dialect: str = "openai_chat", **options: Any) -> Session:
    session = Session(
        store,
        "parent",
        model=Model(MODELS[dialect], dialect),
        policy=policy(20000),
        host=Host(**options),
        clock=Clock(new_id=counted_ids("parent"), now_ms=count().__next__),
    )
    session.extend([system("PARENT SYSTEM"), user("PARENT REQUEST")])
    session.context.inject("rules", "RULES", key="")
    session.context.inject("docs", "DOCS")
    session.extend([assistant("", ToolCall("c1", "read", "{}")), result("c1", "PARENT SECRET\n" * 30)])
    session.prompt([READ_TOOL])
    return session


def texts(prompt: Prompt) -> str:
    return "\n".join(oracles.strings(prompt.request))


def offered(prompt: Prompt) -> list[str]:
    tools = msgspec.json.decode(prompt.setup.tools, type=list[dict[str, Any]])
    return [one.get("function", one)["name"] for one in tools]


@EVERY
def test_a_child_sees_its_task_and_what_it_was_given(store: MemoryStore, dialect: str) -> None:
    """Its task, the fences of the kinds that were named and the tools that were named: nothing else of its parent."""
    parent = parent_of(store, dialect)
    child = parent.children.open("scout", "TASK", tools=["read"], fences=["rules"])
    prompt = child.prompt([READ_TOOL, WRITE_TOOL])
    assert "TASK" in texts(prompt)
    assert "RULES" in texts(prompt)
    assert not any(word in texts(prompt) for word in ("PARENT", "DOCS", "SECRET"))
    assert offered(prompt) == ["read"]
    assert (prompt.setup.model, prompt.setup.dialect) == (MODELS[dialect], dialect)
    assert oracles.problems(prompt) == []
    assert (child.view.facts.first_user, child.view.facts.turns) == (child.view.facts.last_user, 1)


def test_a_child_that_is_given_nothing_has_nothing(store: MemoryStore) -> None:
    """By default no tool and no fence."""
    prompt = parent_of(store).children.open("scout", "TASK").prompt([READ_TOOL, WRITE_TOOL])
    assert offered(prompt) == []
    assert [message["content"] for message in prompt.request["messages"]] == ["TASK"]


def test_fences_of_a_child_begin_their_life_with_it(store: MemoryStore) -> None:
    """One for a turn lives for the child's first turn, however old it was."""
    child = parent_of(store).children.open("scout", "TASK", tools=["read"], fences=["docs"])
    assert "DOCS" in texts(child.prompt([READ_TOOL]))
    child.extend([assistant("", ToolCall("k1", "read", "{}")), result("k1", "ok")])
    assert "DOCS" in texts(child.prompt([READ_TOOL]))
    child.extend([assistant("Done."), user("More.")])
    assert "DOCS" not in texts(child.prompt([READ_TOOL]))


def test_a_child_keeps_the_instructions_that_it_was_given(store: MemoryStore, tmp_path: Path) -> None:
    """Its parent's files are not read again for it; without the allow-list it does not see them."""
    (tmp_path / "AGENTS.md").write_text("Always run make test.")
    parent = parent_of(store, environment=Environment(instructions=Instructions.load(tmp_path)))
    given = parent.children.open("given", "TASK", fences=["instructions"])
    for _ in range(2):
        assert "Always run make test." in texts(given.prompt())
    assert "Always run" not in texts(parent.children.open("sealed", "TASK").prompt())


def test_a_child_shows_the_instructions_it_was_given_at_once(store, tmp_path):
    """Also where neither its policy nor an environment of its own has fences."""
    (tmp_path / "AGENTS.md").write_text("Be brief.")
    given = Environment(instructions=Instructions.load(tmp_path))
    parent = Session(store, "plain", model="gpt-5", host=Host(environment=given))
    parent.append(user("hi"))
    parent.prompt()
    assert "Be brief." in texts(parent.children.open("scout", "Look around.", fences=["instructions"]).prompt())


def test_a_toolbox_of_a_child_is_held_to_the_list(store: MemoryStore) -> None:
    """What it finds or mentions beyond that is not offered."""
    box = toolbox(core=[WRITE_TOOL], on_demand=[{"name": "send_mail"}, {"name": "send_fax"}])
    child = parent_of(store).children.open(
        "scout", "Use @send_mail.", tools=["send_fax"], host=Host(environment=Environment(toolbox=box))
    )
    assert offered(child.prompt()) == ["foveal_tools"]
    child.append(assistant("", ToolCall("t1", "foveal_tools", '{"query": "send"}')))
    assert child.serve() == []
    assert offered(child.prompt()) == ["foveal_tools", "send_fax"]


def test_a_child_has_a_window_of_its_own(store: MemoryStore) -> None:
    """Its budget is its policy's; folding it folds nothing of its parent, and a fold of its parent nothing of it."""
    parent = parent_of(store)
    child = parent.children.open("scout", "TASK", tools=["read"], policy=policy(1_500))
    before = parent.view.size
    for n in range(10):
        child.extend([assistant("", ToolCall(f"k{n}", "read", "{}")), result(f"k{n}", f"line {n}\n" * 80)])
        assert child.prompt([READ_TOOL]).tokens <= 1_500
    assert child.view.facts.folds
    assert (parent.view.size, parent.view.facts.folds) == (before, 0)
    with pytest.raises(OverBudget, match="limit is 1,500"):
        parent.children.open("other", "TASK", system="RULE " * 3_000, policy=policy(1_500)).prompt()


def test_references_are_good_in_one_session_only(store: MemoryStore) -> None:
    """A reference of the parent's is for the child what a made-up one is, and the other way round: the same words."""
    parent = parent_of(store)
    child = parent.children.open("scout", "TASK", tools=["read"])
    child.extend([assistant("", ToolCall("k1", "read", "{}")), result("k1", "CHILD SECRET")])
    assert child.view.facts.head is not None
    theirs, ours = child.view.facts.head[:10], parent.view.atoms[-1].items[-1].id[:10]
    absent = "zzzzzzzzzz"
    for session, foreign in ((child, ours), (parent, theirs)):
        said = []
        for ref in (foreign, absent):
            with pytest.raises(NotFound) as caught:
                session.recall(ref)
            said.append(str(caught.value).replace(ref, "REF"))
        assert said[0] == said[1]
    assert search(store, child.name, "PARENT") == []
    assert search(store, parent.name, "CHILD") == []


def test_the_recall_tool_of_a_child_knows_no_other_session(store: MemoryStore) -> None:
    """Whatever the model asks it for."""
    parent = parent_of(store)
    child = parent.children.open("scout", "TASK", tools=["read"], policy=policy(1_000))
    child.extend([assistant("", ToolCall("k1", "read", "{}")), result("k1", "line\n" * 3_000)])
    assert RECALL_TOOL in offered(child.prompt([READ_TOOL]))
    asked = [parent.view.atoms[-1].items[-1].id[:10], f"{parent.view.atoms[0].first}..{parent.view.facts.head}"]
    calls = [ToolCall(f"r{i}", RECALL_TOOL, msgspec.json.encode({"ref": ref}).decode()) for i, ref in enumerate(asked)]
    child.append(assistant("", *calls))
    assert child.serve() == []
    assert "PARENT" not in texts(child.prompt([READ_TOOL]))


def test_a_child_goes_on_where_it_was(store: MemoryStore) -> None:
    """Asked for again under its name, it has what happened to it, and its task once."""
    parent = parent_of(store)
    child = parent.children.open("scout", "TASK", tools=["read"], fences=["rules"])
    child.append(assistant("Half done."))
    child.close()
    again = parent.children.open("scout", "TASK", tools=["read"], fences=["rules"])
    again.append(user("Go on."))
    prompt = again.prompt([READ_TOOL])
    assert texts(prompt).count("TASK") == 1
    assert texts(prompt).count("RULES") == 1
    assert "Half done." in texts(prompt)


def test_what_a_child_returns_is_all_that_its_parent_gets(store: MemoryStore) -> None:
    """The parent's log grows by what its host appends, and by nothing else."""
    parent = parent_of(store)
    head = parent.view.facts.head
    child = parent.children.open("scout", "TASK", tools=["read"])
    child.extend([assistant("", ToolCall("k1", "read", "{}")), result("k1", "CHILD SECRET")])
    child.prompt([READ_TOOL])
    assert parent.view.facts.head == head
    assert "CHILD" not in texts(parent.prompt([READ_TOOL]))


def test_the_summary_of_a_parent_names_the_children_that_run(store: MemoryStore) -> None:
    """Code keeps the list: who was started in the background and has not come back is in the summary, over folds."""
    parent = Session(store, "boss", model="gpt-5", policy=policy(3000), clock=Clock(new_id=counted_ids("boss")))
    parent.append(user("Do it all."))
    for name, about in (("a1", "Look for the bug"), ("a2", "Read the docs")):
        call = ToolCall(name, "Task", msgspec.json.encode({"description": about, "prompt": about}).decode())
        parent.extend([assistant("", call), result(name, f"Async agent launched. agentId: {name}-child")])
    done = ToolCall("w1", "TaskOutput", '{"task_id": "a2-child"}')
    parent.extend([assistant("", done), result("w1", "<status>completed</status> all read")])
    prompt = None
    for n in range(14):
        call = ToolCall(f"c{n}", "read", f'{{"path": "{n}.py"}}')
        parent.extend([assistant("", call), result(f"c{n}", "\n".join(f"line {k} of {n}" for k in range(120)))])
        prompt = parent.prompt([READ_TOOL])
    assert prompt is not None
    summary = next(atom.gap.text for atom in prompt.atoms if atom.gap)
    assert "Look for the bug" in summary
    assert "a1-child" in summary
    assert "a2-child: " not in summary


def test_a_kind_of_fence_that_nobody_knows_is_no_gift(store: MemoryStore) -> None:
    """The error names the nearest; no child was made."""
    with pytest.raises(BadInput, match="Did you mean `rules`"):
        parent_of(store).children.open("scout", "TASK", fences=["rule"])
    assert store.cards("parent/scout") == []


def test_asyncio_programs_have_the_same(store: MemoryStore, tmp_path: Path) -> None:
    """inject, remind, attach, child and what the host knows, under the same names."""

    async def work() -> str:
        options = Policy(fences=KINDS, remind=True)
        around = Environment(workspace=Workspace.open(tmp_path / "spaces", "a"))
        async with AsyncSession(store, "a", model="gpt-5", policy=options, host=Host(environment=around)) as session:
            await session.append(user("Go."))
            await session.context.inject("rules", "RULES", key="")
            await session.context.remind("Look here.")
            (tmp_path / "a.txt").write_text("hello")
            await session.context.attach(tmp_path / "a.txt")
            said = texts(await session.prompt(next_call=NextCall(steps_left=2)))
            async with await session.children.open("scout", "TASK", fences=["rules"]) as child:
                return said + texts(await child.prompt())

    said = asyncio.run(work())
    assert all(word in said for word in ("RULES", "Look here.", "hello", "Steps left: 2.", "TASK"))


def test_another_task_under_the_same_name_is_a_new_request(store: MemoryStore) -> None:
    """A child that is opened again with something else to do hears of it, once."""
    parent = parent_of(store)
    with parent.children.open("scout", "Find the slow targets."):
        pass
    for _ in range(2):
        with parent.children.open("scout", "Now list the fast ones.") as child:
            said = [message["content"] for message in child.prompt().request["messages"] if message["role"] == "user"]
            assert said == ["Find the slow targets.", "Now list the fast ones."]
    with parent.children.open("scout", "Find the slow targets.") as child:
        assert len([entry for entry in child.view.atoms if entry.kind == "user"]) == 2


def test_a_child_has_a_system_prompt_of_its_own(store: MemoryStore) -> None:
    """It is the first message; the parent's is not among them."""
    messages = parent_of(store).children.open("scout", "TASK", system="You are terse.").prompt().request["messages"]
    assert [(message["role"], message["content"]) for message in messages] == [
        ("system", "You are terse."),
        ("user", "TASK"),
    ]


@pytest.mark.parametrize("name", ["", "scout/deep", "/", "../boss"])
def test_a_name_that_reaches_into_another_session_is_refused(store: MemoryStore, name: str) -> None:
    """A child's name is one step below its parent's."""
    with pytest.raises(BadInput, match="cannot name a child"):
        parent_of(store).children.open(name, "TASK")


def test_a_child_inherits_the_newest_turns(store: MemoryStore) -> None:
    """From the user's request on, without the call that the child is opened for; also past a rewind, and only when it is new."""
    parent = parent_of(store)
    parent.extend([user("First."), assistant("One.")])
    kept = parent.append(user("Second."))
    parent.append(assistant("lost"))
    parent.branches.rewind(kept.id)
    parent.extend([assistant("", ToolCall("c1", "read", "{}")), result("c1", "READ"), assistant("Two.")])
    parent.extend([user("Third."), assistant("", ToolCall("c2", "spawn", "{}"))])
    child = parent.children.open("fork", "TASK", inherit_turns=2)
    sent = [str(message.get("content") or "call") for message in child.prompt().request["messages"]]
    assert sent == ["Second.", "call", "READ", "Two.", "Third.", "TASK"]
    child.close()
    again = parent.children.open("fork", "TASK", inherit_turns=3)
    assert len(again.view.atoms) == 5
    with pytest.raises(BadInput, match="inherit_turns is -1"):
        parent.children.open("other", "TASK", inherit_turns=-1)
