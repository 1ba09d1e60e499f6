"""The agent runtime: agents, their tools, and runs that go on from the log after any end of the process.

    agent = Agent("You answer questions about files.", model="claude-sonnet-5", tools=[read_file])
    outcome = await agent.run("What is this project about?")

`tools.py` makes tools of functions, `next_step.py` decides, `driver.py` does; `runs.py` supervises. A run is marks in the
log of its session (`run_marks.py`), from which its state (`run_state.py`) and its events (`run_events.py`) follow.
"""

from typing import TYPE_CHECKING

from foveal.values.lazy import later

if TYPE_CHECKING:
    from foveal.agent.agent import Agent
    from foveal.agent.approvals import ApprovalRule
    from foveal.agent.driver import RunOutcome
    from foveal.agent.model_port import ModelChoice, ModelPort
    from foveal.agent.next_step import Limits
    from foveal.agent.run_events import RunEvent
    from foveal.agent.runs import Runs
    from foveal.agent.tools import AskUser, Tool, ToolContext, ToolOutput, UserAnswer, UserQuestion, tool

__getattr__ = later(
    __name__,
    {
        "Agent": "agent",
        "ApprovalRule": "approvals",
        "AskUser": "tools",
        "Limits": "next_step",
        "ModelChoice": "model_port",
        "ModelPort": "model_port",
        "RunEvent": "run_events",
        "RunOutcome": "driver",
        "Runs": "runs",
        "Tool": "tools",
        "ToolContext": "tools",
        "ToolOutput": "tools",
        "UserAnswer": "tools",
        "UserQuestion": "tools",
        "tool": "tools",
    },
)

__all__ = [
    "Agent",
    "ApprovalRule",
    "AskUser",
    "Limits",
    "ModelChoice",
    "ModelPort",
    "RunEvent",
    "RunOutcome",
    "Runs",
    "Tool",
    "ToolContext",
    "ToolOutput",
    "UserAnswer",
    "UserQuestion",
    "tool",
]
