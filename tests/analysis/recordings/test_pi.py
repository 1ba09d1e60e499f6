"""Sessions of the pi coding agent: the branch that ends with the last entry."""

import pytest

from foveal.analysis.recordings import read
from foveal.values.entry import (
    Image,
    Message,
    Opaque,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    user,
)
from foveal.values.errors import BadRecording

HEAD = {"type": "session", "version": 3, "id": "p", "cwd": "/w"}


def entry(entry_id: str, parent: str | None, kind: str = "message", **fields: object) -> dict[str, object]:
    return {"type": kind, "id": entry_id, "parentId": parent, **fields}


def said(entry_id: str, parent: str | None, text: str) -> dict[str, object]:
    return entry(entry_id, parent, message={"role": "user", "content": text})


def reply(entry_id: str, parent: str | None, *blocks: object, **fields: object) -> dict[str, object]:
    return entry(entry_id, parent, message={"role": "assistant", "model": "m", "content": list(blocks), **fields})


def messages(recording) -> list[Message]:
    return [step.message for step in recording.steps]


def test_a_reply_keeps_its_parts_and_its_usage(one):
    """Thinking, text, calls and signatures; the input counts what was cached."""
    usage = {"input": 10, "output": 7, "cacheRead": 80, "cacheWrite": 5, "totalTokens": 102}
    recording = one(
        [
            HEAD,
            said("a", None, "go"),
            reply(
                "b",
                "a",
                {"type": "thinking", "thinking": "hm", "thinkingSignature": "sig"},
                {"type": "thinking", "thinking": "", "thinkingSignature": "zzz", "redacted": True},
                {"type": "text", "text": "ok"},
                {"type": "toolCall", "id": "1", "name": "bash", "arguments": {"cmd": "ls"}, "thoughtSignature": "g"},
                usage=usage,
                stopReason="toolUse",
            ),
        ],
    )
    parts = (Thinking("hm", "sig"), RedactedThinking("zzz"), Text("ok"), ToolCall("1", "bash", '{"cmd":"ls"}', "g"))
    assert messages(recording) == [user("go"), Message("assistant", parts, "m")]
    assert recording.steps[1].usage == Usage("m", 95, 7, cache_read_tokens=80, cache_write_tokens=5)
    assert (recording.id, recording.model) == ("p", "m")


def test_openai_reasoning_goes_back_as_it_came(one):
    """With OpenAI's API pi keeps the whole reasoning item where the signature stands."""
    recording = one(
        [
            HEAD,
            reply(
                "a",
                None,
                {"type": "thinking", "thinking": "s", "thinkingSignature": '{"id":"rs"}'},
                api="openai-responses",
            ),
            reply(
                "b",
                "a",
                {"type": "thinking", "thinking": "s", "thinkingSignature": "reasoning"},
                api="openai-completions",
            ),
        ],
    )
    assert [m.parts[0] for m in messages(recording)] == [Opaque("openai", '{"id":"rs"}'), Thinking("s")]


def test_results_keep_pictures_and_errors(one):
    """A failed call is an error, a stopped one is interrupted."""
    picture = {"type": "image", "data": "cGl4", "mimeType": "image/png"}
    calls = [{"type": "toolCall", "id": n, "name": "f", "arguments": {}} for n in "12"]
    shape = {"role": "toolResult", "toolName": "f"}
    recording = one(
        [
            HEAD,
            reply("a", None, *calls),
            entry("b", "a", message={**shape, "toolCallId": "1", "content": [picture], "isError": True}),
            entry(
                "c",
                "b",
                message={**shape, "toolCallId": "2", "content": [{"type": "text", "text": "Operation aborted"}]},
            ),
        ],
    )
    assert [m.parts[0] for m in messages(recording)[1:]] == [
        ToolResult("1", (Image("image/png", data=b"pix"),), "error"),
        ToolResult("2", (Text("Operation aborted"),), "interrupted"),
    ]


def test_other_branches_are_left_out_and_noted(one):
    """The conversation is the path from the last entry; a branch summary speaks for what was left."""
    recording = one(
        [
            HEAD,
            said("a", None, "go"),
            said("x", "a", "wrong"),
            reply("y", "x", {"type": "text", "text": "lost"}),
            entry("s", "a", "branch_summary", fromId="y", summary="it was wrong"),
            said("b", "s", "right"),
        ],
    )
    assert messages(recording) == [user("go"), user("it was wrong"), user("right")]
    assert "2 entries of other branches were left out: message 2" in recording.notes


def test_compactions_and_injected_messages_are_user_messages(one):
    """What pi shows to the model in the user's name is kept so; bookkeeping is counted."""
    recording = one(
        [
            HEAD,
            entry("a", None, "model_change", provider="p", modelId="m"),
            said("b", "a", "go"),
            entry("c", "b", "compaction", summary="so far", firstKeptEntryId="b", tokensBefore=9),
            entry("d", "c", "custom_message", customType="x", content="note", display=True),
            entry("e", "d", message={"role": "bashExecution", "command": "ls", "output": "a\nb", "exitCode": 1}),
            entry(
                "f", "e", message={"role": "bashExecution", "command": "ls", "output": "", "excludeFromContext": True}
            ),
            entry("g", "f", "custom", customType="x", data={}),
            entry("h", "g", message={"role": "hookMessage", "content": "hook"}),
        ],
    )
    assert messages(recording) == [
        user("go"),
        user("so far"),
        user("note"),
        user("Ran `ls`\n```\na\nb\n```\n\nExit code: 1"),
        user("hook"),
    ]
    note = "3 entries carry no message for the model and were left out: model_change 1, message 1, custom 1"
    assert note in recording.notes


@pytest.mark.parametrize(
    ("reason", "stop"), [("error", "error"), ("aborted", "aborted"), ("stop", "done"), (None, "done")]
)
def test_how_a_reply_stopped_is_kept(one, reason, stop):
    """Failed and aborted replies are marked, and nothing was counted for them."""
    recording = one([HEAD, reply("a", None, {"type": "text", "text": "x"}, stopReason=reason, usage={"input": 0})])
    assert recording.steps[0].message.stop == stop
    assert recording.steps[0].usage is None


def test_the_first_version_had_no_ids(one):
    """Entries without ids follow each other."""
    recording = one(
        [
            {"type": "session", "id": "p", "provider": "x", "modelId": "m"},
            {"type": "message", "message": {"role": "user", "content": "go"}},
            {"type": "message", "message": {"role": "user", "content": "on"}},
        ],
    )
    assert messages(recording) == [user("go"), user("on")]


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (entry("x", None, message={"role": "wizard"}), "role 'wizard' of a pi message is not known"),
        (entry("x", None, message={"role": "user", "content": 7}), "`content` of a pi message must be"),
        (entry("x", None), "`message` of a pi entry must be an object"),
        ({"id": "x"}, "`type` of a pi session line must be a string"),
    ],
)
def test_an_entry_that_is_not_understood_names_its_line(write, bad, expected):
    """The error says what was expected where."""
    with pytest.raises(BadRecording, match=rf":2: {expected}"):
        list(read(write([HEAD, bad])))
