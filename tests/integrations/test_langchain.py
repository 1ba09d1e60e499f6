"""LangChain and LangGraph: agents of `create_agent` with the middleware."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware, HumanInTheLoopMiddleware
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

import foveal
from foveal.integrations.langchain import FovealMiddleware, read_message
from foveal.testing.adapter_contract import (
    ChildContract,
    ContractAgent,
    InterruptContract,
    KillContract,
    TimeTravelContract,
)
from foveal.values.entry import Image, Text, ToolCall, ToolResult

from .lengths import Contract, of_dropins

KEY: Any = "any"
LIMIT = {"recursion_limit": 1_000}


class _LangChainContract(Contract):
    modes = ("plain", "stream", "async", "async_stream")
    system = "You are careful."

    def chat_model(self, agent: ContractAgent) -> Any:
        return ChatOpenAI(
            model="gpt-5", base_url=f"{agent.url}/v1", api_key=KEY, use_responses_api=False, stream_usage=True
        )

    def made(self, agent: ContractAgent, *more: Any, tools: Any = ()) -> Any:
        read_file = tool(agent.read_file)
        middleware = [FovealMiddleware(agent.store, agent.policy), *more]
        return create_agent(
            self.chat_model(agent),
            [read_file, *tools],
            system_prompt="You are careful.",
            middleware=middleware,
            checkpointer=InMemorySaver(),
        )

    def run(self, agent: ContractAgent, said: str, mode: str) -> str:
        if "graph" not in agent.kept:
            agent.kept["graph"] = self.made(agent)
        graph, config = agent.kept["graph"], {"configurable": {"thread_id": agent.thread}} | LIMIT
        given = {"messages": [HumanMessage(said)]}
        if mode == "plain":
            graph.invoke(given, config)
        elif mode == "stream":
            assert sum(1 for _ in graph.stream(given, config, stream_mode="messages"))
        elif mode == "async":
            asyncio.run(graph.ainvoke(given, config))
        else:
            asyncio.run(_drained(graph.astream(given, config, stream_mode="messages")))
        return str(graph.get_state(config).values["messages"][-1].text)


async def _drained(stream) -> None:
    async for _ in stream:
        pass


class TestLangChainOpenAI(_LangChainContract, ChildContract, InterruptContract, TimeTravelContract):
    """The contract, for OpenAI's models."""

    def run_with_child(self, agent: ContractAgent, said: str) -> str:
        child = create_agent(
            self.chat_model(agent),
            [tool(agent.read_file)],
            middleware=[FovealMiddleware(agent.store, agent.policy)],
        )

        @tool
        def delegate(task: str) -> str:
            """Give a task to another agent."""
            return str(child.invoke({"messages": [HumanMessage(task)]})["messages"][-1].text)

        graph = self.made(agent, tools=[delegate])
        state = graph.invoke({"messages": [HumanMessage(said)]}, {"configurable": {"thread_id": "parent"}} | LIMIT)
        return str(state["messages"][-1].text)

    def run_with_approval(self, agent: ContractAgent, said: str) -> str:
        graph = self.made(agent, HumanInTheLoopMiddleware(interrupt_on={"read_file": True}))
        config = {"configurable": {"thread_id": agent.thread}} | LIMIT
        edited = {"type": "edit", "edited_action": {"name": "read_file", "args": {"path": "edited.py"}}}
        decisions = [{"type": "approve"}] * 2 + [edited, {"type": "reject", "message": "not this one"}]
        state = graph.invoke({"messages": [HumanMessage(said)]}, config)
        while "__interrupt__" in state:
            state = graph.invoke(Command(resume={"decisions": [decisions.pop(0)]}), config)
        return str(state["messages"][-1].text)

    def run_again_from_the_middle(self, agent: ContractAgent, said: str) -> str:
        graph, config = self.made(agent), {"configurable": {"thread_id": agent.thread}} | LIMIT
        graph.invoke({"messages": [HumanMessage(said)]}, config)
        old = [one for one in graph.get_state_history(config) if len(one.values.get("messages", ())) == 5][-1]
        return str(graph.invoke(None, old.config)["messages"][-1].text)


class TestLangChainAnthropic(_LangChainContract):
    """The contract, for Anthropic's models."""

    model = "claude-opus-4-8"

    def chat_model(self, agent: ContractAgent) -> Any:
        mark = {"cache_control": {"type": "ephemeral"}}
        made: Any = ChatAnthropic
        return made(model="claude-opus-4-8", base_url=agent.url, api_key="any", max_retries=2, model_kwargs=mark)


@of_dropins
class TestLangGraphKilled(KillContract):
    """A thread of LangGraph that is killed."""

    program = Path(__file__).parent / "programs" / "langchain_thread.py"


def test_middleware_that_clears_results_is_told_of(agent):
    """A middleware that edits what was sent before works against Foveal: the warning says which session, and what to do."""
    editing = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=2_000, keep=1)])
    contract = TestLangChainOpenAI()
    graph = create_agent(
        contract.chat_model(agent),
        [tool(agent.read_file)],
        middleware=[editing, FovealMiddleware(agent.store, agent.policy)],
    )
    with pytest.warns(UserWarning, match=r"t: something besides Foveal changed messages .* middleware"):
        graph.invoke({"messages": [HumanMessage("Go.")]}, {"configurable": {"thread_id": "t"}})
    assert agent.provider.refused == []


def test_a_run_without_a_thread_goes_on_with_a_warning(agent):
    """Without a thread there is no session; the agent works as it does without Foveal, and is offered none of its tools."""
    graph = create_agent(
        TestLangChainOpenAI().chat_model(agent), [tool(agent.read_file)], middleware=[FovealMiddleware(agent.store)]
    )
    with pytest.warns(UserWarning, match="no thread is named"):
        graph.invoke({"messages": [HumanMessage("Go.")]})
    assert [one["function"]["name"] for one in agent.provider.last.body["tools"]] == ["read_file"]
    assert agent.sessions() == []


def test_messages_are_read_with_everything_that_counts():
    """Texts, images, calls with broken arguments, failed results: nothing that the model saw is lost on the way."""
    image = {"type": "image", "base64": "aGk=", "mime_type": "image/png"}
    shown = read_message(HumanMessage([{"type": "text", "text": "Look."}, image]))
    assert [type(part) for part in shown.parts] == [Text, Image]
    broken = [{"id": "c2", "name": "f", "args": "{", "error": None, "type": "invalid_tool_call"}]
    called = [{"id": "c1", "name": "f", "args": {"a": 1}}]
    said = read_message(AIMessage("Hm.", tool_calls=called, invalid_tool_calls=broken))
    assert said.parts == (Text("Hm."), ToolCall("c1", "f", '{"a":1}'), ToolCall("c2", "f", "{"))
    failed = read_message(ToolMessage("no such file", tool_call_id="c1", status="error"))
    assert failed.parts == (ToolResult("c1", (Text("no such file"),), "error"),)
    assert read_message(SystemMessage("Now quick.")) == foveal.system("Now quick.")
