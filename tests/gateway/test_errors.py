"""Errors: the provider's reach the client as they are, those on our side never stop it."""

import asyncio
import json
import socket
from typing import Any

import anthropic
import httpx2
import pytest

from foveal import Policy
from foveal.gateway.conversations import ClientConversations
from foveal.gateway.relay import ClientCall, Relay
from foveal.gateway.upstream import Upstream
from foveal.integrations.routes import Route
from foveal.session.client_session import ClientSession
from foveal.session.session import Session
from foveal.stores import Store
from foveal.stores.rows import branch, to_entry
from foveal.testing.provider import Call, RawReply, Refusal, ScriptedProvider, Silence, TooLong, Turn
from foveal.values.entry import Message

from .clients import AGENTS
from .conftest import Gateways
from .requests import PATHS, asked, names, post, said
from .upstreams import PlainAnswer, PlainUpstream

HEADERS = {
    "retry-after": "7",
    "x-should-retry": "true",
    "request-id": "req_1",
    "x-request-id": "req_2",
    "anthropic-ratelimit-tokens-remaining": "12",
}


@pytest.mark.parametrize("dialect", PATHS)
def test_a_refusal_goes_through(start: Gateways, provider: ScriptedProvider, dialect: str) -> None:
    """Status, body and headers of an error are the provider's, and the next request of the conversation is managed."""
    body = {"error": {"type": "some_error", "message": "no \u00e9", "n": 1.0}}
    gateway = start(20_000)

    for number, status in enumerate((400, 401, 413, 429, 500, 529), 1):
        provider.begin()
        provider.script(RawReply(status, body, HEADERS), Turn("Well."))
        refused = post(gateway, asked(dialect, 1), PATHS[dialect])

        assert (refused.status_code, refused.content) == (status, json.dumps(body).encode())
        assert {name: refused.headers.get_list(name) for name in HEADERS} == {name: [v] for name, v in HEADERS.items()}
        assert len(provider.requests) == 1
        assert post(gateway, asked(dialect, 1), PATHS[dialect]).status_code == 200
        assert (gateway.figures.calls, gateway.figures.unmanaged) == (number, 0)


def test_nothing_of_a_refused_call_is_kept_as_a_reply(start: Gateways, provider: ScriptedProvider) -> None:
    """Two refusals and a reply to the same request leave the request once, and the reply."""
    provider.script(Refusal(429, "slow down"), Refusal(500, "oh no"), Turn("Well."))
    gateway = start(8_000)

    assert [post(gateway, said("Go.")).status_code for _ in range(3)] == [429, 500, 200]

    (name,) = names(gateway)
    bodies = [to_entry(row, name).body for row in branch(gateway.gateway.conversations.store.rows(name))]
    assert [body.role for body in bodies if isinstance(body, Message)] == ["system", "user", "assistant"]


@pytest.mark.parametrize("dialect", PATHS)
def test_an_overflow_is_recovered_inside(start: Gateways, provider: ScriptedProvider, dialect: str) -> None:
    """A prompt that is too long for the provider, in its own words, is sent again smaller: the client never hears of it."""
    gateway = start(20_000)
    for number, status in enumerate((400, 413), 1):
        provider.begin()
        refusal = TooLong(6_000 // number, 9_000).refusal(dialect)
        provider.script(Refusal(status, refusal.message, code=refusal.code), Turn("Well."))

        reply = post(gateway, asked(dialect, 12), PATHS[dialect])

        assert reply.status_code == 200
        assert "Well." in reply.text
        first, second = provider.requests
        assert number > 1 or first.raw == asked(dialect, 12)
        assert second.tokens < first.tokens
        assert (gateway.figures.recovered, gateway.figures.calls, provider.refused) == (number, number, [])


@pytest.mark.parametrize("dialect", ["openai_responses", "openai_chat"])
def test_an_overflow_that_a_stream_tells_is_recovered_inside(
    start: Gateways, provider: ScriptedProvider, dialect: str
) -> None:
    """A status of 200 with the error behind it, as OpenAI may answer: the client sees one whole reply and no error."""
    provider.script(Turn(fails=TooLong(6_000), cut_after=1 if dialect == "openai_responses" else 0), Turn("W"))
    gateway = start(20_000)
    body = {**json.loads(asked(dialect, 12)), "stream": True}

    reply = post(gateway, json.dumps(body).encode(), PATHS[dialect])

    assert '"W"' in reply.text
    assert "error" not in reply.text.replace('"error": null', "").replace('"error":null', "")
    assert reply.text.count("event: response.created") == (dialect == "openai_responses")
    first, second = provider.requests
    assert second.tokens < first.tokens
    assert (gateway.figures.recovered, gateway.figures.calls) == (1, 1)


def test_own_calls_of_a_stream_that_was_recovered_are_hidden(start: Gateways, provider: ScriptedProvider) -> None:
    """The first body offered no own tools and the smaller one does: their calls are answered inside all the same."""
    own = Call("own_1", "search_context", {"query": "module m1.py"})
    provider.script(Turn(fails=TooLong(6_000), cut_after=0), Turn("", (own,)), Turn("F"))
    gateway = start(20_000)
    body = {**json.loads(asked("openai_chat", 12)), "stream": True}

    reply = post(gateway, json.dumps(body).encode(), PATHS["openai_chat"])

    assert '"F"' in reply.text
    assert "search_context" not in reply.text
    assert (gateway.figures.recovered, gateway.figures.recalls) == (1, 1), gateway.lines


def test_another_error_of_a_stream_reaches_the_client_whole(start: Gateways, provider: ScriptedProvider) -> None:
    """The beginning of a stream that was held back is not lost when the error is about something else."""
    provider.script(Turn(fails=Refusal(529, "Overloaded"), cut_after=1))
    gateway = start(20_000)
    body = {**json.loads(asked("openai_responses", 1)), "stream": True}

    reply = post(gateway, json.dumps(body).encode(), PATHS["openai_responses"])

    events = [line for line in reply.text.splitlines() if line.startswith("event:")]
    assert events == ["event: response.created", "event: response.failed"]
    assert gateway.figures.recovered == 0


def _listen(url: str, came: list[bytes]) -> None:
    """Ask for a stream and listen to it."""
    with (
        httpx2.Client(timeout=30) as client,
        client.stream("POST", url + "/v1/messages", content=said("Go.", stream=True)) as reply,
    ):
        for piece in reply.iter_bytes():
            came.append(piece)


async def _hang_up(url: str, provider: ScriptedProvider) -> None:
    """Ask for a stream, and go away when the provider has the request."""
    async with httpx2.AsyncClient(timeout=30) as client:
        asking = asyncio.ensure_future(client.post(url + "/v1/messages", content=said("Go.", stream=True)))
        while not provider.requests:
            await asyncio.wait({asking}, timeout=0.01)
        assert asking.cancel()
        await asyncio.wait({asking})


def test_a_stream_that_is_cut_is_cut_for_the_client(start: Gateways, provider: ScriptedProvider) -> None:
    """A client sees that a stream broke off, as without a gateway: never a shortened reply that looks whole."""
    provider.script(Turn("A long reply, cut.", cut_after=9), Turn("Whole."))
    gateway = start(8_000)
    came: list[bytes] = []

    with pytest.raises(httpx2.RemoteProtocolError):
        _listen(gateway.url, came)

    assert b"".join(came).count(b"content_block_delta") >= 2 * 6
    again = post(gateway, said("Go."), x_api_key="")
    assert again.status_code == 200
    assert "Whole." in again.text
    assert gateway.figures.unmanaged == 0


def test_an_unstreamed_reply_that_is_cut_is_an_error(start: Gateways, provider: ScriptedProvider) -> None:
    """Half a reply is none: the client gets an error that names the upstream, and may ask again."""
    provider.script(Turn("A long reply, cut.", cut_after=1), Turn("Whole."))
    gateway = start(8_000)

    assert post(gateway, said("Go.")).status_code == 502
    assert "Whole." in post(gateway, said("Go.")).text


def test_an_error_event_reaches_the_client(start: Gateways, provider: ScriptedProvider) -> None:
    """An error in the middle of a stream raises in the client's SDK what it raises without a gateway."""
    events = (
        b'event: message_start\ndata: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
        b'"model":"claude-opus-4-5","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
        b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    )
    told = PlainAnswer(headers=[("content-type", "text/event-stream")], body=events)
    with PlainUpstream(lambda request: told) as upstream:
        gateway = start(8_000, upstream=upstream.url)
        client = AGENTS["anthropic"](gateway.url, stream=True).client
        for _ in range(2):
            with (
                pytest.raises(anthropic.APIStatusError, match="Overloaded"),
                client.messages.stream(
                    model="claude-opus-4-5", max_tokens=500, messages=[{"role": "user", "content": "Go."}]
                ) as stream,
            ):
                stream.get_final_message()

        assert upstream.requests[0].body == upstream.requests[1].body
        assert gateway.figures.unmanaged == 0


@pytest.mark.parametrize(
    "answer", [Turn("A long reply.", stall_after=3), Silence()], ids=["mid-stream", "before a byte"]
)
def test_a_client_that_hangs_up_gives_its_turn_back(start: Gateways, provider: ScriptedProvider, answer: Any) -> None:
    """A client that goes away, in the middle of a stream or while it waits for one, leaves a conversation that goes on."""
    provider.script(answer, Turn("Well."))
    gateway = start(8_000)

    asyncio.run(_hang_up(gateway.url, provider))

    again = post(gateway, said("Go."), x_api_key="")
    assert again.status_code == 200
    assert "Well." in again.text
    assert (gateway.figures.calls > 0, gateway.figures.unmanaged) == (True, 0), gateway.lines


def test_a_client_that_hangs_up_at_the_end_leaves_its_reply(provider: ScriptedProvider, store: Store) -> None:
    """Some clients close the connection when they have the last words: the reply is kept, with its usage."""
    provider.script(Turn("All of it."))
    conversations = ClientConversations(store, Policy(max_context_tokens=8_000))
    upstream = Upstream({"anthropic": provider.url})
    relay = Relay(conversations, upstream, tell=lambda line: None)
    headers = [("x-api-key", "k"), ("content-type", "application/json")]

    async def hang_up() -> None:
        call = ClientCall("POST", PATHS["anthropic"], headers, said("Go.", stream=True))
        reply = await relay.manage(call, Route("anthropic"))
        came = b""
        while b"message_stop" not in came:
            came += await anext(reply.pieces)
        await reply.pieces.aclose()
        await reply.held.aclose()
        await upstream.close()

    asyncio.run(hang_up())
    conversations.close()

    (conversation,) = conversations
    bodies = [to_entry(row, conversation.name).body for row in branch(store.rows(conversation.name))]
    assert [body.role for body in bodies if isinstance(body, Message)] == ["system", "user", "assistant"]
    assert conversations.figures.input_tokens == provider.last.tokens


@pytest.mark.parametrize("dialect", PATHS)
def test_an_upstream_that_is_not_there_is_named(start: Gateways, dialect: str) -> None:
    """A provider that cannot be reached is a 502 in its own form, which says who was not reached and what to check."""
    with socket.create_server(("127.0.0.1", 0)) as unused:
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
    gateway = start(8_000, upstream=address)

    for path in (PATHS[dialect], PATHS[dialect] + "?key=secret-key"):
        reply = post(gateway, asked(dialect, 1), path)
        assert reply.status_code == 502
        assert address in reply.json()["error"]["message"]
        assert "secret-key" not in reply.text
    assert ("type" in reply.json()) == (dialect == "anthropic")
    assert address in gateway.lines[-1]
    assert "secret-key" not in "".join(gateway.lines)
    assert post(gateway, b"{}", "/v1/models/none").status_code == 502


def test_an_engine_that_fails_lets_the_request_go_on(
    start: Gateways, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever goes wrong on our side, the provider gets the client's own request, and a line says why."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start(8_000)

    def fail(*args: object, **more: object) -> None:
        raise ZeroDivisionError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(Session, "prompt", fail)
        assert post(gateway, said("Go.", steps=20)).status_code == 200
    assert provider.last.raw == said("Go.", steps=20)
    assert gateway.figures.unmanaged == 1
    assert "ZeroDivisionError: planted" in gateway.lines[0]

    assert post(gateway, said("Go.", steps=20)).status_code == 200
    assert provider.last.tokens < 9_000


def test_a_reply_that_cannot_be_kept_is_the_clients_all_the_same(
    start: Gateways, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failure after the reply came takes nothing from the client: the reply comes back with its next request."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start(8_000)

    def fail(*args: object, **more: object) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(ClientSession, "keep_reply", fail)
    for stream in (False, True):
        reply = post(gateway, said("Go.", stream=stream))
        assert reply.status_code == 200
        assert "message" in reply.text
        assert "was not kept" in gateway.lines[-1]


def test_a_fixed_part_above_the_budget_is_told_once(start: Gateways, provider: ScriptedProvider) -> None:
    """A system prompt that does not fit goes on as it came, at every call; the operator is told once."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start(4_000)
    system = "A rule that is long. " * 2_000

    for steps in range(1, 4):
        assert post(gateway, said("Go.", system=system, steps=steps)).status_code == 200
        assert provider.last.raw == said("Go.", system=system, steps=steps)

    assert gateway.figures.unmanaged == 3
    (line,) = gateway.lines
    assert "limit" in line


def test_a_model_of_unknown_size_is_passed_on(start: Gateways, provider: ScriptedProvider) -> None:
    """Nothing is folded to a window that was only guessed: without a limit in the policy, an unknown model is passed on."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start(None)

    for steps in (1, 30):
        assert post(gateway, said("Go.", model="someone/new-model", steps=steps)).status_code == 200
        assert provider.last.raw == said("Go.", model="someone/new-model", steps=steps)

    assert gateway.figures.unmanaged == 2
    assert len(gateway.lines) == 1
    assert "someone/new-model" in gateway.lines[0]


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_state_at_the_provider_is_left_alone(start: Gateways, provider: ScriptedProvider, field: str) -> None:
    """A request that names history which the provider holds goes on as it came."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start(8_000)
    body = json.dumps({"model": "gpt-5", "input": [{"role": "user", "content": "Go."}], field: "resp_1"}).encode()

    assert post(gateway, body, PATHS["openai_responses"]).status_code == 200
    assert provider.last.raw == body
    assert gateway.figures.unmanaged == 1


@pytest.mark.parametrize("location", ["127.0.0.9:99/v1", "http://[x", "http:\\\\127.0.0.9/"])
def test_a_redirect_to_nowhere_is_told(start: Gateways, provider: ScriptedProvider, location: str) -> None:
    """Nobody follows it; that its address is none is the provider's doing, in a 502 or in the reply as it came."""
    provider.script(RawReply(302, {}, {"location": location}))
    assert post(start(), said("Go.")).status_code in (302, 502)
