"""Claude Code sessions: one conversation out of a tree of lines."""

import base64
import json
from typing import Any

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
    assistant,
    result,
    user,
)
from foveal.values.errors import BadRecording


def line(kind: str, uuid: str, parent: str | None, content: object = None, **more: Any) -> dict[str, object]:
    message = {"role": kind, "content": content, **dict(more.pop("message", {}))}
    return {"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": "s", "message": message, **more}


def said(uuid: str, parent: str | None, text: object, **more: object) -> dict[str, object]:
    return line("user", uuid, parent, text, **more)


def reply(uuid: str, parent: str, reply_id: str, *blocks: object, **message: object) -> dict[str, object]:
    return line("assistant", uuid, parent, list(blocks), message={"id": reply_id, "model": "claude-x", **message})


def answer(uuid: str, parent: str, call: str, content: object, **more: Any) -> dict[str, object]:
    block = {"type": "tool_result", "tool_use_id": call, "content": content, **dict(more.pop("block", {}))}
    return line("user", uuid, parent, [block], **more)


def text(words: str) -> dict[str, object]:
    return {"type": "text", "text": words}


def use(call: str, name: str = "Bash", **arguments: object) -> dict[str, object]:
    return {"type": "tool_use", "id": call, "name": name, "input": arguments}


def messages(recording) -> list[Message]:
    return [step.message for step in recording.steps]


def test_lines_of_one_reply_become_one_message(one):
    """An API reply is written a block a line; its usage is repeated, with the right output count in the last line."""
    counts = {"input_tokens": 5, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}
    recording = one(
        [
            said("u", None, "go"),
            reply("a1", "u", "m", {"type": "thinking", "thinking": "hm", "signature": "sig"}, usage=counts),
            reply("a2", "a1", "m", {"type": "redacted_thinking", "data": "xyz"}, usage=counts),
            reply("a3", "a2", "m", text("ok"), usage={**counts, "output_tokens": 3}),
            reply("a4", "a3", "m", use("t", cmd="ls", n=1), usage={**counts, "output_tokens": 30}),
            answer("r", "a4", "t", "files"),
        ],
    )
    parts = (Thinking("hm", "sig"), RedactedThinking("xyz"), Text("ok"), ToolCall("t", "Bash", '{"cmd":"ls","n":1}'))
    assert messages(recording) == [user("go"), Message("assistant", parts, "claude-x"), result("t", "files")]
    assert recording.steps[1].usage == Usage("claude-x", 125, 30, cache_read_tokens=100, cache_write_tokens=20)
    assert (recording.id, recording.model) == ("s", "claude-x")


@pytest.mark.parametrize("order", ["calls first", "as they ran"])
def test_results_of_parallel_calls_are_kept_though_they_hang_beside_the_chain(one, order):
    """Each result's parent is the line of its own call, so all but one are off the path to the last message."""
    first, second = reply("a1", "u", "m", use("t1")), reply("a2", "a1", "m", use("t2"))
    one_, two = answer("r1", "a1", "t1", "1"), answer("r2", "a2", "t2", "2")
    middle = [first, second, one_, two] if order == "calls first" else [first, one_, second, two]
    recording = one([said("u", None, "go"), *middle, reply("b", "r2", "n", text("done"))])
    assert messages(recording) == [
        user("go"),
        assistant("", ToolCall("t1", "Bash", "{}"), ToolCall("t2", "Bash", "{}"), model="claude-x"),
        result("t1", "1"),
        result("t2", "2"),
        assistant("done", model="claude-x"),
    ]


def test_a_branch_abandoned_by_a_rewind_is_left_out_and_noted(one):
    """The conversation is the path from the last message to the root."""
    recording = one(
        [
            said("u", None, "go"),
            reply("a", "u", "m", text("left")),
            said("x", "a", "no"),
            reply("y", "x", "n", use("t")),
            answer("z", "y", "t", "lost"),
            said("v", "a", "right"),
        ],
    )
    assert messages(recording) == [user("go"), assistant("left", model="claude-x"), user("right")]
    assert any(note.startswith("3 lines stand beside the conversation") for note in recording.notes)


def test_side_chains_are_sessions_of_their_own(write):
    """The conversation of a sub-agent is not that of its parent; it is a session with the parent's name before its own."""
    lines = [
        said("u", None, "go"),
        said("x", None, "first child", isSidechain=True),
        said("y", "x", "on", isSidechain=True),
        said("z", None, "second child", isSidechain=True, agentId="a2"),
    ]
    parent, first, second = read(write(lines))
    assert (parent.id, messages(parent)) == ("s", [user("go")])
    assert (first.id, messages(first)) == ("s/x", [user("first child"), user("on")])
    assert (second.id, messages(second)) == ("s/a2", [user("second child")])
    assert "side chains of 2 sub-agent(s) are in the file; each is a session of its own" in parent.notes


def test_the_file_of_a_sub_agent_is_its_side_chain(one):
    """Newer versions write each sub-agent into a file of its own, which has the session id of the parent."""
    aside = {"isSidechain": True, "agentId": "a1"}
    recording = one([said("u", None, "go", **aside), said("v", "u", "on", **aside)])
    assert (recording.id, messages(recording)) == ("s/a1", [user("go"), user("on")])


def test_a_sub_agent_in_another_file_is_noted(one):
    """The parent's file tells of it by the record of the tool alone."""
    recording = one(
        [reply("a", "", "m", use("t", "Agent")), answer("r", "a", "t", "ok", toolUseResult={"agentId": "a1"})]
    )
    assert any(note.startswith("1 sub-agents ran") for note in recording.notes)


def test_a_reply_that_is_told_again_is_not_merged_with_the_first(one):
    """A resumed or branched session repeats `message.id` further on; only lines that follow each other are one reply."""
    again = [said("u2", "b", "go on"), reply("a2", "u2", "m", text("said again")), said("v", "a2", "end")]
    recording = one([said("u", None, "go"), reply("a", "u", "m", text("one")), reply("b", "a", "m", use("t")), *again])
    assert messages(recording) == [
        user("go"),
        assistant("one", ToolCall("t", "Bash", "{}"), model="claude-x"),
        user("go on"),
        assistant("said again", model="claude-x"),
        user("end"),
    ]


def test_a_branch_that_repeats_a_reply_leaves_the_other_branch_alone(one):
    """Lines of a copied reply have the ids of the original; those on another branch stay there."""
    recording = one(
        [
            said("u", None, "go"),
            reply("a", "u", "m", text("left")),
            said("u2", None, "go"),
            reply("a2", "u2", "m", text("left")),
            said("v", "a2", "on"),
        ],
    )
    assert messages(recording) == [user("go"), assistant("left", model="claude-x"), user("on")]


def boundary(uuid: str, logical: str | None) -> dict[str, object]:
    shape = {"type": "system", "subtype": "compact_boundary", "uuid": uuid, "parentUuid": None}
    return {**shape, "logicalParentUuid": logical, "content": "Conversation compacted"}


@pytest.mark.parametrize("logical", ["u", None, "nowhere"])
def test_a_compaction_continues_the_conversation(one, logical):
    """The summary is a user message, and what was compacted stays before it."""
    recording = one(
        [
            said("u", None, "go"),
            boundary("c", logical),
            said("s", "c", "so far: gone", isCompactSummary=True),
            said("v", "s", "on"),
        ],
    )
    assert messages(recording) == [user("go"), user("so far: gone"), user("on")]


def test_the_summary_of_a_compaction_by_hand_is_kept(one):
    """After /compact the conversation goes on from the command, and the summary is a branch without an end."""
    recording = one(
        [
            said("u", None, "go"),
            boundary("c", "u"),
            said("s", "c", "so far: gone", isCompactSummary=True),
            said("k", "u", "/compact", isMeta=True),
            said("v", "k", "on"),
        ],
    )
    assert messages(recording) == [user("go"), user("so far: gone"), user("/compact"), user("on")]


def test_the_summary_of_a_compaction_by_hand_is_found_behind_its_notes(one):
    """Newer versions write attachments between the boundary and the summary."""
    recording = one(
        [
            said("u", None, "go"),
            boundary("c", "u"),
            note("n", "c", "date", "today"),
            said("s", "n", "so far: gone", isCompactSummary=True),
            said("v", "u", "on"),
        ],
    )
    assert messages(recording) == [user("go"), Message("system", (Text("today"),)), user("so far: gone"), user("on")]


def note(uuid: str, parent: str, kind: str, words: object, role: str = "system") -> dict[str, object]:
    shape = {"type": "attachment", "uuid": uuid, "parentUuid": parent, "sessionId": "s", "attachment": {"type": kind}}
    return {**shape, "rendered": [{"content": words}], "renderedRole": role}


def test_attachments_are_shown_as_they_were_rendered(one):
    """Newer versions record the texts that the model saw and in whose name: the user's stand before the user's words."""
    recording = one(
        [
            said("u", None, "go"),
            note("n1", "u", "environment", "a shell"),
            note("n2", "n1", "session_context", "branch main", "user"),
            note("n3", "n2", "date", "today"),
            note("n4", "n3", "hint", [text("be kind")], "user"),
            reply("a", "n4", "m", use("t")),
            answer("r", "a", "t", "1"),
            note("n5", "r", "hint", "late", "user"),
            reply("b", "n5", "n", text("so")),
        ],
    )
    assert messages(recording) == [
        Message("user", (Text("branch main"), Text("be kind"), Text("go"))),
        Message("system", (Text("a shell"), Text("today"))),
        assistant("", ToolCall("t", "Bash", "{}"), model="claude-x"),
        result("t", "1"),
        user("late"),
        assistant("so", model="claude-x"),
    ]


def test_attached_files_of_older_versions_are_read(one):
    """Text comes under its name, an image as an image; what the agent made of the rest is not in the file."""
    file = {"type": "file", "filename": "a.py", "content": {"type": "text", "file": {"content": "x = 1"}}}
    picture = {"type": "file", "content": {"file": {"base64": "cGl4ZWw=", "type": "image/png"}}}
    memory = {"type": "nested_memory", "path": "CLAUDE.md", "content": {"content": "be brief"}}
    listing = {"type": "agent_listing_delta", "addedLines": ["- Explore", "- Plan"]}
    lines = [said("u", None, "look")]
    for number, held in enumerate((file, picture, memory, listing, {"type": "diagnostics"})):
        lines.append({"type": "attachment", "uuid": f"f{number}", "parentUuid": "u", "attachment": held})
    lines.append(said("v", "u", "on"))
    for line_, parent in zip(lines[1:], ("u", "f0", "f1", "f2", "f3", "f4"), strict=True):
        line_["parentUuid"] = parent
    recording = one(lines)
    image = Image("image/png", b"pixel")
    noted = (Text("CLAUDE.md\nbe brief"), Text("- Explore\n- Plan"))
    assert messages(recording)[0].parts == (Text("a.py\nx = 1"), image, *noted, Text("look"))
    assert any("attachment diagnostics 1" in note for note in recording.notes)


def test_a_result_without_content_has_the_text_of_the_tool(one):
    """`toolUseResult` keeps what the block lacks."""
    lines: list[Any] = [reply("a", "", "m", use("1")), answer("r", "a", "1", None, toolUseResult="Error: no such file")]
    del lines[1]["message"]["content"][0]["content"]
    assert messages(one(lines))[1] == result("1", "Error: no such file")


SHAPE = {"system": [text("You are kind."), text("Be brief.")], "tools": [{"name": "Bash", "input_schema": {}}]}


def request(shape: str, **more: object) -> dict[str, object]:
    return {"type": "api-request", "id": "r", "shapeHash": shape, "sessionId": "s", **more}


def shape(name: str, held: object, **more: object) -> dict[str, object]:
    return {"type": "api-request-shape", "shapeHash": name, "shape": held, "sessionId": "s", **more}


def test_the_recorded_system_prompt_and_tools_are_read(one):
    """Newer versions write the fixed part of their requests: it stands before the conversation, in its dialect."""
    deferred = {"name": "Rare", "input_schema": {}, "defer_loading": True}
    other = {"system": [text("Compact.")], "tools": []}
    recording = one(
        [
            said("u", None, "go"),
            shape("x", other),
            request("x"),
            shape("y", {**SHAPE, "tools": [*SHAPE["tools"], deferred]}),
            request("y"),
            request("y"),
            reply("a", "u", "m", use("t")),
        ],
    )
    assert messages(recording)[:3] == [
        Message("system", (Text("You are kind."),)),
        Message("system", (Text("Be brief."),)),
        user("go"),
    ]
    assert json.loads(recording.tools) == SHAPE["tools"]
    assert recording.dialect == "anthropic"
    assert "1 deferred tools that were never called were left out" in recording.notes
    assert "system prompt or tools changed 1 times; those of most requests are taken" in recording.notes


def test_each_sub_agent_has_its_own_system_prompt(write):
    """The lines of a sub-agent's requests name it."""
    side = {"isSidechain": True, "agentId": "a1"}
    lines = [
        shape("x", SHAPE),
        shape("y", {"system": [text("You look.")]}, agentId="a1"),
        said("u", None, "go"),
        said("v", None, "look", **side),
    ]
    parent, child = read(write(lines))
    assert messages(parent)[0] == Message("system", (Text("You are kind."),))
    assert messages(child) == [Message("system", (Text("You look."),)), user("look")]


def test_the_snapshot_in_the_tree_serves_where_no_request_is_recorded(one):
    """`prompt_snapshot` has the same, in pieces; not all of them have the tools."""
    first = {"type": "prompt_snapshot", "systemPrompt": ["Be", "brief."]}
    second = {**first, "cliPrefix": "You are kind.", "tools": [{"name": "Bash", "schema": SHAPE["tools"][0]}]}
    lines = [said("u", None, "go")]
    for uuid, parent, held in (("p", "u", first), ("q", "p", second)):
        lines.append({"type": "attachment", "uuid": uuid, "parentUuid": parent, "attachment": held})
    recording = one([*lines, said("v", "q", "on")])
    assert messages(recording)[:2] == [
        Message("system", (Text("You are kind."),)),
        Message("system", (Text("Be\n\nbrief."),)),
    ]
    assert json.loads(recording.tools) == SHAPE["tools"]


def test_a_file_without_the_fixed_part_says_so(one):
    recording = one([said("u", None, "go")])
    assert recording.tools == "[]"
    assert "the file holds neither the system prompt nor the tool definitions" in recording.notes


def test_results_say_how_the_call_ended(one):
    """Errors and interruptions are statuses; pictures in results are pictures."""
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "cGl4ZWw="}}
    recording = one(
        [
            reply("a", "", "m", use("1"), use("2"), use("3"), use("4")),
            answer("r1", "a", "1", "boom", block={"is_error": True}),
            answer("r2", "a", "2", "The user doesn't want to proceed with this tool use.", block={"is_error": True}),
            answer("r3", "a", "3", [text("partly"), picture], toolUseResult={"interrupted": True}),
            answer("r4", "a", "4", [{"type": "tool_reference", "tool_name": "x"}]),
        ],
    )
    picture_part = Image("image/png", data=base64.b64decode("cGl4ZWw="))
    assert [message.parts[0] for message in messages(recording)[1:]] == [
        ToolResult("1", (Text("boom"),), "error"),
        ToolResult("2", (Text("The user doesn't want to proceed with this tool use."),), "interrupted"),
        ToolResult("3", (Text("partly"), picture_part), "interrupted"),
        ToolResult("4", (Text('{"type":"tool_reference","tool_name":"x"}'),)),
    ]


def test_unknown_blocks_are_kept_byte_for_byte(write):
    """A block that we do not model comes back exactly as it was written."""
    block = '{"type": "server_tool_use",  "id":"x", "n": 1.0}'
    message = '{"id": "m", "model": "c", "content": [' + block + "]}"
    [recording] = read(write('{"type":"assistant","uuid":"a","parentUuid":null,"message":' + message + "}\n"))
    assert recording.steps[0].message.parts == (Opaque("anthropic", block),)


def test_what_else_the_model_was_shown_is_kept_and_the_rest_counted(one):
    """Queued prompts, hook context and local commands are user messages; bookkeeping is counted by its type."""
    tree = {"sessionId": "s", "isSidechain": False}
    recording = one(
        [
            {"type": "file-history-snapshot", "messageId": "x", "snapshot": {}},
            said("u", None, "go"),
            {"type": "progress", "uuid": "p", "parentUuid": "u", **tree},
            {
                "type": "attachment",
                "uuid": "q",
                "parentUuid": "p",
                "attachment": {"type": "queued_command", "prompt": "also"},
            },
            {
                "type": "attachment",
                "uuid": "t",
                "parentUuid": "q",
                "attachment": {"type": "todo_reminder", "content": []},
            },
            {"type": "system", "subtype": "local_command", "uuid": "l", "parentUuid": "t", "content": "<out>1</out>"},
            {"type": "system", "subtype": "turn_duration", "uuid": "d", "parentUuid": "l"},
            said("v", "d", "on"),
        ],
    )
    assert messages(recording) == [user("go"), user("also"), user("<out>1</out>"), user("on")]
    note = next(note for note in recording.notes if "carry no message" in note)
    assert note.startswith("4 lines")
    for kind in ("file-history-snapshot 1", "progress 1", "attachment todo_reminder 1", "system turn_duration 1"):
        assert kind in note


def test_a_reply_that_the_agent_wrote_itself_has_no_model(one):
    """API errors look like replies; they cost nothing and no model said them."""
    error = reply("a", "u", "m", text("API Error: 529"), model="<synthetic>", usage={"input_tokens": 0})
    recording = one([said("u", None, "go"), {**error, "isApiErrorMessage": True}])
    assert recording.steps[1].message == Message("assistant", (Text("API Error: 529"),), stop="error")
    assert recording.steps[1].usage is None
    assert any(note.startswith("1 replies were written by Claude Code itself") for note in recording.notes)


def test_lines_written_twice_count_once(one):
    """A resumed session may be copied into its own file."""
    recording = one([said("u", None, "go"), said("u", None, "go"), said("v", "u", "on")])
    assert messages(recording) == [user("go"), user("on")]
    assert any("repeat an earlier one" in note for note in recording.notes)


def test_a_lone_surrogate_round_trips_into_arguments(write):
    """Half an emoji in a tool argument stays half an emoji."""
    block = '{"type":"tool_use","id":"t","name":"Edit","input":{"s":"\\ud83d"}}'
    [recording] = read(
        write('{"type":"assistant","uuid":"a","parentUuid":null,"message":{"content":[' + block + "]}}\n")
    )
    assert recording.steps[0].message.parts == (ToolCall("t", "Edit", '{"s":"\ud83d"}'),)


def test_a_cycle_of_parents_ends(one):
    """A damaged tree does not hang the reader."""
    assert len(one([said("u", "v", "go"), said("v", "u", "on")]).steps) == 2


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ({"type": "user", "uuid": "x", "message": None}, "`message` of a Claude Code user line must be an object"),
        (said("x", "u", 7), "`content` of a user message must be a string or a list, not a number"),
        (reply("x", "u", "m", {"type": "tool_use", "name": "n"}), "`id` of a tool_use block must be a string"),
    ],
)
def test_a_message_that_is_not_understood_names_its_line(write, bad, expected):
    """The error says what was expected where."""
    with pytest.raises(BadRecording, match=rf":2: {expected}"):
        list(read(write([said("u", None, "go"), bad])))
