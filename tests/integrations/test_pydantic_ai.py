"""pydantic-ai: agents with the capability."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    BinaryContent,
    DeferredToolRequests,
    DeferredToolResults,
    ModelRetry,
    Tool,
    ToolApproved,
    ToolDenied,
)
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.anthropic import AnthropicModel, AnthropicModelSettings
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

from foveal.integrations.pydantic_ai import Foveal
from foveal.testing.adapter_contract import (
    ChildContract,
    ContractAgent,
    InterruptContract,
    KillContract,
    TimeTravelContract,
)
from foveal.values.entry import Image, Message, Text, ToolResult

from .lengths import Contract, of_dropins

FREE = UsageLimits(request_limit=None)


def run_agent(made: Any, said: Any, **options: Any) -> Any:
    """Run an agent, and close its connections."""

    async def run():
        async with made:
            return await made.run(said, **options)

    return asyncio.run(run())


class _PydanticAIContract(Contract):
    modes = ("plain", "stream")
    system = "You are careful."

    def chat_model(self, agent: ContractAgent) -> Any:
        return OpenAIChatModel("gpt-5", provider=OpenAIProvider(base_url=f"{agent.url}/v1", api_key="any"))

    def made(self, agent: ContractAgent, *tools: Any) -> Any:
        return Agent(
            self.chat_model(agent),
            instructions="You are careful.",
            tools=[agent.read_file, *tools],
            capabilities=[Foveal(agent.store, agent.policy)],
        )

    def run(self, agent: ContractAgent, said: str, mode: str) -> str:
        made, history = self.made(agent), agent.kept.get("history")
        options: dict[str, Any] = {"message_history": history, "conversation_id": agent.thread, "usage_limits": FREE}

        async def streamed() -> Any:
            async with made, made.run_stream_events(said, **options) as events:
                last: Any = [event async for event in events][-1]
                return last.result

        ended = asyncio.run(streamed()) if mode == "stream" else run_agent(made, said, **options)
        agent.kept["history"] = ended.all_messages()
        return ended.output


class TestPydanticAIChat(_PydanticAIContract, ChildContract, InterruptContract, TimeTravelContract):
    """The contract, for OpenAI Chat."""

    def run_with_child(self, agent: ContractAgent, said: str) -> str:
        async def delegate(task: str) -> str:
            """Give a task to another agent."""
            async with self.made(agent) as child:
                return (await child.run(task)).output

        return run_agent(self.made(agent, delegate), said).output

    def run_again_from_the_middle(self, agent: ContractAgent, said: str) -> str:
        history = run_agent(self.made(agent), said, conversation_id=agent.thread).all_messages()
        return run_agent(self.made(agent), None, message_history=history[:5], conversation_id=agent.thread).output

    def run_with_approval(self, agent: ContractAgent, said: str) -> str:
        made: Any = Agent(
            self.chat_model(agent),
            tools=[Tool(agent.read_file, requires_approval=True)],
            output_type=[str, DeferredToolRequests],
            capabilities=[Foveal(agent.store, agent.policy)],
        )
        decisions = iter((True, True, ToolApproved(override_args={"path": "edited.py"}), ToolDenied("Not this one.")))
        ended = run_agent(made, said, conversation_id=agent.thread)
        while isinstance(ended.output, DeferredToolRequests):
            decided = {call.tool_call_id: next(decisions) for call in ended.output.approvals}
            options = {"message_history": ended.all_messages(), "conversation_id": agent.thread}
            ended = run_agent(made, None, deferred_tool_results=DeferredToolResults(approvals=decided), **options)
        return ended.output


class TestPydanticAIResponses(_PydanticAIContract):
    """The contract, for OpenAI Responses."""

    def chat_model(self, agent: ContractAgent) -> Any:
        return OpenAIResponsesModel("gpt-5", provider=OpenAIProvider(base_url=f"{agent.url}/v1", api_key="any"))


class TestPydanticAIAnthropic(_PydanticAIContract):
    """The contract, for Anthropic."""

    model = "claude-opus-4-8"

    def chat_model(self, agent: ContractAgent) -> Any:
        return AnthropicModel(
            "claude-opus-4-8",
            provider=AnthropicProvider(base_url=agent.url, api_key="any"),
            settings=AnthropicModelSettings(anthropic_cache=True),
        )


@of_dropins
class TestPydanticAIKilled(KillContract):
    """An agent that keeps its history in a file, and is killed."""

    program = Path(__file__).parent / "programs" / "pydantic_ai_thread.py"


def test_a_history_processor_that_clears_results_is_told_of(agent):
    """Whatever else edits the history works against Foveal: the warning says which session, and what to do."""

    def clear(messages):
        for number, one in enumerate(messages[:-2]):
            parts = [replace(p, content="[cleared]") if isinstance(p, ToolReturnPart) else p for p in one.parts]
            messages[number] = replace(one, parts=parts)
        return messages

    made: Any = Agent(
        TestPydanticAIChat().chat_model(agent),
        tools=[agent.read_file],
        capabilities=[ProcessHistory(clear), Foveal(agent.store, agent.policy)],
    )
    with pytest.warns(UserWarning, match="t: something besides Foveal changed messages"):
        run_agent(made, "Go.", conversation_id="t")
    assert agent.provider.refused == []


def test_failed_calls_and_images_are_kept(agent):
    """A call that is to be tried again is a failed result in the log, and an image of the user an image."""

    def read_file(path: str) -> str:
        """Read a file."""
        if path == "f0.py":
            raise ModelRetry("no such file")
        return agent.read_file(path)

    made: Any = Agent(
        TestPydanticAIChat().chat_model(agent), tools=[read_file], capabilities=[Foveal(agent.store, agent.policy)]
    )
    image = BinaryContent(b"\x89PNG", media_type="image/png")
    run_agent(made, ["Look.", image], conversation_id="t")
    parts = [part for one in agent.entries("t") if isinstance(one.body, Message) for part in one.body.parts]
    assert [part.status for part in parts if isinstance(part, ToolResult)] == ["error", "ok", "ok", "ok", "ok"]
    assert [type(part) for part in parts[:2]] == [Text, Image]
    assert agent.rewinds() == 0


def test_the_model_below_sees_whose_request_it_is(agent):
    """The newest request keeps the ids and the instructions of the run: models that are wrapped below read them there."""
    seen: list[Any] = []

    class Sees(WrapperModel):
        async def request(self, messages: Any, model_settings: Any, model_request_parameters: Any) -> Any:
            seen.append(messages[-1])
            return await super().request(messages, model_settings, model_request_parameters)

    made: Any = Agent(
        Sees(TestPydanticAIChat().chat_model(agent)),
        instructions="You are careful.",
        tools=[agent.read_file],
        capabilities=[Foveal(agent.store, agent.policy)],
    )
    run_agent(made, "Go.", conversation_id="t")
    assert {(one.conversation_id, one.instructions) for one in seen} == {("t", "You are careful.")}
