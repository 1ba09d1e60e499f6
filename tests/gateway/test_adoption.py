"""A refreshed login: a conversation goes on under another key if the client tells all of it, and under no other condition."""

import json
from typing import Any

import httpx2
import pytest

import foveal
from foveal import open_store
from foveal.dialects import find_dialect
from foveal.gateway import adoption
from foveal.gateway.adoption import continued_in
from foveal.stores import Store
from foveal.testing.provider import ScriptedProvider, Turn

from .api_client import PREFIX
from .clients import AGENTS, Reading, contents_of
from .conftest import Gateways, RunningGateway
from .requests import names, post, said

THREAD = {"x_claude_code_session_id": "s-1"}


def _told(reply: str, steps: int, *more: dict[str, Any], first: str = "Go.") -> bytes:
    body = json.loads(said(first, steps=steps))
    body["messages"] += [{"role": "assistant", "content": reply}, {"role": "user", "content": "On."}, *more]
    return json.dumps(body).encode()


def _sessions(gateway: RunningGateway, headers: dict[str, str]) -> list[dict[str, Any]]:
    return httpx2.get(f"{gateway.url}{PREFIX}/sessions", headers=headers).json()["sessions"]


@pytest.mark.parametrize("is_restarted", [False, True], ids=["same gateway", "another gateway"])
def test_an_owner_with_a_new_token_goes_on(start: Gateways, provider: ScriptedProvider, is_restarted: bool) -> None:
    """The session, its folds and its prefix are those of before, now and with every later call, in another process too."""
    provider.improvise = Reading(30)
    store = open_store()
    gateway = start(8_000, on=store)
    agent = AGENTS["openai_chat"](gateway.url, stream=True, key="old", extra_headers={"thread-id": "t-1"})
    agent.say("Read the modules.")
    for _ in range(12):
        agent.answer(agent.step())
    assert gateway.figures.folds > 0
    folds, sent = gateway.figures.folds, provider.last.body["messages"]

    if is_restarted:
        gateway.gateway.conversations.rest()
        gateway = start(8_000, on=store)
        folds = 0
    renewed = AGENTS["openai_chat"](gateway.url, stream=True, key="new", extra_headers=agent.more["extra_headers"])
    renewed.list = agent.list
    renewed.step()
    assert provider.last.body["messages"][: len(sent)] == sent

    (card,) = [card for card in store.cards() if card.entries > 1]
    assert names(gateway) == [card.id]
    assert gateway.figures.folds == folds
    for key in ("old", "new"):
        headers = {"authorization": f"Bearer {key}"}
        (seen,) = _sessions(gateway, headers)
        assert seen["entries"] > 1
        why = httpx2.get(f"{gateway.url}{PREFIX}/sessions/{seen['id']}/why", headers=headers)
        assert why.status_code == 200
    store.close()


@pytest.mark.parametrize(
    "theirs",
    [
        said("Go.", steps=2),
        _told("Well.", 1),
        _told("Another.", 2),
        _told("Well.", 2, first="Come."),
    ],
    ids=["without the reply", "with less", "with another reply", "with other words"],
)
def test_a_stranger_gets_a_session_of_its_own(
    start: Gateways, provider: ScriptedProvider, store: Store, theirs: bytes
) -> None:
    """Who knows the name of a thread and not all of its messages reads nothing: neither in replies nor through the API."""
    provider.script(Turn("Well."), Turn("Again."), Turn("Who?"))
    gateway = start(40_000)
    post(gateway, said("Go.", steps=2), x_api_key="owner", **THREAD)
    post(gateway, _told("Well.", 2), x_api_key="owner", **THREAD)

    post(gateway, theirs, x_api_key="stranger", **THREAD)

    assert provider.last.raw == theirs
    own, other = sorted(store.cards(), key=lambda card: card.created_ms)
    assert own.id[:-16] == other.id[:-16]
    assert own.id != other.id
    (seen,) = _sessions(gateway, {"x-api-key": "stranger"})
    assert seen["id"] == other.id
    why = httpx2.get(f"{gateway.url}{PREFIX}/sessions/{own.id}/why", headers={"x-api-key": "stranger"})
    assert why.status_code == 404


def test_a_branch_that_the_client_does_not_tell_is_not_given_away(
    start: Gateways, provider: ScriptedProvider, store: Store
) -> None:
    """Everything that the log holds is in the list, or the session stays with its key."""
    provider.script(*[Turn("Well.")] * 4)
    gateway = start(40_000)
    post(gateway, said("Go."), x_api_key="owner", **THREAD)
    post(gateway, _told("Well.", 0, {"role": "user", "content": "A secret."}), x_api_key="owner", **THREAD)
    post(gateway, _told("Well.", 0), x_api_key="owner", **THREAD)
    post(gateway, _told("Well.", 0), x_api_key="other", **THREAD)
    assert len(names(gateway)) == 2
    assert contents_of("m0.py") not in str(store.cards())


def test_nobody_writes_an_adoption_through_the_api(start: Gateways, store: Store, provider: ScriptedProvider) -> None:
    """A note with the words of an adoption is a note."""
    provider.script(Turn("Well."))
    gateway = start(40_000)
    post(gateway, said("Go."), x_api_key="owner", **THREAD)
    (target,) = names(gateway)
    headers = {"x-api-key": "thief"}
    made = httpx2.post(
        f"{gateway.url}{PREFIX}/sessions", json={"name": "mine", "model": "gpt-5"}, headers=headers
    ).json()
    note = {"is": "note", "text": f"the conversation goes on in session {target}"}
    url = f"{gateway.url}{PREFIX}/sessions/mine/append"
    assert httpx2.post(url, json={"item": note, "id": "goes-on-in"}, headers=headers).status_code == 200
    assert continued_in(store, made["id"]) == made["id"]


def test_a_list_is_read_once_and_other_conversations_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many keys have a conversation of this name, and however many sessions the store has."""
    store = open_store()
    told = [foveal.user("Go."), foveal.assistant("Well."), foveal.user("On.")]
    for number in range(20):
        for name in (f"main-{number:016x}", f"other-{number:016x}"):
            with foveal.Session(store, name, model="gpt-5") as session:
                session.follow([foveal.user("Go."), foveal.assistant(f"Well {number}.")])
    read: list[object] = []
    whole, rows = adoption.told_list, store.rows
    monkeypatch.setattr(adoption, "told_list", lambda *given, **more: read.append("list") or whole(*given, **more))
    monkeypatch.setattr(store, "rows", lambda name, **more: read.append(name) or rows(name, **more))
    given = {"dialect": find_dialect("openai_chat"), "model": "gpt-5"}

    assert adoption.adopt(store, f"main-{99:016x}", told, **given) == f"main-{99:016x}"

    assert read.count("list") == 1
    assert len(read) == 21
    assert not any("other" in str(name) for name in read)
    with foveal.Session(store, f"main-{50:016x}", model="gpt-5") as session:
        session.follow(told[:2])
    assert adoption.adopt(store, f"main-{99:016x}", told, **given) == f"main-{50:016x}"


def test_a_name_that_many_bear_costs_no_more_than_a_name_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hundred used last are compared, and none of a name that more sessions bear than one conversation ever would."""
    store = open_store()
    told = [foveal.user("Go."), foveal.assistant("Well."), foveal.user("On.")]

    def begin(number: int, reply: str) -> str:
        name = f"main-{number:016x}"
        with foveal.Session(store, name, model="gpt-5") as session:
            session.follow([foveal.user("Go."), foveal.assistant(reply)])
        return name

    read: list[str] = []
    rows = store.rows
    given = {"dialect": find_dialect("openai_chat"), "model": "gpt-5"}
    for number in range(150):
        store.backdate(begin(number, f"Well {number}."), created_ms=number, updated_ms=number)
    owned = begin(500, "Well.")
    monkeypatch.setattr(store, "rows", lambda name, **more: read.append(name) or rows(name, **more))

    assert adoption.adopt(store, f"main-{999:016x}", told, **given) == owned
    assert read == [owned]
    read.clear()
    assert adoption.adopt(store, f"main-{998:016x}", [foveal.user("Go."), foveal.assistant("No.")], **given).endswith(
        "3e6"
    )
    assert len(read) == 100

    monkeypatch.setattr(adoption, "MOST_OF_A_NAME", 150)
    read.clear()
    assert adoption.adopt(store, f"main-{997:016x}", told, **given) == f"main-{997:016x}"
    assert read == []
