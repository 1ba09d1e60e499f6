"""Gemini CLI sessions: messages that are written again, taken back and rewritten; older documents; checkpoints."""

import json

import pytest

from foveal.analysis.recordings import read
from foveal.values.entry import (
    Image,
    Message,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    result,
    user,
)
from foveal.values.errors import BadRecording

HEADER = {"sessionId": "g", "projectHash": "h", "startTime": "t"}


def said(name: str, *parts: object) -> dict[str, object]:
    return {"id": name, "type": "user", "content": list(parts)}


def reply(name: str, content: object = "", **more: object) -> dict[str, object]:
    return {"id": name, "type": "gemini", "content": content, "model": "gemini-x", **more}


def response(call: str, output: str, **more: object) -> dict[str, object]:
    return {"functionResponse": {"id": call, "name": "look", "response": {"output": output}, **more}}


def call(name: str, output: str = "1", **more: object) -> dict[str, object]:
    return {"id": name, "name": "look", "args": {}, "status": "success", "result": [response(name, output)], **more}


def messages(recording) -> list[Message]:
    return [step.message for step in recording.steps]


def test_a_session_is_read(write, samples):
    """Thoughts, text, calls with their results, usage and model; a message that is written again counts once."""
    [recording] = read(write(samples["gemini_cli"]))
    parts = (Thinking("way: left"), Text("going"), ToolCall("c", "look", '{"at":"map"}'))
    assert messages(recording) == [
        user("<session_context>"),
        user("go"),
        Message("assistant", parts, "m"),
        result("c", "fog"),
    ]
    assert recording.steps[2].usage == Usage("m", 9, 3, cache_read_tokens=4)
    assert (recording.id, recording.model, recording.dialect, recording.tools) == ("g-1", "m", "gemini", "[]")
    assert "1 messages that were taken back (rewind) were left out" in recording.notes
    assert any("were left out: info 1" in note for note in recording.notes)
    assert "Gemini CLI records neither the system prompt nor the tool definitions" in recording.notes


def test_an_older_session_is_one_document(write):
    """Until 2026 a session was a JSON document with all messages, and results were kept with their calls alone."""
    document = {**HEADER, "messages": [said("1", {"text": "go"}), reply("2", toolCalls=[call("c", "fog")])]}
    [recording] = read(write(json.dumps(document, indent=2), "session-1.json"))
    assert messages(recording) == [
        user("go"),
        assistant("", ToolCall("c", "look", "{}"), model="gemini-x"),
        result("c", "fog"),
    ]


def test_parts_of_a_reply_count_once_where_the_content_has_them(one):
    """Newer content holds thoughts, signatures and calls; what is beside it repeats them."""
    parts = [
        {"text": "hm", "thought": True},
        {"functionCall": {"id": "c", "name": "look", "args": {}}, "thoughtSignature": "c2ln"},
    ]
    recording = one([HEADER, reply("1", parts, thoughts=[{"description": "hm"}], toolCalls=[call("c")])])
    made = (Thinking("hm"), ToolCall("c", "look", "{}", "c2ln"))
    assert messages(recording) == [Message("assistant", made, "gemini-x"), result("c", "1")]


def test_results_say_how_the_call_ended_and_keep_pictures(one):
    """Errors and cancelled calls are statuses; a picture beside a result is a picture."""
    failed = {"functionResponse": {"id": "e", "name": "look", "response": {"error": "no such file"}}}
    picture = {"inlineData": {"mimeType": "image/png", "data": "cGl4ZWw="}}
    calls = [
        call("e", result=[failed], status="error"),
        call("x", status="cancelled"),
        call("t", result="plain"),
        call("p", result=[response("p", "seen"), picture]),
    ]
    recording = one([HEADER, reply("1", toolCalls=calls)])
    assert messages(recording)[1:] == [
        Message("tool", (ToolResult("e", (Text("no such file"),), "error"),)),
        Message("tool", (ToolResult("x", (Text("1"),), "interrupted"),)),
        result("t", "plain"),
        result("p", "seen"),
        Message("user", (Image("image/png", b"pixel"),)),
    ]


def test_a_result_in_a_message_alone_is_read(one):
    """Where a call has no result beside it, the user's message has it, with what the user said after it."""
    recording = one(
        [HEADER, reply("1", toolCalls=[call("c", result=None)]), said("2", response("c", "1"), {"text": "so"})]
    )
    assert messages(recording)[1:] == [result("c", "1"), user("so")]


def test_a_rewritten_history_adds_what_is_new(one):
    """A compression replaces messages by a summary: they stay, as they were, and the summary follows."""
    masked = {**said("1", {"text": "masked"})}
    rewritten = {"$set": {"messages": [said("s", {"text": "so far: gone"}), masked]}}
    recording = one([HEADER, said("1", {"text": "go"}), reply("2", "gone"), rewritten, said("3", {"text": "on"})])
    assert messages(recording) == [user("go"), assistant("gone", model="gemini-x"), user("so far: gone"), user("on")]
    assert any(note.startswith("1 rewritten histories") for note in recording.notes)


def test_a_rewind_to_an_unknown_message_takes_all_back(one):
    recording = one([HEADER, said("1", {"text": "go"}), {"$rewindTo": "?"}, said("2", {"text": "again"})])
    assert messages(recording) == [user("again")]


@pytest.mark.parametrize("form", ["list", "history", "clientHistory"])
def test_a_checkpoint_is_a_conversation(write, form):
    """`/chat save` and the restore files keep the contents of the API."""
    contents = [{"role": "user", "parts": [{"text": "go"}]}, {"role": "model", "parts": [{"text": "gone"}]}]
    value = contents if form == "list" else {form: contents, "toolCall": {}}
    [recording] = read(write(json.dumps(value, indent=1), "checkpoint-x.json"))
    assert messages(recording) == [user("go"), assistant("gone")]
    assert (recording.id, recording.dialect) == ("checkpoint-x", "gemini")


def test_the_log_of_prompts_is_refused_with_the_right_place(write):
    """`logs.json` has what the user typed and nothing of the replies."""
    log = [{"sessionId": "g", "messageId": 0, "type": "user", "message": "go", "timestamp": "t"}]
    with pytest.raises(BadRecording, match=r"logs\.json.* name a file of `chats/`"):
        list(read(write(json.dumps(log, indent=1), "logs.json")))


def test_unknown_lines_are_counted(one):
    recording = one(
        [HEADER, {"weather": "fair"}, {"id": "1", "type": "omen", "content": "x"}, said("2", {"text": "go"})]
    )
    assert messages(recording) == [user("go")]
    assert any("omen 1" in note and "lines of no known kind 1" in note for note in recording.notes)
