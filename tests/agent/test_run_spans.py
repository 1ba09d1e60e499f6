"""Spans of runs by the real SDK of OpenTelemetry: runs, model calls, tools and sub-agents, each below the right one."""

import asyncio
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind

import foveal
from foveal.agent import Agent, ApprovalRule, AskUser, ModelChoice, Runs, ToolContext, tool
from foveal.agent.run_events import QuestionAsked, StatusChanged, place_of
from foveal.agent.run_log import read_events
from foveal.agent.run_queue import StoreQueue
from foveal.agent.run_spans import RunSpans
from foveal.integrations.open_telemetry import OpenTelemetryListener
from foveal.testing.crash_points import cut_log

from .conftest import FakeModel, agent_with, calls, says

SECRET = "hunter2-secret"


@tool
def look(path: str) -> str:
    """Look."""
    if path == "missing":
        raise FileNotFoundError(SECRET)
    return f"{SECRET} {path}"


class Traced:
    """A listener for runs, and the spans that it made."""

    def __init__(self) -> None:
        self._exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers, self._meters = TracerProvider(), MeterProvider([self.reader])
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        calls = OpenTelemetryListener(tracer_provider=self.tracers, meter_provider=self._meters)
        self.listener = RunSpans(calls, tracer_provider=self.tracers)

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def tree(self) -> list[str]:
        """The names of all spans, each behind the names of those above it, in the order in which they began."""
        by_id = {span.context.span_id: span for span in self.spans if span.context}

        def path(span: ReadableSpan) -> str:
            above = by_id.get(span.parent.span_id) if span.parent else None
            return f"{path(above)} > {span.name}" if above else span.name

        return [path(span) for span in sorted(self.spans, key=lambda span: span.start_time or 0)]

    def attributes(self, name: str) -> dict[str, object]:
        (span,) = [span for span in self.spans if span.name == name]
        return dict(span.attributes or {})

    def close(self) -> None:
        self.tracers.shutdown()
        self._meters.shutdown()


@pytest.fixture
def traced() -> Iterator[Traced]:
    one = Traced()
    yield one
    one.close()


def test_a_run_is_a_span_with_its_calls_and_tools_below_it(traced, store):
    """Below the caller's own span; names, kinds and attributes are those of the conventions."""
    model = FakeModel(calls("look", path="a"), says("Found."))
    agent = agent_with(model, look, name="finder", on_event=traced.listener)

    async def ask():
        with traced.tracers.get_tracer("web").start_as_current_span("GET /"):
            await agent.run("Where?", session="s", store=store)

    asyncio.run(ask())
    above = "GET / > invoke_agent finder"
    assert traced.tree() == [
        "GET /",
        above,
        f"{above} > chat gpt-5",
        f"{above} > execute_tool look",
        f"{above} > chat gpt-5",
    ]
    assert traced.attributes("invoke_agent finder") == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "finder",
        "gen_ai.conversation.id": "s",
        "foveal.run": "s#1",
        "foveal.run.status": "completed",
    }
    assert traced.attributes("execute_tool look") == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "look",
        "gen_ai.tool.call.id": "call_0",
        "gen_ai.tool.type": "function",
    }
    chats = [span for span in traced.spans if span.name == "chat gpt-5"]
    assert [(span.kind, (span.attributes or {})["gen_ai.usage.output_tokens"]) for span in chats] == [
        (SpanKind.CLIENT, 1)
    ] * 2
    assert {(span.attributes or {})["gen_ai.provider.name"] for span in chats} == {"openai"}
    assert [(span.attributes or {})["foveal.prompt.call"] for span in chats] == [1, 2]
    data = traced.reader.get_metrics_data()
    names = {one.name for more in data.resource_metrics for scope in more.scope_metrics for one in scope.metrics}
    assert "gen_ai.client.token.usage" in names


def test_a_sub_agent_is_below_the_tool_that_gave_it_its_task(traced, store):
    """Two of them side by side, each with its own calls, in one trace; told once, though they have the listener as well."""
    found = "The cookie is set twice, in login.py, lines 12 and 40. " * 5

    def reply(request):
        said = str(request["messages"])
        if "You read." in said:
            return says(found) if '"tool"' in said.replace("'", '"') else calls("look", path="a")
        return says("Done.") if found in said else says("", *[("delegate", {"task": one}) for one in "ab"])

    model = FakeModel(by=reply)
    reader = agent_with(model, look, instructions="You read.", name="reader", on_event=traced.listener)
    agent = agent_with(model, instructions="You lead.", name="leader", agents=[reader], on_event=traced.listener)
    asyncio.run(agent.run("Where?", session="s", store=store))
    below = "invoke_agent leader > execute_tool delegate > invoke_agent reader"
    assert sorted(traced.tree()) == sorted(
        [
            "invoke_agent leader",
            *["invoke_agent leader > chat gpt-5", "invoke_agent leader > execute_tool delegate", below] * 2,
            *[f"{below} > chat gpt-5"] * 4,
            *[f"{below} > execute_tool look"] * 2,
        ]
    )
    delegates = [span for span in traced.spans if span.name == "execute_tool delegate"]
    readers = [span for span in traced.spans if span.name == "invoke_agent reader"]
    assert {span.parent.span_id for span in readers} == {span.context.span_id for span in delegates}
    assert len({span.context.trace_id for span in traced.spans}) == 1


def test_a_detached_sub_agent_is_below_the_run_that_spawned_it(traced, store):
    """It is a run of its own, so that it needs the listener itself, and may end later."""

    def reply(request):
        said = str(request["messages"])
        if "You help." in said:
            return says("It took a while, and this is what came of it, in some detail. " * 5)
        return says("Spawned.") if "is under way" in said else calls("spawn", task="Work.")

    model = FakeModel(by=reply)
    helper = agent_with(model, instructions="You help.", name="helper", on_event=traced.listener)
    leader = agent_with(model, instructions="You lead.", name="leader", detached=[helper], on_event=traced.listener)

    async def ask():
        runs = Runs(store, [leader])
        await runs.wait(await runs.start(leader, "Go.", session="s"))
        await runs.drain()

    asyncio.run(ask())
    assert "invoke_agent leader > invoke_agent helper > chat gpt-5" in traced.tree()
    assert len({span.context.trace_id for span in traced.spans}) == 1


def test_nothing_that_was_said_is_exported(traced, store):
    """Not of the user, the model, a tool, its arguments, its errors, or the reason of a failure."""
    model = FakeModel(
        says(SECRET, ("look", {"path": SECRET}), ("look", {"path": "missing"})), ValueError(f"refused: {SECRET}")
    )
    asyncio.run(agent_with(model, look, on_event=traced.listener).run(SECRET, session="s", store=store))
    assert [span.name for span in traced.spans][-1] == "invoke_agent agent"
    assert not any(SECRET in span.to_json() for span in traced.spans)


def test_failures_are_told_by_their_class(traced, store):
    """Of a tool, of the model call that failed, and of the run; what went well has no status."""
    model = FakeModel(calls("look", path="missing"), ValueError("no such model"))
    asyncio.run(agent_with(model, look, on_event=traced.listener).run("Go.", session="s", store=store))
    told = [(span.name, span.status.is_ok, (span.attributes or {}).get("error.type")) for span in traced.spans]
    assert told == [
        ("chat gpt-5", True, None),
        ("execute_tool look", False, "tool_error"),
        ("chat gpt-5", False, "_OTHER"),
        ("invoke_agent agent", False, "_OTHER"),
    ]


def test_retries_and_fallbacks_are_events_on_the_run(traced, store):
    """With the attempt and the pause; the call that failed for good is a span of its own."""

    class Overloaded(Exception):
        status_code = 529
        response = type("Response", (), {"headers": {"retry-after": "0"}})()

    model = FakeModel(Overloaded(), ValueError("no such model"), says("Yes."))
    choices = [ModelChoice("gpt-5", "openai"), ModelChoice("gpt-5-mini", "openai")]
    agent = Agent(model=choices[0], fallbacks=choices[1:], open_model=lambda _: model, on_event=traced.listener)
    asyncio.run(agent.run("Go.", session="s", store=store))
    *_, root = traced.spans
    told = [(event.name, dict(event.attributes or {})) for event in root.events]
    assert told == [
        ("foveal.retry", {"foveal.attempt": 1, "foveal.pause_s": 0.0}),
        ("foveal.fallback", {"gen_ai.request.model": "gpt-5-mini"}),
    ]
    assert traced.tree()[1:] == ["invoke_agent agent > chat gpt-5", "invoke_agent agent > chat gpt-5-mini"]


def test_a_rest_ends_the_span_and_going_on_begins_another(traced, store):
    """While a person thinks, nothing is open."""
    model = FakeModel(calls("look", path="a"), says("Found."))
    agent = agent_with(model, look, approvals=[ApprovalRule("look")], on_event=traced.listener)

    async def ask():
        runs = Runs(store, [agent])
        run = await runs.start(agent, "Go.", session="s")
        await runs.wait(run)
        first = traced.tree()
        await runs.resume(run, "yes")
        await runs.wait(run)
        await runs.drain()
        return first

    assert asyncio.run(ask()) == ["invoke_agent agent", "invoke_agent agent > chat gpt-5"]
    statuses = [(span.attributes or {}).get("foveal.run.status") for span in traced.spans]
    assert [one for one in statuses if one] == ["awaiting_user", "completed"]


def test_a_run_that_is_left_to_workers_is_a_span_where_it_is_driven(traced, store):
    """Whoever starts it and does not drive it has none."""
    agent = agent_with(FakeModel(says("Done.")), on_event=traced.listener)

    async def ask():
        runs = Runs(store, [agent], queue=StoreQueue())
        run = await runs.start(agent, "Go.", session="s")
        assert (traced.spans, traced.listener._runs) == ([], {})
        worker = Runs(store, [agent])
        await worker.recover()
        await worker.wait(run)

    asyncio.run(ask())
    assert traced.tree() == ["invoke_agent agent", "invoke_agent agent > chat gpt-5"]


def test_a_run_that_is_taken_up_is_a_span_though_it_does_not_say_that_it_runs(traced, store):
    """Its status was told by the process that died; the name of its agent as well."""
    asyncio.run(agent_with(FakeModel(says("Done."))).run("Go.", session="s", store=store))
    running = next(
        one.id for one in read_events(store, "s") if isinstance(one, StatusChanged) and one.status == "running"
    )
    cut = cut_log(store, "s", place_of(running))

    async def go_on():
        runs = Runs(cut, [agent_with(FakeModel(says("Done.")), on_event=traced.listener)])
        assert await runs.recover() == ["s#1"]
        await runs.wait("s#1")

    asyncio.run(go_on())
    assert traced.tree() == ["invoke_agent", "invoke_agent > chat gpt-5"]


def test_a_listener_that_fails_is_a_warning_and_the_run_goes_on(store):
    """And is called with every event of the run."""
    heard = []

    def listener(event):
        heard.append(type(event).__name__)
        raise RuntimeError("no")

    with pytest.warns(RuntimeWarning, match="on_event raised RuntimeError: no"):
        outcome = asyncio.run(agent_with(FakeModel(says("Yes.")), on_event=listener).run("Go.", store=store))
    assert outcome.text == "Yes."
    assert (heard[0], heard[-1]) == ("RunStarted", "RunEnded")


def test_a_tool_that_asks_and_is_answered_while_another_works_has_two_spans(traced, store):
    """The first one ends although the run has not rested in between."""

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        if ctx.answer is None:
            raise AskUser("Which?")
        return ctx.answer.text

    async def talk():
        runs = Runs(store)

        @tool
        async def wait() -> str:
            """Wait."""
            async for event in runs.observe("s"):
                if isinstance(event, QuestionAsked):
                    break
            await runs.answer("s", "this")
            return "waited"

        model = FakeModel(says("", ("ask", {}), ("wait", {})), says("Done."))
        await runs.start(agent_with(model, ask, wait, on_event=traced.listener), "Go.", session="s")
        return await runs.wait("s")

    assert asyncio.run(talk()).text == "Done."
    assert traced.tree().count("invoke_agent agent > execute_tool ask") == 2


@pytest.mark.parametrize("way", ["left", "lost"])
def test_the_spans_of_a_run_that_goes_on_elsewhere_end_here(traced, store, way):
    """Whether its process leaves it, or has lost its session to another one; also those of its sub-agent."""

    async def talk():
        begun = asyncio.Event()

        def reply(request):
            if "You lead." in str(request["messages"]):
                return calls("delegate", task="Work.")
            return [begun]

        model = FakeModel(by=reply)
        helper = agent_with(model, instructions="You help.", name="helper")
        leader = agent_with(model, instructions="You lead.", name="leader", agents=[helper], on_event=traced.listener)
        runs = Runs(store, [leader])
        await runs.start(leader, "Go.", session="s")
        await begun.wait()
        if way == "lost":
            with foveal.Session(store, "s", model="gpt-5", takeover=True):
                runs._live.by_session["s"][0].stop("paused")
                await asyncio.wait([runs._live.by_session["s"][1]])
        else:
            await runs.leave()

    asyncio.run(talk())
    names = [span.name for span in traced.spans]
    assert sorted(names) == sorted(
        ["invoke_agent leader", "chat gpt-5", "execute_tool delegate", "invoke_agent helper", "chat gpt-5"]
    )
    assert traced.attributes("invoke_agent leader")["foveal.run.status"] == "running"
    assert (traced.listener._runs, traced.listener._tools) == ({}, {})
