"""Agents of real frameworks that read 60 files, each with and without its drop-in: `python programs.py NAME WAY ADDRESS`.

A way is `plain`, `foveal`, or a compaction of the framework's own. Frameworks are imported by the agent that needs them: each one
is installed in an environment of its own.
"""

import asyncio
import json
import os
import sys
from typing import Any

import foveal
from foveal.testing.adapter_contract import BUDGET, TASK, file_text

POLICY = foveal.Policy(max_context_tokens=BUDGET)
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def read_file(path: str) -> str:
    """Read a file."""
    return file_text(path)


def openai_sdk(way: str, url: str) -> None:
    """Run a loop over Chat Completions."""
    from openai import OpenAI  # noqa: PLC0415 - optional

    client = OpenAI(base_url=f"{url}/v1", api_key="any")
    client = foveal.wrap(client, session="s", budget=BUDGET) if way == "foveal" else client
    tools: Any = [{"type": "function", "function": {"name": "read_file", "parameters": SCHEMA}}]
    messages: list[Any] = [{"role": "user", "content": TASK}]
    while messages[-1]["role"] != "assistant":
        reply = client.chat.completions.create(model="gpt-5", messages=messages, tools=tools).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        for call in messages[-1].get("tool_calls", ()):
            text = read_file(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})


def anthropic_sdk(way: str, url: str) -> None:
    """Run a loop over Messages, with a cache mark on the newest block."""
    from anthropic import Anthropic  # noqa: PLC0415 - optional

    client = Anthropic(base_url=url, api_key="any")
    client = foveal.wrap(client, session="s", budget=BUDGET) if way == "foveal" else client
    asked: dict[str, Any] = {"model": "claude-opus-4-8", "max_tokens": 1_000, "cache_control": {"type": "ephemeral"}}
    asked["tools"] = [{"name": "read_file", "input_schema": SCHEMA}]
    messages: list[Any] = [{"role": "user", "content": TASK}]
    while messages[-1]["role"] != "assistant":
        reply = client.messages.create(messages=messages, **asked)
        messages.append({"role": "assistant", "content": [block.model_dump() for block in reply.content]})
        calls = [(block.id, block.input) for block in reply.content if block.type == "tool_use"]
        results = [{"type": "tool_result", "tool_use_id": call, "content": read_file(**given)} for call, given in calls]
        messages += [{"role": "user", "content": results}] if results else []


def langchain(way: str, url: str) -> None:
    """Run an agent of `create_agent`."""
    from langchain.agents import create_agent, middleware  # noqa: PLC0415 - optional
    from langchain_openai import ChatOpenAI  # noqa: PLC0415 - optional

    model: Any = ChatOpenAI
    model = model(model="gpt-5", base_url=f"{url}/v1", api_key="any", use_responses_api=False)
    used: list[Any] = []
    if way == "foveal":
        from foveal.integrations.langchain import FovealMiddleware  # noqa: PLC0415 - needs the framework

        used = [FovealMiddleware(policy=POLICY)]
    elif way.startswith("SummarizationMiddleware"):
        # By default it cuts the messages to summarise to 4,000 tokens that begin with a human's, finds none, and asks no model.
        whole: dict[str, Any] = {} if way.endswith("default") else {"trim_tokens_to_summarize": None}
        limits: dict[str, Any] = {"trigger": ("tokens", BUDGET - 3_000), "keep": ("messages", 8)}
        used = [middleware.SummarizationMiddleware(model, **limits, **whole)]
    elif way == "ContextEditingMiddleware":
        edit = middleware.ClearToolUsesEdit(trigger=BUDGET - 3_000, keep=3)
        used = [middleware.ContextEditingMiddleware(edits=[edit])]
    agent = create_agent(model, [read_file], middleware=used)
    config: Any = {"configurable": {"thread_id": "s"}, "recursion_limit": 1_000}
    agent.invoke({"messages": [{"role": "user", "content": TASK}]}, config)


def pydantic_ai(way: str, url: str) -> None:
    """Run an agent of pydantic-ai."""
    from pydantic_ai import Agent, UsageLimits  # noqa: PLC0415 - optional
    from pydantic_ai.models.openai import OpenAIChatModel  # noqa: PLC0415 - optional
    from pydantic_ai.providers.openai import OpenAIProvider  # noqa: PLC0415 - optional

    used: list[Any] = []
    if way == "foveal":
        from foveal.integrations.pydantic_ai import Foveal  # noqa: PLC0415 - needs the framework

        used = [Foveal(policy=POLICY)]
    model = OpenAIChatModel("gpt-5", provider=OpenAIProvider(base_url=f"{url}/v1", api_key="any"))
    agent = Agent(model, tools=[read_file], capabilities=used)
    asyncio.run(agent.run(TASK, conversation_id="s", usage_limits=UsageLimits(request_limit=None)))


def openai_agents(way: str, url: str) -> None:
    """Run an agent of the OpenAI Agents SDK."""
    from agents import Agent, OpenAIProvider, RunConfig, Runner, function_tool, set_tracing_disabled  # noqa: PLC0415
    from openai import AsyncOpenAI  # noqa: PLC0415 - optional

    set_tracing_disabled(disabled=True)
    provider: Any = OpenAIProvider(openai_client=AsyncOpenAI(base_url=f"{url}/v1", api_key="any"))
    if way == "foveal":
        from foveal.integrations.openai_agents import FovealProvider  # noqa: PLC0415 - needs the framework

        provider = FovealProvider("s", policy=POLICY, inner=provider)
    agent = Agent(name="a", model="gpt-5", tools=[function_tool(read_file)])
    config = RunConfig(model_provider=provider)
    if way == "ToolOutputTrimmer":
        from agents.extensions.tool_output_trimmer import ToolOutputTrimmer  # noqa: PLC0415 - optional

        config.call_model_input_filter = ToolOutputTrimmer(recent_turns=1)
    asyncio.run(Runner.run(agent, TASK, run_config=config, max_turns=1_000))


def agent_framework(way: str, url: str) -> None:
    """Run an agent of Microsoft's Agent Framework."""
    from agent_framework import Agent, AgentSession, ContextWindowCompactionStrategy  # noqa: PLC0415 - optional
    from agent_framework.openai import OpenAIChatCompletionClient  # noqa: PLC0415 - optional

    made: Any = OpenAIChatCompletionClient
    free = {"max_iterations": 1_000}
    client = made("gpt-5", base_url=f"{url}/v1", api_key="any", function_invocation_configuration=free)
    used: dict[str, Any] = {}
    if way == "foveal":
        from foveal.integrations.agent_framework import FovealContext  # noqa: PLC0415 - needs the framework

        used = {"context_providers": [FovealContext(policy=POLICY)]}
    elif way == "ContextWindowCompactionStrategy":
        limits: dict[str, Any] = {"max_context_window_tokens": BUDGET, "max_output_tokens": 1_000}
        used = {"compaction_strategy": ContextWindowCompactionStrategy(preserve_first_user_group=True, **limits)}
    agent = Agent(client=client, tools=[read_file], **used)
    asyncio.run(agent.run(TASK, session=AgentSession(session_id="s")))


def litellm(way: str, url: str) -> None:
    """Run a loop over asynchronous completions."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no network
    import litellm as framework  # noqa: PLC0415 # pyright: ignore[reportMissingImports]

    if way == "foveal":
        from foveal.integrations.litellm import FovealCallback  # noqa: PLC0415 - needs the framework

        framework.callbacks = [FovealCallback(policy=POLICY)]
    asked: dict[str, Any] = {"model": "openai/gpt-5", "api_base": f"{url}/v1", "api_key": "any", "num_retries": 2}
    asked["tools"] = [{"type": "function", "function": {"name": "read_file", "parameters": SCHEMA}}]
    messages: list[Any] = [{"role": "user", "content": TASK}]

    async def run() -> None:
        while messages[-1]["role"] != "assistant":
            reply = await framework.acompletion(messages=messages, litellm_session_id="s", **asked)
            messages.append(reply.choices[0].message.model_dump(exclude_none=True))
            for call in messages[-1].get("tool_calls", ()):
                text = read_file(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})

    asyncio.run(run())


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
