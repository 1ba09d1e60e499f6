"""Spans of runs and of their tools for OpenTelemetry, with the names of its GenAI conventions.

    spans = RunSpans(OpenTelemetryListener())            # of foveal.integrations.open_telemetry: spans of model calls, metrics
    agent = Agent("You mend tests.", model="gpt-5", on_event=spans)

A run is a span `invoke_agent NAME`, below the span that was current when it was started. A rest ends it; going on is another one.
Its model calls and its tools, `execute_tool NAME`, are below it, and the run of a sub-agent is below the tool that gave it its
task. Nothing that anybody said is exported.
"""

from typing import TYPE_CHECKING, Protocol

import msgspec

from foveal.agent.run_events import (
    ChildTold,
    HandedOver,
    ModelFellBack,
    ModelRetried,
    RunEvent,
    RunReleased,
    SessionTold,
    StatusChanged,
    StepStarted,
    ToolEnded,
    ToolStarted,
    UsageCounted,
)
from foveal.agent.run_marks import AT_REST
from foveal.values.entry import Status
from foveal.values.errors import MissingExtra
from foveal.values.events import Event, PromptBuilt, UsageReported

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, TracerProvider

try:
    from opentelemetry import trace
    from opentelemetry.trace import StatusCode
except ImportError:
    raise MissingExtra("foveal.agent.run_spans", "otel") from None

_ERROR_TYPES: dict[Status, str] = {"error": "tool_error", "interrupted": "interrupted"}
_OTHER = "_OTHER"
"""The conventions' word for an error of no class: its text may quote the conversation."""


class CallSpans(Protocol):
    """A listener of sessions that makes the spans of model calls, such as `OpenTelemetryListener`."""

    def __call__(self, event: Event) -> None:
        """Take an event of a session in."""
        ...

    def end_call(self, session: str, *, is_failed: bool) -> None:
        """End the span of a session's call that was never counted, if there is one."""
        ...


class RunSpans:
    """Listens to the runs of any number of agents, with `Agent(on_event=…)`."""

    def __init__(self, calls: CallSpans, *, tracer_provider: "TracerProvider | None" = None) -> None:
        self._calls = calls
        self._tracer = trace.get_tracer("foveal", tracer_provider=tracer_provider)
        self._runs: dict[str, Span] = {}
        """Of runs under way, by their ids."""
        self._tools: dict[tuple[str, str], Span] = {}
        """Of calls under way, by run and call."""

    def __call__(self, event: RunEvent) -> None:
        """Take an event of a run in."""
        caller = None
        while isinstance(event, ChildTold):
            caller, event = (event.scope.run, event.call), event.event
        run = event.scope.run
        if run not in self._runs and _is_at_work(event):
            self._begin(event, caller)
        match event:
            case StatusChanged(status=status) if status in AT_REST:
                self._rest(event, status)
            case RunReleased():
                self._rest(event, "running")
            case ToolStarted(call=call, tool=tool):
                self._calls.end_call(event.scope.session, is_failed=False)
                self._end_tool((run, call), "ok")  # it has asked the user, and is run with the answer
                named = {"gen_ai.tool.name": tool, "gen_ai.tool.call.id": call, "gen_ai.tool.type": "function"}
                span = self._span("execute_tool", tool, self._below(run), named)
                self._tools[run, call] = span
            case ToolEnded(call=call, status=status):
                self._end_tool((run, call), status)
            case _ if run in self._runs:
                with trace.use_span(self._runs[run], end_on_exit=False):
                    self._told(event)
            case _:
                pass

    def _told(self, event: RunEvent) -> None:
        """Take in an event within the span of its run."""
        scope = event.scope
        match event:
            case StepStarted(model=model, tokens=tokens, limit=limit, dialect=dialect):
                self._calls(PromptBuilt(scope.session, scope.step + 1, model, tokens, limit, dialect))
            case UsageCounted(usage=usage):
                told = msgspec.structs.asdict(usage)
                self._calls(UsageReported(session=scope.session, **told))
            case ModelFellBack(model=model):
                self._calls.end_call(scope.session, is_failed=True)
                trace.get_current_span().add_event("foveal.fallback", {"gen_ai.request.model": model})
            case ModelRetried(attempt=attempt, pause_s=pause_s):
                told = {"foveal.attempt": attempt, "foveal.pause_s": pause_s}
                trace.get_current_span().add_event("foveal.retry", told)
            case HandedOver(agent=agent):
                trace.get_current_span().add_event("foveal.handoff", {"gen_ai.agent.name": agent})
            case SessionTold(event=inner) if not isinstance(inner, PromptBuilt | UsageReported):
                self._calls(inner)
            case _:
                pass

    def _begin(self, event: RunEvent, caller: tuple[str, str] | None) -> None:
        """Begin the span of a run: below the tool that it works for, else below the run above it, else the current one."""
        scope, agent = event.scope, event.agent if isinstance(event, StatusChanged) else ""
        above = self._tools.get(caller) if caller else None
        parent = trace.set_span_in_context(above) if above else self._below(scope.parent)
        named = {"gen_ai.conversation.id": scope.session, "foveal.run": scope.run}
        named |= {"gen_ai.agent.name": agent} if agent else {}
        self._runs[scope.run] = self._span("invoke_agent", agent, parent, named)

    def _rest(self, event: RunEvent, status: str) -> None:
        """End the span of a run that has ended or rests, and the spans of everything in it that was given up."""
        run = event.scope.run
        self._calls.end_call(event.scope.session, is_failed=status == "failed")
        for key in [key for key in self._tools if key[0] == run]:
            self._end_tool(key, "ok")
        if (span := self._runs.pop(run, None)) is not None:
            span.set_attribute("foveal.run.status", status)
            if status == "failed":
                _fail(span, _OTHER)
            span.end()

    def _end_tool(self, key: tuple[str, str], status: Status) -> None:
        if (span := self._tools.pop(key, None)) is not None:
            if status in _ERROR_TYPES:
                _fail(span, _ERROR_TYPES[status])
            span.end()

    def _below(self, run: str) -> "Context | None":
        """Return the context below the span of a run; None, which is the current one, if it has none."""
        return trace.set_span_in_context(self._runs[run]) if run in self._runs else None

    def _span(self, operation: str, name: str, parent: "Context | None", named: dict[str, str]) -> "Span":
        attributes = {"gen_ai.operation.name": operation, **named}
        return self._tracer.start_span(f"{operation} {name}".strip(), context=parent, attributes=attributes)


def _is_at_work(event: RunEvent) -> bool:
    """Return whether a run is under way here; one that was taken up from a dead process does not say so first."""
    is_running = isinstance(event, StatusChanged) and event.status == "running"
    return is_running or isinstance(event, StepStarted | ToolStarted)


def _fail(span: "Span", error_type: str) -> None:
    span.set_attribute("error.type", error_type)
    span.set_status(StatusCode.ERROR)
