"""Stored sessions to ask about: the bundled one, and a small agent that can be stepped."""

import pytest

from foveal import Policy, ToolCall, assistant, result, system, user
from foveal.analysis.replay.demo import BUDGET, demo_recording
from foveal.analysis.replay.replay import replay
from foveal.context.fences import FenceKind
from foveal.context.injection import NextCall
from foveal.context.reminders import ReminderRule
from foveal.session.options import Model
from foveal.session.policy import BudgetTable
from foveal.session.session import Session
from foveal.stores import MemoryStore

READ = {"name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}
WRITE = {"name": "write", "description": "Writes.", "parameters": {"type": "object", "properties": {}}}
KINDS = (
    FenceKind("rules", placement="after_system", role="system", lifetime="session"),
    FenceKind("found", placement="after_result", lifetime="session"),
)
CLOCK = ReminderRule("clock", "fact:time", "It is {time}.")


@pytest.fixture(scope="session")
def demo():
    """The bundled session in a store: the store, its name, and its replay."""
    store, recording = MemoryStore(), demo_recording()
    policy = Policy(budget=BudgetTable(limit=BUDGET, reserve=0))
    done = replay(recording, model="gpt-5", policy=policy, dialect="openai_chat", store=store)
    return store, recording.id, done


class Agent:
    """A session `s` in a store, stepped one call at a time."""

    def __init__(self, limit=20_000, model="gpt-5"):
        self.store, self.steps = MemoryStore(), 0
        self.session = self._open(limit, model)
        self.session.extend([system("Be brief."), user("Go.")])

    def _open(self, limit, model):
        policy = Policy(budget=BudgetTable(limit=limit, reserve=0), fences=KINDS, remind=True, reminders=(CLOCK,))
        return Session(self.store, "s", model=Model(model, "openai_chat"), policy=policy)

    def reopen(self, limit=20_000, model="gpt-5"):
        self.session.close()
        self.session = self._open(limit, model)

    def step(self, tools=(READ,), lines=30):
        """Ask for a prompt, answer it with a call, and append the result."""
        self.steps += 1
        prompt = self.session.prompt(tools, next_call=NextCall(facts={"time": f"12:{self.steps:02}"}))
        call = ToolCall(f"c{self.steps}", "read", f'{{"path": "{self.steps}.py"}}')
        self.session.extend([assistant("", call), result(call.id, f"line of {self.steps}\n" * lines)])
        return prompt


@pytest.fixture
def eventful():
    """A session with folds, fences that come and go, other tools, another model, pins and a rewind."""
    agent = Agent(limit=4_000)
    for _ in range(8):
        agent.step(lines=150)
    agent.session.context.inject("rules", "Be exact.", key="")
    agent.step()
    agent.session.context.inject("found", "Found it.", key="")
    agent.step()
    agent.step(tools=(READ, WRITE))
    agent.reopen(limit=8_000, model="gpt-4.1")
    entry = agent.session.view.facts.head
    assert entry is not None
    agent.step()
    agent.session.branches.rewind(entry, "try another way")
    agent.session.append(user("Another way."))
    agent.step()
    agent.session.context.inject("rules", "", key="")
    agent.step()
    agent.session.close()
    return agent.store
