"""Threads of LangGraph with a past: imported from a checkpointer, and gone on with."""

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, RemoveMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.message import REMOVE_ALL_MESSAGES

from foveal.integrations.langchain import FovealMiddleware
from foveal.integrations.langgraph_threads import import_thread
from foveal.testing.adapter_contract import TASK, AdapterContract, ContractAgent, end_of
from foveal.testing.provider import Read, Step
from foveal.values.entry import Message
from foveal.values.errors import BadInput

CONFIG: Any = {"configurable": {"thread_id": "t"}}
KEY: Any = "any"


@pytest.fixture
def agent(tmp_path: Path) -> Any:
    steps = [Step(f"Step {number}.", do=(Read(f"f{number}.py"),)) for number in range(3)]
    made = AdapterContract().agent(tmp_path, *steps, Step("Read."), Step("Yes."))
    yield made
    made.close()


def graph(agent: ContractAgent, past: InMemorySaver, *middleware: Any) -> Any:
    model = ChatOpenAI(model="gpt-5", base_url=f"{agent.url}/v1", api_key=KEY, use_responses_api=False)
    return create_agent(model, [tool(agent.read_file)], middleware=middleware, checkpointer=past)


def texts(agent: ContractAgent) -> str:
    return str([entry.body for entry in agent.entries() if isinstance(entry.body, Message)])


def test_a_past_is_imported_once_and_gone_on_with(agent):
    """An imported thread is one session; a second import writes nothing, and the next call goes on without a step back."""
    past, fitted = InMemorySaver(), FovealMiddleware(agent.store, agent.policy)
    graph(agent, past).invoke({"messages": [HumanMessage(TASK)]}, CONFIG)
    assert import_thread(past, "t", into=fitted, model="gpt-5")
    assert sum(isinstance(entry.body, Message) for entry in agent.entries("t")) == 8
    assert import_thread(past, "t", into=fitted, model="gpt-5") == 0
    graph(agent, past, fitted).invoke({"messages": [HumanMessage("All?")]}, CONFIG)
    assert (agent.sessions(), agent.rewinds()) == (["t"], 0)


def test_messages_that_a_summary_replaced_are_imported(agent):
    """Words that are only in older checkpoints are kept in the log, and the thread goes on from its newest state, unwarned."""
    past, fitted = InMemorySaver(), FovealMiddleware(agent.store, agent.policy)
    plain = graph(agent, past)
    plain.invoke({"messages": [HumanMessage(TASK)]}, CONFIG)
    plain.update_state(
        CONFIG, {"messages": [RemoveMessage(REMOVE_ALL_MESSAGES), HumanMessage("Summary: all is read.")]}
    )
    assert import_thread(past, "t", into=fitted, model="gpt-5") > 8
    assert import_thread(past, "t", into=fitted, model="gpt-5") == 0
    assert end_of("f0.py") in texts(agent)
    graph(agent, past, fitted).invoke({"messages": [HumanMessage("All?")]}, CONFIG)
    assert end_of("f0.py") not in agent.provider.requests[4].raw.decode()  # the first one after the import
    assert agent.rewinds() == 1


def test_a_thread_without_messages_is_refused(agent):
    """A thread that the checkpointer does not hold is an error that names it."""
    with pytest.raises(BadInput, match="no messages of the thread 'other'"):
        import_thread(InMemorySaver(), "other", into=FovealMiddleware(agent.store), model="gpt-5")
