"""The gateway with the providers' own SDKs: an agent that works without it works with it, on smaller prompts."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import httpx2
import openai
import pytest
from google import genai
from google.genai import types

from foveal.gateway.app import Gateway
from foveal.gateway.server import served
from foveal.session.policy import Policy
from foveal.session.session import Session
from foveal.stores.memory import MemoryStore
from foveal.stores.rows import branch, to_entry
from foveal.testing.provider import Call, Refusal, ScriptedProvider, TooLong, Turn
from foveal.values.entry import Message
from foveal.values.own_tools import SEARCH_TOOL

STEPS = 24
RESULT = "x = 1  # a line of code\n" * 90
PARAMETERS = {"type": "object", "properties": {"path": {"type": "string"}}}


class Script:
    """A model that reads one file after the other, and now and then looks something up in its own past."""

    def __init__(self, *, looks_up: bool = True) -> None:
        self.steps, self.lookups, self._looks_up, self._was_lookup = 0, 0, looks_up, False

    def __call__(self, request: Any) -> Turn:
        has_search = SEARCH_TOOL in json.dumps(request.body.get("tools") or [])
        if has_search and self._looks_up and self.steps % 6 == 5 and not self._was_lookup:
            self.lookups, self._was_lookup = self.lookups + 1, True
            own = Call(f"own{self.lookups}", SEARCH_TOOL, {"query": "code"})
            if self.lookups % 2:
                return Turn("", (own,))
            self.steps += 1
            return Turn("", (own, Call(f"c{self.steps}", "read", {"path": f"m{self.steps}.py"})))
        self.steps, self._was_lookup = self.steps + 1, False
        if self.steps > STEPS:
            return Turn("All is read.")
        return Turn(f"Step {self.steps}.", (Call(f"c{self.steps}", "read", {"path": f"m{self.steps}.py"}),))


@contextmanager
def standing(
    script: Callable[[Any], Any], *, limit: int | None = 8_000, **options: Any
) -> Iterator[tuple[ScriptedProvider, Gateway, str]]:
    """A gateway before a scripted provider."""
    policy = Policy(max_context_tokens=limit) if limit else Policy()
    with ScriptedProvider(improvise=script) as provider:
        upstreams: dict[str, str] = dict.fromkeys(("anthropic", "openai", "gemini"), provider.url)
        gateway = Gateway(MemoryStore(), policy, upstreams=upstreams, **options)
        with served(gateway) as url:
            yield provider, gateway, url


def read(path: str) -> str:
    return f"content of {path}\n{RESULT}"


def run_anthropic(url: str, *, is_stream: bool) -> list[str]:
    client = anthropic.Anthropic(base_url=url, api_key="key", max_retries=0)
    messages: list[Any] = [{"role": "user", "content": "Read the modules."}]
    names: list[str] = []
    given: dict[str, Any] = {"model": "claude-opus-4-5", "max_tokens": 900, "system": "You are careful."}
    given["tools"] = [{"name": "read", "description": "Reads a file.", "input_schema": PARAMETERS}]
    while True:
        if is_stream:
            with client.messages.stream(messages=messages, **given) as stream:
                reply: Any = stream.get_final_message()
        else:
            reply = client.messages.create(messages=messages, **given)
        messages.append({"role": "assistant", "content": [one.model_dump(exclude_unset=True) for one in reply.content]})
        calls = [one for one in reply.content if one.type == "tool_use"]
        names += [one.name for one in calls]
        if not calls:
            return names
        results = [{"type": "tool_result", "tool_use_id": one.id, "content": read(one.input["path"])} for one in calls]
        messages.append({"role": "user", "content": results})


def run_chat(url: str, *, is_stream: bool) -> list[str]:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0)
    messages: list[Any] = [
        {"role": "system", "content": "You are careful."},
        {"role": "user", "content": "Read the modules."},
    ]
    names: list[str] = []
    tools: Any = [
        {"type": "function", "function": {"name": "read", "description": "Reads a file.", "parameters": PARAMETERS}}
    ]
    while True:
        if is_stream:
            with client.chat.completions.stream(model="gpt-5", messages=messages, tools=tools) as stream:
                said = stream.get_final_completion().choices[0].message
        else:
            said = client.chat.completions.create(model="gpt-5", messages=messages, tools=tools).choices[0].message
        calls: list[Any] = list(said.tool_calls or ())
        names += [one.function.name for one in calls]
        echoed = [
            {
                "id": one.id,
                "type": "function",
                "function": {"name": one.function.name, "arguments": one.function.arguments},
            }
            for one in calls
        ]
        messages.append({"role": "assistant", "content": said.content, **({"tool_calls": echoed} if echoed else {})})
        if not calls:
            return names
        messages += [
            {"role": "tool", "tool_call_id": one.id, "content": read(json.loads(one.function.arguments)["path"])}
            for one in calls
        ]


def run_responses(url: str, *, is_stream: bool) -> list[str]:
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="key", max_retries=0)
    items: list[Any] = [{"role": "user", "content": "Read the modules."}]
    names: list[str] = []
    given: dict[str, Any] = {"model": "gpt-5", "instructions": "You are careful.", "store": False}
    given["tools"] = [
        {"type": "function", "name": "read", "description": "Reads a file.", "parameters": PARAMETERS, "strict": False}
    ]
    while True:
        if is_stream:
            with client.responses.stream(input=items, **given) as stream:
                reply: Any = stream.get_final_response()
        else:
            reply = client.responses.create(input=items, **given)
        items += [one.model_dump(exclude_unset=True, exclude={"parsed_arguments"}) for one in reply.output]
        calls = [one for one in reply.output if one.type == "function_call"]
        names += [one.name for one in calls]
        if not calls:
            return names
        items += [
            {"type": "function_call_output", "call_id": one.call_id, "output": read(json.loads(one.arguments)["path"])}
            for one in calls
        ]


def run_gemini(url: str, *, is_stream: bool) -> list[str]:
    client: Any = genai.Client(api_key="key", http_options=types.HttpOptions(base_url=url))
    declared = types.FunctionDeclaration(name="read", description="Reads a file.", parameters_json_schema=PARAMETERS)
    config = types.GenerateContentConfig(
        system_instruction="You are careful.",
        tools=[types.Tool(function_declarations=[declared])],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
    )
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text="Read the modules.")])]
    names: list[str] = []
    while True:
        if is_stream:
            pieces = list(
                client.models.generate_content_stream(model="gemini-2.5-pro", contents=contents, config=config)
            )
            parts = _joined([part for one in pieces for part in one.candidates[0].content.parts or []])
        else:
            reply = client.models.generate_content(model="gemini-2.5-pro", contents=contents, config=config)
            parts = list(reply.candidates[0].content.parts)
        contents.append(types.Content(role="model", parts=parts))
        calls = [part.function_call for part in parts if part.function_call]
        names += [one.name for one in calls]
        if not calls:
            return names
        answers = [
            types.Part(
                function_response=types.FunctionResponse(name=one.name, response={"output": read(one.args["path"])})
            )
            for one in calls
        ]
        contents.append(types.Content(role="user", parts=answers))


def _joined(parts: list[Any]) -> list[Any]:
    """The parts of a streamed reply, with one text in place of its pieces."""
    text = "".join(part.text or "" for part in parts)
    return [*([types.Part(text=text)] if text else []), *(part for part in parts if part.function_call)]


RUNS = {"anthropic": run_anthropic, "openai_chat": run_chat, "openai_responses": run_responses, "gemini": run_gemini}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("is_stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("dialect", sorted(RUNS))
def test_an_agent_runs_to_its_end(dialect: str, is_stream: bool) -> None:
    """It reads all files; no request is refused or too long; the newest result is in each; own calls are never seen."""
    script = Script()
    with standing(script) as (provider, gateway, url):
        names = RUNS[dialect](url, is_stream=is_stream)
        figures = gateway.conversations.figures
    assert provider.refused == []
    assert names == ["read"] * STEPS
    assert max(one.tokens for one in provider.requests) <= 8_000 * 1.3  # in the provider's own count
    assert (figures.unmanaged, figures.recovered) == (0, 0)
    assert figures.folds > 1
    assert figures.sent_tokens < figures.asked_tokens / 2
    assert script.lookups > 1
    for request in provider.requests:
        text = json.dumps(request.body)
        assert "You are careful." in text
    newest = [json.dumps(one.body).rfind("content of m") for one in provider.requests[1:]]
    assert all(at > 0 for at in newest)


def test_until_the_first_fold_the_client_s_bytes_arrive() -> None:
    """Odd escapes, the order of keys, numbers, unknown fields and unknown blocks: nothing is written anew."""
    body = (
        b'{"model": "claude-opus-4-5",  "max_tokens": 1e3, "zeta": 1.0, "messages": [{"content": "caf\\u00e9 \\/ <b>", '
        b'"role": "user", "mine": [1.50]}, {"role": "system", "content": "<system-reminder>mid-list</system-reminder>"}, '
        b'{"role": "assistant", "content": [{"type": "text", "text": "Yes."}]}, '
        b'{"role": "user", "content": [{"type": "new_kind", "x": 1E2}, {"type": "text", "text": "And?", '
        b'"cache_control": {"type": "ephemeral", "ttl": "1h"}}]}], "system": "S", "alpha": null}'
    )
    told: list[str] = []
    with standing(Script(), tell=told.append) as (provider, gateway, url):
        headers = {
            "x-api-key": "k",
            "anthropic-version": "2023-06-01",
            "anthropic-beta": "a,b",
            "content-type": "application/json",
        }
        reply = httpx2.post(f"{url}/v1/messages?beta=true", content=body, headers=headers)
        assert told == []
        assert gateway.conversations.figures.unmanaged == 0
    assert reply.status_code == 200
    assert provider.last.raw == body
    assert provider.last.path == "/v1/messages?beta=true"
    assert provider.last.headers["anthropic-beta"] == "a,b"


def talk(url: str, words: str, *, key: str = "k", **headers: str) -> httpx2.Response:
    body = {"model": "gpt-5", "messages": [{"role": "user", "content": words}]}
    return httpx2.post(f"{url}/v1/chat/completions", json=body, headers={"authorization": f"Bearer {key}", **headers})


def test_conversations_are_told_apart() -> None:
    """By the thread of the client and its sub-agent, by the first words where it names only a session, and by the key."""
    with standing(Script()) as (_, gateway, url):
        named = {"x-claude-code-session-id": "s1"}
        talk(url, "One.", **named)
        talk(url, "One.", **named, **{"x-claude-code-agent-id": "a"})
        talk(url, "One.", key="other", **named)
        talk(url, "One.", **{"x-session-id": "s1"})
        talk(url, "Two.", **{"x-session-id": "s1"})
        talk(url, "One.")
        talk(url, "One.")
        assert len(list(gateway.conversations)) == 6
        assert not any("Bearer" in one.name or "other" in one.name for one in gateway.conversations)


def test_errors_go_through_as_they_came() -> None:
    """Status, body and headers; nothing of a refused call is kept as a reply."""
    answers = iter(
        [Refusal(429, "slow down", {"retry-after": "7", "request-id": "r1"}), Refusal(500, "oh no"), Turn("Fine.")]
    )
    with standing(lambda _request: next(answers)) as (_, gateway, url):
        first, second, third = (talk(url, "Hello.") for _ in range(3))
        assert (first.status_code, first.headers["retry-after"], first.headers["request-id"]) == (429, "7", "r1")
        assert "slow down" in first.text
        assert (second.status_code, third.status_code) == (500, 200)
        (name,) = [one.name for one in gateway.conversations]
        rows = branch(gateway.conversations.store.rows(name))
        roles = [entry.body.role for row in rows if isinstance((entry := to_entry(row, name)).body, Message)]
        assert roles == ["user", "assistant"]


def test_an_overflow_is_recovered_inside() -> None:
    """The client never sees it, and the next prompts stay below the limit that was learned."""
    answers = iter([TooLong(3_000, 9_000)])

    def script(_request: Any) -> Any:
        return next(answers, Turn("Fine."))

    with standing(script, limit=200_000) as (provider, gateway, url):
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Begin."}]
        for number in range(12):
            messages += [
                {"role": "assistant", "content": f"{number} " + "word " * 300},
                {"role": "user", "content": "Go on."},
            ]
        body = {"model": "gpt-5", "messages": messages}
        reply = httpx2.post(f"{url}/v1/chat/completions", json=body, headers={"authorization": "Bearer k"})
        assert (reply.status_code, gateway.conversations.figures.recovered) == (200, 1)
        assert provider.requests[-1].tokens < provider.requests[0].tokens


def test_a_failing_engine_is_stepped_around(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request goes on as it came, and a line tells why."""
    told: list[str] = []

    def broken(*_args: Any, **_options: Any) -> Any:
        raise RuntimeError("planted")

    with standing(Script(), tell=told.append) as (provider, _, url):
        monkeypatch.setattr(Session, "prompt", broken)
        assert talk(url, "Hello.").status_code == 200
    assert provider.last.body["messages"] == [{"role": "user", "content": "Hello."}]
    assert ["planted" in line for line in told] == [True]


def test_unknown_models_are_not_folded_to_a_guess() -> None:
    """Without a limit in the policy, their requests are passed on."""
    told: list[str] = []
    with standing(Script(), limit=None, tell=told.append) as (_, gateway, url):
        body = {"model": "mystery-9000", "messages": [{"role": "user", "content": "Hello."}]}
        assert httpx2.post(f"{url}/v1/chat/completions", json=body).status_code == 200
        assert gateway.conversations.figures.unmanaged == 1
    assert "mystery-9000" in told[0]


def test_an_upstream_that_is_not_there_is_named() -> None:
    """A bad gateway, with the address and the remedy."""
    gateway = Gateway(MemoryStore(), Policy(max_context_tokens=8_000), upstreams={"openai": "http://127.0.0.1:9"})
    with served(gateway) as url:
        reply = talk(url, "Hello.")
        assert reply.status_code == 502
        assert "http://127.0.0.1:9" in reply.json()["error"]["message"]


def test_strangers_are_not_let_in() -> None:
    """A foreign name of the host, a missing token, a WebSocket."""
    with standing(Script()) as (_, _, url):
        assert httpx2.get(url, headers={"host": "evil.example"}).status_code == 403
        upgrade = {
            "connection": "upgrade",
            "upgrade": "websocket",
            "sec-websocket-key": "x",
            "sec-websocket-version": "13",
        }
        assert httpx2.get(f"{url}/v1/responses", headers=upgrade).status_code == 426
    with standing(Script(), token="secret") as (_, _, url):
        assert talk(url, "Hello.").status_code == 401
        assert talk(url, "Hello.", **{"x-foveal-token": "secret"}).status_code == 200


def test_metrics_add_up() -> None:
    """The figures of all conversations, for Prometheus."""
    with standing(Script()) as (_, _, url):
        talk(url, "One.")
        talk(url, "Two.")
        lines = dict(line.rsplit(" ", 1) for line in httpx2.get(f"{url}/metrics").text.splitlines())
    assert lines["foveal_calls_total"] == "2"
    assert int(lines["foveal_input_tokens_total"]) > 0


def test_watching_changes_nothing() -> None:
    """Every request arrives as it was sent, however large; the figures tell of the prompts that would have been sent."""
    with standing(Script(looks_up=False), watch=True) as (provider, gateway, url):
        run_chat(url, is_stream=False)
        figures = gateway.conversations.figures
    assert provider.requests[-1].tokens > 10_000
    assert not any(SEARCH_TOOL in json.dumps(one.body) for one in provider.requests)
    assert figures.folds > 0
