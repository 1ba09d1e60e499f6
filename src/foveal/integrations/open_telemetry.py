"""Spans and metrics of sessions for OpenTelemetry, with the names of its GenAI conventions and ours.

    session = foveal.Session(store, "fix-login", model="gpt-5", host=foveal.Host(on_event=OpenTelemetryListener()))

A model call is a span `chat MODEL` from the prompt to the provider's count of it. Where the current span is such a span of the
agent's framework already, our attributes are put on that one instead. No content of the conversation is exported.
"""

import time
from collections.abc import Mapping
from threading import Lock
from typing import TYPE_CHECKING, Any

import msgspec

from foveal.values.errors import MissingExtra
from foveal.values.events import (
    CompactionEnded,
    Event,
    LimitLearned,
    PressureChanged,
    PromptBuilt,
    PromptRefused,
    Recalled,
    SessionLost,
    SummaryRefused,
    UsageReported,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

try:
    from opentelemetry import metrics, trace
    from opentelemetry.trace import SpanKind, Status, StatusCode
except ImportError:
    raise MissingExtra("foveal.integrations.open_telemetry", "otel") from None

PROVIDERS = {"openai_chat": "openai", "openai_responses": "openai", "anthropic": "anthropic", "gemini": "gcp.gemini"}
"""Values of `gen_ai.provider.name` by the dialect of a prompt."""

_OPERATION = "gen_ai.operation.name"
_TOKEN_BUCKETS = [4.0**power for power in range(14)]
_SECOND_BUCKETS = [0.01 * 2.0**power for power in range(14)]
_MOST_OPEN = 10_000
"""Calls without a count whose spans are still open; the oldest ends when there are more."""


class _OpenCall(msgspec.Struct):
    """A call that was built and not counted yet."""

    span: "Span"
    is_own: bool
    began_ns: int
    attributes: dict[str, Any]


class OpenTelemetryListener:
    """Listens to any number of sessions, in any thread. With `spans=False` only metrics are made, and attributes of spans
    that are there: for hosts whose framework makes the spans of model calls."""

    def __init__(
        self,
        *,
        tracer_provider: "TracerProvider | None" = None,
        meter_provider: "MeterProvider | None" = None,
        spans: bool = True,
    ) -> None:
        self._tracer = trace.get_tracer("foveal", tracer_provider=tracer_provider)
        self._has_spans = spans
        self._open: dict[str, _OpenCall] = {}
        self._lock = Lock()
        meter = metrics.get_meter("foveal", meter_provider=meter_provider)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage", "{token}", explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS
        )
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", explicit_bucket_boundaries_advisory=_SECOND_BUCKETS
        )
        self._folds = meter.create_counter("foveal.folds", "{fold}")
        self._rebilled = meter.create_counter("foveal.folds.rebilled", "{token}")
        self._saved = meter.create_counter("foveal.folds.saved", "{token}")
        self._recalls = meter.create_counter("foveal.recalls", "{call}")
        self._refusals = meter.create_counter("foveal.prompts.refused", "{prompt}")

    def __call__(self, event: Event) -> None:
        """Take an event of a session in."""
        match event:
            case PromptBuilt():
                self._built(event)
            case UsageReported():
                self._counted(event)
            case CompactionEnded():
                self._folds.add(1, {"foveal.fold.author": event.author})
                self._rebilled.add(event.rebilled)
                self._saved.add(max(0, event.before - event.after))
                self._note("foveal.fold", event)
            case Recalled():
                self._recalls.add(1, {"gen_ai.tool.name": event.tool})
                self._note("foveal.recall", event)
            case PromptRefused():
                self._refusals.add(1)
                self._failed("foveal.refused", event)
            case SessionLost():
                self._failed("foveal.lost", event)
            case LimitLearned() | SummaryRefused() | PressureChanged():
                self._note(f"foveal.{event.__struct_config__.tag}", event)
            case _:
                pass

    def _built(self, event: PromptBuilt) -> None:
        """Begin the span of a call, or describe the one that the framework began."""
        asked = {
            _OPERATION: "chat",
            "gen_ai.provider.name": PROVIDERS.get(event.dialect, event.dialect),
            "gen_ai.request.model": event.model,
        }
        ours = {
            "gen_ai.conversation.id": event.session,
            "foveal.prompt.call": event.call,
            "foveal.prompt.tokens": event.tokens,
            "foveal.prompt.limit": event.limit,
            **({"foveal.fold.reason": event.fold} if event.fold else {}),
        }
        current = trace.get_current_span()
        known: Mapping[str, Any] = getattr(current, "attributes", None) or {}  # of a span that is recorded
        is_chat = known.get(_OPERATION) == "chat"
        began_ns = time.time_ns()
        is_own = self._has_spans and not is_chat
        if is_own:
            name = f"chat {event.model}"
            span = self._tracer.start_span(name, kind=SpanKind.CLIENT, attributes=asked | ours, start_time=began_ns)
        else:
            span = current
            span.set_attributes(ours)
        with self._lock:
            left = [self._open.pop(event.session)] if event.session in self._open else []
            if len(self._open) >= _MOST_OPEN:
                left.append(self._open.pop(next(iter(self._open))))
            self._open[event.session] = _OpenCall(span, is_own, began_ns, asked)
        for call in left:
            _end(call)

    def _counted(self, event: UsageReported) -> None:
        """End the span of a call with the provider's count."""
        with self._lock:
            call = self._open.pop(event.session, None)
        labels = dict(call.attributes) if call else {_OPERATION: "chat", "gen_ai.request.model": event.model}
        self._tokens.record(event.input_tokens, {**labels, "gen_ai.token.type": "input"})
        self._tokens.record(event.output_tokens, {**labels, "gen_ai.token.type": "output"})
        if call is None:
            return
        call.span.set_attributes(
            {
                "gen_ai.response.model": event.model,
                "gen_ai.usage.input_tokens": event.input_tokens,
                "gen_ai.usage.output_tokens": event.output_tokens,
                "gen_ai.usage.cache_read.input_tokens": event.cache_read_tokens,
                "gen_ai.usage.cache_creation.input_tokens": event.cache_write_tokens,
            }
        )
        if event.reasoning_tokens is not None:
            call.span.set_attribute("gen_ai.usage.reasoning.output_tokens", event.reasoning_tokens)
        self._seconds.record((time.time_ns() - call.began_ns) / 1e9, labels)
        _end(call)

    def end_call(self, session: str, *, is_failed: bool) -> None:
        """End the span of a session's call that was never counted, if there is one."""
        with self._lock:
            call = self._open.pop(session, None)
        if call is None:
            return
        if is_failed and call.is_own:
            call.span.set_attribute("error.type", "_OTHER")  # the words of an error may quote the conversation
            call.span.set_status(Status(StatusCode.ERROR))
        _end(call)

    def _note(self, name: str, event: Event) -> None:
        """Put an event on the span of the session's call under way, else on the current one."""
        with self._lock:
            call = self._open.get(event.session)
        span = call.span if call and call.is_own else trace.get_current_span()
        span.add_event(name, _attributes(event))

    def _failed(self, name: str, event: Event) -> None:
        """Put a failure on the current span; a call that was under way ends without a count."""
        with self._lock:
            call = self._open.pop(event.session, None)
        span = call.span if call and call.is_own else trace.get_current_span()
        span.add_event(name, _attributes(event))
        if call and call.is_own:
            span.set_status(Status(StatusCode.ERROR))
            _end(call)


def _end(call: _OpenCall) -> None:
    if call.is_own:
        call.span.end()


def _attributes(event: Event) -> dict[str, Any]:
    """Return the fields of an event as attributes of a span's event."""
    values: dict[str, Any] = msgspec.structs.asdict(event)
    return {f"foveal.{name}": value for name, value in values.items() if value is not None}
