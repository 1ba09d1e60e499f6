"""Streams, assembled: the events of each provider give the reply that it would have sent whole, however they end."""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import pytest

from foveal.dialects import find_dialect
from foveal.values.entry import Message, Opaque, Stop, Text, Thinking, ToolCall, Usage


def streamed(dialect: str, events: Iterable[dict[str, Any]]) -> tuple[Message, Usage | None]:
    stream = find_dialect(dialect).reader.stream()
    for event in events:
        stream.feed(event)
    return stream.reply()


# Anthropic


def block(index: int, begun: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    pieces = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    started = {"type": "content_block_start", "index": index, "content_block": begun}
    return [started, *pieces, {"type": "content_block_stop", "index": index}]


STARTED = {
    "type": "message_start",
    "message": {"id": "m1", "model": "claude", "content": [], "usage": {"input_tokens": 90, "output_tokens": 1}},
}
ENDED = [
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use"},
        "usage": {"output_tokens": 12, "input_tokens": None},
    },
    {"type": "message_stop"},
]


def test_anthropic_blocks_grow_by_their_deltas() -> None:
    """Thinking gets its signature, a call its arguments, and the last usage counts."""
    events = [
        STARTED,
        {"type": "ping"},
        *block(
            0,
            {"type": "thinking", "thinking": "", "signature": ""},
            {"type": "thinking_delta", "thinking": "H"},
            {"type": "thinking_delta", "thinking": "m."},
            {"type": "signature_delta", "signature": "c2ln"},
        ),
        *block(1, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Look"}),
        *block(
            2,
            {"type": "tool_use", "id": "c1", "name": "ls", "input": {}},
            {"type": "input_json_delta", "partial_json": '{"p": '},
            {"type": "input_json_delta", "partial_json": '"ü"}'},
        ),
        *block(3, {"type": "tool_use", "id": "c2", "name": "pwd", "input": {}}),
        *ENDED,
    ]
    calls = ToolCall("c1", "ls", '{"p":"ü"}'), ToolCall("c2", "pwd", "{}")
    message = Message("assistant", (Thinking("Hm.", "c2ln"), Text("Look"), *calls), "claude")
    assert streamed("anthropic", events) == (message, Usage("claude", 90, 12))


def test_anthropic_citations_arrive_one_by_one() -> None:
    """A text with citations is kept verbatim, with all of them."""
    cited = [{"type": "citations_delta", "citation": {"n": n}} for n in (1, 2)]
    text = block(0, {"type": "text", "text": "", "citations": []}, {"type": "text_delta", "text": "So."}, *cited)
    message, _ = streamed("anthropic", [STARTED, *text, *ENDED])
    assert message.parts == (Opaque("anthropic", '{"type":"text","text":"So.","citations":[{"n":1},{"n":2}]}'),)


def test_anthropic_arguments_that_broke_off_are_kept_as_the_model_wrote_them() -> None:
    """The call of a cut stream holds half an object, and the message is aborted."""
    started = {"type": "tool_use", "id": "c1", "name": "write", "input": {}}
    events = [STARTED, *block(0, started, {"type": "input_json_delta", "partial_json": '{"path": "a.p'})[:-1]]
    message, usage = streamed("anthropic", events)
    assert message == Message("assistant", (ToolCall("c1", "write", '{"path": "a.p'),), "claude", "aborted")
    assert usage == Usage("claude", 90, 1)


# OpenAI Chat Completions


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"id": "x", "model": "gpt", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def piece(index: int | None, arguments: str = "", **head: Any) -> dict[str, Any]:
    name = {"name": head.pop("name")} if "name" in head else {}
    place = {} if index is None else {"index": index}
    return delta(tool_calls=[place | head | {"function": name | {"arguments": arguments}}])


def test_chat_calls_grow_by_their_index() -> None:
    """Fragments of parallel calls may be mixed; the usage comes in a chunk without choices."""
    events = [
        delta(role="assistant", content="", reasoning_content="H"),
        delta(reasoning_content="m."),
        delta(content="Look"),
        piece(0, id="c1", type="function", name="ls"),
        piece(1, id="c2", type="function", name="pwd"),
        piece(1, "{}"),
        piece(0, '{"p":'),
        piece(0, " 1}"),
        delta("tool_calls"),
        {"model": "gpt", "choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3}},
    ]
    parts = Thinking("Hm."), Text("Look"), ToolCall("c1", "ls", '{"p": 1}'), ToolCall("c2", "pwd", "{}")
    assert streamed("openai_chat", events) == (Message("assistant", parts, "gpt"), Usage("gpt", 9, 3))


def test_chat_servers_may_leave_out_the_index() -> None:
    """A call begins with its id; fragments without one belong to the newest."""
    events = [
        piece(None, "{", id="c1", name="ls"),
        piece(None, "}"),
        piece(None, "{}", id="c2", name="pwd"),
        delta("stop"),
    ]
    assert streamed("openai_chat", events)[0].parts == (ToolCall("c1", "ls", "{}"), ToolCall("c2", "pwd", "{}"))


def test_chat_fields_of_a_server_are_kept() -> None:
    """Lists grow, and a field without a place among the parts is kept verbatim."""
    events = [delta(content="Hi", details=[{"a": 1}]), delta(details=[{"b": 2}]), delta("stop", content=".")]
    assert streamed("openai_chat", events)[0].parts == (
        Text("Hi."),
        Opaque("openai_chat", '{"details":[{"a":1},{"b":2}]}'),
    )


def test_chat_reasoning_details_grow_by_their_index() -> None:
    """Pieces of one detail are one detail, so that the server gets back what it would have sent whole."""
    first = {"type": "reasoning.text", "index": 0, "format": "f"}
    events = [
        delta(reasoning_details=[first | {"text": "Fir"}]),
        delta(reasoning_details=[first | {"text": "st."}]),
        delta(reasoning_details=[first | {"text": "", "signature": "c2ln"}]),
        delta(reasoning_details=[{"type": "reasoning.encrypted", "index": 1, "data": "x"}]),
        delta("stop", content="Hi."),
    ]
    details = (
        '[{"type":"reasoning.text","index":0,"format":"f","text":"First.","signature":"c2ln"},'
        '{"type":"reasoning.encrypted","index":1,"data":"x"}]'
    )
    message, _ = streamed("openai_chat", events)
    assert message.parts == (Text("Hi."), Opaque("openai_chat", f'{{"reasoning_details":{details}}}'))


# OpenAI Responses


def item(index: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": {"type": kind, **fields}}


CREATED = {"type": "response.created", "response": {"id": "r", "model": "gpt", "output": [], "usage": None}}


def test_responses_items_are_known_before_the_end() -> None:
    """A stream that is cut off gives the text and the arguments so far."""
    part = {"output_index": 0, "content_index": 0}
    events = [
        CREATED,
        item(0, "message", role="assistant", content=[]),
        {"type": "response.content_part.added", **part, "part": {"type": "output_text", "text": ""}},
        {"type": "response.output_text.delta", **part, "delta": "Loo"},
        {"type": "response.output_text.delta", **part, "delta": "k"},
        item(1, "function_call", call_id="c1", name="ls", arguments=""),
        {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": '{"p'},
    ]
    message, usage = streamed("openai_responses", events)
    assert message == Message("assistant", (Text("Look"), ToolCall("c1", "ls", '{"p')), "gpt", "aborted")
    assert usage is None


@pytest.mark.parametrize("repeats", [True, False], ids=["with its items", "without"])
def test_responses_reasoning_is_taken_from_the_finished_item(repeats: bool) -> None:
    """The encrypted content comes with the end of the item; not every server repeats the items in the last event."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    done = {"type": "response.output_item.done", "output_index": 0, "item": reasoning}
    whole = {"model": "gpt", "output": [reasoning] if repeats else [], "usage": {"input_tokens": 9, "output_tokens": 3}}
    events = [CREATED, item(0, "reasoning", summary=[]), done, {"type": "response.completed", "response": whole}]
    kept = Opaque("openai", '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"}')
    assert streamed("openai_responses", events) == (Message("assistant", (kept,), "gpt"), Usage("gpt", 9, 3))


# Gemini


def chunk(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, **more}], "modelVersion": "gemini"}


def test_gemini_texts_in_a_row_are_one_part() -> None:
    """Thoughts and texts stay apart, and a signature stays with the part that it came with."""
    events = [
        chunk({"text": "H", "thought": True}),
        chunk({"text": "m.", "thought": True}),
        chunk({"text": "Lo"}),
        chunk({"text": "ok."}),
        chunk({"text": "", "thoughtSignature": "c2ln"}),
        chunk({"functionCall": {"name": "ls", "args": {"p": 1}}}),
        chunk(finishReason="STOP")
        | {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "thoughtsTokenCount": 2}},
    ]
    parts = Thinking("Hm."), Text("Look."), Text("", "c2ln"), ToolCall("", "ls", '{"p":1}')
    assert streamed("gemini", events) == (
        Message("assistant", parts, "gemini"),
        Usage("gemini", 9, 5, reasoning_tokens=2),
    )


def test_gemini_answers_a_blocked_prompt_with_one_event() -> None:
    """There is no candidate, and the stream is over all the same."""
    message, _ = streamed("gemini", [{"promptFeedback": {"blockReason": "SAFETY"}, "modelVersion": "gemini"}])
    assert message == Message("assistant", (), "gemini")


# All of them


@pytest.mark.parametrize(
    ("dialect", "events", "stop"),
    [
        ("anthropic", [STARTED, {"type": "error", "error": {"type": "overloaded_error"}}], "error"),
        ("anthropic", [STARTED, ENDED[0]], "aborted"),
        ("anthropic", [STARTED, *ENDED], "done"),
        ("openai_chat", [delta(content="H"), {"error": {"message": "overloaded"}}], "error"),
        ("openai_chat", [delta(content="H")], "aborted"),
        ("openai_chat", [delta(content="H"), delta("length")], "done"),
        ("openai_responses", [CREATED, {"type": "error", "message": "overloaded"}], "error"),
        ("openai_responses", [CREATED, {"type": "response.failed", "response": {"error": {}}}], "error"),
        ("openai_responses", [CREATED], "aborted"),
        ("openai_responses", [CREATED, {"type": "response.incomplete", "response": {"output": []}}], "done"),
        ("gemini", [chunk({"text": "H"}), {"error": {"code": 503}}], "error"),
        ("gemini", [chunk({"text": "H"})], "aborted"),
        ("gemini", [chunk({"text": "H"}, finishReason="MAX_TOKENS")], "done"),
    ],
)
def test_the_message_says_how_its_stream_ended(dialect: str, events: list[dict[str, Any]], stop: Stop) -> None:
    """A reply that ended by length is done; a cut stream is aborted, a failed one an error."""
    assert streamed(dialect, events)[0].stop == stop


@pytest.mark.parametrize("dialect", ["anthropic", "gemini", "openai_chat", "openai_responses"])
def test_a_stream_without_events_is_an_aborted_empty_message(dialect: str) -> None:
    """Nothing arrived, and nothing is made up."""
    assert streamed(dialect, []) == (Message("assistant", (), None, "aborted"), None)


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        (
            [piece(0, '{"p":', id="c1", name="ls"), piece(0, "1}"), piece(0, "{", id="c2", name="pwd"), piece(0, "}")],
            [("c1", "ls", '{"p":1}'), ("c2", "pwd", "{}")],
        ),
        (
            [piece(None, '{"p":1}', name="ls"), piece(None, "{}", name="pwd")],
            [("call_0", "ls", '{"p":1}'), ("call_1", "pwd", "{}")],
        ),
        ([piece(0, id="c1", name="l"), piece(0, name="s"), piece(0, "{}", id="c2")], [("c2", "ls", "{}")]),
    ],
    ids=["one index", "neither index nor id", "a name in pieces, and an id of each piece"],
)
def test_chat_calls_are_told_apart_whatever_a_server_leaves_out(
    pieces: list[Any], calls: list[tuple[str, str, str]]
) -> None:
    """Two calls are never one with the names and the arguments of both, which no tool can take."""
    message, _ = streamed("openai_chat", [*pieces, delta("tool_calls")])
    assert message.parts == tuple(ToolCall(*one) for one in calls)


def test_a_chat_call_that_broke_off_before_its_name_is_a_call_without_one() -> None:
    """The first fragment of a call may hold no more than its index."""
    message, _ = streamed("openai_chat", [delta(tool_calls=[{"index": 0}])])
    assert message == Message("assistant", (ToolCall("call_0", "", "{}"),), "gpt", "aborted")


@pytest.mark.parametrize("dialect", ["anthropic", "gemini", "openai_chat", "openai_responses"])
def test_the_body_of_a_stream_does_not_change_when_more_arrives(dialect: str) -> None:
    """A body that was handed out belongs to its holder."""
    part = {"output_index": 0, "content_index": 0, "type": "response.output_text.delta", "delta": "x"}
    text = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x"}}
    events: dict[str, list[dict[str, Any]]] = {
        "anthropic": [STARTED, block(0, {"type": "text", "text": ""})[0], text, text],
        "gemini": [chunk({"text": "x"}), chunk({"text": "x"})],
        "openai_chat": [piece(0, "{", id="c1", name="ls"), piece(0, "}")],
        "openai_responses": [CREATED, item(0, "message", content=[]), part, part],
    }
    stream = find_dialect(dialect).reader.stream()
    for event in events[dialect][:-1]:
        stream.feed(event)
    held, copy = stream.body, deepcopy(stream.body)
    stream.feed(events[dialect][-1])
    assert held == copy
    assert stream.body != copy
