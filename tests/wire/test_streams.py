"""Streaming and async are the host's affair; what the SDKs accumulate is a reply like any other."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from foveal import Prompt, Text, ToolCall, result, user
from foveal.stores import Store
from foveal.testing.provider import ScriptedProvider
from foveal.testing.provider.replies import OTHER_SEAL, SEAL, Call, Turn
from foveal.values.entry import RedactedThinking, Thinking

from .lines import Line, on_the_wire
from .test_loop import TOOLS
from .test_odd_replies import replies

SAID = Turn("I read it.", (Call("c1"), Call("c2", arguments={"path": "ü.py"})), thinking="Hm.")
CALLS = (ToolCall("c1", "read", '{"path":"a.py"}'), ToolCall("c2", "read", '{"path":"ü.py"}'))


def stream_anthropic(client: Any, request: dict[str, Any]) -> Any:
    with client.messages.stream(**request) as stream:
        return stream.get_final_message()


def stream_chat(client: Any, request: dict[str, Any]) -> Any:
    with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        return stream.get_final_completion()


def stream_responses(client: Any, request: dict[str, Any]) -> Any:
    with client.responses.stream(**request) as stream:
        return stream.get_final_response()


STREAMS: dict[str, tuple[str, Callable[[Any, dict[str, Any]], Any]]] = {
    "openai_chat": ("openai", stream_chat),
    "openai_responses": ("openai", stream_responses),
    "anthropic": ("anthropic", stream_anthropic),
}


@pytest.mark.parametrize("line", STREAMS, indirect=True)
def test_the_final_message_of_a_stream_is_appended_like_a_reply(
    provider: ScriptedProvider, line: Line, sdk: Callable[[str], Any], store: Store
) -> None:
    """The helper's accumulated message is the same entry as an unstreamed reply, and goes back as such."""
    whole = line.session(store, name="whole")
    name, stream = STREAMS[line.dialect]
    session = line.session(store)
    for one in (whole, session):
        provider.begin()
        provider.script(SAID)
        one.append(user("Read."))
        prompt = one.prompt(TOOLS)
        one.append(stream(sdk(name), prompt.request) if one is session else line.ask(**prompt.request))
        one.append(result("c1", "one"))
        one.append(result("c2", "two"))
    streamed, told = session.prompt(TOOLS).request, whole.prompt(TOOLS).request
    drop = ("prompt_cache_key",)
    assert [(k, v) for k, v in streamed.items() if k not in drop] == [(k, v) for k, v in told.items() if k not in drop]
    provider.script(Turn("Done."))
    line.send(provider, session, TOOLS)
    assert [part for part in replies(store)[0].parts if isinstance(part, Text)] == [Text("I read it.")]
    if line.dialect == "anthropic":
        assert replies(store)[0].parts == (
            Thinking("Hm.", SEAL),
            RedactedThinking(OTHER_SEAL),
            Text("I read it."),
            *CALLS,
        )


async def ask_openai_chat(url: str, prompt: Prompt) -> Any:
    openai = pytest.importorskip("openai", reason="the OpenAI SDK is not installed")
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="test", max_retries=0) as client:
        return await client.chat.completions.create(**prompt.request)


async def ask_openai_responses(url: str, prompt: Prompt) -> Any:
    openai = pytest.importorskip("openai", reason="the OpenAI SDK is not installed")
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="test", max_retries=0) as client:
        return await client.responses.create(**prompt.request)


async def ask_anthropic(url: str, prompt: Prompt) -> Any:
    anthropic = pytest.importorskip("anthropic", reason="the Anthropic SDK is not installed")
    async with anthropic.AsyncAnthropic(base_url=url, api_key="test", max_retries=0) as client:
        return await client.messages.create(**prompt.request)


async def ask_gemini(url: str, prompt: Prompt) -> Any:
    genai = pytest.importorskip("google.genai", reason="the Gemini SDK is not installed")
    client = genai.Client(api_key="test", http_options={"base_url": url})
    try:
        async with client.aio as aio:
            return await aio.models.generate_content(**prompt.request)
    finally:
        client.close()


ASYNC: dict[str, Callable[[str, Prompt], Any]] = {
    "openai_chat": ask_openai_chat,
    "openai_responses": ask_openai_responses,
    "anthropic": ask_anthropic,
    "gemini": ask_gemini,
}


def test_the_async_clients_take_the_same_request(provider: ScriptedProvider, line: Line, store: Store) -> None:
    """A prompt is a value: the async client sends the same bytes, and its reply is kept the same way."""
    session = line.session(store)
    session.append(user("Read."))
    for answer in (SAID, Turn("Done.")):
        provider.script(answer)
        prompt = session.prompt(TOOLS)
        session.append(asyncio.run(ASYNC[line.dialect](provider.url, prompt)))
        assert provider.last.arguments == on_the_wire(prompt.request)
        session.append(result("c1", "one"))
        session.append(result("c2", "two"))
    assert [len([part for part in reply.parts if isinstance(part, ToolCall)]) for reply in replies(store)] == [2, 0]
