"""The table of the HTTP API: operations with their addresses, parameters and replies. Routes and OpenAPI are made of it."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import msgspec

from foveal.agent.driver import RunOutcome
from foveal.agent.run_events import RunEvent
from foveal.agent.runs import RunTree
from foveal.gateway import api_types as types
from foveal.gateway import run_types
from foveal.gateway.gateway_figures import GatewayFigures
from foveal.gateway.run_api import RunApi
from foveal.gateway.session_api import SessionApi
from foveal.gateway.session_names import ApiCaller
from foveal.stores.deletion import Deletion
from foveal.stores.port import SessionCard

PREFIX = "/foveal/v1"
"""The beginning of all addresses. No provider has such a path."""

SESSION = "{session}"
"""The segment of an address that names a session; a `/` in the name is written `%2F`."""

RUN = "{run}"
"""The segment of an address that names a run, or a session for its newest one; a `#` is written `%23`."""

_OWN = "foveal"

HEALTH_PATH = f"/{_OWN}/health"
"""The address that probes ask. It has no version, and needs no token."""

EVENTS, RUN_EVENTS, FIGURES, OPENAPI, HEALTH = "events", "run_events", "figures", "openapi", "health"
"""Operations that are answered by others than `SessionApi` and `RunApi`."""


class ApiOperation(NamedTuple):
    """One operation: `GET` and `DELETE` have their parameters in the query, `POST` has them as JSON."""

    name: str
    method: str
    path: tuple[str, ...]
    """The segments of the address after its base."""
    given: type[msgspec.Struct]
    returns: Any
    act: Callable[[Any, ApiCaller, str, Any], Awaitable[Any]] | None = None
    """A method of `SessionApi`, or of `RunApi`."""
    about: str = ""
    is_stream: bool = False
    """Whether it answers with server-sent events."""
    base: str = PREFIX
    """The beginning of its address."""

    @property
    def address(self) -> str:
        """The path after its base."""
        return "/" + "/".join(self.path)

    @property
    def place(self) -> int | None:
        """The segment of the address that is a name."""
        return next((i for i, segment in enumerate(self.path) if segment in (SESSION, RUN)), None)

    @property
    def is_of_runs(self) -> bool:
        """Whether it is about agents and their runs."""
        return self.path[0] in ("agents", "runs")

    @property
    def summary(self) -> str:
        """One sentence about it."""
        return self.about or ((self.act and self.act.__doc__) or "").strip().partition("\n")[0]


def is_own(path: str) -> bool:
    """Return whether a path is the gateway's own, misspelled ones as well: it is never passed on to a provider."""
    return path.lstrip("/").partition("/")[0] == _OWN


def _on(name: str, method: str, given: type[msgspec.Struct], returns: Any) -> ApiOperation:
    return ApiOperation(name, method, ("sessions", SESSION, name), given, returns, getattr(SessionApi, name))


def _of_run(name: str, method: str, given: type[msgspec.Struct], returns: Any = RunOutcome) -> ApiOperation:
    return ApiOperation(f"run_{name}", method, ("runs", RUN, name), given, returns, getattr(RunApi, name))


OPERATIONS: tuple[ApiOperation, ...] = (
    ApiOperation("create", "POST", ("sessions",), types.CreateRequest, SessionCard, SessionApi.create),
    ApiOperation("list", "GET", ("sessions",), types.ListRequest, types.SessionList, SessionApi.list),
    ApiOperation("get", "GET", ("sessions", SESSION), types.NoParameters, SessionCard, SessionApi.get),
    ApiOperation("delete", "DELETE", ("sessions", SESSION), types.DeleteRequest, Deletion, SessionApi.delete),
    _on("append", "POST", types.AppendRequest, types.KeptEntry),
    _on("extend", "POST", types.ExtendRequest, types.KeptEntries),
    _on("follow", "POST", types.FollowRequest, types.FollowReply),
    _on("prompt", "POST", types.PromptRequest, types.PromptReply),
    _on("recover", "POST", types.RecoverRequest, types.PromptReply),
    _on("serve", "POST", types.NoParameters, types.ServeReply),
    _on("why", "GET", types.WhyRequest, types.WhyReply),
    _on("recall", "GET", types.RecallRequest, types.RecallReply),
    _on("search", "GET", types.SearchRequest, types.SearchReply),
    _on("pressure", "GET", types.NoParameters, types.PressureReply),
    _on("compact", "POST", types.CompactRequest, types.CompactReply),
    _on("rewind", "POST", types.RewindRequest, types.KeptEntry),
    _on("inject", "POST", types.InjectRequest, types.KeptEntry),
    _on("remind", "POST", types.RemindRequest, types.NoParameters),
    _on("attach", "POST", types.AttachRequest, types.AttachReply),
    _on("children", "POST", types.ChildRequest, SessionCard),
    ApiOperation(
        EVENTS,
        "GET",
        ("sessions", SESSION, EVENTS),
        types.EventsRequest,
        types.LoggedEntry,
        about="Stream the entries of the log as server-sent events, those to come as well; an event's id is its place.",
        is_stream=True,
    ),
    ApiOperation("agents", "GET", ("agents",), types.NoParameters, run_types.AgentList, RunApi.agents),
    ApiOperation("run_start", "POST", ("runs",), run_types.RunStart, RunOutcome, RunApi.start),
    ApiOperation("run_list", "GET", ("runs",), run_types.RunFilter, run_types.RunList, RunApi.list),
    ApiOperation("run_show", "GET", ("runs", RUN), types.NoParameters, RunOutcome, RunApi.show),
    _of_run("steer", "POST", run_types.RunWords),
    _of_run("follow_up", "POST", run_types.RunWords),
    _of_run("answer", "POST", run_types.RunAnswer),
    _of_run("approve", "POST", run_types.RunDecision),
    _of_run("cancel", "POST", run_types.RunStop),
    _of_run("pause", "POST", run_types.RunStop),
    _of_run("resume", "POST", run_types.RunResume),
    _of_run("wait", "GET", run_types.RunWait),
    _of_run("tree", "GET", types.NoParameters, RunTree),
    _of_run("cost", "GET", types.NoParameters, run_types.RunBill),
    _of_run("audit", "GET", types.NoParameters, run_types.RunAudit),
    ApiOperation(
        RUN_EVENTS,
        "GET",
        ("runs", RUN, EVENTS),
        run_types.RunEvents,
        RunEvent,
        about="Stream the events of a run as server-sent events: the kept ones after an id, then those to come.",
        is_stream=True,
    ),
    ApiOperation(
        FIGURES,
        "GET",
        (FIGURES,),
        types.NoParameters,
        GatewayFigures,
        about="Return the figures of the page at `/`: of the gateway, and of each conversation.",
    ),
    ApiOperation(
        HEALTH,
        "GET",
        (HEALTH,),
        types.NoParameters,
        types.HealthReply,
        about="Return ok if the store answers, 503 with the reason if not; no token is needed.",
        base=f"/{_OWN}",
    ),
    ApiOperation(OPENAPI, "GET", ("openapi.json",), types.NoParameters, dict[str, Any], about="Return this document."),
)
