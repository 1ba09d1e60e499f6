"""The promises of `foveal.dialects.port` as tests, for any dialect.

Subclass `DialectContract` in a test file and give it the dialect and one of its provider's replies, whole and as the events of a
stream; pytest does the rest:

    class TestMyDialect(DialectContract):
        model = "my-model-1"

        def make_dialect(self) -> Dialect:
            return MyDialect()

        def whole_reply(self) -> dict[str, Any]:
            return {...}

        def stream_events(self) -> list[dict[str, Any]]:
            return [...]
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any

import msgspec

from foveal.dialects.port import Dialect, RequestOptions, Wire, WireReply
from foveal.dialects.reply_filter import ReplyFilter
from foveal.dialects.sse import SseEvent, sse_event
from foveal.dialects.tools import read_tools
from foveal.testing.store_contract import refused
from foveal.values.entry import Message, Text, ToolCall, assistant, result, system, user
from foveal.values.errors import BadInput

_TOOL: dict[str, Any] = {
    "name": "read",
    "description": "Reads a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
}


def atoms(model: str) -> list[list[Message]]:
    """Return a conversation as atoms, each of which can be written in every format and read back unchanged."""
    one, two = ToolCall("c1", "read", '{"path":"a.py"}'), ToolCall("c2", "read", '{"path":"ü.py","lines":[1,2]}')
    return [
        [user("Compare a.py with ü.py.")],
        [assistant("I read both.", one, two, model=model), _results("x = 1", "y = 2")],
        [assistant("They differ.", model=model)],
        [user("How?")],
        [assistant("One has x, the other y.", model=model)],
        [user("Thank you.")],
    ]


def _results(*texts: str) -> Message:
    parts = [result(f"c{number}", text).parts[0] for number, text in enumerate(texts, 1)]
    return Message("tool", tuple(parts))


class DialectContract:
    """The promises of every dialect."""

    model: str
    """A model of the provider."""

    def make_dialect(self) -> Dialect:
        """Return the dialect."""
        raise NotImplementedError

    def whole_reply(self) -> dict[str, Any]:
        """Return an unstreamed reply with a text and at least one tool call."""
        raise NotImplementedError

    def stream_events(self) -> list[dict[str, Any]]:
        """Return the events in which the provider streams `whole_reply`, decoded, its text in more than one."""
        raise NotImplementedError

    # Writing

    def test_every_beginning_of_a_conversation_is_valid(self) -> None:
        """The provider accepts the request after each atom."""
        dialect = self.make_dialect()
        for length in range(1, len(atoms(self.model)) + 1):
            request = self._request(dialect, atoms(self.model)[:length])
            assert dialect.problems(request, 0) == []

    def test_writing_again_gives_the_same_bytes(self) -> None:
        """A request depends on its messages alone."""
        first, second = (self._request(self.make_dialect(), atoms(self.model)) for _ in range(2))
        assert msgspec.json.encode(first) == msgspec.json.encode(second)

    def test_joining_changes_no_message_that_was_handed_out(self) -> None:
        """Earlier prompts hold on to their wire messages."""
        dialect = self.make_dialect()
        wires: list[Wire] = []
        held: list[tuple[Wire, Wire]] = []
        for atom in atoms(self.model):
            dialect.join(wires, dialect.chunk(atom))
            held.extend((wire, deepcopy(wire)) for wire in wires)
        assert all(wire == copy for wire, copy in held)

    def test_a_request_leaves_the_wire_messages_as_they_are(self) -> None:
        """Cache marks and the tail are added to copies."""
        dialect = self.make_dialect()
        wires = self._wires(dialect, atoms(self.model))
        copy = deepcopy(wires)
        dialect.request(self._options(), [system("Be brief.")], wires, dialect.chunk([user("Now?")]))
        assert wires == copy

    # Reading requests

    def test_a_written_request_reads_back_as_its_messages(self) -> None:
        """System prompt, conversation, tools and model are those that were written; results are one message each."""
        dialect = self.make_dialect()
        request = dialect.reader.request(self._request(dialect, atoms(self.model)))
        written = [message for atom in atoms(self.model) for message in atom]
        assert list(request.messages) == [one for message in written for one in _split(message)]
        assert (request.model, request.instructions) == (self.model, "Be brief.")
        assert [spec.name for spec in read_tools(request.tools)] == ["read"]

    def test_fields_beside_the_conversation_are_kept(self) -> None:
        """The options of the client's body are handed on as they came."""
        dialect = self.make_dialect()
        body = self._request(dialect, atoms(self.model)) | {"brand_new": {"a": [1, None]}}
        assert dialect.reader.request(body).rest["brand_new"] == {"a": [1, None]}

    def test_a_body_of_no_known_format_is_refused(self) -> None:
        """The error names the dialect."""
        dialect = self.make_dialect()
        with refused(BadInput, dialect.name):
            dialect.reader.request({"prompt": "Once upon a time"})

    # Reading replies

    def test_a_reply_can_be_sent_back(self) -> None:
        """Read, written again and answered, the reply is part of a valid request."""
        dialect = self.make_dialect()
        message, _ = dialect.reader.reply(self.whole_reply())
        calls = [part for part in message.parts if isinstance(part, ToolCall)]
        shown = tuple(part for part in message.parts if not dialect.hides(part, self.model, self.model))
        answers = Message("tool", tuple(result(call.id, "done").parts[0] for call in calls))
        conversation = [[user("Go on.")], [Message("assistant", shown, self.model), answers]]
        assert dialect.problems(self._request(dialect, conversation), 0) == []

    def test_a_stream_gives_the_same_reply(self) -> None:
        """Message and usage of the stream's end are those of the unstreamed reply."""
        reader = self.make_dialect().reader
        assert self._streamed(self.stream_events()) == reader.reply(self.whole_reply())

    def test_a_stream_can_end_after_any_event(self) -> None:
        """A stream that was cut off is an aborted message with the beginning of the text; only the whole one is done."""
        dialect = self.make_dialect()
        text = _text(dialect.reader.reply(self.whole_reply()).message)
        events = self.stream_events()
        for length in range(len(events) + 1):
            message, _ = self._streamed(events[:length])
            assert text.startswith(_text(message))
            assert message.stop in ("done", "aborted")
            if length <= len(events) // 2:
                assert message.stop == "aborted"

    def test_the_body_of_a_stream_reads_as_its_reply(self) -> None:
        """A gateway can hand the assembled body to a client that did not ask for a stream."""
        reader = self.make_dialect().reader
        stream = reader.stream()
        for event in self.stream_events():
            stream.feed(event)
        assert reader.reply(stream.body) == stream.reply()

    # Hiding calls to own tools

    def test_events_without_own_calls_keep_their_bytes(self) -> None:
        """A client that does not call own tools sees the provider's bytes, and its unstreamed reply is the very same."""
        seen, events = self._filter("no_such_tool"), self._sse_events()
        assert [shown for event in events for shown in seen.feed(event)] == events
        assert not seen.end_round().events
        whole, body = self._filter("no_such_tool"), self.whole_reply()
        assert not whole.take(body).again
        assert whole.body is body

    def test_own_calls_are_hidden(self) -> None:
        """The calls to a tool are gone from the stream and from the reply alike; everything else is there."""
        reader = self.make_dialect().reader
        message, _ = reader.reply(self.whole_reply())
        own = next(part.name for part in message.parts if isinstance(part, ToolCall))
        whole, seen, client = self._filter(own), self._filter(own), reader.stream()
        whole.take(self.whole_reply())
        sent = [shown for event in self._sse_events() for shown in seen.feed(event)]
        seen.end_round()
        for event in (*sent, *seen.rounds[0].events, *seen.finish()):
            client.feed(msgspec.json.decode(event.data or b"{}"))
        kept = tuple(part for part in message.parts if not (isinstance(part, ToolCall) and part.name == own))
        assert kept == whole.shown.message.parts == seen.shown.message.parts == client.reply().message.parts

    def _filter(self, own: str) -> ReplyFilter:
        return ReplyFilter(self.make_dialect().reader, {own}, {"stream_options": {"include_usage": True}})

    def _sse_events(self) -> list[SseEvent]:
        return [sse_event(msgspec.json.encode(event)) for event in self.stream_events()]

    def _streamed(self, events: Sequence[dict[str, Any]]) -> WireReply:
        stream = self.make_dialect().reader.stream()
        for event in events:
            stream.feed(event)
        return stream.reply()

    def _options(self) -> RequestOptions:
        return RequestOptions(self.model, read_tools([_TOOL]), 1_000)

    def _wires(self, dialect: Dialect, conversation: Sequence[Sequence[Message]]) -> list[Wire]:
        wires: list[Wire] = []
        for atom in conversation:
            dialect.join(wires, dialect.chunk(atom))
        return wires

    def _request(self, dialect: Dialect, conversation: Sequence[Sequence[Message]]) -> dict[str, Any]:
        return dialect.request(self._options(), [system("Be brief.")], self._wires(dialect, conversation))


def _split(message: Message) -> list[Message]:
    return [Message("tool", (part,)) for part in message.parts] if message.role == "tool" else [message]


def _text(message: Message) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, Text))
