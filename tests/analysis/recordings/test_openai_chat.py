"""OpenAI chat messages in all the shapes that users keep."""

import base64

import pytest

from foveal.analysis.recordings import read
from foveal.values.entry import (
    File,
    Image,
    Message,
    Opaque,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    result,
    system,
    user,
)
from foveal.values.errors import BadRecording

PIXEL = base64.b64encode(b"pixel").decode()


def call(call_id: str, name: str, arguments: object) -> dict[str, object]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def messages(recording) -> list[Message]:
    return [step.message for step in recording.steps]


def test_a_file_of_messages_is_one_session_named_by_the_file(write):
    """One message a line: the file is the conversation."""
    path = write([{"role": "developer", "content": "be kind"}, {"role": "user", "content": "hi"}], "talk.jsonl")
    [recording] = read(path)
    assert recording.id == "talk"
    assert messages(recording) == [system("be kind"), user("hi")]


def test_a_file_of_messages_may_still_be_written(write):
    """One message a line is a session file, so its last line may be torn."""
    [recording] = read(write('{"role": "user", "content": "hi"}\n{"role": "assi'))
    assert messages(recording) == [user("hi")]
    assert recording.notes == ("line 2 is cut off (the session was still being written?) and was left out",)


def test_a_line_may_be_a_list_of_messages(one):
    """The wrapper around the messages may be missing."""
    recording = one([[{"role": "user", "content": "hi"}]])
    assert recording.id == "session-1"
    assert messages(recording) == [user("hi")]


def test_model_tools_and_older_functions_are_kept(one):
    """Tool definitions come out as JSON text in the chat form."""
    hi = {"role": "user", "content": "hi"}
    recording = one([{"messages": [hi], "model": "m", "tools": [{"type": "function", "function": {"name": "ö"}}]}])
    assert (recording.model, recording.tools) == ("m", '[{"type":"function","function":{"name":"ö"}}]')
    recording = one([{"messages": [hi], "functions": [{"name": "f"}]}])
    assert recording.tools == '[{"type":"function","function":{"name":"f"}}]'


def test_parallel_calls_and_their_results_keep_their_order(one):
    """Arguments that are text stay verbatim, valid or not; objects are dumped compactly in their order."""
    recording = one(
        [
            {"role": "user", "content": "both"},
            {
                "role": "assistant",
                "content": "on it",
                "tool_calls": [call("a", "f", '{ "x":1'), call("b", "g", {"z": "ü", "a": [1, 2]})],
            },
            {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "two"}]},
            {"role": "tool", "tool_call_id": "a", "content": ""},
        ],
    )
    assert messages(recording)[1:] == [
        assistant("on it", ToolCall("a", "f", '{ "x":1'), ToolCall("b", "g", '{"z":"ü","a":[1,2]}')),
        result("b", "two"),
        result("a"),
    ]


def test_the_older_function_calls_get_ids(one):
    """`function_call` and role `function` are matched by order and name; the ids are made up, and noted."""
    recording = one(
        [
            {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}},
            {"role": "function", "name": "f", "content": "1"},
        ],
    )
    assert messages(recording) == [assistant("", ToolCall("call_0_0", "f", "{}")), result("call_0_0", "1")]
    assert recording.notes == ("1 calls had no id and were given one",)


def test_every_part_of_a_message_finds_its_type(one):
    """Pictures, sounds and files keep their bytes; what is unknown keeps its JSON."""
    recording = one(
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                    {"type": "image_url", "image_url": {"url": "https://example.org/a.jpg?x=1"}},
                    {"type": "input_audio", "input_audio": {"data": PIXEL, "format": "mp3"}},
                    {
                        "type": "file",
                        "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PIXEL}"},
                    },
                    {"type": "file", "file": {"file_id": "file-1"}},
                    {"type": "video", "n": 1},
                ],
            },
        ],
    )
    assert messages(recording)[0].parts == (
        Text("look"),
        Image("image/png", data=b"pixel"),
        Image("image/jpeg", url="https://example.org/a.jpg?x=1"),
        File("audio/mp3", "audio.mp3", data=b"pixel"),
        File("application/pdf", "a.pdf", data=b"pixel"),
        Opaque("openai", '{"type":"file","file":{"file_id":"file-1"}}'),
        Opaque("openai", '{"type":"video","n":1}'),
    )


def test_reasoning_and_refusals_are_parts(one):
    """`reasoning_content` is thinking without a signature, a refusal is what the model said."""
    recording = one([{"role": "assistant", "content": None, "reasoning_content": "hm", "refusal": "no"}])
    assert messages(recording) == [Message("assistant", (Thinking("hm"), Text("no")))]


def test_fields_without_a_place_are_counted(one):
    """Names of speakers and other extras are left out, and that is said."""
    recording = one(
        [{"role": "user", "name": "ann", "content": "hi"}, {"role": "user", "name": "bob", "content": "ho"}]
    )
    assert recording.notes == ("2 message fields have no place in a log and were left out: name 2",)


def test_errors_and_interruptions_are_statuses(one):
    """A result says how its call ended."""
    recording = one(
        [
            {"role": "assistant", "tool_calls": [call("a", "f", "{}"), call("b", "f", "{}")]},
            {"role": "tool", "tool_call_id": "a", "content": "boom", "is_error": True},
            {"role": "tool", "tool_call_id": "b", "content": "[Request interrupted by user for tool use]"},
        ],
    )
    results = [message.parts[0] for message in messages(recording)[1:]]
    assert [part.status for part in results if isinstance(part, ToolResult)] == ["error", "interrupted"]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ({"role": "wizard", "content": ""}, "role 'wizard' is not known; expected system, developer"),
        ({"role": "user", "content": 5}, "`content` must be a string, a list of parts or null, not a number"),
        ({"role": "user", "content": [5]}, "a content part must be an object"),
        ({"role": "assistant", "tool_calls": [{"id": "a"}]}, "`function` of a tool call must be an object"),
        ({"role": "tool", "content": "x"}, "a tool result names no call"),
        ({"role": []}, "`role` of a message must be a string"),
    ],
)
def test_a_message_that_is_not_understood_names_its_place(write, message, expected):
    """The error names the line, the message in it and what was expected."""
    with pytest.raises(BadRecording, match=rf"session\.jsonl:1: message 1: {expected}"):
        list(read(write([{"messages": [{"role": "user", "content": "hi"}, message]}])))
