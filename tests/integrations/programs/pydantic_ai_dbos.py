"""An agent of pydantic-ai whose run is a durable workflow of DBOS: begun, or recovered after a crash."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from dbos import DBOS, SetWorkflowID  # pyright: ignore[reportMissingImports]
from pydantic_ai import Agent
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

import foveal
from foveal.integrations.pydantic_ai import Foveal
from foveal.testing.adapter_contract import TASK, killing_read_file

url, folder, budget = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
config: Any = {"name": "contract", "system_database_url": f"sqlite:///{folder / 'runs.db'}", "log_level": "ERROR"}
DBOS(config=config | {"run_admin_server": False})


@DBOS.step()
async def read_file(path: str) -> str:
    """Read a file."""
    return killing_read_file(folder, path)


agent: Any = Agent(
    OpenAIChatModel("gpt-5", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="any")),
    name="reader",
    tools=[read_file],
    capabilities=[DBOSDurability(), Foveal(folder / "foveal.db", foveal.Policy(max_context_tokens=budget))],
)


@DBOS.workflow()
async def read_all() -> str:
    """Run the agent to its end."""
    limits = UsageLimits(request_limit=None)
    return (await agent.run(TASK, conversation_id="contract", usage_limits=limits)).output


async def main() -> str:
    """Begin the workflow, or wait for the recovered one."""
    DBOS.launch()
    with SetWorkflowID("contract"):
        handle = await DBOS.start_workflow_async(read_all)
    return await handle.get_result()


print(asyncio.run(main()), flush=True)  # noqa: T201 - DBOS has threads of its own, which do not end by themselves
os._exit(0)
