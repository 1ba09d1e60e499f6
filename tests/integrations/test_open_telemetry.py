"""Spans and metrics by the real SDK of OpenTelemetry, of real sessions."""

from collections.abc import Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from foveal import Host, OverBudget, Policy, Session, ToolCall, Usage, assistant, result, user
from foveal.integrations.open_telemetry import OpenTelemetryListener
from foveal.stores.memory import MemoryStore


class Collected:
    """A listener, and the spans and metrics that it made."""

    def __init__(self, *, spans: bool = True) -> None:
        self._exporter, self._reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.meters = MeterProvider([self._reader])
        self.listener = OpenTelemetryListener(tracer_provider=self.tracers, meter_provider=self.meters, spans=spans)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def sums(self) -> dict[str, float]:
        """Return the sum of each metric over all attributes."""
        data = self._reader.get_metrics_data()
        assert data
        metrics = [
            one for resource in data.resource_metrics for scope in resource.scope_metrics for one in scope.metrics
        ]
        return {
            one.name: sum(getattr(p, "value", getattr(p, "sum", 0)) for p in one.data.data_points) for one in metrics
        }


@pytest.fixture
def collected() -> Iterator[Collected]:
    one = Collected()
    yield one
    one.tracers.shutdown()
    one.meters.shutdown()


def opened(listener: OpenTelemetryListener) -> Session:
    host = Host(on_event=listener)
    return Session(MemoryStore(), "traced", model="gpt-5", policy=Policy(max_context_tokens=4_000), host=host)


def worked(session: Session, steps: int) -> None:
    session.append(user("My password is hunter2-secret."))
    for n in range(steps):
        prompt = session.prompt()
        call = ToolCall(f"c{n}", "read_file", "{}")
        session.extend([assistant("", call), Usage("gpt-5", prompt.tokens, 9, 100, 20)])
        session.append(result(f"c{n}", "\n".join(f"value_{n}_{i} = {i * n}" for i in range(60))))


def test_a_call_is_a_span_with_the_names_of_the_conventions(collected: Collected) -> None:
    """From the prompt to the count: model, provider, conversation, tokens, cache; and what the prompt was allowed."""
    with opened(collected.listener) as session:
        worked(session, 1)
    (span,) = collected.spans
    assert (span.name, span.kind) == ("chat gpt-5", trace.SpanKind.CLIENT)
    attributes = dict(span.attributes or {})
    sent = attributes["foveal.prompt.tokens"]
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.response.model": "gpt-5",
        "gen_ai.conversation.id": "traced",
        "gen_ai.usage.input_tokens": sent,
        "gen_ai.usage.output_tokens": 9,
        "gen_ai.usage.cache_read.input_tokens": 100,
        "gen_ai.usage.cache_creation.input_tokens": 20,
        "foveal.prompt.call": 1,
        "foveal.prompt.tokens": sent,
        "foveal.prompt.limit": attributes["foveal.prompt.limit"],
    }


def test_folds_are_counted_and_stand_on_the_span_of_their_call(collected: Collected) -> None:
    """A fold names its reason on the call that it was made for; the counters add up."""
    with opened(collected.listener) as session:
        worked(session, 30)
    folded = [span for span in collected.spans if "foveal.fold.reason" in (span.attributes or {})]
    sums = collected.sums()
    assert sums["foveal.folds"] == len(folded) > 1
    assert sums["foveal.folds.saved"] > sums["foveal.folds"]
    assert sums["gen_ai.client.token.usage"] == sum(
        int(str((span.attributes or {})["gen_ai.usage.input_tokens"])) + 9 for span in collected.spans
    )


def test_no_content_is_exported(collected: Collected) -> None:
    """Not in names, attributes or events of any span."""
    with opened(collected.listener) as session:
        worked(session, 30)
    assert not any("hunter2" in span.to_json() or "value_" in span.to_json() for span in collected.spans)


def test_a_span_of_the_framework_is_described_and_not_doubled(collected: Collected) -> None:
    """Inside a span that says it is a chat call, our attributes are on that one; inside any other, ours is its child."""
    tracer = collected.tracers.get_tracer("framework")
    with opened(collected.listener) as session, tracer.start_as_current_span("web request") as outer:
        with tracer.start_as_current_span("llm", attributes={"gen_ai.operation.name": "chat"}):
            worked(session, 1)
        prompt = session.prompt()
        session.extend([assistant("Done."), Usage("gpt-5", prompt.tokens, 2)])
    described, own, _ = collected.spans
    assert described.name == "llm"
    assert (described.attributes or {})["foveal.prompt.call"] == 1
    assert own.name == "chat gpt-5"
    assert own.parent
    assert own.parent.span_id == outer.get_span_context().span_id


def test_without_spans_only_metrics_are_made() -> None:
    """For hosts whose framework makes the spans of model calls."""
    collected = Collected(spans=False)
    with opened(collected.listener) as session:
        worked(session, 2)
    assert collected.spans == []
    assert collected.sums()["gen_ai.client.operation.duration"] >= 0


def test_calls_that_are_never_counted_end(collected: Collected) -> None:
    """The next prompt of the session ends the span; one that cannot be built is a failure on it."""
    with opened(collected.listener) as session:
        session.append(user("Hello."))
        session.prompt()
        session.append(user("Hello again."))
        session.prompt()
        with pytest.raises(OverBudget):
            session.prompt([{"type": "function", "function": {"name": "big", "description": "word " * 9_000}}])
    first, second = collected.spans
    assert first.status.is_unset
    assert not second.status.is_ok
    assert [event.name for event in second.events] == ["foveal.refused"]
    assert collected.sums()["foveal.prompts.refused"] == 1


@pytest.mark.parametrize("told", [None, 0, 7])
def test_thinking_is_an_attribute_where_the_provider_tells_it(collected: Collected, told: int | None) -> None:
    """Within the output's tokens, which stay as they are; a provider that says nothing has not said zero."""
    with opened(collected.listener) as session:
        session.append(user("Think."))
        session.prompt()
        session.extend([assistant("Done."), Usage("gpt-5", 10, 9, reasoning_tokens=told)])
    (span,) = collected.spans
    attributes = dict(span.attributes or {})
    assert attributes["gen_ai.usage.output_tokens"] == 9
    assert attributes.get("gen_ai.usage.reasoning.output_tokens") == told
