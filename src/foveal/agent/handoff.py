"""Handoff: another agent takes over the same conversation, with its own instructions, models, tools and bounds.

The call of the tool asks for it; the next step grants it when no call of the reply is open, so that a run that was killed in
between is handed over when it goes on.
"""

from collections.abc import Mapping, Sequence

import msgspec

from foveal.agent.definition import AgentDefinition
from foveal.agent.driver import RunDriver
from foveal.agent.near_names import did_you_mean
from foveal.agent.run_marks import HandoffAsked
from foveal.agent.tools import Tool, ToolOutput, tool
from foveal.text.redaction import Redactor

_LINE_CHARS = 120
"""Characters of instructions in the place of a description: their first sentence says what an agent is for."""


def listed(agents: Mapping[str, AgentDefinition], reader: AgentDefinition) -> str:
    """Return the names of agents with a line about each, for the model of another one that chooses; without secrets, if either
    takes them out of what is kept."""
    return "; ".join(f"{name}: {_line_about(one, one.redact or reader.redact)}" for name, one in agents.items())


def _line_about(agent: AgentDefinition, redact: Redactor | None) -> str:
    """Return the description of an agent or the beginning of its instructions. A secret that is cut is not found any more."""
    if agent.description:
        return redact(agent.description) if redact else agent.description
    return (redact(agent.instructions) if redact else agent.instructions)[:_LINE_CHARS]


def no_agent(name: str, agents: Mapping[str, AgentDefinition]) -> ToolOutput:
    """Return the answer to a call that names an agent which is not there."""
    return ToolOutput(f"There is no agent {name!r}. {did_you_mean(name, agents)}", "error")


def handoff_tools(driver: RunDriver) -> Sequence[Tool]:
    """Return the tool by which the agent of this driver hands over; none if it knows nobody."""
    agents = driver.agent.handoffs
    if not agents:
        return ()

    async def handoff(agent: str, reason: str = "") -> ToolOutput:
        if agent not in agents:
            return no_agent(agent, agents)
        times = driver.state.handoffs
        if times >= driver.agent.limits.max_handoffs:
            told = f"[not handed over: this run was handed over {times} times already. Answer with what you have.]"
            return ToolOutput(told, "error")
        return ToolOutput(f"[{agent} takes over]", data=HandoffAsked(agent, reason))

    made = tool(name="handoff", serial=True)(handoff)
    described = "Hand this conversation over to another agent, which answers in your place from here on. Agents: "
    return (msgspec.structs.replace(made, description=described + listed(agents, driver.agent)),)
