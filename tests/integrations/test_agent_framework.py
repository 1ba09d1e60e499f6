"""Microsoft's Agent Framework: agents with the context provider."""

import asyncio
from typing import Any

import pytest
from agent_framework import Agent, AgentSession, ChatMiddleware, Content, FunctionMiddleware, FunctionTool
from agent_framework import Message as AgentMessage
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from openai import AsyncOpenAI

from foveal.integrations.agent_framework import FovealContext
from foveal.testing.adapter_contract import (
    DONE,
    TASK,
    ChildContract,
    ContractAgent,
    InterruptContract,
    TimeTravelContract,
)
from foveal.testing.provider import RawCall, Read, Step
from foveal.values.entry import Image, Message, Text, ToolResult

from .lengths import Contract

STATELESS: Any = {"store": False}
FREE: Any = {"max_iterations": 1_000}


class _AgentFrameworkContract(Contract):
    modes = ("async", "async_stream")
    system = "You are careful."
    client: Any = OpenAIChatCompletionClient

    def made(self, agent: ContractAgent, *tools: Any, approval: Any = None) -> Any:
        sdk = AsyncOpenAI(base_url=f"{agent.url}/v1", api_key="any")
        client = self.client("gpt-5", async_client=sdk, function_invocation_configuration=FREE)
        read_file = FunctionTool(name="read_file", func=agent.read_file, approval_mode=approval)
        return Agent(
            client=client,
            instructions="You are careful.",
            tools=[read_file, *tools],
            context_providers=[FovealContext(agent.store, agent.policy)],
            default_options=STATELESS,
        )

    def run(self, agent: ContractAgent, said: str, mode: str) -> str:
        session = agent.kept.setdefault("session", AgentSession(session_id=agent.thread))
        return asyncio.run(run_agent(self.made(agent), said, session, mode))


async def run_agent(made: Any, said: Any, session: Any, mode: str = "async") -> str:
    """Run an agent, close its connections, and return its last words."""
    async with made.client.client:
        if mode == "async":
            return (await made.run(said, session=session)).messages[-1].text
        stream = made.run(said, session=session, stream=True)
        assert [update async for update in stream]
        return (await stream.get_final_response()).messages[-1].text


class _Edits(FunctionMiddleware):
    """Has the third call read another file."""

    async def process(self, context: Any, call_next: Any) -> None:
        if context.arguments == {"path": "f2.py"}:
            context.arguments = {"path": "edited.py"}
        await call_next()


class TestAgentFrameworkChat(_AgentFrameworkContract, ChildContract, InterruptContract, TimeTravelContract):
    """The contract, for OpenAI Chat."""

    def run_with_child(self, agent: ContractAgent, said: str) -> str:
        async def run() -> str:
            child = self.made(agent)
            async with child.client.client:
                made = self.made(agent, child.as_tool(name="delegate", arg_name="task"))
                return await run_agent(made, said, AgentSession(session_id="parent"))

        return asyncio.run(run())

    def run_with_approval(self, agent: ContractAgent, said: str) -> str:
        async def run() -> str:
            made, session = self.made(agent, approval="always_require"), AgentSession(session_id=agent.thread)
            async with made.client.client:
                response = await made.run(said, session=session, middleware=[_Edits()])
                for is_approved in (True, True, True, True, False):  # a call that was edited is asked for again
                    (request,) = response.user_input_requests
                    decided = AgentMessage("user", [request.to_function_approval_response(is_approved)])
                    response = await made.run(decided, session=session, middleware=[_Edits()])
                return response.messages[-1].text

        return asyncio.run(run())

    def run_again_from_the_middle(self, agent: ContractAgent, said: str) -> str:
        session = AgentSession(session_id=agent.thread)
        asyncio.run(run_agent(self.made(agent), said, session))
        kept = session.state["in_memory"]
        results = [n for n, one in enumerate(kept["messages"]) if one.role == "tool"]
        kept["messages"] = kept["messages"][: results[1] + 1]
        for message in kept["messages"]:  # else it is sent with a name, and the script does not know it again
            message.author_name = None
        return asyncio.run(run_agent(self.made(agent), None, session))


class TestAgentFrameworkResponses(_AgentFrameworkContract):
    """The contract, for OpenAI Responses."""

    client: Any = OpenAIChatClient


def run_with(agent: ContractAgent, said: Any = "Go.", **changed: Any) -> str:
    """Run an agent of the contract, some attributes of which were changed."""
    made = TestAgentFrameworkChat().made(agent)
    for name, value in changed.items():
        setattr(made, name, value)
    return asyncio.run(run_agent(made, said, AgentSession(session_id="t")))


@pytest.mark.parametrize(
    ("changed", "warning"),
    [
        ({"default_options": {"store": True}}, "t was passed on as it came: the provider holds .* set store=False"),
        ({"require_per_service_call_history_persistence": True}, "the history is loaded below every middleware"),
    ],
)
def test_a_history_that_is_kept_elsewhere_is_passed_on(agent, changed, warning):
    """Where a middleware does not see the history, calls go on as they are, and the warning says what to change."""
    agent.provider.is_strict = False
    with pytest.warns(UserWarning, match=warning):
        run_with(agent, **changed)
    assert agent.sessions() == []


def test_agents_that_share_a_session_have_windows_of_their_own(tmp_path):
    """A sub-agent that is given the session of its parent is not taken for the parent: neither goes back."""
    task = "Count the lines of x.py."
    agent = TestAgentFrameworkChat().agent(tmp_path, Step("", do=(RawCall("delegate", {"task": task}),)), Step(DONE))
    agent.provider.play(Step("I read.", do=(Read("x.py"),)), Step("100 lines."), when=task)
    contract = TestAgentFrameworkChat()

    async def run() -> str:
        child = contract.made(agent)
        async with child.client.client:
            tool = child.as_tool(name="delegate", propagate_session=True)
            return await run_agent(contract.made(agent, tool), TASK, AgentSession(session_id="t"))

    assert asyncio.run(run()) == DONE
    assert (sorted(name[:2] for name in agent.sessions()), agent.rewinds()) == (["t", "t/"], 0)
    agent.close()


def test_a_middleware_that_clears_results_is_told_of(agent):
    """Whatever else edits the history works against Foveal: the warning says which session, and what to do."""

    class Clears(ChatMiddleware):
        async def process(self, context: Any, call_next: Any) -> None:
            results = [one for one in context.messages if one.role == "tool"]
            for one in results[:-1]:
                one.contents = [Content.from_function_result(one.contents[0].call_id, result="[cleared]")]
            await call_next()

    with pytest.warns(UserWarning, match="t: something besides Foveal changed messages"):
        run_with(agent, middleware=[Clears()])
    assert agent.provider.refused == []


def test_failed_calls_and_images_are_kept(agent):
    """A call that failed is a failed result in the log, and an image of the user an image."""

    def read_file(path: str) -> str:
        if path == "f0.py":
            raise FileNotFoundError(path)
        return agent.read_file(path)

    image = Content.from_data(b"\x89PNG", media_type="image/png")
    said = AgentMessage("user", [Content.from_text("Look."), image])
    options = {"tools": [FunctionTool(name="read_file", func=read_file)], **STATELESS}
    run_with(agent, said, default_options=options)
    parts = [part for one in agent.entries("t") if isinstance(one.body, Message) for part in one.body.parts]
    assert [part.status for part in parts if isinstance(part, ToolResult)] == ["error", "ok", "ok", "ok", "ok"]
    assert [type(part) for part in parts[:2]] == [Text, Image]
    assert agent.rewinds() == 0


def test_an_abandoned_stream_gives_the_session_back(agent):
    """Whoever leaves a stream early can ask again at once: the session is not held."""

    async def run() -> str:
        made, session = TestAgentFrameworkChat().made(agent), AgentSession(session_id="t")
        async with made.client.client:
            async with made.run("Go.", session=session, stream=True) as stream:
                await anext(stream)
            return (await made.run("Go.", session=session)).messages[-1].text

    assert asyncio.run(run()) == DONE
    assert agent.rewinds() == 0
