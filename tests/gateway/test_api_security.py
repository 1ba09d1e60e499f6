"""The door of the HTTP API: whose sessions a caller sees, and who is no caller at all."""

import json
import random
import socket
from collections.abc import Callable
from contextlib import closing
from typing import Any
from urllib.parse import quote

import httpx2
import pytest

from foveal import open_store
from foveal.gateway import api as http_api
from foveal.gateway.operations import OPERATIONS
from foveal.gateway.session_names import ApiCaller
from foveal.stores import Store
from foveal.stores.memory import MemoryStore
from foveal.stores.port import SessionCard
from foveal.testing.provider import ScriptedProvider, Turn
from foveal.testing.store_contract import draft
from foveal.values.errors import ListDamaged, StoreCorrupt

from .api_client import PREFIX, ApiClient
from .conftest import Gateways, RunningGateway
from .requests import names, post, said

SAID = {"is": "message", "role": "user", "parts": [{"is": "text", "text": "a secret"}]}

ALL: list[tuple[str, dict[str, Any]]] = [
    ("get", {}),
    ("append", {"item": SAID}),
    ("extend", {"items": [SAID]}),
    ("follow", {"messages": [SAID]}),
    ("prompt", {}),
    ("recover", {"error": "too long"}),
    ("serve", {}),
    ("why", {}),
    ("recall", {"ref": "first"}),
    ("search", {"words": "secret"}),
    ("pressure", {}),
    ("compact", {}),
    ("rewind", {"entry_id": "first"}),
    ("inject", {"kind": "plan", "text": "a secret"}),
    ("remind", {"text": "a secret"}),
    ("attach", {"name": "a.txt", "data": "YSBzZWNyZXQ="}),
    ("children", {"name": "child", "task": "a secret"}),
    ("events", {}),
    ("delete", {}),
]
"""Every operation on a session."""


def test_every_operation_on_a_session_is_tried_here(start: Gateways) -> None:
    """An operation that is added to the table is added to the tests of strangers."""
    with ApiClient(start()) as api:
        of_sessions = {
            one["operationId"]
            for path, methods in api.document["paths"].items()
            for one in methods.values()
            if "{session}" in path
        }
    assert of_sessions == {name for name, _ in ALL}


def _messages(api: ApiClient, session: str) -> list[str]:
    """What each operation says about a session that the caller does not have."""
    found: list[str] = []
    for operation, given in ALL:
        method, path, _ = api._operations[operation]
        address = path.replace("{session}", quote(session, safe=""))
        told: dict[str, Any] = {"json": given} if method == "POST" else {"params": given}
        reply = api.http.request(method, address, **told)
        assert reply.status_code == 404, (operation, reply.text)
        error = reply.json()["error"]
        assert error["type"] == "NotFound"
        found.append(error["message"].replace(session, "NAME"))
    return found


def test_a_conversation_is_its_keys_alone(start: Gateways, provider: ScriptedProvider, store: Store) -> None:
    """A client's conversation is found with its key only. Another key, or none, is told the same as of one that is not there."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start()
    post(gateway, said("A secret."), x_api_key="k-1")
    (name,) = names(gateway)
    entries = store.cards(name)[0].entries
    for headers in ({}, {"x_api_key": "k-2"}, {"authorization": "Bearer k-1"}, {"x_goog_api_key": "k-1"}):
        with ApiClient(gateway, **headers) as api:
            absent = name[:-16] + ("0" * 16)
            assert _messages(api, name) == _messages(api, absent)
            assert api.ask("list")["sessions"] == []
            assert api.refused("create", name=name, model="gpt-5")[:2] == (400, "BadInput")
    assert store.cards(name)[0].entries == entries
    with ApiClient(gateway, x_api_key="k-1") as api:
        assert "A secret." in json.dumps(api.ask("search", name, words="secret"))


def test_a_session_of_the_api_is_its_keys_alone(start: Gateways) -> None:
    """The same name is another session with another key; without a key it is that of all who come without one."""
    gateway = start()
    texts = {"x_api_key": "one", "authorization": "two", "x_goog_api_key": "three"}
    for header, text in texts.items():
        with ApiClient(gateway, **{header: "k"}) as api:
            card = api.ask("create", name="notes", model="gpt-5")
            assert card["id"].startswith("notes-")
            api.ask("append", "notes", item={"role": "user", "content": text})
            assert text in api.ask("prompt", card["id"])["request"]["messages"][0]["content"]
    for header, text in texts.items():
        with ApiClient(gateway, **{header: "k"}) as api:
            assert len(api.ask("list")["sessions"]) == 1
            assert [hit["snippet"] for hit in api.ask("search", "notes", words="one two three")["hits"]] == [text]
    with ApiClient(gateway) as api:
        assert _messages(api, "notes") == _messages(api, "absent")
        assert api.ask("create", name="notes", model="gpt-5")["id"] == "notes"
    with ApiClient(gateway) as other:
        assert [card["id"] for card in other.ask("list")["sessions"]] == ["notes"]


def test_a_list_reads_no_more_than_it_shows(start: Gateways) -> None:
    """A list of one session, or one run, looks into one session, however many the store has, and into none of another key's."""
    store = MemoryStore()
    looked = list[str]()
    find, rows_at = store.find, store.rows_at
    store.find = lambda session, prefix: [looked.append(session), find(session, prefix)][1]
    store.rows = lambda session, **span: [looked.append(session), iter(())][1]
    store.rows_at = lambda session, seqs: [looked.append(session), rows_at(session, seqs)][1]
    for number in range(50):
        for name in (f"s{number}", f"s{number}-{'a' * 16}"):
            writer = store.acquire(name)
            writer.append([draft("e")])
            writer.release()
    with ApiClient(start(on=store)) as api:
        looked.clear()
        assert len(api.ask("list", limit=1)["sessions"]) == 1
        assert len(looked) == 1
        looked.clear()
        assert api.ask("run_list", limit=1)["runs"] == []
        assert not [name for name in looked if name.endswith("a" * 16)]


def test_damage_is_told_to_its_owner_alone(start: Gateways, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A damaged record of another key's session keeps nobody from a list, and is not named in an answer; one's own is told."""
    gateway = start()
    with ApiClient(gateway) as api, ApiClient(gateway, x_api_key="k") as other:
        api.ask("create", name="mine", model="gpt-5")
        theirs = other.ask("create", name="theirs", model="gpt-5")["id"]
        cards = store.cards()
        damage = {theirs: StoreCorrupt(f"session {theirs}", "its record does not match its seal")}

        def listed(session: str | None = None) -> list[SessionCard]:
            if session is None:
                raise ListDamaged(damage, [card for card in cards if card.id != theirs])
            return [card for card in cards if card.id == session]

        monkeypatch.setattr(store, "cards", listed)
        assert [card["id"] for card in api.ask("list")["sessions"]] == ["mine"]
        assert api.ask("run_list")["runs"] == []
        for operation in ("list", "run_list"):
            assert other.refused(operation)[:2] == (500, "StoreCorrupt")


def test_a_child_belongs_to_its_parents_key() -> None:
    """The key's hash is in the first part of a name; nothing behind a slash can pose as it."""
    mine, other = ApiCaller.of({"x-api-key": "a"}), ApiCaller.of({"x-api-key": "b"})
    nobody = ApiCaller.of({})
    child = f"x-{mine.key}/y"
    assert mine.stored_name("x/y") == child
    assert mine.stored_name(child) == child
    assert other.stored_name(child) is None
    assert nobody.stored_name(child) is None
    assert other.stored_name(f"{child}-{other.key}") is None
    assert nobody.stored_name(f"x/y-{mine.key}") == f"x/y-{mine.key}"
    assert not mine.owns("x/y")
    assert nobody.owns("x/y")
    assert ApiCaller.of({}, {"key": "a"}).stored_name("x") != "x"


ODD = [
    "...",
    "../../etc/passwd",
    "a/../b",
    "%2e%2e",
    "a b",
    "a?b#c",
    "'; DROP TABLE x; --",
    "<script>alert(1)</script>",
    "é",
]


@pytest.mark.parametrize("name", ODD)
def test_odd_names_are_names(start: Gateways, name: str) -> None:
    """Whatever a name looks like, it names one session and nothing else."""
    with ApiClient(start()) as api:
        assert api.ask("create", name=name, model="gpt-5")["id"] == name
        kept = api.ask("append", name, item=SAID)
        assert api.ask("recall", name, ref=kept["id"])["text"] == "a secret"
        assert api.ask("search", name, words="secret")["hits"] != []
        assert api.ask("delete", name)["sessions"] == [name]


def test_a_name_that_no_client_can_send_is_refused(start: Gateways, store: Store) -> None:
    """Clients and proxies resolve `.` and `..` before they send an address; a session of that name could not be reached."""
    with ApiClient(start()) as api:
        for name in (".", ".."):
            assert api.refused("create", name=name, model="gpt-5")[:2] == (400, "BadInput")
    assert store.cards() == []


def test_addresses_that_are_none(start: Gateways, provider: ScriptedProvider) -> None:
    """Nothing below our own prefix is passed on to a provider, however it is misspelled."""
    gateway = start()
    paths = [
        "/foveal",
        "/foveal/",
        "//foveal/v1/sessions",
        "/foveal//v1/sessions",
        "/foveal/v1",
        "/foveal/v1/",
        "/foveal/v2/sessions",
        "/foveal/v1/sessions/",
        "/foveal/v1/sessions//append",
        "/foveal/v1/sessions/a/b/append",
        "/foveal/v1/sessions/a/nothing",
        "/foveal/v1/messages",
        "/foveal/v1/openapi.json/x",
    ]
    for path in paths:
        for method in ("GET", "POST"):
            reply = httpx2.request(method, gateway.url + path, json={} if method == "POST" else None)
            assert (reply.status_code, reply.json()["error"]["type"]) == (404, "NotFound"), path
    wrong = httpx2.put(f"{gateway.url}{PREFIX}/sessions", json={})
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST, GET")
    assert provider.requests == []


def _sends(gateway: RunningGateway) -> list[Callable[[dict[str, str]], httpx2.Response]]:
    body = json.dumps({"name": "x", "model": "gpt-5"})
    address = f"{gateway.url}{PREFIX}/sessions"
    kind = {"content-type": "application/json"}
    return [
        lambda headers: httpx2.post(address, content=body, headers=kind | headers),
        lambda headers: httpx2.get(address, headers=headers),
        lambda headers: httpx2.delete(f"{address}/x", headers=headers),
        lambda headers: httpx2.options(address, headers=headers | {"access-control-request-method": "POST"}),
    ]


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost", "http://[x", "file://", ""]
)
def test_a_page_of_another_origin_is_refused(start: Gateways, store: Store, origin: str) -> None:
    """A web page that a browser on this machine shows can neither write nor read, and is not asked about either."""
    gateway = start()
    for send in _sends(gateway):
        reply = send({"origin": origin})
        assert reply.status_code == 403
        assert not any(name.startswith("access-control") for name in reply.headers)
    assert store.cards() == []


def test_a_page_of_our_own_origin_is_served(start: Gateways) -> None:
    """A page that comes from the gateway itself, or through a proxy under one name, may call."""
    gateway = start()
    assert _sends(gateway)[0]({"origin": gateway.url}).status_code == 200
    named = start(token="t", on=open_store())
    headers = {"origin": "https://foveal.example", "host": "foveal.example", "x-foveal-token": "t"}
    assert _sends(named)[0](headers).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_must_be_declared_as_json(start: Gateways, store: Store, kind: str) -> None:
    """A form of a web page needs no permission to be sent, so that nothing is read that is declared as one."""
    reply = httpx2.post(
        f"{start().url}{PREFIX}/sessions",
        content=json.dumps({"name": "x", "model": "gpt-5"}),
        headers={"content-type": kind},
    )
    assert (reply.status_code, reply.json()["error"]["type"]) == (415, "BadInput")
    assert store.cards() == []


def test_the_door_is_the_gateways(start: Gateways) -> None:
    """A foreign host is not served; with a token, nobody without it."""
    plain, with_token = start(), start(token="t-1")
    for path in (f"{PREFIX}/sessions", f"{PREFIX}/openapi.json", f"{PREFIX}/figures"):
        assert httpx2.get(plain.url + path, headers={"host": "evil.example"}).status_code == 403
        assert httpx2.get(with_token.url + path).status_code == 401
        assert httpx2.get(with_token.url + path, headers={"x-foveal-token": "t-1"}).status_code == 200


BODIES = [
    b"{",
    b"[]",
    b'"x"',
    b"null",
    b"1e999999",
    b'{"name": NaN}',
    b"[" * 200_000,
    b"\xff\xfe",
    b'{"a": 1' + b"0" * 5_000 + b"}",
]


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:12]))
def test_a_body_that_is_no_object(start: Gateways, body: bytes) -> None:
    """Whatever is no object of JSON is told so, and nothing fails."""
    gateway = start()
    reply = httpx2.post(f"{gateway.url}{PREFIX}/sessions", content=body, headers={"content-type": "application/json"})
    assert (reply.status_code, reply.json()["error"]["type"]) == (400, "BadInput"), reply.text
    assert gateway.lines == []


WORDS = [
    "",
    "x",
    "user",
    "assistant",
    "message",
    "text",
    "call",
    "result",
    "pin",
    "fold",
    "\ud800",
    "-1",
    "http-api-opening-0",
]
FIELDS = [
    "is",
    "role",
    "parts",
    "content",
    "text",
    "type",
    "id",
    "name",
    "arguments",
    "call",
    "entry",
    "tool",
    "items",
    "model",
    "tools",
    "function",
    "usage",
    "choices",
]


def _anything(chance: random.Random, depth: int = 0) -> Any:
    if depth > 4 or chance.random() < 0.4:
        return chance.choice([*WORDS, 0, -1, 10**20, 1.5, None, True, [], {}])
    if chance.random() < 0.4:
        return [_anything(chance, depth + 1) for _ in range(chance.randint(0, 3))]
    return {chance.choice(FIELDS): _anything(chance, depth + 1) for _ in range(chance.randint(0, 5))}


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_sent_is_taken_or_refused(start: Gateways, seed: int) -> None:
    """Bodies of any shape: none of them is a failure of ours, and the session can be asked for a prompt afterwards."""
    chance, gateway = random.Random(seed), start()
    with ApiClient(gateway) as api:
        api.ask("create", name="s", model="gpt-5")
        posts = [one for one in OPERATIONS if one.method == "POST"]
        for _ in range(150):
            one = chance.choice(posts)
            given = {name: _anything(chance) for name in one.given.__struct_fields__ if chance.random() < 0.9}
            if one.name == "append":
                given["item"] = {"is": chance.choice(["message", "pin", "note", "usage"]), **_object(_anything(chance))}
            api.send(one.name, "s", **given)
        api.ask("append", "s", item=SAID)
        api.ask("prompt", "s")
    assert gateway.lines == []


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {"text": value}


def test_a_huge_body_is_refused_before_it_is_read(start: Gateways, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body above the most is refused by its declared length, or as soon as it is too long where none is declared."""
    gateway = start()
    host, port = gateway.url.removeprefix("http://").split(":")
    head = f"POST {PREFIX}/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with closing(socket.create_connection((host, int(port)))) as line:
        line.sendall((head + "content-length: 99000000000\r\n\r\n").encode())
        answer = b"".join(iter(lambda: line.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 413")
    assert b"33,554,432 is the most" in answer

    monkeypatch.setattr(http_api, "MOST_BYTES", 1_000)
    reply = httpx2.post(
        f"{gateway.url}{PREFIX}/sessions",
        content=iter([b'{"name": "'] + [b"x" * 500] * 3 + [b'"}']),
        headers={"content-type": "application/json"},
    )
    assert reply.status_code == 413


def test_a_client_that_hangs_up_is_no_defect_of_ours(start: Gateways) -> None:
    """A caller that is gone before its body was whole is nobody's failure: the operator reads nothing of it."""
    gateway = start()
    host, port = gateway.url.removeprefix("http://").split(":")
    head = f"POST {PREFIX}/sessions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    with closing(socket.create_connection((host, int(port)))) as line:
        line.sendall((head + "content-length: 100\r\nexpect: 100-continue\r\n\r\n").encode())
        assert line.recv(100).startswith(b"HTTP/1.1 100")  # the body is being read
        line.sendall(b"{")
    with ApiClient(gateway) as api:
        api.ask("list")  # the server has seen the end of that connection by now
    assert gateway.lines == []


def test_a_defect_of_ours_is_told_to_the_operator(start: Gateways, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error that nobody expected is a 500 without a word of its text, which may hold anything; the operator's log has it."""
    gateway = start()
    monkeypatch.setattr(gateway.gateway.conversations.store, "cards", lambda *_: 1 / 0)
    with ApiClient(gateway) as api:
        status, kind, message = api.refused("list")
    assert (status, kind) == (500, "InternalError")
    assert "division" not in message
    assert gateway.lines == [f"GET {PREFIX}/sessions: ZeroDivisionError: division by zero"]


def test_keys_are_in_no_answer(start: Gateways) -> None:
    """The key of a caller is neither in an answer nor in a line of the log."""
    gateway = start()
    with ApiClient(gateway, x_api_key="sk-very-secret") as api:
        api.ask("create", name="x", model="gpt-5")
        api.ask("append", "x", item=SAID)
        shown = [api.http.get(path).text for path in ("/sessions", "/sessions/x", "/sessions/x/why", "/figures")]
    assert "sk-very-secret" not in "".join([*shown, *gateway.lines])
