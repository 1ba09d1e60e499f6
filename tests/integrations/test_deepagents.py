"""deepagents: sub-agents that a deep agent calls have windows of their own. Its packages are `make dropins`' own."""

# pyright: reportMissingImports=false

from typing import Any

import pytest

deepagents: Any = pytest.importorskip("deepagents", reason="needs an older google-genai: tested by `make dropins`")

from langchain_core.messages import HumanMessage  # noqa: E402 - of the same packages
from langchain_core.tools import StructuredTool  # noqa: E402
from langchain_openai import ChatOpenAI  # noqa: E402

from foveal.integrations.langchain import FovealMiddleware  # noqa: E402
from foveal.testing.adapter_contract import (  # noqa: E402
    DONE,
    TASK,
    AdapterContract,
    ContractAgent,
    check_requests,
    end_of,
)
from foveal.testing.provider import Own, RawCall, Step  # noqa: E402
from foveal.values.own_tools import RECALL_TOOL  # noqa: E402

COUNT = "Count the lines of all files."
FILES = 20


def lookup(*paths: str) -> list[Step]:
    return [Step(f"I look at {path}.", do=(RawCall("lookup", {"path": path}),)) for path in paths]


def deep_agent(agent: ContractAgent) -> Any:
    """Return an agent with a sub-agent `counter`; both have the tool `lookup` and the middleware."""
    made: Any = ChatOpenAI
    model = made(model="gpt-5", base_url=f"{agent.url}/v1", api_key="any", use_responses_api=False)
    tools = [StructuredTool.from_function(agent.read_file, name="lookup")]
    fitted = FovealMiddleware(agent.store, agent.policy)
    counter = {"name": "counter", "description": "Counts.", "system_prompt": "Count.", "model": model}
    counter |= {"tools": tools, "middleware": [fitted]}
    return deepagents.create_deep_agent(
        model, tools, system_prompt="Be careful.", subagents=[counter], middleware=[fitted]
    )


def test_sub_agents_have_windows_of_their_own(tmp_path):
    """Two tasks for a sub-agent are two sessions behind the thread's: each fits, recalls its own, and never goes back."""
    tasks = [f"{COUNT} Begin with {name}." for name in ("x", "y")]
    ask = [Step("I ask.", do=(RawCall("task", {"description": one, "subagent_type": "counter"}),)) for one in tasks]
    agent = AdapterContract().agent(tmp_path, *ask, *lookup("a.py"), Step(DONE))
    for name, task in zip("xy", tasks, strict=True):
        read = lookup(*(f"{name}{number}.py" for number in range(FILES)))
        agent.provider.play(*read, Step("I look again.", do=(Own(RECALL_TOOL),)), Step("2,000 lines."), when=task)
    config: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 1_000}
    state = deep_agent(agent).invoke({"messages": [HumanMessage(TASK)]}, config)
    assert state["messages"][-1].text == DONE
    check_requests(agent)
    names = sorted(agent.sessions(), key=len)
    assert names[0] == "t"
    assert [name.startswith("t/tools:") for name in names] == [False, True, True]
    assert (agent.rewinds(), agent.answered()) == (0, [RECALL_TOOL] * 2)
    texts = [b"".join(row.payload for row in agent.store.rows(name)).decode() for name in names]
    assert [sum(end_of(path) in text for text in texts) for path in ("a.py", "x0.py", "y0.py")] == [1, 1, 1]
    agent.close()
