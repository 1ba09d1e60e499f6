"""The definition of an agent: its words, its models, its tools and its bounds. It holds no state: a run has a session."""

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import msgspec

from foveal.agent.approvals import ApprovalRule, check_rules
from foveal.agent.built_in_tools import built_in_tools
from foveal.agent.model_port import ModelChoice, ModelPort
from foveal.agent.near_names import did_you_mean
from foveal.agent.next_step import Limits
from foveal.agent.providers import open_model
from foveal.agent.tools import Tool, as_tools
from foveal.context.environment import Environment
from foveal.context.toolbox import toolbox
from foveal.session.policy import Policy
from foveal.text.redaction import Redactor
from foveal.values.errors import BadInput

THIN_CHARACTERS = 200
"""Answers below this were found to be of no use to the parent; such a sub-agent is asked once more."""
SUB_AGENT_STEPS = 20
"""Steps of a sub-agent whose own limits say nothing else."""

if TYPE_CHECKING:
    from foveal.agent.run_events import RunEvent
    from foveal.writers.port import Summariser


class AgentDefinition:
    """An agent as its driver sees it; `Agent` is the same with the verbs of a user.

    `tools` are tools, functions, and names of built-in ones for the current folder, such as "files".
    `fallbacks` are asked in their order when a model refuses for good or does not answer. `on_demand` names tools, also by
    patterns with `*` and `?`, that are offered when the model has found them with `foveal_tools` or the user mentions them:
    for agents with more tools than a prompt should hold. `agents` are sub-agents, to which the model may delegate;
    `detached` ones work in the background, `handoffs` take over the conversation. `approvals` say which calls a person must
    allow. `finalize` are words for one more step behind the answer, without tools, whose reply is the outcome: "Write the
    report as …". `open_model` brings a model port of your own. `on_event` is called with each event of the runs of this
    agent, on their event loop, so let it be quick; events of sub-agents are in `ChildTold`. `redact` takes
    the secrets out of all that is kept.
    """

    def __init__(
        self,
        instructions: str = "",
        *,
        model: str | ModelChoice | Mapping[str, Any],
        name: str = "agent",
        description: str = "",
        fallbacks: Sequence[str | ModelChoice | Mapping[str, Any]] = (),
        tools: Sequence[Tool | Callable[..., object] | str] = (),
        on_demand: Sequence[str] = (),
        agents: "Sequence[AgentDefinition]" = (),
        detached: "Sequence[AgentDefinition]" = (),
        handoffs: "Sequence[AgentDefinition]" = (),
        policy: Policy | None = None,
        finalize: str = "",
        limits: Limits = Limits(),  # noqa: B008 - a frozen value
        approvals: Sequence[ApprovalRule] = (),
        environment: Environment | None = None,
        summariser: "Summariser | None" = None,
        open_model: Callable[[ModelChoice], ModelPort] = open_model,
        on_event: "Callable[[RunEvent], None] | None" = None,
        redact: Redactor | None = None,
    ) -> None:
        if not name or "/" in name or "#" in name:
            raise BadInput(f"{name!r} cannot name an agent: a name is not empty and has no '/' and no '#'")
        self.name, self.description, self.instructions = name, description, instructions
        self.models = tuple(ModelChoice.of(one) for one in (model, *fallbacks))
        """The models in the order in which they are asked."""
        self.toolset = as_tools(_with_built_in(tools))
        self.on_demand = _matching(on_demand, self.toolset)
        """Names of the tools that are offered on demand."""
        self.agents = _by_name(name, agents)
        self.detached, self.handoffs = _by_name(name, detached), _by_name(name, handoffs)
        self._check_own_names()
        self.policy = policy if policy is not None else Policy(remind=True)
        self.finalize, self.limits, self.approvals = finalize, limits, tuple(approvals)
        check_rules(self.approvals, self.arguments_of_tools())
        others = frozenset((*self.agents, *self.detached, *self.handoffs))
        behind = [one.definition for name, one in self.toolset.items() if name in self.on_demand]
        self.environment = _with_tools(_with_agents(environment, others), behind)
        self.summariser, self.open_model = summariser, open_model
        self.on_event, self.redact = on_event, redact

    def arguments_of_tools(self) -> dict[str, Collection[str] | None]:
        """Return the tools that a rule may be about, with the names of their arguments; None where any may come. Those for other
        agents are among them."""
        known: dict[str, Collection[str] | None] = {
            name: None if one.parameters.get("additionalProperties", True) else one.parameters.get("properties", {})
            for name, one in self.toolset.items()
        }
        by_agents = {
            "delegate": self.agents,
            "spawn": self.detached,
            "spawned": self.detached,
            "handoff": self.handoffs,
        }
        return known | {name: None for name, others in by_agents.items() if others}

    def _check_own_names(self) -> None:
        """Raise `BadInput` for a tool of the agent that has the name of one by which it uses other agents."""
        offered = {
            "agents": ("delegate",) if self.agents else (),
            "detached": ("spawn", "spawned") if self.detached else (),
            "handoffs": ("handoff",) if self.handoffs else (),
        }
        for source, names in offered.items():
            if taken := self.toolset.keys() & set(names):
                raise BadInput(
                    f"the tool {sorted(taken)[0]!r} of the agent {self.name!r} has the name of the tool that {source}= gives "
                    "it; give yours another name: @tool(name=…)"
                )

    def as_sub_agent(self) -> "AgentDefinition":
        """Return the agent with the bounds of a sub-agent, where its own limits leave them open."""
        usual, limits, made = Limits(), self.limits, copy(self)
        steps = SUB_AGENT_STEPS if limits.max_steps == usual.max_steps else limits.max_steps
        thin = THIN_CHARACTERS if limits.thin_answer == usual.thin_answer else limits.thin_answer
        made.limits = msgspec.structs.replace(limits, max_steps=steps, thin_answer=thin)
        return made


AgentDefinition.__init__.__qualname__ = "Agent.__init__"
"""The name in errors about arguments: that of the class which people write."""


def _with_built_in(tools: Sequence[Tool | Callable[..., object] | str]) -> Iterator[Tool | Callable[..., object]]:
    """Yield the tools, with those of the current folder in the place of names of built-in ones."""
    if isinstance(tools, str):
        raise BadInput(f"tools is {tools!r}; it is a list of tools, functions and names: tools=[{tools!r}]")
    for one in tools:
        yield from built_in_tools((one,)) if isinstance(one, str) else (one,)


def _with_agents(environment: Environment | None, names: frozenset[str]) -> Environment | None:
    """Return the environment with the names of other agents: the user may mention them (`@reader`)."""
    if not names:
        return environment
    known = environment if environment is not None else Environment()
    return msgspec.structs.replace(known, agents=known.agents | names)


def _with_tools(environment: Environment | None, definitions: Sequence[Mapping[str, Any]]) -> Environment | None:
    """Return the environment with tools that are found by searching."""
    if not definitions:
        return environment
    known = environment if environment is not None else Environment()
    if known.toolbox is not None:
        raise BadInput("an agent has tools on demand by `on_demand`, or by a toolbox of its environment; leave out one")
    return msgspec.structs.replace(known, toolbox=toolbox(on_demand=definitions))


def _matching(patterns: Sequence[str], tools: Iterable[str]) -> frozenset[str]:
    """Return the names of tools that match. A pattern may match none, since a server's tools can change; a name may not."""
    names = frozenset(tools)
    for pattern in patterns:
        if pattern not in names and not set(pattern) & set("*?["):
            raise BadInput(f"on_demand names the tool {pattern!r}, which there is not. {did_you_mean(pattern, names)}")
    return frozenset(name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns))


def _by_name(owner: str, agents: Sequence[AgentDefinition]) -> dict[str, AgentDefinition]:
    named = {one.name: one for one in agents}
    if len(named) < len(agents):
        raise BadInput(f"two sub-agents of {owner!r} have one name; each needs a name of its own")
    return named


def with_successors(agents: Iterable[AgentDefinition]) -> dict[str, AgentDefinition]:
    """Return agents by name, with all that may get a run of theirs: by a handoff, or detached. The first of a name counts."""
    found: dict[str, AgentDefinition] = {}
    for one in everybody(agents):
        found.setdefault(one.name, one)
    return found


def everybody(agents: Iterable[AgentDefinition]) -> Iterator[AgentDefinition]:
    """Yield agents, then those that work for them, then those that work for these; each once, though they may know each other."""
    seen, waiting = set[int](), deque(agents)
    while waiting:
        one = waiting.popleft()
        if id(one) not in seen:
            seen.add(id(one))
            waiting.extend((*one.handoffs.values(), *one.detached.values(), *one.agents.values()))
            yield one
