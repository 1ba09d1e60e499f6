"""Tools on demand: an agent with more tools than a prompt should hold offers those that were asked for."""

import asyncio
import json

import pytest

from foveal.agent import tool
from foveal.agent.agent_file import read_agent
from foveal.context.environment import Environment
from foveal.context.toolbox import SEARCH, toolbox
from foveal.values.errors import BadInput

from .conftest import FakeModel, agent_with, calls, says


def made(name, described):
    """A tool that answers with its name."""

    def act(n: int = 0) -> str:
        return f"{name} was run"

    act.__doc__ = described
    return tool(name=name)(act)


MANY = [made(f"tracker_{number}", f"Do thing number {number}.") for number in range(300)]
REFUND = made("tracker_refund", "Give money back to a customer.")
LOOK = made("look", "Look.")


def offered(request):
    return [one["function"]["name"] for one in request["tools"]]


def test_a_tool_is_found_offered_and_run(store):
    """The first prompt has the core and the search; the tool that it finds is offered from the next step on."""
    model = FakeModel(calls(SEARCH, query="give money back"), calls("tracker_refund"), says("Done."))
    agent = agent_with(model, LOOK, *MANY, REFUND, on_demand=["tracker_*"])
    outcome = asyncio.run(agent.run("Refund it.", session="s", store=store))
    assert outcome.text == "Done."
    assert offered(model.requests[0]) == [SEARCH, "look"]
    assert "tracker_refund" in offered(model.requests[1])
    assert "tracker_refund" in offered(model.requests[2])
    assert len(offered(model.requests[2])) <= 8
    assert "tracker_refund was run" in json.dumps(model.requests[2]["messages"])


def test_a_found_tool_stays_for_the_next_run(store):
    """The log says which were found, in any process."""
    model = FakeModel(calls(SEARCH, query="tracker_refund"), says("Found."), says("Yes."))
    for text in ("Find it.", "Still there?"):
        agent = agent_with(model, *MANY, REFUND, on_demand=["*"])
        asyncio.run(agent.run(text, session="s", store=store))
    assert "tracker_refund" in offered(model.requests[2])


def test_a_mentioned_tool_is_offered_at_once(store):
    """`@tracker_refund` needs no search."""
    model = FakeModel(says("Yes."))
    asyncio.run(agent_with(model, *MANY, REFUND, on_demand=["*"]).run("Use @tracker_refund.", session="s", store=store))
    assert offered(model.requests[0]) == [SEARCH, "tracker_refund"]


def test_sub_agents_have_tools_on_demand_of_their_own(store):
    """The parent has neither them nor the search."""
    answer = "The money is on its way, and the customer was told so by mail. " * 5

    def reply(request):
        said = str(request["messages"])
        if "You lead." in said:
            return says("Done.") if answer in said else calls("delegate", task="Refund it.")
        if "was run" in said:
            return says(answer)
        return calls("tracker_refund") if "tracker_refund" in offered(request) else calls(SEARCH, query="money")

    model = FakeModel(by=reply)
    helper = agent_with(model, *MANY, REFUND, instructions="You help.", name="helper", on_demand=["tracker_*"])
    leader = agent_with(model, instructions="You lead.", name="leader", agents=[helper])
    assert asyncio.run(leader.run("Refund it.", session="s", store=store)).text == "Done."
    first, second, *_ = model.requests
    assert (offered(first), offered(second)) == (["delegate"], [SEARCH])


def test_a_name_that_no_tool_has_is_an_error_and_a_pattern_may_match_none():
    """The nearest name is told; the tools of a server can change."""
    with pytest.raises(BadInput, match=r"'tracker_refnd', which there is not. Did you mean tracker_refund"):
        agent_with(FakeModel(), REFUND, on_demand=["tracker_refnd"])
    agent = agent_with(FakeModel(), LOOK, on_demand=["other_*"])
    assert (agent.on_demand, agent.environment) == (frozenset(), None)


def test_there_is_one_box():
    """A toolbox of the environment and `on_demand` would be two."""
    with pytest.raises(BadInput, match="leave out one"):
        agent_with(FakeModel(), REFUND, on_demand=["*"], environment=Environment(toolbox=toolbox()))


def test_an_agent_file_names_them(tmp_path):
    """With the tools of MCP servers as with others; what it does not name is offered as before."""
    file = tmp_path / "agent.toml"
    file.write_text('model = "gpt-5"\ntools = ["files", "mine"]\non_demand = ["*_file", "mine"]\n')
    agent = read_agent(file, tools={"mine": made("mine", "Mine.")})
    assert agent.on_demand == {"read_file", "write_file", "edit_file", "mine"}
