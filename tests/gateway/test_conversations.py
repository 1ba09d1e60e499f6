"""Conversations: which requests belong together, and who waits for whom."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest

from foveal import Policy
from foveal.gateway import conversations
from foveal.gateway.conversations import ClientConversation, ClientConversations
from foveal.gateway.routes import conversation_name
from foveal.session.client_session import ClientSession
from foveal.session.options import Host, Model
from foveal.stores import Store
from foveal.stores.rows import to_entry
from foveal.testing.provider import ReceivedRequest, ScriptedProvider, Turn
from foveal.values.entry import Message, Rewind

from .clients import AGENTS, Reading
from .conftest import Gateways
from .requests import names, post, said

USER = json.dumps({"session_id": "s-1", "device_id": "d"})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"x-claude-code-session-id": "s"}, {"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"}),
        (
            {"x-claude-code-session-id": "s", "x-claude-code-agent-id": "a"},
            {"x-claude-code-session-id": "s", "x-claude-code-agent-id": "b"},
        ),
        ({"session-id": "s", "thread-id": "t"}, {"session-id": "s", "thread-id": "u"}),
        ({"x-session-id": "s"}, {"x-session-id": "t"}),
        ({"session_id": "s"}, {"session_id": "t"}),
        ({"x-api-key": "k"}, {"x-api-key": "l"}),
        ({"authorization": "Bearer k"}, {"authorization": "Bearer l"}),
        ({"x-claude-code-session-id": "s", "x-api-key": "k"}, {"x-claude-code-session-id": "s", "x-api-key": "l"}),
        ({"thread-id": "t", "x-goog-api-key": "k"}, {"thread-id": "t", "x-goog-api-key": "l"}),
    ],
)
def test_requests_of_different_conversations_have_different_names(one: dict[str, str], other: dict[str, str]) -> None:
    """Sub-agents, threads, sessions and keys each have conversations of their own, although they begin with the same words."""
    body = {"messages": [{"role": "user", "content": "Go."}], "prompt_cache_key": "p"}

    assert conversation_name(one, body, "anthropic") != conversation_name(other, body, "anthropic")
    assert conversation_name(one, body, "anthropic") == conversation_name(dict(one), dict(body), "anthropic")


def test_a_named_conversation_keeps_its_name_when_its_words_change() -> None:
    """A thread of Codex and a session of Claude Code stay the same when the client compacts its history."""
    before = {"messages": [{"role": "user", "content": "Go."}], "system": "A"}
    after = {"messages": [{"role": "user", "content": "Summary: …"}], "system": "B"}
    for headers in ({"x-claude-code-session-id": "s"}, {"thread-id": "t"}):
        assert conversation_name(headers, before, "anthropic") == conversation_name(headers, after, "anthropic")


def test_a_body_may_name_its_session() -> None:
    """The session in `metadata.user_id`, or else the cache key, names a conversation that no header names."""
    said_ = {"messages": [{"role": "user", "content": "Go."}]}
    bodies = [
        said_,
        {**said_, "metadata": {"user_id": USER}},
        {**said_, "prompt_cache_key": "p"},
        {**said_, "prompt_cache_key": "q"},
    ]
    assert len({conversation_name({}, body, "anthropic") for body in bodies}) == len(bodies)
    both = {**bodies[1], "prompt_cache_key": "p"}
    assert conversation_name({}, both, "anthropic") == conversation_name({}, bodies[1], "anthropic")
    thread = {"thread-id": "t"}
    assert conversation_name(thread, bodies[2], "anthropic") == conversation_name(thread, bodies[3], "anthropic")


def test_a_key_in_the_query_counts_as_a_key() -> None:
    """Gemini's clients may name the key in the address: two of them never share a session."""
    body = {"contents": [{"role": "user", "parts": [{"text": "Go."}]}]}
    found = {conversation_name({}, body, "gemini", query=query) for query in ("key=a&alt=sse", "key=b&alt=sse", "")}
    assert len(found) == 3
    assert not any("key" in name for name in found)


def test_two_sub_agents_work_in_parallel(start: Gateways, provider: ScriptedProvider) -> None:
    """Agents of one session that run at the same time are each folded by themselves, and none waits or is passed on."""
    models = {"a": Reading(12), "b": Reading(12), "": Reading(12)}
    lock = threading.Lock()

    def improvise(request: ReceivedRequest) -> Turn:
        with lock:
            reply = models[request.headers.get("x-claude-code-agent-id", "")](request)
        assert isinstance(reply, Turn)
        return reply

    provider.improvise = improvise
    gateway = start(8_000)

    def work(agent: str) -> int:
        headers = {"x-claude-code-session-id": "s-1", **({"x-claude-code-agent-id": agent} if agent else {})}
        client = AGENTS["anthropic"](gateway.url, stream=True, extra_headers=headers)
        client.say("Read the modules.")
        return client.run()

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, models)) == [13, 13, 13]

    assert provider.refused == []
    assert gateway.figures.unmanaged == 0, gateway.lines
    assert len(names(gateway)) == 3
    assert all(one.figures.folds > 0 for one in gateway.gateway.conversations)


def test_two_clients_that_begin_alike_both_get_what_they_said(
    start: Gateways, provider: ScriptedProvider, store: Store
) -> None:
    """Without a name, two clients with the same beginning and key have sessions of their own, which only ever grow."""
    provider.improvise = lambda request: Turn(f"Reply {len(provider.requests)}.")
    gateway = start(8_000)
    lists = {who: [{"role": "user", "content": "Go."}] for who in "ab"}

    for number in range(4):
        for who, messages in lists.items():
            body = json.dumps({"model": "claude-opus-4-5", "max_tokens": 500, "messages": messages}).encode()
            reply = post(gateway, body).json()
            assert provider.last.body["messages"] == messages
            messages += [
                {"role": "assistant", "content": reply["content"]},
                {"role": "user", "content": f"I am {who}, message {number}."},
            ]

    assert gateway.figures.unmanaged == 0, gateway.lines
    first, *others = names(gateway)
    assert len(others) == 2
    assert all(name.startswith(first[: first.rindex("-")]) for name in others)
    for name in others:
        bodies = [to_entry(row, name).body for row in store.rows(name)]
        assert [one.role for one in bodies if isinstance(one, Message)] == ["user", "assistant"] * 4
        assert not [one for one in bodies if isinstance(one, Rewind)]


CALLED = {
    "anthropic": lambda call: {
        "messages": [
            {"role": "user", "content": "Go."},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "text", "text": "I look."},
                    {"type": "tool_use", "id": call, "name": "read", "input": {}},
                ],
            },
        ]
    },
    "openai_chat": lambda call: {
        "messages": [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "tool_calls": [{"id": call, "type": "function", "function": {"name": "read"}}]},
        ]
    },
    "openai_responses": lambda call: {
        "input": [
            {"role": "user", "content": "Go."},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
            {"type": "function_call", "call_id": call, "name": "read"},
        ]
    },
    "gemini": lambda call: {
        "contents": [
            {"role": "user", "parts": [{"text": "Go."}]},
            {"role": "model", "parts": [{"functionCall": {"id": call, "name": "read"}}]},
        ]
    },
}


@pytest.mark.parametrize("dialect", CALLED)
def test_a_first_reply_tells_conversations_apart(dialect: str) -> None:
    """By the ids of its calls, in every format; by nothing that a client leaves out or adds when it tells the reply again."""
    one, other = (conversation_name({}, CALLED[dialect](call), dialect) for call in ("c-1", "c-2"))
    assert one != other
    again = CALLED[dialect]("c-1")
    if dialect == "anthropic":
        _thinking, text, use = again["messages"][1]["content"]
        again["messages"][1]["content"] = [{**text, "cache_control": {"type": "ephemeral"}}, {**use, "input": {"a": 1}}]
        result = {"type": "tool_result", "tool_use_id": "c-1", "content": "1"}
        again["messages"] += [{"role": "user", "content": [result]}, {"role": "assistant", "content": "And so on."}]
    assert conversation_name({}, again, dialect) == one


def test_another_key_never_reaches_the_same_session(start: Gateways, provider: ScriptedProvider) -> None:
    """The same words with another key are another session, whose prompts hold nothing of the first."""
    provider.improvise = lambda request: Turn("Well.")
    gateway = start(8_000)

    for key in ("k-1", "k-2"):
        assert post(gateway, said("Go."), x_api_key=key, x_session_id="same").status_code == 200

    assert len(names(gateway)) == 2


def test_a_conversation_that_somebody_waits_for_is_not_closed(store: Store) -> None:
    """However few sessions are kept open: the next request of a conversation gets the one that everybody else will get."""

    async def take_turns() -> tuple[ClientConversation, ClientConversation, list[ClientConversation]]:
        known = ClientConversations(store, Policy(), most_open=0)

        async def wait() -> tuple[ClientConversation, list[ClientConversation]]:
            async with known.turn("a") as again:
                return again, list(known)

        async with known.turn("a") as first:
            waiting = asyncio.ensure_future(wait())
            await asyncio.sleep(0)
        again, held = await waiting
        return first, again, held

    first, again, held = asyncio.run(take_turns())
    assert first is again
    assert held == [first]


def test_many_that_end_at_once_close_each_session_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing takes a moment, in which others close sessions as well, or take one up: nobody fails, and none in use is closed."""
    closed: list[str] = []
    used: set[str] = set()

    def close(conversation: ClientConversation) -> None:
        assert conversation.name not in used
        closed.append(conversation.name)
        time.sleep(0.002)

    monkeypatch.setattr(ClientConversation, "close", close)

    async def all_at_once() -> None:
        known = ClientConversations(store, Policy(), most_open=20)

        async def take(number: int) -> None:
            async with known.turn(f"s{number}"):
                used.add(f"s{number}")
                await asyncio.sleep(0.001)
                used.discard(f"s{number}")

        await asyncio.gather(*map(take, range(20)))
        known._most_open = 2
        await asyncio.gather(*map(take, (*range(5), 21, 22)))
        assert len(list(known)) <= 2

    asyncio.run(all_at_once())
    assert len(closed) >= 18


def test_a_conversation_that_is_asked_for_while_it_is_closed_is_opened_again(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its closing may take long where many wait for a thread: the next request does not find the session held."""
    is_closing, may_close, close = threading.Event(), threading.Event(), ClientConversation.close

    def close_slowly(conversation: ClientConversation) -> None:
        if conversation.opened is not None:
            is_closing.set()
            assert may_close.wait(10)
        close(conversation)

    async def twice() -> None:
        known = ClientConversations(store, Policy(), most_open=0)

        async def take() -> None:
            async with known.turn("a") as one:
                await known.in_thread(one, lambda: one.opened or _opened(one, store))

        monkeypatch.setattr(ClientConversation, "close", close_slowly)
        first = asyncio.ensure_future(take())
        assert await asyncio.to_thread(is_closing.wait, 10)
        second = asyncio.ensure_future(take())
        await asyncio.sleep(0.05)
        may_close.set()
        await asyncio.gather(first, second)
        assert not list(known)

    asyncio.run(twice())


def _opened(one: ClientConversation, store: Store) -> ClientSession:
    return one.open(store, Model("gpt-5"), policy=Policy(), host=Host(), takeover=False)


def test_a_conversation_in_the_middle_of_a_stream_is_not_closed(start: Gateways, provider: ScriptedProvider) -> None:
    """Sessions are closed for others when they rest, not while a reply is on its way: it arrives whole, and is kept."""
    goes_on = threading.Event()
    provider.script(Turn("A long reply.", stall_after=3, stall_until=goes_on), Turn("Beside."), Turn("Beside."))
    gateway = start(8_000)
    gateway.gateway.conversations._most_open = 0
    body = said("Go.", stream=True)

    with httpx2.Client() as client, client.stream("POST", gateway.url + "/v1/messages", content=body) as first:
        pieces = first.iter_bytes()
        assert next(pieces)
        (name,) = names(gateway)
        for key in ("k-1", "k-2"):
            assert "Beside." in post(gateway, said("Go."), x_api_key=key).text
            assert name in names(gateway)
        goes_on.set()
        assert b"message_stop" in b"".join(pieces)

    assert gateway.lines == []  # the reply was kept


def test_a_second_request_is_passed_on_while_one_is_under_way(
    start: Gateways, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that comes while another of its conversation is answered waits for a moment, and goes on as it came."""
    monkeypatch.setattr(conversations, "WAIT_S", 0.02)
    provider.script(Turn("A long reply.", stall_after=3), Turn("Now."), Turn("And now."))
    gateway = start(8_000)
    body = said("Go.", stream=True)

    with httpx2.Client() as client, client.stream("POST", gateway.url + "/v1/messages", content=body) as first:
        pieces = first.iter_bytes()
        assert next(pieces)
        second = post(gateway, said("Go."), x_api_key="")
        assert second.status_code == 200
        assert provider.last.raw == said("Go.")
        assert gateway.figures.unmanaged == 1
        assert "under way" in gateway.lines[-1]

    assert post(gateway, said("Go."), x_api_key="").status_code == 200
