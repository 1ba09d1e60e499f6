"""An agent of the OpenAI Agents SDK that asks before each call and keeps its state in a file: begun, or resumed after a crash."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from agents import Agent, OpenAIProvider, RunConfig, Runner, RunState, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

import foveal
from foveal.integrations.openai_agents import FovealProvider
from foveal.testing.adapter_contract import TASK, killing_read_file

url, folder, budget = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
kept = folder / "state.json"
set_tracing_disabled(disabled=True)


@function_tool(needs_approval=True)
def read_file(path: str) -> str:
    """Read a file."""
    return killing_read_file(folder, path)


async def main() -> str:
    """Run the agent to its end, call by call."""
    inner = OpenAIProvider(openai_client=AsyncOpenAI(base_url=f"{url}/v1", api_key="any"))
    provider = FovealProvider("contract", folder / "foveal.db", foveal.Policy(max_context_tokens=budget), inner)
    agent: Any = Agent(name="a", model="gpt-5", tools=[read_file])
    options: Any = {"run_config": RunConfig(model_provider=provider), "max_turns": 1_000}
    state: Any = await RunState.from_string(agent, kept.read_text()) if kept.exists() else None
    while True:
        for asked in state.get_interruptions() if state else ():
            state.approve(asked)
        result = await Runner.run(agent, state or TASK, **options)
        if not result.interruptions:
            return str(result.final_output)
        state = result.to_state()
        kept.write_text(state.to_string())


sys.stdout.write(asyncio.run(main()))
