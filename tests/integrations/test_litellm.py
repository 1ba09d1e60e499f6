"""LiteLLM: completions with the callback, as a library and through its proxy. Its packages are `make dropins`' own."""

# pyright: reportMissingImports=false

import asyncio
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import openai
import pytest

import foveal

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no network
litellm: Any = pytest.importorskip("litellm", reason="600 MB: tested by `make dropins`")

from foveal.integrations.litellm import FovealCallback  # noqa: E402 - needs the framework
from foveal.testing.adapter_contract import (  # noqa: E402
    DONE,
    TASK,
    ContractAgent,
    check_requests,
    reading_steps,
)
from foveal.testing.provider import Read, Silence, Step  # noqa: E402
from foveal.values.own_tools import RECALL_TOOL, SEARCH_TOOL  # noqa: E402

from .lengths import LENGTH, Contract  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore", "error:foveal")  # LiteLLM warns of itself

STEPS, BUDGET = LENGTH
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = [{"type": "function", "function": {"name": "read_file", "parameters": SCHEMA}}]


@pytest.fixture(autouse=True)
def _no_callbacks_left():
    yield
    litellm.callbacks = []


async def completed(agent: ContractAgent, messages: list[Any], **options: Any) -> Any:
    """Return the message of one completion."""
    asked = {"model": "openai/gpt-5", "messages": messages, "tools": TOOLS, "num_retries": 2}
    asked |= {"api_base": f"{agent.url}/v1", "api_key": "any", "litellm_session_id": agent.thread}
    reply = await litellm.acompletion(**asked, **options)
    if options.get("stream"):
        reply = litellm.stream_chunk_builder([chunk async for chunk in reply])
    return reply.choices[0].message


async def loop(agent: ContractAgent, messages: list[Any], **options: Any) -> str:
    """Run an agent to its end."""
    while True:
        message = await completed(agent, messages, **options)
        messages.append(message)
        if not message.tool_calls:
            return message.content
        for call in message.tool_calls:
            text = agent.read_file(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})


class TestLiteLLM(Contract):
    """The contract, for OpenAI's Chat format."""

    modes = ("async",)
    system = "You are careful."

    def run(self, agent: ContractAgent, said: str, mode: str) -> str:
        litellm.callbacks = [FovealCallback(agent.store, agent.policy)]
        messages = agent.kept.setdefault("messages", [{"role": "system", "content": "You are careful."}])
        messages.append({"role": "user", "content": said})
        return asyncio.run(loop(agent, messages))


@pytest.fixture
def agent(tmp_path: Path) -> Any:
    made = TestLiteLLM().agent(tmp_path)
    made.provider.begin()
    litellm.callbacks = [FovealCallback(made.store, made.policy)]
    yield made
    made.close()


def task() -> list[Any]:
    return [{"role": "user", "content": TASK}]


def test_streams_are_fitted_and_recall_is_answered_in_them(agent):
    """A streamed run fits like any other one: recall is answered, its calls are hidden, and nothing is taken for an edit."""
    agent.provider.play(*reading_steps(STEPS))
    assert asyncio.run(loop(agent, task(), stream=True)) == DONE
    assert len(agent.reads) == STEPS
    check_requests(agent)
    assert agent.answered() == [RECALL_TOOL, SEARCH_TOOL]
    assert (len(agent.sessions()), agent.rewinds()) == (1, 0)


def test_a_router_with_fallbacks_is_followed_once(agent):
    """A request that fails at one deployment and is sent to another is one message in the log."""
    agent.provider.play(Step("Read.", do=(Read("a.py"),)), Step(DONE))
    served = {"model": "openai/gpt-5", "api_base": f"{agent.url}/v1", "api_key": "any"}
    deaf = served | {"api_base": "http://127.0.0.1:9/v1"}
    models = [{"model_name": name, "litellm_params": params} for name, params in (("deaf", deaf), ("served", served))]
    router = litellm.Router(models, fallbacks=[{"deaf": ["served"]}], num_retries=0)
    asked: Any = {"model": "deaf", "messages": task(), "tools": TOOLS, "litellm_session_id": "t"}
    assert asyncio.run(router.acompletion(**asked)).choices[0].message.tool_calls
    assert (agent.sessions(), agent.rewinds()) == (["t"], 0)


def test_fallbacks_of_the_library_are_followed_once(agent):
    """A completion with fallbacks is a call within a call: the fitted list of the outer one is not taken for an edit."""
    agent.provider.play(*reading_steps(STEPS))
    assert asyncio.run(loop(agent, task(), fallbacks=["openai/gpt-5-mini"])) == DONE
    check_requests(agent)
    assert (len(agent.sessions()), agent.rewinds()) == (1, 0)


def test_another_task_can_go_on_with_a_session(agent):
    """A call that is over gives its session back, although the task that made it lives on: there is no warning."""
    agent.provider.play(Step("Read.", do=(Read("a.py"),)), Step(DONE))

    async def run() -> str:
        messages, is_over = task(), asyncio.Event()

        async def first() -> None:
            messages.append(await completed(agent, messages))
            is_over.set()
            await asyncio.Event().wait()

        held = asyncio.create_task(first())
        await is_over.wait()
        messages.append({"role": "tool", "tool_call_id": messages[-1].tool_calls[0].id, "content": "text"})
        said = (await completed(agent, messages)).content
        held.cancel()
        return said

    assert asyncio.run(run()) == DONE


def test_a_cancelled_call_gives_its_session_back(agent):
    """LiteLLM tells nobody of a call that is cancelled: the next one of the session is fitted all the same, without a warning."""
    agent.provider.play(Step(DONE, faults=(Silence(),)))

    async def run() -> str:
        waiting = asyncio.create_task(completed(agent, task()))
        while not agent.provider.requests:  # noqa: ASYNC110 - it is a thread
            await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait([waiting])
        return (await completed(agent, task())).content

    assert asyncio.run(run()) == DONE


def test_users_of_a_proxy_do_not_share_a_session(agent):
    """The same session, named by two keys of a proxy, is two sessions."""
    agent.provider.play(Step(DONE), Step(DONE))
    for key in ("one", "two"):
        asyncio.run(completed(agent, task(), metadata={"user_api_key": key}))
    assert len(agent.sessions()) == 2
    assert all(name.endswith("/contract") for name in agent.sessions())


def test_calls_without_a_session_are_passed_on(agent):
    """Without the name of a session, a completion goes on as it is, and the warning says what to do."""
    agent.provider.play(Step(DONE))
    agent.thread = ""
    with pytest.warns(UserWarning, match="pass litellm_session_id"):
        assert asyncio.run(completed(agent, task())).content == DONE
    assert agent.sessions() == []


KEY = f"sk-{secrets.token_hex(32)}"
"""The proxy refuses to begin without a key that nobody guesses."""

CONFIG = """
general_settings: {{master_key: {key}}}
model_list:
  - model_name: gpt-5
    litellm_params: {{model: openai/gpt-5, api_base: "{url}/v1", api_key: any}}
litellm_settings:
  callbacks: fitted.callback
"""
PROGRAM = """
import foveal
from foveal.integrations.litellm import FovealCallback

callback = FovealCallback("foveal.db", foveal.Policy(max_context_tokens={budget}))
"""


@pytest.fixture
def proxy(agent: ContractAgent, tmp_path: Path) -> Any:
    """The address of LiteLLM's proxy, with the callback."""
    pytest.importorskip("apscheduler", reason="litellm[proxy] is not installed")
    (tmp_path / "config.yaml").write_text(CONFIG.format(url=agent.url, key=KEY))
    (tmp_path / "fitted.py").write_text(PROGRAM.format(budget=BUDGET))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "litellm"), "--config", "config.yaml", "--host", "127.0.0.1"]
    with (tmp_path / "proxy.log").open("w") as out:
        process = subprocess.Popen([*command, "--port", str(port)], cwd=tmp_path, stdout=out, stderr=out)
        try:
            while process.poll() is None and not _answers(port):
                time.sleep(0.2)
            assert process.poll() is None, (tmp_path / "proxy.log").read_text()[-2_000:]
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait()


def _answers(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def test_a_client_of_the_proxy_is_fitted(agent, proxy, tmp_path):
    """A client of the proxy that names its session has requests that fit, with recall answered; it sees its own calls alone."""
    litellm.callbacks = []
    agent.provider.play(*reading_steps(STEPS))
    headers = {"x-litellm-session-id": "of-the-proxy"}
    client: Any = openai.OpenAI(base_url=proxy, api_key=KEY, default_headers=headers)
    messages = task()
    while True:
        reply = client.chat.completions.create(model="gpt-5", messages=messages, tools=TOOLS).choices[0].message
        messages.append(reply.model_dump(exclude_none=True))
        for call in reply.tool_calls or ():
            text = agent.read_file(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": text})
        if not reply.tool_calls:
            break
    assert (reply.content, len(agent.reads)) == (DONE, STEPS)
    check_requests(agent)
    with foveal.open_store(tmp_path / "foveal.db") as store:
        seen = ContractAgent(agent.provider, store, tmp_path)
        assert seen.answered() == [RECALL_TOOL, SEARCH_TOOL]
        assert (len(seen.sessions()), seen.rewinds()) == (1, 0)
