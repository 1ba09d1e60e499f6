"""The OpenAI Agents SDK: runs whose models are fitted."""

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, ModelSettings, OpenAIProvider, RunConfig, Runner, function_tool, set_tracing_disabled
from agents.memory import SQLiteSession
from openai import AsyncOpenAI

from foveal.integrations.openai_agents import FovealProvider
from foveal.testing.adapter_contract import (
    ChildContract,
    ContractAgent,
    InterruptContract,
    KillContract,
    TimeTravelContract,
)

from .lengths import Contract, of_dropins

set_tracing_disabled(disabled=True)


@asynccontextmanager
async def fitted(agent: ContractAgent, *, use_responses: bool = True):
    """Yield the options of a run against the agent's provider."""
    async with AsyncOpenAI(base_url=f"{agent.url}/v1", api_key="any") as client:
        inner = OpenAIProvider(openai_client=client, use_responses=use_responses)
        provider = FovealProvider(agent.thread, agent.store, agent.policy, inner)
        yield {"run_config": RunConfig(model_provider=provider), "max_turns": 1_000}


class _AgentsContract(Contract):
    modes = ("async", "async_stream")
    system = "You are careful."
    use_responses = True

    def made(self, agent: ContractAgent, *tools: Any) -> Any:
        settings = ModelSettings(include_usage=True)
        read_file = function_tool(agent.read_file)
        return Agent(
            name="a", instructions="You are careful.", model="gpt-5", tools=[read_file, *tools], model_settings=settings
        )

    def run(self, agent: ContractAgent, said: str, mode: str) -> str:
        session = SQLiteSession(agent.thread, agent.folder / "runs.db")

        async def run() -> str:
            async with fitted(agent, use_responses=self.use_responses) as options:
                if mode == "async":
                    return (await Runner.run(self.made(agent), said, session=session, **options)).final_output
                streamed = Runner.run_streamed(self.made(agent), said, session=session, **options)
                assert [event async for event in streamed.stream_events()]
                return str(streamed.final_output)

        try:
            return asyncio.run(run())
        finally:
            session.close()


class TestAgentsResponses(_AgentsContract, ChildContract, InterruptContract, TimeTravelContract):
    """The contract, for OpenAI Responses."""

    def run_with_child(self, agent: ContractAgent, said: str) -> str:
        async def run() -> str:
            async with fitted(agent) as options:

                @function_tool
                async def delegate(task: str) -> str:
                    """Give a task to another agent."""
                    return (await Runner.run(self.made(agent), task, **options)).final_output

                return (await Runner.run(self.made(agent, delegate), said, **options)).final_output

        return asyncio.run(run())

    def run_with_approval(self, agent: ContractAgent, said: str) -> str:
        async def run() -> str:
            async with fitted(agent) as options:
                made = Agent(name="a", model="gpt-5", tools=[function_tool(agent.read_file, needs_approval=True)])
                result = await Runner.run(made, said, **options)
                for decision in ("approve", "approve", "edit", "reject"):
                    state: Any = result.to_state()
                    (asked,) = state.get_interruptions()
                    if decision == "approve":
                        state.approve(asked)
                    elif decision == "reject":
                        state.reject(asked, rejection_message="Not this one.")
                    else:  # the SDK runs no call that was changed: the human does, and tells the list
                        state = result.to_input_list()
                        state[-1]["arguments"] = '{"path": "edited.py"}'
                        output = {"call_id": state[-1]["call_id"], "output": agent.read_file("edited.py")}
                        state.append({"type": "function_call_output", **output})
                    result = await Runner.run(made, state, **options)
                return result.final_output

        return asyncio.run(run())

    def run_again_from_the_middle(self, agent: ContractAgent, said: str) -> str:
        async def run() -> str:
            async with fitted(agent) as options:
                items = (await Runner.run(self.made(agent), said, **options)).to_input_list()
                results = [n for n, one in enumerate(items) if one.get("type") == "function_call_output"]
                return (await Runner.run(self.made(agent), items[: results[1] + 1], **options)).final_output

        return asyncio.run(run())


class TestAgentsChat(_AgentsContract):
    """The contract, for OpenAI Chat."""

    use_responses = False


@of_dropins
class TestAgentsKilled(KillContract):
    """A run that keeps its state in a file before each call, and is killed."""

    program = Path(__file__).parent / "programs" / "openai_agents_run.py"


def test_a_conversation_at_the_provider_is_passed_on(agent):
    """Where the provider holds the history, calls go on as they are, with a warning that names the reason."""
    agent.provider.is_strict = False

    async def run():
        async with fitted(agent) as options:
            await Runner.run(TestAgentsResponses().made(agent), "Go.", previous_response_id="resp_1", **options)

    with pytest.warns(UserWarning, match="previous_response_id is set"):
        asyncio.run(run())
    assert agent.sessions() == []


def test_a_filter_that_clears_results_is_told_of(agent):
    """Whatever else edits the history works against Foveal: the warning says which session, and what to do."""

    def clear(data):
        outputs = [one for one in data.model_data.input if one.get("type") == "function_call_output"]
        for one in outputs[:-1]:
            one["output"] = "[cleared]"
        return data.model_data

    async def run():
        async with fitted(agent) as options:
            options["run_config"].call_model_input_filter = clear
            await Runner.run(TestAgentsResponses().made(agent), "Go.", **options)

    with pytest.warns(UserWarning, match="contract: something besides Foveal changed messages"):
        asyncio.run(run())
    assert agent.provider.refused == []
