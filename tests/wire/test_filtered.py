"""The providers' own SDKs read a filtered stream, and get from it the reply that they get from the unstreamed one."""

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from foveal.dialects.sse import KEEP_ALIVE

from ..dialects.rounds import EXCHANGES, Part, new_filter, run, spell, stream
from .conftest import _MAKERS, DIALECTS


class Canned:
    """Answers every request with the same stream or the same reply."""

    def __init__(self) -> None:
        self.events, self.body = b"", {}
        canned = self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"] or 0)))
                is_streamed = asked.get("stream") or "streamGenerateContent" in self.path
                data = canned.events if is_streamed else json.dumps(canned.body).encode()
                self.send_response(200)
                self.send_header("content-type", "text/event-stream" if is_streamed else "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Answering)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture(scope="module")
def canned() -> Iterator[Canned]:
    made = Canned()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


@pytest.fixture(scope="module")
def clients(canned: Canned) -> Iterator[Callable[[str], Any]]:
    made: dict[str, Any] = {}

    def find(name: str) -> Any:
        if name not in made:
            made[name] = _MAKERS[name](canned.url)
        return made[name]

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield find
    for client in made.values():
        client.close()


HELLO: list[Any] = [{"role": "user", "content": "Hello"}]


def both_replies(dialect: str, find: Callable[[str], Any]) -> tuple[Any, Any]:
    """Return the reply that the SDK assembles from the stream, and the unstreamed one, as plain values."""
    match dialect:
        case "openai_chat":
            chat = find("openai").chat.completions
            with chat.stream(model="gpt", messages=HELLO, stream_options={"include_usage": True}) as events:
                streamed = [*events] and events.get_final_completion()
            return _chat(streamed), _chat(chat.create(model="gpt", messages=HELLO))
        case "openai_responses":
            responses = find("openai").responses
            with responses.stream(model="gpt", input="Hello") as events:
                streamed = [*events] and events.get_final_response()
            return _plain(streamed), _plain(responses.create(model="gpt", input="Hello"))
        case "anthropic":
            messages = find("anthropic").messages
            with messages.stream(model="claude", messages=HELLO, max_tokens=9) as events:
                streamed = [*events] and events.get_final_message()
            return _plain(streamed), _plain(messages.create(model="claude", messages=HELLO, max_tokens=9))
        case _:
            models = find("gemini").models
            chunks = list(models.generate_content_stream(model="gemini", contents="Hello"))
            whole = models.generate_content(model="gemini", contents="Hello")
            return _gemini(chunks), _gemini([whole])


def _plain(value: Any) -> Any:
    """Return an SDK object as a plain value, without the readings that it adds and the fields that were not sent."""
    return _without_none(value.model_dump(mode="json", warnings=False))


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        added = ("parsed", "parsed_arguments", "object")
        return {key: _without_none(item) for key, item in value.items() if item is not None and key not in added}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


def _chat(completion: Any) -> Any:
    """Return a completion; one that says nothing has null for its text, or no letter of it."""
    plain = _plain(completion)
    message = plain["choices"][0]["message"]
    message.setdefault("content", "")
    for call in message.get("tool_calls", ()):
        call.pop("index", None)
    return plain


def _gemini(chunks: Sequence[Any]) -> Any:
    parts = [
        part
        for chunk in chunks
        for candidate in chunk.candidates or ()
        if candidate.content
        for part in candidate.content.parts or ()
    ]
    ends = [candidate.finish_reason for chunk in chunks for candidate in chunk.candidates if candidate.finish_reason]
    text = "".join(part.text for part in parts if part.text and not part.thought)
    thought = "".join(part.text for part in parts if part.text and part.thought)
    calls = [part.function_call.model_dump() for part in parts if part.function_call]
    ids = {chunk.response_id for chunk in chunks}
    return text, thought, calls, ends, ids, chunks[-1].usage_metadata.model_dump(exclude_none=True)


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(rounds=EXCHANGES)
def test_sdks_read_a_filtered_stream(dialect: str, rounds: list[list[Part]], canned: Canned, clients: Any) -> None:
    """Helpers that assemble a stream take it without error, signs of life included, and their reply is the unstreamed one."""
    seen, whole = new_filter(dialect), new_filter(dialect)
    canned.events = b""
    for number, parts in enumerate(rounds):
        body = spell(dialect, parts, number)
        canned.events += run(seen, stream(dialect, body)) + KEEP_ALIVE
        whole.take(body)
    canned.events += b"".join(event.raw for event in seen.finish())
    canned.body = whole.body
    streamed, unstreamed = both_replies(dialect, clients)
    assert streamed == unstreamed
