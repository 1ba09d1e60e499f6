"""An agent of pydantic-ai that keeps its history in a file after every step: begun, or resumed after a crash."""

import asyncio
import sys
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, ModelResponse
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

import foveal
from foveal.integrations.pydantic_ai import Foveal
from foveal.testing.adapter_contract import TASK, killing_read_file

url, folder, budget = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
kept = folder / "history.json"


def read_file(path: str) -> str:
    """Read a file."""
    return killing_read_file(folder, path)


agent = Agent(
    OpenAIChatModel("gpt-5", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="any")),
    tools=[read_file],
    capabilities=[Foveal(folder / "foveal.db", foveal.Policy(max_context_tokens=budget))],
)


async def main() -> str:
    """Run the agent to its end, node by node."""
    history = ModelMessagesTypeAdapter.validate_json(kept.read_bytes()) if kept.exists() else None
    said = None if history else TASK
    limits = UsageLimits(request_limit=None)
    async with agent.iter(said, message_history=history, conversation_id="contract", usage_limits=limits) as run:
        async for _ in run:
            messages = run.all_messages()
            if messages and isinstance(messages[-1], ModelRequest | ModelResponse):
                kept.write_bytes(ModelMessagesTypeAdapter.dump_json(messages))
        return run.result.output if run.result else ""


sys.stdout.write(asyncio.run(main()))
