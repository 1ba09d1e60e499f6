"""Runs of agents over the HTTP API: started, watched, steered, answered and ended, by those whose they are."""

import asyncio
import json
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from foveal import Policy
from foveal.agent import Agent, ApprovalRule, Limits, ModelChoice, ToolContext, ToolOutput, tool
from foveal.agent.definition import AgentDefinition
from foveal.agent.driver import RunDriver
from foveal.agent.inbox import FollowUp, post
from foveal.agent.run_log import read_events
from foveal.agent.run_marks import RunBegan, to_note
from foveal.agent.runs import ENDING, Runs
from foveal.gateway.app import Gateway
from foveal.gateway.operations import OPERATIONS
from foveal.gateway.server import served
from foveal.stores import Store
from foveal.testing.provider import Call, ScriptedProvider, Turn
from foveal.testing.run_checks import run_problems
from foveal.values.errors import BadPolicy

from .api_client import ApiClient, problems
from .conftest import Gateways, RunningGateway


class Bench:
    """An agent whose tool waits until it is told to go on."""

    def __init__(self, provider: ScriptedProvider) -> None:
        self.began, self.go = threading.Event(), threading.Event()

        @tool
        def work(ctx: ToolContext, n: int) -> ToolOutput:
            """Work."""
            self.began.set()
            while not self.go.wait(0.01):
                if ctx.is_cancelled:
                    break
            return ToolOutput(f"worked {n}", data={"value": object()})

        @tool
        def remove(path: str) -> str:
            """Remove a file."""
            return f"removed {path}"

        model = ModelChoice("gpt-5", "openai", f"{provider.url}/v1")
        reader = Agent("You read.", name="reader", model=model)
        self.agent = Agent(
            "You work.",
            name="worker",
            description="works",
            model=model,
            tools=[work, remove],
            agents=[reader],
            approvals=[ApprovalRule("remove")],
        )


@pytest.fixture
def bench(provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    made = Bench(provider)
    yield made
    made.go.set()


@pytest.fixture
def gateway(start: Gateways, bench: Bench) -> RunningGateway:
    return start(agents=[bench.agent])


def calls(name: str, **given: Any) -> Turn:
    return Turn("", (Call("call_1", name, given),))


def events_in(api: ApiClient, lines: Iterator[str]) -> Iterator[tuple[int, str, Any]]:
    """Yield id, name and data of the events of a stream, each as the document says."""
    fields: dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line:
            fields[name] = value
            continue
        if "data" in fields:
            data = json.loads(fields["data"])
            if fields["event"] != "end":
                schema = api._operations["run_events"][2]["responses"]["200"]["content"]["text/event-stream"]["schema"]
                assert problems(data, schema, api.document) == [], data
            yield int(fields.get("id", 0)), fields["event"], data
        fields = {}


@contextmanager
def listening(api: ApiClient, run: str, kinds: str = "", **headers: str) -> Iterator[Iterator[tuple[int, str, Any]]]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    chosen = {"kinds": kinds} if kinds else {}
    with api.http.stream("GET", f"/runs/{run.replace('#', '%23')}/events", headers=named, params=chosen) as reply:
        assert reply.status_code == 200
        yield events_in(api, reply.iter_lines())


def test_a_run_from_its_start_to_its_answer(gateway: RunningGateway, bench: Bench, provider: ScriptedProvider) -> None:
    """The caller gets its id at once, and its outcome, its tree and its bill when it has ended; the session keeps all of it."""
    provider.script(calls("work", n=1), Turn("Done."))
    with ApiClient(gateway) as api:
        (offered,) = api.ask("agents")["agents"]
        assert (offered["name"], offered["tools"], offered["agents"]) == ("worker", ["work", "remove"], ["reader"])
        started = api.ask("run_start", agent="worker", text="Go.", session="s")
        assert (started["run"], started["session"]) == ("s#1", "s")
        assert bench.began.wait(30)
        assert api.ask("run_wait", "s#1", timeout_s=0)["status"] == "running"
        bench.go.set()
        ended = api.ask("run_wait", "s#1")
        assert (ended["status"], ended["text"], ended["steps"]) == ("completed", "Done.", 2)
        assert api.ask("run_show", "s") == ended
        assert [card["run"] for card in api.ask("run_list")["runs"]] == ["s#1"]
        assert api.ask("run_list", status="failed")["runs"] == []
        assert api.ask("run_tree", "s#1")["status"] == "completed"
        assert api.ask("run_cost", "s#1")["calls"] == 2
        assert [one["action"] for one in api.ask("run_audit", "s")["records"]][:2] == ["run.start", "model.select"]
        assert [card["id"] for card in api.ask("list")["sessions"]] == ["s"]
        provider.script(Turn("Again."))
        assert api.ask("run_start", agent="worker", text="And now?", session="s")["run"] == "s#2"
        assert api.ask("run_wait", "s")["text"] == "Again."
        assert api.ask("run_show", "s#1")["text"] == "Done."


def test_files_come_with_the_words_of_a_run(gateway: RunningGateway, provider: ScriptedProvider, store: Store) -> None:
    """As base64; one that cannot be shown is refused, and no session is made for it."""
    provider.script(Turn("Milk."))
    with ApiClient(gateway) as api:
        bad = {"name": "x.bin", "data": b64encode(bytes(range(256))).decode()}
        status, kind, said = api.refused("run_start", agent="worker", text="Read.", session="s", files=[bad])
        assert (status, kind, "x.bin cannot be sent" in said) == (400, "BadInput", True)
        assert store.cards() == []
        notes = {"name": "notes.txt", "data": b64encode(b"Buy milk.").decode()}
        api.ask("run_start", agent="worker", text="Read.", session="s", files=[notes])
        assert api.ask("run_wait", "s#1")["text"] == "Milk."
    assert "Buy milk." in str(provider.last.body["messages"])


def test_a_run_without_words_is_refused(gateway: RunningGateway, provider: ScriptedProvider, store: Store) -> None:
    """No session is made for it, and no model is asked about nothing."""
    with ApiClient(gateway) as api:
        status, kind, said = api.refused("run_start", agent="worker", text=" ", session="s")
        assert (status, kind, "no words and no files" in said) == (400, "BadInput", True)
        assert store.cards() == []
        provider.script(Turn("Done."))
        api.ask("run_start", agent="worker", text="Go.", session="s")
        assert api.refused("run_follow_up", "s#1", text="")[:2] == (400, "BadInput")
        assert api.ask("run_wait", "s#1")["text"] == "Done."


def test_files_come_with_words_for_a_run_under_way(
    gateway: RunningGateway, bench: Bench, provider: ScriptedProvider
) -> None:
    """To steer it, and for after its answer."""
    provider.script(calls("work", n=1), Turn("Milk."), Turn("Bread."))
    files = [{"name": f"{word}.txt", "data": b64encode(f"Buy {word}.".encode()).decode()} for word in ("milk", "bread")]
    with ApiClient(gateway) as api:
        api.ask("run_start", agent="worker", text="Go.", session="s")
        assert bench.began.wait(30)
        api.ask("run_steer", "s#1", text="Read.", files=files[:1])
        api.ask("run_follow_up", "s#1", text="And this.", files=files[1:])
        bench.go.set()
        assert api.ask("run_wait", "s#1")["text"] == "Bread."
    sent = [str(one.body["messages"]) for one in provider.requests]
    assert ["Buy milk." in one for one in sent] == [False, True, True]
    assert ["Buy bread." in one for one in sent] == [False, False, True]


def test_events_of_a_run_come_as_they_happen_and_resume_from_an_id(
    gateway: RunningGateway, bench: Bench, provider: ScriptedProvider, store: Store
) -> None:
    """A listener sees words and calls, also values that JSON cannot hold; one that lost its connection gets every kept event
    after the last one that it has seen."""
    provider.script(calls("work", n=1), Turn("Done."))
    with ApiClient(gateway) as api:
        api.ask("run_start", agent="worker", text="Go.", session="s")
        seen: list[tuple[int, str, Any]] = []
        with listening(api, "s#1") as events:
            for event in events:
                seen.append(event)
                if event[1] == "tool_started":
                    bench.go.set()
        names = [name for _, name, _ in seen]
        assert (names[0], names[-2:]) == ("run_started", ["run_ended", "end"])
        assert {"tool_called", "tool_returned", "text", "model_replied"} <= set(names)
        assert run_problems([data for _, name, data in seen if name != "end"]) == []
        kept = [event.id for event in read_events(store, "s")]
        for last in (0, kept[3], kept[3] + 1, kept[-1]):
            with listening(api, "s#1", last_event_id=str(last)) as events:
                assert [number for number, name, _ in events if name != "end"] == [one for one in kept if one > last]


def test_a_listener_may_ask_for_some_kinds_of_events(
    gateway: RunningGateway, bench: Bench, provider: ScriptedProvider
) -> None:
    """It hears those alone, and the end of the stream; a kind that there is not is refused, with the nearest."""
    provider.script(calls("work", n=1), Turn("Done."))
    bench.go.set()
    with ApiClient(gateway) as api:
        api.ask("run_start", agent="worker", text="Go.", session="s")
        with listening(api, "s#1", kinds="tool_called,run_ended") as events:
            assert [name for _, name, _ in events] == ["tool_called", "run_ended", "end"]
        status, kind, said = api.refused("run_events", "s#1", kinds="tool_caled")
        assert (status, kind) == (400, "BadInput")
        assert "Did you mean tool_called" in said


def test_a_stream_goes_on_over_a_question(gateway: RunningGateway, provider: ScriptedProvider) -> None:
    """The question comes with the call and the choices; after the answer the same stream has the rest."""
    provider.script(calls("remove", path="a.tmp"), Turn("Tidy."))
    with ApiClient(gateway) as api, ApiClient(gateway) as other:
        api.ask("run_start", agent="worker", text="Tidy up.", session="s")
        asked: dict[str, Any] = {}
        with listening(api, "s#1") as events:
            for _, name, data in events:
                if name == "question_asked":
                    asked = data["question"]
                if name == "status_changed" and data["status"] == "awaiting_user":
                    break
            assert (asked["tool"], asked["arguments"]) == ("remove", '{"path": "a.tmp"}')
            assert asked["options"] == ["allow", "deny", "edit", "always"]
            assert [one["id"] for one in other.ask("run_show", "s")["questions"]] == [asked["id"]]
            assert other.refused("run_resume", "s")[:2] == (400, "BadInput")
            other.ask("run_approve", "s", decision="edit", arguments={"path": "b.tmp"}, question=asked["id"])
            other.ask("run_resume", "s")
            rest = [(name, data) for _, name, data in events]
        assert rest[-1][0] == "end"
        assert any("removed b.tmp" in data["text"] for name, data in rest if name == "tool_ended")


def test_words_wishes_and_answers_reach_a_run(
    gateway: RunningGateway, bench: Bench, provider: ScriptedProvider
) -> None:
    """Steering and follow-ups are heard; a pause and a cancellation end the work; an answer may come with the resumption."""
    provider.script(calls("work", n=1), calls("remove", path="a"), Turn("Denied, then."), Turn("And so on."))
    with ApiClient(gateway) as api:
        api.ask("run_start", agent="worker", text="Go.", session="s")
        assert bench.began.wait(30)
        api.ask("run_follow_up", "s", text="And after that?")
        api.ask("run_pause", "s", reason="lunch")
        assert api.ask("run_wait", "s")["status"] == "paused"
        bench.go.set()
        api.ask("run_resume", "s")
        assert api.ask("run_wait", "s")["status"] == "awaiting_user"
        api.ask("run_steer", "s", text="Be careful.")
        api.ask("run_resume", "s", answer={"decision": "deny", "text": "not that one"})
        assert api.ask("run_wait", "s")["text"] == "And so on."
        sent = json.dumps(provider.requests[-1].body)
        assert "Be careful." in sent
        assert "And after that?" in sent
        assert "not run: the user said something first" in sent or "not that one" in sent
        assert api.refused("run_cancel", "s")[0] == 400
        assert "no agent 'worke' here. Did you mean worker?" in api.refused("run_start", agent="worke", text="x")[2]


def test_a_run_is_its_keys_alone(gateway: RunningGateway, bench: Bench, provider: ScriptedProvider) -> None:
    """The same name is another run with another key; nobody can tell another's run from one that is not there."""
    bench.go.set()
    provider.improvise = lambda request: Turn("A secret.")
    with ApiClient(gateway, x_api_key="k-1") as api:
        mine = api.ask("run_start", agent="worker", text="Go.", session="s")["run"]
        assert mine.startswith("s-")
        assert api.ask("run_wait", "s")["run"] == api.ask("run_wait", mine)["run"] == mine
    for headers in ({}, {"x_api_key": "k-2"}):
        with ApiClient(gateway, **headers) as api:
            assert api.ask("run_list")["runs"] == []
            absent = f"s-{'0' * 16}#1"
            for one in OPERATIONS:
                if one.is_of_runs and one.place is not None:
                    told: list[str] = []
                    for name in (mine, absent):
                        address = one.address.replace("{run}", name.replace("#", "%23"))
                        given: Mapping[str, Any] = (
                            {"json": {"text": "x"}} if "text" in one.given.__struct_fields__ else {}
                        )
                        given = given or ({"json": {}} if one.method == "POST" else {})
                        reply = api.http.request(one.method, address, **given)
                        assert reply.status_code == 404, (one.name, reply.text)
                        told.append(reply.text.replace(name.partition("#")[0], "NAME"))
                    assert told[0] == told[1], one.name
            assert api.refused("run_start", agent="worker", text="x", session=mine.partition("#")[0])[0] == 400


def test_a_session_of_the_api_is_given_to_a_run_and_back(gateway: RunningGateway, provider: ScriptedProvider) -> None:
    """A session that is open for the other operations can have a run, and goes on afterwards."""
    provider.script(Turn("Yes."))
    with ApiClient(gateway) as api:
        api.ask("create", name="s", model="gpt-5")
        api.ask("append", "s", item={"role": "user", "content": "The cookie is lost."})
        api.ask("run_start", agent="worker", text="Is it?", session="s")
        assert api.ask("run_wait", "s")["text"] == "Yes."
        assert "The cookie is lost." in json.dumps(provider.requests[-1].body)
        assert "Yes." in json.dumps(api.ask("prompt", "s")["request"])


def test_a_run_that_rests_is_cancelled_though_its_session_is_open_here(
    gateway: RunningGateway, provider: ScriptedProvider
) -> None:
    """Another operation has opened the session and keeps it: the caller's wish is granted all the same."""
    provider.script(calls("remove", path="a.tmp"))
    with ApiClient(gateway) as api:
        api.ask("run_start", agent="worker", text="Tidy up.", session="s")
        assert api.ask("run_wait", "s")["status"] == "awaiting_user"
        api.ask("create", name="s", model="gpt-5")
        assert api.ask("run_cancel", "s", reason="not needed")["status"] == "cancelled"


def test_a_deadline_holds_though_the_session_is_open_here(
    start: Gateways, bench: Bench, provider: ScriptedProvider
) -> None:
    """Whoever waits for the run has the gateway give the session up."""
    provider.script(calls("remove", path="a.tmp"), Turn("Then not."))
    bench.agent.limits = Limits(question_s=0.2)
    with ApiClient(start(agents=[bench.agent])) as api:
        api.ask("run_start", agent="worker", text="Tidy up.", session="s")
        assert api.ask("run_wait", "s")["status"] == "awaiting_user"
        api.ask("create", name="s", model="gpt-5")
        told = (api.ask("run_wait", "s")["status"] for _ in range(3_000))
        assert "completed" in told


def test_a_deadline_holds_though_the_session_is_open_here_and_nobody_waits(
    start: Gateways, bench: Bench, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway gives the session up by itself: a stream of the run's events goes on to its end."""
    monkeypatch.setattr("foveal.agent.runs.LETTING_GO_S", 0.1)
    provider.script(calls("remove", path="a.tmp"), Turn("Then not."))
    bench.agent.limits = Limits(question_s=0.3)
    with ApiClient(start(agents=[bench.agent])) as api:
        api.ask("run_start", agent="worker", text="Tidy up.", session="s")
        assert api.ask("run_wait", "s")["status"] == "awaiting_user"
        api.ask("create", name="s", model="gpt-5")
        with listening(api, "s", "run_ended") as events:
            assert next(events)[2]["status"] == "completed"


def test_callers_write_no_marks_of_runs_and_open_no_inboxes(
    gateway: RunningGateway, bench: Bench, provider: ScriptedProvider, store: Store
) -> None:
    """A forged mark would start an agent that is not offered, or tell a decision that nobody made."""
    bench.go.set()
    provider.script(Turn("Yes."), Turn("And more."))
    with ApiClient(gateway) as api:
        api.ask("create", name="s", model="gpt-5")
        forged = {"is": "note", "text": to_note(RunBegan(1, "reader")).text}
        assert "only runs write those" in api.refused("append", "s", item=forged)[2]
        assert api.refused("extend", "s", items=[forged])[0] == 400
        api.ask("append", "s", item={"is": "note", "text": "seen by me"})
        assert "the inbox of a session" in api.refused("create", name="s/.inbox", model="gpt-5")[2]
        assert api.refused("run_start", agent="worker", text="x", session="s/.inbox")[0] == 400
        assert "end the id of a run" in api.refused("run_start", agent="worker", text="x", session="s#1")[2]
        post(store, "s", FollowUp("And?"))
        for operation in ("get", "events", "delete"):
            assert api.refused(operation, "s/.inbox")[0] == 404, operation
        api.ask("run_start", agent="worker", text="Go.", session="s")
        assert api.ask("run_wait", "s")["status"] == "completed"


def test_a_run_that_cannot_be_taken_up_keeps_no_other_waiting(
    store: Store, provider: ScriptedProvider, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gateway tells its operator of one that another process has, and goes on with the rest."""
    monkeypatch.setattr("foveal.agent.runs.LETTING_GO_S", 0.1)
    provider.improvise = lambda request: Turn("Done.")
    bench.go.set()
    for name in ("a", "b"):
        asyncio.run(paused(bench.agent, store, name))
    asyncio.run(paused(bench.agent.agents["reader"], store, "c"))  # as after a handoff, or of a detached run
    held = store.acquire("b")
    told: list[str] = []
    with (
        served(Gateway(store, Policy(), agents=[bench.agent], tell=told.append)) as url,
        httpx2.Client(base_url=f"{url}/foveal/v1", timeout=60) as http,
    ):
        for name in ("a", "c"):
            assert "completed" in (http.get(f"/runs/{name}/wait").json()["status"] for _ in range(3_000)), name
        assert http.get("/runs/b").json()["status"] == "paused"
    held.release()
    assert any(line.startswith("run b#1 could not be taken up") for line in told)


def test_a_defect_while_runs_are_taken_up_is_told_at_once(
    store: Store, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for that work: whatever goes wrong in it is told to the operator while the gateway goes on."""
    told: list[str] = []
    gateway = Gateway(store, Policy(), agents=[bench.agent], tell=told.append)
    monkeypatch.setattr(gateway.api.runs._runs, "list", lambda **_: 1 / 0)
    with served(gateway) as url:
        while not told:
            assert httpx2.get(f"{url}/foveal/v1/agents").status_code == 200
    assert told == ["runs of the last process could not all be taken up: ZeroDivisionError: division by zero"]


def test_everything_is_closed_though_one_part_fails(
    store: Store, bench: Bench, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A part of the gateway that fails at the end, which is an error in the log, keeps no session held."""
    gateway = Gateway(store, Policy(max_context_tokens=10_000))
    monkeypatch.setattr(gateway.api, "close", lambda: 1 / 0)
    with served(gateway) as url:
        httpx2.post(f"{url}/foveal/v1/sessions", json={"name": "s", "model": "gpt-5"}).raise_for_status()
        assert store.cards("s")[0].holder is not None
    assert store.cards("s")[0].holder is None
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_a_run_that_began_with_another_model_is_left_alone(store: Store, bench: Bench) -> None:
    """A gateway that starts tells its operator of it: the conversation goes to no other host by itself."""
    bench.agent.models = (ModelChoice("gpt-5", "openai", "http://elsewhere.invalid/v1"),)
    asyncio.run(paused(bench.agent, store, "s"))
    bench.agent.models = (ModelChoice("gpt-5", "openai"),)
    told: list[str] = []
    with (
        served(Gateway(store, Policy(), agents=[bench.agent], tell=told.append)) as url,
        httpx2.Client(base_url=f"{url}/foveal/v1", timeout=60) as http,
    ):
        while not any("began with" in line for line in told):
            assert http.get("/runs/s").json()["status"] == "paused"
    assert any("s#1 began with openai:gpt-5@http://elsewhere.invalid/v1" in line for line in told)


def test_a_session_whose_name_ends_as_a_run_is_refused(gateway: RunningGateway) -> None:
    """With a key as without one: its runs could not be named by it."""
    for key in ({}, {"x_api_key": "k-1"}):
        with ApiClient(gateway, **key) as api:
            assert api.refused("run_start", agent="worker", text="x", session="a#1")[0] == 400
            assert api.refused("run_show", "a#" + "9" * 5_000)[0] == 404


async def paused(agent: AgentDefinition, store: Store, session: str) -> None:
    """Begin a run and leave it as a gateway does that ends."""
    driver = RunDriver(agent, store, session)
    await driver.begin("Go.")
    await driver.journal.write(driver.journal.status_mark("paused", ENDING))
    await driver.let_go()


def test_a_gateway_without_agents_still_has_the_runs_of_others(start: Gateways, store: Store, bench: Bench) -> None:
    """They are read, and can be cancelled; to start one, it says how to offer agents."""
    bench.go.set()
    with ApiClient(start()) as api:
        assert "foveal serve --agent FILE" in api.refused("run_start", agent="worker", text="x")[2]
        assert api.ask("agents")["agents"] == []
        assert api.refused("run_show", "s")[:2] == (404, "NotFound")


def test_a_gateway_that_ends_pauses_its_runs_and_the_next_one_goes_on(
    store: Store, provider: ScriptedProvider, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that waits is answered before the end, and the next gateway takes the run up by itself."""
    provider.script(calls("work", n=1), Turn("Done."))
    answers: list[str] = []
    whole, waits = Runs.wait, threading.Event()

    def seen(*given: Any) -> Any:
        waits.set()
        return whole(*given)

    monkeypatch.setattr(Runs, "wait", seen)
    with served(Gateway(store, Policy(), agents=[bench.agent])) as url:
        httpx2.post(f"{url}/foveal/v1/runs", json={"agent": "worker", "text": "Go.", "session": "s"})
        assert bench.began.wait(30)

        def wait() -> None:
            answers.append(httpx2.get(f"{url}/foveal/v1/runs/s/wait", timeout=60).json()["status"])

        waiting = threading.Thread(target=wait)
        waiting.start()
        assert waits.wait(30)
    waiting.join(30)
    assert answers == ["paused"]
    bench.go.set()
    with (
        served(Gateway(store, Policy(), agents=[bench.agent])) as url,
        httpx2.Client(base_url=f"{url}/foveal/v1", timeout=60) as http,
    ):
        told = (http.get("/runs/s/wait").json()["status"] for _ in range(3_000))
        assert "completed" in told
    assert run_problems(read_events(store, "s")) == []


def test_a_slow_listener_holds_up_nobody(gateway: RunningGateway, bench: Bench, provider: ScriptedProvider) -> None:
    """A client that opens a stream and never reads it does not keep the run from its end."""
    bench.go.set()
    long = "word " * 100_000
    provider.script(calls("work", n=1), Turn(long))
    with ApiClient(gateway) as api, ApiClient(gateway) as other:
        api.ask("run_start", agent="worker", text="Go.", session="s")
        with other.http.stream("GET", "/runs/s/events"):
            assert api.ask("run_wait", "s")["status"] == "completed"


def test_an_agent_with_a_memory_is_not_offered(store: Store) -> None:
    """All keys would share it; also that of an agent which works for one that is offered, by whichever way."""
    keeper = Agent("You keep.", name="keeper", model="gpt-5", policy=Policy(memory="all"))
    above = Agent("You ask.", name="above", model="gpt-5", agents=[keeper])
    handing = Agent("You hand over.", name="handing", model="gpt-5", handoffs=[above])
    above.handoffs["handing"] = handing  # they know each other
    spawning = Agent("You spawn.", name="spawning", model="gpt-5", detached=[keeper])
    for agent in (keeper, above, handing, spawning):
        with pytest.raises(
            BadPolicy, match="'keeper' has memory = 'all' in its policy; over HTTP all keys would share"
        ):
            Gateway(store, Policy(), agents=[agent])
