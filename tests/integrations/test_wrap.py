"""Wrapped SDK clients: the SDK's own surface, whose requests fit."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import openai
import pytest

import foveal
from foveal.testing.adapter_contract import ChildContract, ContractAgent, KillContract
from foveal.testing.provider import Refusal, ScriptedProvider, Silence, TooLong, Turn
from foveal.values.errors import BadInput

from .lengths import LENGTH, Contract, of_dropins
from .sdk_loops import AnthropicLoop, ChatLoop, ResponsesLoop, run_loop

HERE = Path(__file__).parent
ASKED = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello."}]}


class _SdkContract(Contract, ChildContract):
    loop: type[ChatLoop] = ChatLoop

    def _loop(self, agent: ContractAgent) -> ChatLoop:
        if "loop" not in agent.kept:
            options = {"session": agent.thread, "store": agent.store, "policy": agent.policy}
            agent.kept |= {"loop": self.loop(agent.url, **options), "messages": []}
            agent.held.callback(agent.kept["loop"].close)
        return agent.kept["loop"]

    def run(self, agent: ContractAgent, said: str, mode: str) -> str:
        loop = self._loop(agent)
        agent.kept["messages"].append({"role": "user", "content": said})
        return run_loop(loop, agent.kept["messages"], {"read_file": agent.read_file}, mode)

    def run_with_child(self, agent: ContractAgent, said: str) -> str:
        loop = self._loop(agent)

        def delegate(task: str) -> str:
            return run_loop(loop, [{"role": "user", "content": task}], {"read_file": agent.read_file}, "plain")

        tools = {"delegate": delegate, "read_file": agent.read_file}
        return run_loop(loop, [{"role": "user", "content": said}], tools, "plain")


class TestOpenAIChat(_SdkContract):
    """The contract, for OpenAI Chat."""

    modes = ("plain", "stream", "async", "async_stream", "raw")


class TestOpenAIResponses(_SdkContract):
    """The contract, for OpenAI Responses."""

    loop = ResponsesLoop
    modes = ("plain", "stream", "async", "async_stream")


class TestAnthropic(_SdkContract):
    """The contract, for Anthropic Messages."""

    loop = AnthropicLoop
    model = "claude-opus-4-8"
    modes = ("plain", "stream", "async", "async_stream")


class TestOpenAIChatKilled(KillContract):
    """A hand-written agent over Chat that is killed, also in short runs."""

    steps, budget = LENGTH
    program = HERE / "programs" / "sdk_thread.py"


@of_dropins
class TestOpenAIResponsesKilled(KillContract):
    """A hand-written agent over Responses that is killed."""

    program = HERE / "programs" / "responses_thread.py"


@of_dropins
class TestAnthropicKilled(KillContract):
    """A hand-written agent over Messages that is killed."""

    program = HERE / "programs" / "anthropic_thread.py"


@pytest.fixture
def provider():
    with ScriptedProvider() as running:
        yield running


@pytest.fixture
def wrapped(provider):
    """Return a function that wraps a client of the provider, and close the clients in the end."""
    with ExitStack() as held:

        def make(**options):
            plain = openai.OpenAI(base_url=f"{provider.url}/v1", api_key="any", max_retries=0)
            return held.enter_context(foveal.wrap(plain, **{"session": "s", "budget": 16_000} | options))

        yield make


def test_an_unpressed_request_is_sent_to_the_byte(provider, wrapped):
    """Until something is folded, the SDK's own body is sent, and the reply comes back with its headers."""
    provider.script(Turn("Hi."), Turn("Hi."))
    with openai.OpenAI(base_url=f"{provider.url}/v1", api_key="any") as plain:
        plain.chat.completions.create(**ASKED)
    reply = wrapped().chat.completions.with_raw_response.create(**ASKED)
    assert provider.requests[0].raw == provider.requests[1].raw
    assert reply.parse().choices[0].message.content == "Hi."
    assert reply.headers["content-type"] == "application/json"


def test_a_refusal_reaches_the_caller_as_the_sdk_s_own_error(provider, wrapped):
    """Errors of the provider are the SDK's, with its status and words."""
    provider.script(Refusal(401, "no such key"))
    with pytest.raises(openai.AuthenticationError, match="no such key"):
        wrapped().chat.completions.create(**ASKED)


def test_a_prompt_that_is_too_long_is_sent_again_smaller(provider, wrapped):
    """A provider that says that the prompt is too long gets a smaller one, and the caller hears nothing of it."""
    messages = [{"role": "user", "content": "Go."}]
    for number in range(12):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        messages += [{"role": "assistant", "tool_calls": [call]}]
        messages += [{"role": "tool", "tool_call_id": f"c{number}", "content": f"value {number} " * 300}]
    provider.script(TooLong(8_000, 11_000), Turn("Hi."))
    reply = wrapped().chat.completions.create(model="gpt-5", messages=messages)
    assert reply.choices[0].message.content == "Hi."
    assert provider.requests[1].tokens < 8_000 < provider.requests[0].tokens


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_a_conversation_at_the_provider_is_passed_on(provider, wrapped, field):
    """Where the provider holds the history, the request goes on as it is, with a warning that names the field."""
    provider.script(Turn("Hi."))
    with pytest.warns(UserWarning, match=f"{field} is set"):
        wrapped().responses.create(model="gpt-5", input="Hello.", **{field: "resp_1"})
    assert provider.last.body[field] == "resp_1"


def test_a_prompt_that_cannot_fit_is_passed_on_with_a_warning(provider, wrapped):
    """An agent that works without Foveal works with it: a message above the budget is sent, and the warning has the numbers."""
    provider.script(Turn("Hi."))
    messages = [{"role": "system", "content": "word " * 3_000}, {"role": "user", "content": "Hello."}]
    with pytest.warns(UserWarning, match=r"OverBudget.*1,800"):
        wrapped(budget=2_000).chat.completions.create(model="gpt-5", messages=messages)
    assert provider.last.body["messages"] == messages


def test_other_requests_are_none_of_its_business(provider, wrapped):
    """Requests without a conversation are sent as they are."""
    assert [model.id for model in wrapped().models.list()]


def test_a_request_can_name_its_own_session(provider, wrapped):
    """One client serves several conversations: the header names the session, and does not leave the process."""
    provider.script(Turn("Hi."), Turn("Hi."))
    store = foveal.open_store()
    client = wrapped(store=store)
    client.chat.completions.create(**ASKED)
    client.chat.completions.create(**ASKED, extra_headers={"x-foveal-session": "other"})
    assert sorted(card.id for card in store.cards()) == ["other", "s"]
    assert "x-foveal-session" not in provider.last.headers


def test_a_conversation_that_begins_otherwise_has_a_window_of_its_own(provider, wrapped):
    """A request for a title goes beside the conversation, in this process and in the next one."""
    provider.script(*[Turn("Hi.")] * 3)
    store = foveal.open_store()
    title = {"model": "gpt-5", "messages": [{"role": "user", "content": "Write a title."}]}
    wrapped(store=store).chat.completions.create(**ASKED)
    for client in (wrapped(store=store), wrapped(store=store)):
        client.chat.completions.create(**title)
    names = sorted(card.id for card in store.cards())
    assert names[0] == "s"
    assert [name[:2] for name in names] == ["s", "s/"]


def test_an_abandoned_stream_gives_the_session_back(provider, wrapped):
    """Whoever closes a stream early can ask again at once: the conversation is not held."""
    provider.script(Turn("A long answer, in many pieces."), Turn("Hi."))
    client = wrapped()
    with client.chat.completions.create(**ASKED, stream=True) as stream:
        next(iter(stream))
    assert client.chat.completions.create(**ASKED).choices[0].message.content == "Hi."


def test_a_cancelled_call_gives_the_session_back(provider):
    """A call that its task was cancelled in does not hold the conversation."""
    provider.script(Silence(), Turn("Hi."))
    plain = openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="any", max_retries=0)
    client = foveal.wrap(plain, session="s", budget=16_000)

    async def hurry():
        task = asyncio.ensure_future(client.chat.completions.create(**ASKED))
        while not provider.requests:  # noqa: ASYNC110 - of a thread of the provider
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with client:
            return await client.chat.completions.create(**ASKED)

    assert asyncio.run(hurry()).choices[0].message.content == "Hi."


def test_a_stream_that_breaks_off_breaks_off_for_the_caller(provider, wrapped):
    """Half a reply is not taken for a whole one, and what is asked next is not disturbed by it."""
    provider.script(Turn("A long answer, in many pieces.", cut_after=3), Turn("Hi."))
    client = wrapped()
    with pytest.raises(openai.APIConnectionError):
        list(client.chat.completions.create(**ASKED, stream=True))
    assert client.chat.completions.create(**ASKED).choices[0].message.content == "Hi."


def test_a_client_of_another_library_is_refused():
    """Only clients that send with httpx2 can be wrapped; the error says so."""
    with pytest.raises(BadInput, match="object cannot be wrapped"):
        foveal.wrap(object(), session="s")
