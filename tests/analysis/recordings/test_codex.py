"""Codex rollouts: items become replies, results and turns."""

import json
from typing import Any

import pytest

from foveal.analysis.recordings import read
from foveal.values.entry import (
    Image,
    Message,
    Opaque,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    result,
    system,
    user,
)
from foveal.values.errors import BadRecording

META = {"type": "session_meta", "payload": {"id": "r", "base_instructions": {"text": "be brief"}}}
TURN = {"type": "turn_context", "payload": {"model": "gpt-x"}}


def item(kind: str, **fields: object) -> dict[str, object]:
    return {"timestamp": "t", "type": "response_item", "payload": {"type": kind, **fields}}


def message(role: str, text: str) -> dict[str, object]:
    kind = "output_text" if role == "assistant" else "input_text"
    return item("message", role=role, content=[{"type": kind, "text": text}])


def call(call_id: str, arguments: str = "{}") -> dict[str, object]:
    return item("function_call", name="shell", arguments=arguments, call_id=call_id)


def output(call_id: str, value: object) -> dict[str, object]:
    return item("function_call_output", call_id=call_id, output=value)


def event(kind: str, **fields: object) -> dict[str, object]:
    return {"timestamp": "t", "type": "event_msg", "payload": {"type": kind, **fields}}


def tokens(given: int, cached: int, taken: int, total: int) -> dict[str, object]:
    last = {"input_tokens": given, "cached_input_tokens": cached, "output_tokens": taken}
    return event("token_count", info={"last_token_usage": last, "total_token_usage": {"total_tokens": total}})


def messages(recording) -> list[Message]:
    return [step.message for step in recording.steps]


def test_items_of_one_reply_become_one_message(write):
    """Reasoning, message and calls up to the first output are one reply; reasoning is kept byte for byte."""
    reasoning = '{"type": "reasoning", "summary":[],  "encrypted_content":"gAAA"}'
    lines = [META, TURN, message("developer", "rules"), message("user", "go")]
    rest = [message("assistant", "ok"), call("1", '{"a": 1}'), call("2"), output("1", "x"), output("2", "y")]
    text = (
        "".join(map(_line, lines)) + f'{{"type":"response_item","payload":{reasoning}}}\n' + "".join(map(_line, rest))
    )
    [recording] = read(write(text))
    reply = (Opaque("openai", reasoning), Text("ok"), ToolCall("1", "shell", '{"a": 1}'), ToolCall("2", "shell", "{}"))
    assert messages(recording) == [
        system("be brief"),
        system("rules"),
        user("go"),
        Message("assistant", reply, "gpt-x"),
        result("1", "x"),
        result("2", "y"),
    ]
    assert (recording.id, recording.model) == ("r", "gpt-x")


def _line(record: object) -> str:
    return json.dumps(record) + "\n"


def test_token_counts_end_replies_and_become_their_usage(one):
    """A count closes the reply before it. A repeated total is a rate-limit notice; a count without a reply is noted."""
    recording = one(
        [
            META,
            TURN,
            message("user", "go"),
            message("assistant", "one"),
            tokens(100, 60, 5, 105),
            tokens(100, 60, 5, 105),
            event("token_count", info=None),
            call("1"),
            output("1", "x"),
            tokens(200, 100, 6, 311),
            tokens(50, 0, 7, 368),
        ],
    )
    assert [step.usage for step in recording.steps if step.message.role == "assistant"] == [
        Usage("gpt-x", 100, 5, cache_read_tokens=60),
        Usage("gpt-x", 200, 6, cache_read_tokens=100),
    ]
    assert "1 token counts belong to no recorded reply (compactions and the like)" in recording.notes


def test_every_kind_of_call_finds_its_form(one):
    """What the agent answers is a call; what the provider runs itself is opaque."""
    recording = one(
        [
            item("custom_tool_call", name="apply_patch", input="*** Begin", call_id="1"),
            item("local_shell_call", call_id="2", status="completed", action={"type": "exec", "command": ["ls"]}),
            item("function_call", name="read", namespace="mcp__files__", arguments="{}", call_id="3"),
            item("web_search_call", status="completed", action={"type": "search", "query": "q"}),
            item("custom_tool_call_output", call_id="1", output="done"),
        ],
    )
    *calls, search = messages(recording)[0].parts
    assert calls == [
        ToolCall("1", "apply_patch", "*** Begin"),
        ToolCall("2", "local_shell", '{"type":"exec","command":["ls"]}'),
        ToolCall("3", "mcp__files__read", "{}"),
    ]
    assert isinstance(search, Opaque)
    assert '"web_search_call"' in search.json
    assert messages(recording)[1] == result("1", "done")


@pytest.mark.parametrize(
    ("value", "content", "status"),
    [
        ("fine", (Text("fine"),), "ok"),
        ({"content": "bad", "success": False}, (Text("bad"),), "error"),
        ('{"output":"x","metadata":{"exit_code":2}}', (Text('{"output":"x","metadata":{"exit_code":2}}'),), "error"),
        ("Exit code: 1\nOutput:\nx", (Text("Exit code: 1\nOutput:\nx"),), "error"),
        ("Wall time: 1s\nProcess exited with code 0\nx", (Text("Wall time: 1s\nProcess exited with code 0\nx"),), "ok"),
        ("aborted by user after 3.1s", (Text("aborted by user after 3.1s"),), "interrupted"),
        (
            [{"type": "input_text", "text": "see"}, {"type": "input_image", "image_url": "data:image/png;base64,cGl4"}],
            (Text("see"), Image("image/png", data=b"pix")),
            "ok",
        ),
    ],
)
def test_outputs_say_how_the_call_ended(one, value, content, status):
    """Outputs are text, items or an object with a success flag; shell results carry an exit code."""
    recording = one([call("1"), output("1", value)])
    assert messages(recording)[1].parts == (ToolResult("1", content, status),)


def test_turns_that_were_rolled_back_are_left_out(one):
    """A rollback drops the last user turns; what Codex writes as the user begins no turn."""
    recording = one(
        [
            META,
            message("user", "<environment_context>x</environment_context>"),
            message("user", "first"),
            message("assistant", "1"),
            message("user", "second"),
            message("assistant", "2"),
            event("thread_rolled_back", num_turns=1),
            message("user", "third"),
        ],
    )
    assert [part.text for m in messages(recording)[2:] for part in m.parts if isinstance(part, Text)] == [
        "first",
        "1",
        "third",
    ]
    assert "2 messages of turns that were rolled back were left out" in recording.notes


def test_a_compaction_leaves_its_summary(one):
    """The summary is a user message, or opaque where the provider encrypted it; history is not repeated."""
    sealed = {"type": "compaction", "encrypted_content": "e"}
    recording = one(
        [
            message("user", "go"),
            {"type": "compacted", "payload": {"message": "so far", "replacement_history": [message("user", "go")]}},
            {"type": "compacted", "payload": {"message": "", "replacement_history": [sealed]}},
        ],
    )
    assert messages(recording) == [
        user("go"),
        user("so far"),
        Message("user", (Opaque("openai", '{"type":"compaction","encrypted_content":"e"}'),)),
    ]
    assert {"2 compactions", "1 items that a compaction repeats were left out"} <= set(recording.notes)


def test_the_older_form_without_envelopes_is_read(one):
    """Bare items follow a header without a type."""
    recording = one(
        [
            {"id": "old", "timestamp": "t", "instructions": None},
            {"record_type": "state"},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "reasoning", "id": "rs", "summary": []},
            {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": "1"},
            {"type": "function_call_output", "call_id": "1", "output": "x"},
        ],
    )
    assert recording.id == "old"
    assert [m.role for m in messages(recording)] == ["user", "assistant", "tool"]


def test_a_fork_keeps_its_own_id_and_unknown_lines_are_counted(one):
    """The parent's header comes second; lines of later versions carry no message that we know."""
    recording = one(
        [
            META,
            {"type": "session_meta", "payload": {"id": "parent"}},
            {"type": "world_state", "payload": {}},
            event("x"),
        ],
    )
    assert recording.id == "r"
    assert messages(recording) == [system("be brief")]
    assert "4 lines carry no message and were left out: session_meta 2, world_state 1, event_msg 1" in recording.notes


def test_a_session_ends_with_what_the_model_said(one):
    """An open reply at the end of the file is a reply."""
    assert messages(one([TURN, message("user", "go"), message("assistant", "ok")]))[1] == assistant("ok", model="gpt-x")


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (item("message", role="wizard", content=[]), "role 'wizard' of a Codex message is not known"),
        (item("function_call", arguments="{}", call_id="1"), "`name` of a function_call must be a string"),
        (item("function_call_output", output="x"), "`call_id` of an output must be a string"),
        ({"type": "response_item", "payload": 7}, "`payload` of a response_item line must be an object"),
        ({"foo": 1}, "expected a rollout line"),
    ],
)
def test_an_item_that_is_not_understood_names_its_line(write, bad, expected):
    """The error says what was expected where."""
    with pytest.raises(BadRecording, match=rf":2: {expected}"):
        list(read(write([META, bad])))


def test_recorded_tools_and_the_dialect_are_read(one):
    """Tools of the host are in the header, those that a turn adds are an item; Codex's own are not recorded."""
    hosted = {"name": "weather", "description": "", "inputSchema": {"type": "object"}}
    added = {"type": "function", "name": "shell", "parameters": {"type": "object"}}
    meta = {"type": "session_meta", "payload": {**META["payload"], "dynamic_tools": [hosted]}}
    recording = one([meta, message("user", "go"), item("additional_tools", role="developer", tools=[added, 7])])
    assert [tool["name"] for tool in json.loads(recording.tools)] == ["weather", "shell"]
    assert recording.dialect == "openai_responses"
    assert messages(recording) == [system("be brief"), user("go")]
    assert not any("does not hold" in note for note in recording.notes)


def test_a_rollout_says_what_it_does_not_hold(one):
    assert "the rollout does not hold the tool definitions" in one([META, message("user", "go")]).notes
    bare = one([{**META, "payload": {"id": "r"}}, message("user", "go")])
    assert "the rollout does not hold the system prompt and the tool definitions" in bare.notes


def test_tokens_written_to_the_cache_are_counted(one):
    """Newer versions count them apart."""
    counted: Any = tokens(100, 60, 5, 105)
    counted["payload"]["info"]["last_token_usage"]["cache_write_input_tokens"] = 30
    recording = one([META, TURN, message("user", "go"), message("assistant", "gone"), counted])
    assert recording.steps[-1].usage == Usage("gpt-x", 100, 5, cache_read_tokens=60, cache_write_tokens=30)
