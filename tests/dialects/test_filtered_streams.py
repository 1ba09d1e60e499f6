"""Golden streams: two rounds of a documented shape of each provider, and the one stream that the client gets of them."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from foveal.dialects import DIALECTS
from foveal.dialects.sse import SseDecoder

from .rounds import Part, decoded, new_filter, run, spell, stream

STREAMS = Path(__file__).parent / "streams"


def read(name: str) -> str:
    """Return a stream as a provider sends it, or as the client gets it."""
    return (STREAMS / f"{name}.txt").read_text(encoding="utf-8")


def upstream(text: str) -> list[bytes]:
    """Return the events of a stream."""
    return [f"{event}\n\n".encode() for event in text.removesuffix("\n\n").split("\n\n")]


def compact(sent: bytes) -> str:
    """Return a stream with its JSON compact, as in the files."""
    events = (event.with_data(msgspec.json.format(event.data or b"", indent=-1)) for event in SseDecoder().feed(sent))
    return b"".join(event.raw for event in events).decode()


# Anthropic

ANTHROPIC_ASKS = read("anthropic_asks")
ANTHROPIC_ANSWERS = read("anthropic_answers")


def test_anthropic_rounds_are_one_message():
    """Blocks are counted on, the frame comes once, and the last usage has the input of the last prompt."""
    seen = new_filter("anthropic")
    sent = run(seen, upstream(ANTHROPIC_ASKS)) + run(seen, upstream(ANTHROPIC_ANSWERS))
    assert compact(sent) == read("anthropic_shown")
    assert [ended.again for ended in seen.rounds] == [True, False]
    assert [ended.reply.usage.output_tokens for ended in seen.rounds if ended.reply and ended.reply.usage] == [20, 30]


def test_anthropic_exchange_that_is_given_up_ends_as_a_turn():
    """The held end of the reply is sent when nobody asks again: a turn of the model without calls."""
    seen = new_filter("anthropic")
    run(seen, upstream(ANTHROPIC_ASKS))
    ends = [json.loads(event.data or b"") for event in seen.finish()]
    assert [end["type"] for end in ends] == ["message_delta", "message_stop"]
    assert ends[0]["delta"]["stop_reason"] == "end_turn"
    assert seen.finish() == []


def test_anthropic_call_that_was_cut_short_ends_the_exchange():
    """An own call without all its arguments cannot be answered: the client sees the end, with its reason."""
    seen = new_filter("anthropic")
    sent = run(seen, upstream(ANTHROPIC_ASKS.replace('"stop_reason":"tool_use"', '"stop_reason":"max_tokens"')))
    assert decoded(sent)[-2]["delta"]["stop_reason"] == "max_tokens"
    assert not seen.rounds[0].again


def test_anthropic_stream_without_its_last_event_gives_the_others():
    """An end that was held back is sent when the stream breaks off before it is whole."""
    seen = new_filter("anthropic")
    sent = run(seen, upstream(ANTHROPIC_ASKS)[:-1])
    assert decoded(sent)[-1]["type"] == "message_delta"
    assert not seen.rounds[0].again


def test_anthropic_error_goes_through_as_it_came():
    """The client sees the provider's words, and the model is not asked again."""
    failed = (
        b'event: error\ndata: {"type": "error",  "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'
    )
    seen = new_filter("anthropic")
    events = upstream(ANTHROPIC_ASKS)
    sent = run(seen, [*events[:-2], failed])
    assert sent.endswith(failed)
    assert seen.rounds[0].reply
    assert (seen.rounds[0].reply.message.stop, seen.rounds[0].again) == ("error", False)


def test_anthropic_tools_of_the_server_are_nobodys_calls():
    """A server tool of an own tool's name is neither hidden nor waited for."""
    server = upstream(ANTHROPIC_ASKS.replace('"type":"tool_use"', '"type":"server_tool_use"'))
    seen = new_filter("anthropic")
    assert run(seen, server) == b"".join(server)
    assert not seen.rounds[0].again


def test_unknown_events_keep_their_bytes():
    """An event of a kind that nobody knows yet goes through; one about a hidden block does not."""
    odd = b'id: 7\nevent: brand_new\ndata: {"type":  "brand_new", "n": 1.50}\n\n'
    about = b'event: brand_new\ndata: {"type": "brand_new", "index": 1}\n\n'
    events = upstream(ANTHROPIC_ASKS)
    sent = run(new_filter("anthropic"), [*events[:8], odd, about, *events[8:]])
    assert odd in sent
    assert about not in sent


# OpenAI Responses

RESPONSES_ASKS = read("responses_asks")
RESPONSES_ANSWERS = read("responses_answers")


def test_responses_rounds_are_one_response():
    """One id, sequence numbers without gaps, own tools neither called nor echoed, the usage of the last prompt."""
    seen = new_filter("openai_responses")
    sent = run(seen, upstream(RESPONSES_ASKS)) + run(seen, upstream(RESPONSES_ANSWERS))
    assert compact(sent) == read("responses_shown")


def test_responses_last_event_without_items_gets_those_of_all_rounds():
    """A server that leaves the items out of its last event has sent them before: the client's last event has them all."""
    words = upstream(RESPONSES_ANSWERS.replace("msg_2", "msg_1").replace('"output":[{', '"output":[],"old":[{'))
    own = upstream(
        RESPONSES_ASKS.replace('"output_index":0', '"output_index":1').replace('"output":[{', '"output":[],"x":[{')
    )
    seen = new_filter("openai_responses")
    run(seen, [*words[:-1], *own[2:]])
    assert seen.rounds[0].again
    sent = run(seen, upstream(RESPONSES_ANSWERS.replace('"output":[{', '"output":[],"old":[{')))
    assert [item["id"] for item in decoded(sent)[-1]["response"]["output"]] == ["msg_1", "msg_2"]


def test_responses_call_in_a_namespace_is_the_clients():
    """A function of the same name in a namespace is another's tool."""
    theirs = upstream(RESPONSES_ASKS.replace('"name":"recall_context"', '"namespace":"mcp","name":"recall_context"'))
    seen = new_filter("openai_responses")
    assert b'"namespace":"mcp"' in run(seen, theirs)
    assert not seen.rounds[0].again


def test_responses_calls_that_the_provider_answered_are_not_waited_for():
    """A hosted call with its output beside an own call: the model is asked again; an approval is for the client to give."""
    own = {"id": "fc", "type": "function_call", "call_id": "c1", "name": "recall_context", "arguments": "{}"}
    hosted = {"id": "sh", "type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}, "status": "completed"}
    output = {"id": "so", "type": "shell_call_output", "call_id": "c2", "output": []}
    approval = {"id": "ap", "type": "mcp_approval_request", "name": "x", "arguments": "{}", "server_label": "s"}
    answered: list[bool] = []
    for items in ([hosted, output, own], [hosted, own], [approval, own]):
        answered.append(new_filter("openai_responses").take({"status": "completed", "output": items}).again)
    assert answered == [True, False, False]


def test_responses_echo_names_no_own_tool():
    """Tools, the choice of tools and the instructions that a response repeats are the client's own."""
    shell, recall = {"type": "function", "name": "shell"}, {"type": "function", "name": "recall_context"}
    echo: dict[str, Any] = {"tools": [shell, recall], "instructions": "Be brief. Use recall_context."}
    choice: dict[str, Any] = {"type": "allowed_tools", "mode": "auto", "tools": [shell, recall]}
    seen = new_filter("openai_responses")
    seen.take({"id": "r", "status": "completed", "output": [], **echo, "tool_choice": choice})
    assert (seen.body["tools"], seen.body["instructions"]) == ([shell], None)
    assert seen.body["tool_choice"] == {**choice, "tools": [shell]}


def test_responses_event_about_a_hidden_item_is_hidden():
    """An event of a kind that nobody knows yet belongs to the item that it names."""
    about = [b'data: {"type":"brand_new","item_id":"%b"}\n\n' % item for item in (b"fc_1", b"fc_2")]
    events = upstream(RESPONSES_ASKS)
    sent = run(new_filter("openai_responses"), [*events[:4], *about, *events[4:]])
    assert about[0] not in sent
    assert about[1] in sent


# OpenAI Chat


def chunk(finish: str | None = None, number: int = 1, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
    head = {"id": f"chatcmpl-{number}", "object": "chat.completion.chunk", "created": number, "model": "gpt"}
    return {**head, "choices": [choice], "usage": None}


def counted(number: int, sent: int, made: int) -> dict[str, Any]:
    usage = {"prompt_tokens": sent, "completion_tokens": made, "total_tokens": sent + made}
    return {**chunk(number=number), "choices": [], "usage": usage}


def call(index: int, arguments: str = "", **head: Any) -> dict[str, Any]:
    name = {"name": head.pop("name")} if "name" in head else {}
    return {"index": index, **head, "function": {**name, "arguments": arguments}}


def chat(*chunks: dict[str, Any]) -> list[bytes]:
    return [*(b"data: " + json.dumps(one).encode() + b"\n\n" for one in chunks), b"data: [DONE]\n\n"]


CHAT_ASKS = (
    chunk(role="assistant", content="", refusal=None),
    chunk(content="Let me see."),
    chunk(tool_calls=[call(0, id="call_1", type="function", name="recall_context")]),
    chunk(tool_calls=[call(0, '{"ref":')]),
    chunk(tool_calls=[call(0, ' "e1"}')]),
    chunk("tool_calls"),
    counted(1, 900, 20),
)
CHAT_ANSWERS = (
    chunk(number=2, role="assistant", content="", refusal=None),
    chunk(number=2, content="It"),
    chunk(number=2, content=" is."),
    chunk(number=2, tool_calls=[call(0, "{}", id="call_2", type="function", name="search_context")]),
    chunk(number=2, tool_calls=[call(1, id="call_3", type="function", name="bash")]),
    chunk(number=2, tool_calls=[call(1, "{}")]),
    chunk("tool_calls", number=2),
    counted(2, 1000, 30),
)


def test_chat_rounds_are_one_message():
    """One id and one role, a blank line between the texts, calls from index 0, the usage of the last prompt."""
    seen = new_filter("openai_chat")
    sent = run(seen, chat(*CHAT_ASKS)) + run(seen, chat(*CHAT_ANSWERS))
    assert decoded(sent) == [
        chunk(role="assistant", content="", refusal=None),
        chunk(content="Let me see."),
        chunk(content="\n\nIt"),
        chunk(content=" is."),
        chunk(tool_calls=[call(0, id="call_3", type="function", name="bash")]),
        chunk(tool_calls=[call(0, "{}")]),
        chunk("tool_calls"),
        counted(1, 1000, 50) | {"usage": {"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050}},
    ]
    assert sent.count(b"[DONE]") == 1
    assert sent.endswith(b"data: [DONE]\n\n")


def test_chat_exchange_that_is_given_up_ends_with_a_stop():
    """The held end is sent: a reason without calls, the usage, `[DONE]`."""
    seen = new_filter("openai_chat")
    assert b'finish_reason": "' not in run(seen, chat(*CHAT_ASKS))
    end = b"".join(event.raw for event in seen.finish())
    assert decoded(end) == [chunk("stop"), counted(1, 900, 20)]
    assert end.endswith(b"data: [DONE]\n\n")


def test_chat_usage_is_for_clients_that_asked():
    """The chunk of the usage is left out for others; the gateway has it of every round."""
    seen = new_filter("openai_chat", wants_usage=False)
    sent = run(seen, chat(*CHAT_ANSWERS))
    assert all(one["choices"] for one in decoded(sent))
    assert seen.rounds[0].reply
    assert seen.rounds[0].reply.usage


def test_chat_usage_in_the_chunk_of_an_own_call_is_left_out():
    """Servers that count in every chunk count in those of own calls as well: nothing is left of them to send."""
    counting = [one | {"usage": counted(1, 9, 1)["usage"]} for one in CHAT_ASKS[2:5]]
    assert run(new_filter("openai_chat", wants_usage=False), chat(*counting, *CHAT_ASKS[5:])) == b""


def test_chat_name_in_pieces_waits_until_it_is_known():
    """While a name may become an own one nothing is sent; when it cannot, all that waited is sent as it came."""
    pieces = chat(
        chunk(tool_calls=[call(0, id="call_1", type="function", name="recall")]),
        chunk(tool_calls=[call(0, name="_con")]),
        chunk(content="Hm."),
        chunk(tool_calls=[call(0, name="spiracy")]),
    )[:-1]
    seen, decoder = new_filter("openai_chat"), SseDecoder()
    sent = [[shown.raw for event in decoder.feed(piece) for shown in seen.feed(event)] for piece in pieces]
    assert sent == [[], [], [], pieces]


@pytest.mark.parametrize(
    "next_piece",
    [call(0, "{"), call(1, id="call_2", type="function", name="ls")],
    ids=["its arguments", "another call"],
)
def test_chat_name_is_complete_when_something_follows(next_piece):
    """A client's tool whose name begins an own name waits no longer than for its arguments or the next call."""
    pieces = chat(
        chunk(tool_calls=[call(0, id="call_1", type="function", name="recall")]), chunk(tool_calls=[next_piece])
    )[:-1]
    seen, decoder = new_filter("openai_chat"), SseDecoder()
    sent = [[shown.raw for event in decoder.feed(piece) for shown in seen.feed(event)] for piece in pieces]
    assert sent == [[], pieces]


def test_chat_stream_that_breaks_off_within_a_name_keeps_its_words():
    """Half a name may be half an own one and is of no use: it is left out, the words beside it are not."""
    begun = call(0, id="call_1", type="function", name="recall_con")
    seen = new_filter("openai_chat")
    assert decoded(run(seen, chat(chunk(content="Hm."), chunk(content=" So", tool_calls=[begun]))[:-1])) == [
        chunk(content="Hm."),
        chunk(content=" So"),
    ]


def test_chat_custom_tool_of_the_same_name_is_the_clients():
    """Own tools are functions: a custom tool of their name goes through at once, streamed and not."""
    custom = {"index": 0, "id": "a", "type": "custom", "custom": {"name": "recall_context", "input": ""}}
    pieces = chat(chunk(tool_calls=[custom]), chunk("tool_calls"))
    seen, decoder = new_filter("openai_chat"), SseDecoder()
    sent = [[shown.raw for event in decoder.feed(piece) for shown in seen.feed(event)] for piece in pieces]
    assert sent == [[piece] for piece in pieces]
    assert not seen.end_round().again
    assert seen.body is seen.rounds[0].body


def test_chat_calls_whose_pieces_are_mixed_keep_their_places():
    """Pieces of parallel calls are told apart by their index, whatever their order."""
    seen = new_filter("openai_chat")
    sent = run(
        seen,
        chat(
            chunk(
                tool_calls=[
                    call(0, id="a", name="ls"),
                    call(1, id="b", name="recall_context"),
                    call(2, id="c", name="rm"),
                ]
            ),
            chunk(tool_calls=[call(2, "2"), call(1, "1"), call(0, "0")]),
            chunk("tool_calls"),
        ),
    )
    shown = [one["choices"][0]["delta"].get("tool_calls") for one in decoded(sent)]
    assert shown[0] == [call(0, id="a", name="ls"), call(1, id="c", name="rm")]
    assert shown[1] == [call(1, "2"), call(0, "0")]


def test_chat_servers_without_an_index_are_understood():
    """A call begins with its id; pieces without one belong to the newest call."""
    bare = [{key: value for key, value in one.items() if key != "index"} for one in (
        call(0, "{}", id="a", name="search_context"), call(0, " "), call(0, "{", id="b", name="ls"), call(0, "}")
    )]  # fmt: skip
    seen = new_filter("openai_chat")
    sent = run(seen, chat(*(chunk(tool_calls=[one]) for one in bare), chunk("tool_calls")))
    assert [one["choices"][0]["delta"].get("tool_calls") for one in decoded(sent)] == [[bare[2]], [bare[3]], None]


def test_chat_servers_that_send_all_at_once_are_understood():
    """Words, call, reason and usage in one chunk: the words are sent now, the rest waits."""
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    whole = chunk("stop", content="Hm.", tool_calls=[call(0, "{}", id="a", name="recall_context")]) | {"usage": usage}
    seen = new_filter("openai_chat")
    assert decoded(run(seen, chat(whole))) == [chunk(content="Hm.")]
    assert seen.rounds[0].again
    assert decoded(b"".join(event.raw for event in seen.finish())) == [chunk("stop") | {"usage": usage}]


def test_chat_fields_that_are_null_keep_their_bytes():
    """Servers send null, nothing or an empty list where there is nothing to say: a stream without own calls is as it came."""
    ended = chunk("stop", content=None, tool_calls=None)
    bare = {"id": "x", "choices": [{"index": 0, "delta": None, "finish_reason": "stop"}]}
    counts = {"id": "x", "choices": None, "usage": {"prompt_tokens": 1}}
    odd = chat(chunk(content="a", tool_calls=[]), ended, bare, {"id": "x"}, counts)
    assert run(new_filter("openai_chat"), odd) == b"".join(odd)


def test_chat_reasoning_of_a_later_round_is_counted_on():
    """Clients merge pieces of reasoning by their index: those of two rounds are not one."""
    detail = {"type": "reasoning.text", "index": 0, "text": "Hm."}
    seen = new_filter("openai_chat")
    asks = [chunk(reasoning_details=[detail]), *CHAT_ASKS[2:]]
    sent = run(seen, chat(*asks)) + run(
        seen, chat(chunk(number=2, reasoning_details=[detail]), chunk("stop", number=2))
    )
    details = [
        one for each in decoded(sent) for c in each["choices"] for one in c["delta"].get("reasoning_details", ())
    ]
    assert [one["index"] for one in details] == [0, 1]
    assert seen.body["choices"][0]["message"]["reasoning_details"] == details


def test_chat_error_goes_through_as_it_came():
    """An error in place of a chunk is the client's."""
    failed = b'data: {"error":  {"message": "overloaded", "code": 529}}\n\n'
    seen = new_filter("openai_chat")
    assert run(seen, [*chat(*CHAT_ASKS[:4])[:-1], failed]).endswith(failed)
    assert not seen.rounds[0].again


# Gemini


def parts(*given: dict[str, Any], number: int = 1, **fields: Any) -> dict[str, Any]:
    finish = {"finishReason": fields.pop("finish")} if "finish" in fields else {}
    candidate = {"content": {"role": "model", "parts": [*given]}, **finish, "index": 0}
    return {"candidates": [candidate], **fields, "modelVersion": "gemini", "responseId": f"r{number}"}


def spent(sent: int, made: int, thought: int = 0) -> dict[str, Any]:
    thoughts = {"thoughtsTokenCount": thought} if thought else {}
    total = sent + made + thought
    return {"promptTokenCount": sent, "candidatesTokenCount": made, "totalTokenCount": total, **thoughts}


def gemini(*chunks: dict[str, Any]) -> list[bytes]:
    return [b"data: " + json.dumps(one).encode() + b"\r\n\r\n" for one in chunks]


def test_gemini_rounds_are_one_reply():
    """One id, one reason, own parts gone, a blank line between the texts, the output of both rounds in every later count."""
    recall = {"functionCall": {"name": "recall_context", "args": {"ref": "e1"}}, "thoughtSignature": "c2ln"}
    ls = {"functionCall": {"id": "f1", "name": "ls", "args": {}}}
    first = gemini(
        parts({"text": "Let me "}, usageMetadata=spent(900, 2, 9)),
        parts({"text": "see."}, recall),
        parts({"text": ""}, finish="STOP", usageMetadata=spent(900, 10, 9)),
    )
    second = gemini(
        parts({"text": "Hm.", "thought": True}, number=2),
        parts({"text": "It is."}, ls, number=2, usageMetadata=spent(1000, 3)),
        parts(recall, number=2, finish="STOP", usageMetadata=spent(1000, 20)),
    )
    seen = new_filter("gemini")
    sent = run(seen, first) + run(seen, second)
    total = {"promptTokenCount": 1000, "thoughtsTokenCount": 9}
    assert decoded(sent) == [
        parts({"text": "Let me "}, usageMetadata=spent(900, 2, 9)),
        parts({"text": "see."}),
        parts({"text": ""}, usageMetadata=spent(900, 10, 9)) | {"candidates": [parts({"text": ""})["candidates"][0]]},
        parts({"text": "Hm.", "thought": True}),
        parts(
            {"text": "\n\n"},
            {"text": "It is."},
            ls,
            usageMetadata={**total, "candidatesTokenCount": 13, "totalTokenCount": 1022},
        ),
        parts(finish="STOP", usageMetadata={**total, "candidatesTokenCount": 30, "totalTokenCount": 1039}),
    ]
    assert [ended.again for ended in seen.rounds] == [True, False]


def test_gemini_chunks_of_own_calls_alone_are_dropped():
    """A chunk of which nothing is left is not sent; the counts after the reason wait for the end."""
    recall = {"functionCall": {"name": "recall_context", "args": {}}}
    late = {"usageMetadata": spent(9, 1), "modelVersion": "gemini", "responseId": "r1"}
    seen = new_filter("gemini")
    assert run(seen, gemini(parts(recall), parts(finish="STOP"), late)) == b""
    assert seen.rounds[0].again
    assert decoded(b"".join(event.raw for event in seen.finish())) == [parts(finish="STOP"), late]


def test_gemini_arguments_in_parts_belong_to_the_call_before():
    """Parts without a name go on with the arguments of a call, and are hidden with it."""
    begun = {"functionCall": {"name": "recall_context", "willContinue": True}}
    more = {"functionCall": {"partialArgs": [{"jsonPath": "$.ref", "stringValue": "e1"}], "willContinue": True}}
    ls = {"functionCall": {"name": "ls", "willContinue": True}}
    seen = new_filter("gemini")
    sent = run(seen, gemini(parts(begun), parts(more), parts(ls), parts(more), parts(finish="STOP")))
    assert decoded(sent) == [parts(ls), parts(more), parts(finish="STOP")]


def test_gemini_blocked_prompt_goes_through():
    """A reply without candidates keeps its bytes."""
    blocked = gemini(
        {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 9}}, {"candidates": None}
    )
    assert run(new_filter("gemini"), blocked) == b"".join(blocked)


# Any


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_round_of_which_nothing_came_can_be_asked_for_again(dialect):
    """A connection that fails before the first event leaves the exchange as it was: asked again or given up."""
    body = spell(dialect, [Part("text", "Hm."), Part("call", "recall_context")])
    events = stream(dialect, body)
    seen = new_filter(dialect)
    run(seen, events)
    assert run(seen, []) == b""
    assert len(seen.rounds) == 1
    sent = run(seen, stream(dialect, spell(dialect, [Part("text", "So.")], 1)))
    assert b"S" in sent
    given_up = new_filter(dialect)
    run(given_up, events)
    run(given_up, [])
    assert given_up.finish()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_in_place_of_a_reply_is_itself(dialect):
    """A body without a reply is handed on, and there is nothing to record."""
    failed = {"error": {"message": "overloaded"}}
    seen = new_filter(dialect)
    assert seen.take(failed).reply is None
    assert seen.body is failed


def test_a_stream_that_nobody_can_read_goes_through():
    """Events of another shape keep their bytes, and the round says that there is no reply to record."""
    odd = [b'data: {"type":"content_block_delta","index":5,"delta":{"type":"text_delta","text":"x"}}\n\n']
    seen = new_filter("anthropic")
    assert run(seen, odd) == b"".join(odd)
    assert (seen.rounds[0].reply, seen.rounds[0].again) == (None, False)


def test_half_a_surrogate_pair_survives_a_change():
    """Text that no UTF-8 can hold is escaped in a changed event as it was in the provider's."""
    half = b'data: {"id":"2","choices":[{"index":0,"delta":{"content":"\\ud83d"},"finish_reason":null}]}\n\n'
    seen = new_filter("openai_chat")
    run(seen, chat(*CHAT_ASKS))
    sent = run(seen, [half])
    assert b"\\n\\n\\ud83d" in sent
