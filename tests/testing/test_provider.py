"""The scripted provider, through the providers' own SDKs: what they send is recorded, what is scripted arrives."""

import json
import subprocess
import sys
import warnings
from typing import Any

import pytest

import foveal
from foveal.testing.provider import Call, RawReply, Refusal, ScriptedProvider, Silence, TooLong, Turn

openai = pytest.importorskip("openai", reason="the OpenAI SDK is not installed")
anthropic = pytest.importorskip("anthropic", reason="the Anthropic SDK is not installed")
with warnings.catch_warnings():  # its source warns when it is compiled for the first time
    warnings.simplefilter("ignore")
    genai = pytest.importorskip("google.genai", reason="the Gemini SDK is not installed")

ASKED = [{"role": "user", "content": "Read a.py."}]
TOOL = {"name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}
READS = Turn("I look.", (Call("c1", "read", {"path": "a.py"}),), thinking="Hm.")
HEARD = ("I look.", [("read", {"path": "a.py"})])


@pytest.fixture
def provider(monkeypatch):
    with ScriptedProvider() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


class Chat:
    """Asks in the chat format."""

    errors, kept = openai.APIStatusError, openai.APIConnectionError

    def __init__(self) -> None:
        self.client = openai.OpenAI(max_retries=0, timeout=20)

    def ask(self) -> Any:
        said = self.client.chat.completions.create(model="gpt-4.1", messages=ASKED).choices[0].message
        return said.content, _calls((call.function.name, call.function.arguments) for call in said.tool_calls or ())

    def stream(self) -> Any:
        with self.client.chat.completions.stream(model="gpt-4.1", messages=ASKED) as stream:
            said = stream.get_final_completion().choices[0].message
        return said.content, _calls((call.function.name, call.function.arguments) for call in said.tool_calls or ())

    def close(self) -> None:
        self.client.close()


class Responses(Chat):
    """Asks in the format of Responses."""

    def ask(self) -> Any:
        return _read_responses(self.client.responses.create(model="gpt-5", input=ASKED))

    def stream(self) -> Any:
        with self.client.responses.stream(model="gpt-5", input=ASKED) as stream:
            return _read_responses(stream.get_final_response())


class Messages:
    """Asks in Anthropic's format."""

    errors = anthropic.APIStatusError

    def __init__(self) -> None:
        self.client = anthropic.Anthropic(max_retries=0, timeout=20)
        self.asked: dict[str, Any] = {"model": "claude-opus-4-5", "max_tokens": 100, "messages": ASKED}

    def ask(self) -> Any:
        return _read_messages(self.client.messages.create(**self.asked))

    def stream(self) -> Any:
        with self.client.messages.stream(**self.asked) as stream:
            return _read_messages(stream.get_final_message())

    def close(self) -> None:
        self.client.close()


class Gemini:
    """Asks in Gemini's format."""

    errors = genai.errors.APIError

    def __init__(self) -> None:
        self.client = genai.Client()
        self.asked = {"model": "gemini-2.5-pro", "contents": "Read a.py."}

    def ask(self) -> Any:
        return _read_gemini([self.client.models.generate_content(**self.asked)])

    def stream(self) -> Any:
        return _read_gemini(list(self.client.models.generate_content_stream(**self.asked)))

    def close(self) -> None:
        self.client.close()


def _calls(pairs: Any) -> list[Any]:
    return [(name, json.loads(arguments)) for name, arguments in pairs]


def _read_responses(reply: Any) -> Any:
    return reply.output_text, _calls((one.name, one.arguments) for one in reply.output if one.type == "function_call")


def _read_messages(reply: Any) -> Any:
    texts = "".join(block.text for block in reply.content if block.type == "text")
    return texts, [(block.name, block.input) for block in reply.content if block.type == "tool_use"]


def _read_gemini(chunks: list[Any]) -> Any:
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts or ()]
    texts = "".join(part.text for part in parts if part.text and not part.thought)
    return texts, [(part.function_call.name, part.function_call.args) for part in parts if part.function_call]


@pytest.fixture(params=[Chat, Responses, Messages, Gemini])
def client(request, provider):
    made = request.param()
    yield made
    made.close()


@pytest.mark.parametrize("verb", ["ask", "stream"])
def test_a_reply_is_read_by_the_providers_own_sdk(provider, client, verb):
    """Text and tool calls arrive, streamed and not, and the request is recorded as it came."""
    provider.script(READS)
    assert getattr(client, verb)() == HEARD
    assert len(provider.requests) == 1
    assert "Read a.py." in str(provider.last.body)
    assert "scripted" in str(provider.last.headers)
    assert provider.last.is_streamed == (verb == "stream")
    assert provider.refused == []


def test_an_error_is_raised_by_the_sdk(provider, client):
    """Status, words and headers are the provider's own."""
    provider.script(Refusal(429, "slow down", {"retry-after": "1"}))
    with pytest.raises(client.errors, match="slow down"):
        client.ask()


def test_an_overflow_is_understood_by_recover(provider, client):
    """The refusal of a long prompt, as each provider words it, teaches a session its limit."""
    provider.script(TooLong(limit=5_000, counted=9_000))
    with pytest.raises(client.errors) as caught:
        client.ask()
    session = foveal.Session(foveal.open_store(), "long", model="gpt-5")
    session.append(foveal.user("Find it."))
    for n in range(30):
        session.append(foveal.assistant("", foveal.ToolCall(f"c{n}", "read", "{}")))
        session.append(foveal.result(f"c{n}", f"line {n} of the file\n" * 60))
    before = session.prompt().tokens
    assert session.compaction.recover(caught.value).tokens < before


@pytest.mark.parametrize("verb", ["ask", "stream"])
def test_a_reply_that_is_cut_off_is_no_reply(provider, client, verb):
    """A broken connection is an error to the client, in the middle of a stream and of a body."""
    provider.script(Turn("It was a dark and stormy night.", cut_after=6))
    with pytest.raises(Exception, match=r"(?i)peer closed|incomplete|connection|payload"):
        getattr(client, verb)()


def test_a_window_refuses_longer_prompts(provider, client):
    """A request above the window is refused with its size; a shorter one is answered."""
    provider.window = 3
    with pytest.raises(client.errors):
        client.ask()
    provider.window = 3_000
    provider.script(READS)
    assert client.ask() == HEARD


def test_an_invalid_request_is_refused_in_the_providers_words(provider):
    """A result without its call fails a test as it would fail in life."""
    client = openai.OpenAI(max_retries=0)
    orphan = {"role": "tool", "tool_call_id": "c9", "content": "text"}
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="gpt-4.1", messages=[*ASKED, orphan])
    assert len(provider.refused) == 1
    client.close()


def test_a_script_at_its_end_says_so(provider):
    """One answer too few is an error that names its cause, and improvising goes on where it is wanted."""
    client = openai.OpenAI(max_retries=0)
    with pytest.raises(openai.BadRequestError, match="the script is at its end"):
        client.chat.completions.create(model="gpt-4.1", messages=ASKED)
    provider.improvise = lambda request: Turn(f"You sent {len(request.body['messages'])} message.")
    reply = client.chat.completions.create(model="gpt-4.1", messages=ASKED)
    assert reply.choices[0].message.content == "You sent 1 message."
    assert reply.usage.prompt_tokens == provider.last.tokens
    client.close()


def test_silence_ends_with_the_provider():
    """A client that waits for ever holds nobody up."""
    provider = ScriptedProvider()
    provider.start()
    provider.script(Silence())
    client = openai.OpenAI(base_url=f"{provider.url}/v1", api_key="any", max_retries=0, timeout=0.2)
    with pytest.raises(openai.APITimeoutError):
        client.chat.completions.create(model="gpt-4.1", messages=ASKED)
    client.close()
    provider.stop()
    provider.stop()


def test_a_raw_reply_is_sent_as_it_is(provider):
    """Odd bodies and statuses need no help."""
    provider.script(RawReply(418, {"short": "and stout"}))
    client = openai.OpenAI(max_retries=0)
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(model="gpt-4.1", messages=ASKED)
    assert (caught.value.status_code, caught.value.body) == (418, {"short": "and stout"})
    client.close()


def test_a_program_runs_without_a_key(tmp_path):
    """`python -m foveal.testing.provider` leads a program's SDKs to a provider that calls its tool and then answers."""
    program = tmp_path / "program.py"
    program.write_text(
        "import openai, sys\n"
        f"tools = [{{'type': 'function', 'function': {TOOL!r}}}]\n"
        f"reply = openai.OpenAI().chat.completions.create(model='gpt-5', messages={ASKED!r}, tools=tools)\n"
        "print(reply.choices[0].message.tool_calls[0].function.name, sys.argv[1])\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "foveal.testing.provider", program, "word"], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr, done.returncode) == ("read word\n", "", 0)
