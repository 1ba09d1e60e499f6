"""opencode sessions: from its database, from the folders of older versions, and as exports."""

import hashlib
import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from foveal.analysis.recordings import detect, read
from foveal.values.entry import (
    File,
    Image,
    Message,
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

SCHEMA = """
CREATE TABLE session (id text PRIMARY KEY, parent_id text, revert text, time_created integer);
CREATE TABLE message (id text PRIMARY KEY, session_id text, time_created integer, data text);
CREATE TABLE part (id text PRIMARY KEY, message_id text, session_id text, data text);
CREATE TABLE session_message (id text PRIMARY KEY, session_id text);
"""
TOKENS = {"input": 1, "output": 2, "reasoning": 1, "cache": {"read": 5, "write": 3}}
USAGE = Usage("m", 9, 3, cache_read_tokens=5, cache_write_tokens=3)

Talk = list[tuple[dict[str, Any], list[dict[str, Any]]]]


def said(*parts: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return {"role": "user"}, list(parts)


def replied(*parts: dict[str, Any], **info: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    return {"role": "assistant", "modelID": "m", "providerID": "anthropic", **info}, list(parts)


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def tool(call: str, status: str = "completed", **state: Any) -> dict[str, Any]:
    return {"type": "tool", "callID": call, "tool": "look", "state": {"status": status, "input": {}, **state}}


FINISH = {"type": "step-finish", "tokens": TOKENS}
TALK: Talk = [said(text("go")), replied(text("going"), tool("c", output="fog"), FINISH), replied(text("done"), FINISH)]
HEARD = [
    user("go"),
    assistant("going", ToolCall("c", "look", "{}"), model="m"),
    result("c", "fog"),
    assistant("done", model="m"),
]


def database(path: Path, sessions: dict[str, Talk], revert: str | None = None) -> apsw.Connection:
    """Write an opencode database with a log beside it; the connection is still open, as that of a running client."""
    db = apsw.Connection(str(path))
    db.execute("PRAGMA journal_mode = wal")
    db.execute(SCHEMA)
    for at, (name, talk) in enumerate(sessions.items()):
        db.execute("INSERT INTO session VALUES (?, NULL, ?, ?)", (name, revert, at))
        for number, (info, parts) in enumerate(talk):
            message = f"{name}_msg_{number}"
            db.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (message, name, number, json.dumps(info)))
            for place, part in enumerate(parts):
                row = (f"{message}_{place}", message, name, json.dumps(part))
                db.execute("INSERT INTO part VALUES (?, ?, ?, ?)", row)
    return db


def folders(storage: Path, name: str, talk: Talk, **info: Any) -> Path:
    """Write a session as older versions did; return its file."""
    records = {f"session/p/{name}": {"id": name, "projectID": "p", "time": {}, **info}}
    for number, (message, parts) in enumerate(talk):
        records[f"message/{name}/{name}_msg_{number}"] = message
        for place, part in enumerate(parts):
            records[f"part/{name}_msg_{number}/prt_{place}"] = part
    for path, record in records.items():
        file = storage / f"{path}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(record, indent=2))
    return storage / f"session/p/{name}.json"


def exported(talk: Talk) -> str:
    messages = [{"info": info, "parts": parts} for info, parts in talk]
    return json.dumps({"info": {"id": "ses_1", "projectID": "p"}, "messages": messages}, indent=2)


def heard(recording) -> list[Message]:
    return [step.message for step in recording.steps]


def contents(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if "shm" not in path.name
    }


def test_a_database_in_use_is_read_with_its_log_and_not_changed(tmp_path):
    """Sessions come oldest first; nothing is written, and no file is made."""
    path = tmp_path / "opencode.db"
    with closing(database(path, {"ses_2": TALK, "ses_1": TALK[:1]})):
        before = contents(tmp_path)
        assert detect(path) == "opencode"
        first, second = read(path)
        assert contents(tmp_path) == before
    assert (first.id, heard(first), first.model, first.dialect) == ("ses_2", HEARD, "m", "anthropic")
    assert [step.usage for step in first.steps] == [None, USAGE, None, USAGE]
    assert (second.id, heard(second)) == ("ses_1", [user("go")])
    assert "opencode records neither the system prompt nor the tool definitions" in first.notes


def test_a_database_at_rest_and_one_left_with_its_log_are_read_alike(tmp_path):
    """A closed client leaves one file; a copy of a running one may have the log without its index."""
    path = tmp_path / "opencode.db"
    with closing(database(path, {"ses_1": TALK})):
        copy = tmp_path / "copy"
        copy.mkdir()
        shutil.copy(path, copy)
        shutil.copy(f"{path}-wal", copy)
    for place in (path, copy / "opencode.db"):
        before = contents(place.parent) if place is not path else {p.name for p in tmp_path.iterdir()}
        [recording] = read(place)
        after = contents(place.parent) if place is not path else {p.name for p in tmp_path.iterdir()}
        assert heard(recording) == HEARD
        assert after == before


def test_a_file_name_with_odd_letters_is_no_address(tmp_path):
    """Letters that mean something in an address are letters in a name."""
    path = tmp_path / "a b?c#d%20.db"
    database(path, {"ses_1": TALK}).close()
    assert [heard(recording) for recording in read(path)] == [HEARD]


def test_the_folders_of_older_versions_are_read(tmp_path):
    """All sessions of the folder, oldest first (ids of sessions count down), or the one whose file is named."""
    storage = tmp_path / "storage"
    file = folders(storage, "ses_8", TALK)
    folders(storage, "ses_9", TALK[:1])
    assert detect(storage) == detect(file) == "opencode"
    older, newer = read(storage)
    assert (older.id, newer.id) == ("ses_9", "ses_8")
    [alone] = read(file)
    assert heard(alone) == heard(newer) == HEARD


def test_an_export_is_read(write):
    [recording] = read(write(exported(TALK), "export.json"))
    assert (recording.id, heard(recording)) == ("ses_1", HEARD)


def test_steps_of_one_message_are_calls_of_their_own(write):
    """Older versions write a whole turn into one message; each step is one model call with its own usage."""
    other = {**TOKENS, "input": 11}
    turn = replied(text("a"), tool("c", output="1"), FINISH, text("b"), {**FINISH, "tokens": other}, tokens=TOKENS)
    [recording] = read(write(exported([said(text("go")), turn]), "export.json"))
    assert heard(recording)[1:] == [
        assistant("a", ToolCall("c", "look", "{}"), model="m"),
        result("c", "1"),
        assistant("b", model="m"),
    ]
    assert [step.usage and step.usage.input_tokens for step in recording.steps] == [None, 9, None, 19]


def test_thinking_keeps_the_signature_beside_it(write):
    parts = [
        {"type": "reasoning", "text": "hm", "metadata": {"anthropic": {"signature": "s"}}},
        {"type": "reasoning", "text": "", "metadata": {"anthropic": {"redactedData": "x"}}},
        {"type": "reasoning", "text": ""},
    ]
    [recording] = read(write(exported([replied(*parts, text("so"))]), "export.json"))
    assert heard(recording)[0].parts == (Thinking("hm", "s"), RedactedThinking("x"), Text("so"))


def test_results_say_how_the_call_ended(write):
    """Errors and interruptions are statuses, pictures are pictures; a call that never ended has no result."""
    picture = {"mime": "image/png", "url": "data:image/png;base64,cGl4ZWw="}
    talk = replied(
        tool("1", output="seen", attachments=[picture]),
        tool("2", "error", error="boom"),
        tool("3", "error", error="stopped", metadata={"interrupted": True, "output": "half"}),
        tool("4", "running"),
    )
    [recording] = read(write(exported([talk]), "export.json"))
    assert [message.parts[0] for message in heard(recording)[1:]] == [
        ToolResult("1", (Text("seen"), Image("image/png", b"pixel"))),
        ToolResult("2", (Text("boom"),), "error"),
        ToolResult("3", (Text("half"),), "interrupted"),
    ]


def test_files_of_the_user_are_read(write):
    """A picture and a PDF are sent; a text file is there as text beside it, and a part that the model does not see is not."""
    talk = said(
        text("look"),
        text("hidden", ignored=True),
        {"type": "file", "mime": "text/plain", "url": "file:///a.txt"},
        {"type": "file", "mime": "application/pdf", "filename": "a.pdf", "url": "data:application/pdf;base64,UERG"},
        {"type": "file", "mime": "image/png", "url": "https://example.org/a.png"},
        {"type": "agent", "name": "x"},
    )
    [recording] = read(write(exported([talk]), "export.json"))
    pdf, picture = File("application/pdf", "a.pdf", b"PDF"), Image("image/png", None, "https://example.org/a.png")
    assert heard(recording) == [Message("user", (Text("look"), pdf, picture))]
    assert any("were left out: text 1, file 1, agent 1" in note for note in recording.notes)


def test_what_the_user_took_back_is_left_out(tmp_path):
    """A revert names the first message that no longer counts."""
    database(tmp_path / "o.db", {"s": TALK}, revert='{"messageID": "s_msg_2"}').close()
    [kept] = read(tmp_path / "o.db")
    [filed] = read(folders(tmp_path / "storage", "s", TALK, revert={"messageID": "s_msg_2"}))
    assert heard(kept) == heard(filed) == HEARD[:3]
    assert "1 messages that were taken back (revert) were left out" in kept.notes


def test_failed_replies_and_compactions_are_told(write):
    """A reply that broke off says so; one without a word is no reply."""
    talk = [
        said(text("go")),
        replied(text("half"), error={"name": "MessageAbortedError"}),
        replied(error={"name": "APIError"}),
        said({"type": "compaction", "auto": True}),
        replied(text("so far: gone"), summary=True, providerID="groq"),
    ]
    [recording] = read(write(exported(talk), "export.json"))
    assert heard(recording) == [
        user("go"),
        Message("assistant", (Text("half"),), "m", "aborted"),
        assistant("so far: gone", model="m"),
    ]
    assert recording.dialect == "openai_chat"
    assert "1 compactions of the recording agent are in it" in recording.notes


def test_messages_of_a_newer_form_are_said_to_be_missing(tmp_path):
    path = tmp_path / "o.db"
    with closing(database(path, {"s": []})) as db:
        db.execute("INSERT INTO session_message VALUES ('x', 's')")
        [recording] = read(path)
    assert "1 messages are kept in a newer form that is not read" in recording.notes


def test_a_bad_record_is_named(tmp_path):
    """Another database, damaged JSON in a row or a file, and a session without its folders are refused with the place."""
    apsw.Connection(str(tmp_path / "x.db")).execute("CREATE TABLE t (x)")
    with pytest.raises(BadRecording, match=r"x\.db: this is no database of opencode .*no such table: session"):
        list(read(tmp_path / "x.db"))
    with closing(database(tmp_path / "o.db", {"s": TALK})) as db:
        db.execute("UPDATE part SET data = '{' WHERE id = 's_msg_0_0'")
        with pytest.raises(BadRecording, match=r"o\.db: part s_msg_0_0 cannot be read"):
            list(read(tmp_path / "o.db"))
    file = folders(tmp_path / "storage", "s", TALK)
    (tmp_path / "storage/message/s/s_msg_1.json").write_text("{")
    with pytest.raises(BadRecording, match=r"s_msg_1\.json: this record of opencode cannot be read"):
        list(read(file))
    lonely = tmp_path / "a/b/c/s.json"
    lonely.parent.mkdir(parents=True)
    shutil.copy(file, lonely)
    with pytest.raises(BadRecording, match="its messages are not beside it"):
        list(read(lonely))
