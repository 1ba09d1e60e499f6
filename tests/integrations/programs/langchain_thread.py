"""An agent of LangChain whose thread is in a file: begun, or resumed after a crash."""

import sqlite3
import sys
from pathlib import Path

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite import SqliteSaver
from pydantic import SecretStr

import foveal
from foveal.integrations.langchain import FovealMiddleware
from foveal.testing.adapter_contract import TASK, killing_read_file

url, folder, budget = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])


@tool
def read_file(path: str) -> str:
    """Read a file."""
    return killing_read_file(folder, path)


model = ChatOpenAI(model="gpt-5", base_url=f"{url}/v1", api_key=SecretStr("any"), use_responses_api=False)
graph = create_agent(
    model,
    [read_file],
    middleware=[FovealMiddleware(folder / "foveal.db", foveal.Policy(max_context_tokens=budget))],
    checkpointer=SqliteSaver(sqlite3.connect(folder / "threads.db", check_same_thread=False)),
)
config: RunnableConfig = {"configurable": {"thread_id": "contract"}, "recursion_limit": 1_000}
is_begun = bool(graph.get_state(config).values)
state = graph.invoke(None if is_begun else {"messages": [HumanMessage(TASK)]}, config, durability="sync")
sys.stdout.write(str(state["messages"][-1].text))
