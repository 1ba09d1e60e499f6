"""The bodies of the HTTP API for runs of agents: parameters of the verbs of `Runs`, and replies with the library's values."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from foveal.agent.audit import AuditRecord
from foveal.agent.run_marks import RunStatus
from foveal.agent.runs import RunCard, RunCost
from foveal.agent.tools import UserAnswer
from foveal.gateway.api_types import MOST_LISTED, AttachRequest

MOST_WAIT_S = 600.0
"""Seconds that one request may wait for a run; proxies close connections that are silent for longer."""


class OfferedAgent(msgspec.Struct, frozen=True):
    """An agent that can be started here."""

    name: str
    description: str
    model: str
    tools: tuple[str, ...]
    agents: tuple[str, ...]
    """Its sub-agents."""


class AgentList(msgspec.Struct, frozen=True):
    """The agents of a gateway."""

    agents: tuple[OfferedAgent, ...]


class RunStart(msgspec.Struct, frozen=True):
    """The parameters of a run that begins: in a session that goes on, or in a new one."""

    agent: str
    text: str
    session: Annotated[str, Meta(max_length=400)] = ""
    files: tuple[AttachRequest, ...] = ()
    """Files that come with the words."""


class RunFilter(msgspec.Struct, frozen=True):
    """The parameters of a list of runs: the newest of each session, of one status if it is named."""

    status: RunStatus | None = None
    limit: Annotated[int, Meta(ge=1, le=MOST_LISTED)] = 100


class RunList(msgspec.Struct, frozen=True):
    """The runs of a caller, most recently used first."""

    runs: tuple[RunCard, ...]


class RunWords(msgspec.Struct, frozen=True):
    """Words of the user to a run."""

    text: str
    files: tuple[AttachRequest, ...] = ()
    """Files that come with the words."""


class RunAnswer(msgspec.Struct, frozen=True):
    """The answer to a question of a tool."""

    text: str
    question: Annotated[str, Meta(description="The id of the question; needed if there are several.")] = ""


class RunDecision(msgspec.Struct, frozen=True):
    """The decision about a call that waits for approval."""

    decision: Literal["allow", "deny", "edit", "always"] = "allow"
    reason: str = ""
    arguments: Annotated[dict[str, Any] | None, Meta(description="In place of the model's, for `edit`.")] = None
    question: str = ""


class RunStop(msgspec.Struct, frozen=True):
    """The reason for which a run is to end, or to rest."""

    reason: str = ""


class RunResume(msgspec.Struct, frozen=True):
    """The answer to the question of a run that goes on, if it waits for one."""

    answer: UserAnswer | None = None


class RunWait(msgspec.Struct, frozen=True):
    """The longest wait for a run to end or rest: after it, the run is returned as far as it has come."""

    timeout_s: Annotated[float, Meta(ge=0, le=MOST_WAIT_S)] = 30.0


class RunEvents(msgspec.Struct, frozen=True):
    """The id after which the events of a run are streamed. The header `last-event-id` says the same and counts more."""

    after: Annotated[int, Meta(ge=0)] = 0
    kinds: Annotated[str, Meta(description="Kinds of events, with commas between them; all, if it is empty.")] = ""


class RunAudit(msgspec.Struct, frozen=True):
    """The audit trail of a run and of its sub-agents."""

    records: tuple[AuditRecord, ...]


class RunBill(msgspec.Struct, frozen=True):
    """The model calls of a run and of its sub-agents, and their cost: null if a price is unknown."""

    cost: RunCost
    usd: float | None
    calls: int
