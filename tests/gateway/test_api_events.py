"""The events of a session: its log as a stream, from any place, without a gap."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from foveal import Session, user
from foveal.agent.run_events import RunScope, ToolReturned
from foveal.gateway import event_stream
from foveal.stores import Store

from .api_client import ApiClient, problems
from .conftest import Gateways


class Listener:
    """Reads the events of a stream one by one."""

    def __init__(self, reply: httpx2.Response, document: dict[str, Any]) -> None:
        self._lines, self._document = reply.iter_lines(), document
        self.pings = 0

    def next(self) -> tuple[int, str, Any]:
        """Return id, name and data of the next event."""
        fields: dict[str, str] = {}
        for line in self._lines:
            self.pings += line.startswith(": ping")
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
            elif "data" in fields:
                break
            else:
                fields = {}
        data = json.loads(fields["data"])
        if fields["event"] != "end":
            assert problems(data, {"$ref": "#/components/schemas/LoggedEntry"}, self._document) == []
        return int(fields.get("id", 0)), fields["event"], data


@contextmanager
def listening(api: ApiClient, session: str, query: str = "", **headers: str) -> Iterator[Listener]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with api.http.stream("GET", f"/sessions/{session}/events{query}", headers=named) as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"].startswith("text/event-stream")
        yield Listener(reply, api.document)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "POLL_S", 0.01)


@pytest.fixture
def api(start: Gateways) -> Iterator[ApiClient]:
    with ApiClient(start()) as client:
        client.ask("create", name="s", model="gpt-5")
        yield client


def test_entries_come_in_order_old_and_new(api: ApiClient) -> None:
    """A listener gets the whole log, then every entry as it is written; the id of an event is the entry's place."""
    first = api.ask("append", "s", item={"role": "user", "content": "Go."})
    with listening(api, "s") as events:
        assert events.next()[:2] == (1, "note")
        seq, kind, data = events.next()
        assert (seq, kind, data["entry"]["id"]) == (2, "message", first["id"])
        assert data["entry"]["body"]["parts"] == [{"is": "text", "text": "Go."}]
        api.ask("prompt", "s")
        assert events.next()[:2] == (3, "setup")
        api.ask("append", "s", item={"role": "assistant", "content": "Done."})
        assert events.next()[:2] == (4, "message")


def test_a_listener_goes_on_where_it_was(api: ApiClient) -> None:
    """`last-event-id`, which browsers send by themselves, and `after` begin behind a place; the header counts more."""
    for i in range(250):
        api.ask("append", "s", item={"role": "user", "content": f"Message {i}."})
    with listening(api, "s") as events:
        assert [events.next()[0] for _ in range(251)] == list(range(1, 252))
    with listening(api, "s", last_event_id="249") as events:
        assert [events.next()[0] for _ in range(2)] == [250, 251]
    with listening(api, "s", "?after=250") as events:
        assert events.next()[0] == 251
    with listening(api, "s", "?after=1", last_event_id="250") as events:
        assert events.next()[0] == 251
    for wrong in ("x", "-1", "9" * 30, "²"):
        reply = api.http.get("/sessions/s/events", headers=[(b"last-event-id", wrong.encode())])
        assert (reply.status_code, reply.json()["error"]["type"]) == (400, "BadInput")


def test_a_fold_is_an_event_without_its_packed_view(api: ApiClient) -> None:
    """Listeners learn of a fold, its reason and its figures; bytes that only Foveal can read stay in the log."""
    for i in range(12):
        call = {"is": "call", "id": f"c{i}", "name": "read", "arguments": "{}"}
        answer = {"is": "result", "call": f"c{i}", "content": [{"is": "text", "text": f"line {i}\n" * 400}]}
        api.ask("append", "s", item={"is": "message", "role": "assistant", "parts": [call]})
        api.ask("append", "s", item={"is": "message", "role": "tool", "parts": [answer]})
    assert api.ask("prompt", "s")["fold"]
    with listening(api, "s") as events:
        while (event := events.next())[1] != "fold":
            pass
    body = event[2]["entry"]["body"]
    assert body["before"] > body["after"]
    assert "layout" not in body


def test_entries_of_other_writers_come_too(start: Gateways, store: Store) -> None:
    """The stream is of the log: a session that the host's own program writes is heard as well."""
    with Session(store, "own", model="gpt-5") as session, ApiClient(start()) as api:
        session.append(user("One."))
        with listening(api, "own") as events:
            assert events.next()[0] == 1
            session.append(user("Two."))
            assert events.next()[0] == 2


def test_silence_has_signs_of_life(api: ApiClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """While nothing happens, a listener and the proxies before it get pings."""
    monkeypatch.setattr(event_stream, "PING_S", 0.02)
    with listening(api, "s", "?after=1") as events:
        for line in events._lines:
            if line.startswith(": ping"):
                break
        api.ask("append", "s", item={"role": "user", "content": "Go."})
        assert events.next()[0] == 2


def test_the_end_of_a_session_is_the_end_of_its_stream(api: ApiClient) -> None:
    """A listener of a session that is deleted is told so, and the stream ends."""
    with listening(api, "s") as events:
        events.next()
        api.ask("delete", "s")
        _, kind, data = events.next()
        assert (kind, data["type"]) == ("end", "NotFound")
        assert list(events._lines) == []


def test_the_end_of_the_gateway_is_the_end_of_its_streams(start: Gateways) -> None:
    """A gateway that ends does not wait for listeners, who would stay for ever."""
    gateway = start()
    with ApiClient(gateway) as api:
        api.ask("create", name="s", model="gpt-5")
        with listening(api, "s") as events:
            events.next()
            gateway.gateway.api.is_over = True
            assert list(events._lines) == []


class _Stubborn:
    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize("data", [{(1, 2): "x"}, _Stubborn()], ids=["keys that are no texts", "no words for it"])
def test_a_value_of_a_tool_that_json_cannot_hold_does_not_end_the_stream(data):
    """The event is told, without the value."""
    event = ToolReturned(scope=RunScope("s", "s#1", "", 1, 1), call="c", data=data)
    assert b"event: tool_returned\ndata: {" in event_stream._run_event(event)
