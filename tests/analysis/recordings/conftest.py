"""Small invented sessions, one for each format, and a way to write them to a file."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from foveal.analysis.recordings import Recording, read

Write = Callable[..., Path]


def jsonl(*records: object) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)


SAMPLES: dict[str, str] = {
    "neutral": jsonl(
        {
            "id": "trip/1",
            "source": "invented",
            "license": "MIT",
            "model": "m-1",
            "tools": [{"type": "function", "function": {"name": "fare"}}],
            "messages": [
                {"role": "user", "content": "Wie viel kostet es nach Köln?"},
                {
                    "role": "assistant",
                    "content": None,
                    "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "fare", "arguments": "{}"}}],
                },
                {"role": "tool", "tool_call_id": "c1", "content": "42 €"},
                {"role": "assistant", "content": "42 €."},
            ],
            "meta": {"usage": [[1, 900, 20, None], [3, 1000, 9, 896]]},
        },
    ),
    "openai_chat": jsonl(
        {
            "messages": [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "hi"}, {"type": "file", "file": {"file_id": "f"}}],
                },
                {"role": "assistant", "content": "hello", "function_call": {"name": "f", "arguments": "{}"}},
                {"role": "function", "name": "f", "content": "1"},
            ],
        },
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,x"}}]}]},
    ),
    "claude_code": jsonl(
        {"type": "summary", "summary": "A walk", "leafUuid": "u2"},
        {
            "type": "user",
            "uuid": "u1",
            "parentUuid": None,
            "sessionId": "s-1",
            "isSidechain": False,
            "message": {"role": "user", "content": "Where am I?"},
        },
        {
            "type": "assistant",
            "uuid": "u2",
            "parentUuid": "u1",
            "sessionId": "s-1",
            "isSidechain": False,
            "message": {
                "id": "msg_1",
                "role": "assistant",
                "model": "claude-x",
                "content": [
                    {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                    {"type": "text", "text": "Here."},
                    {"type": "tool_use", "id": "t", "name": "Look", "input": {"at": "map"}},
                ],
                "usage": {"input_tokens": 3, "output_tokens": 2},
            },
        },
        {
            "type": "user",
            "uuid": "u3",
            "parentUuid": "u2",
            "message": {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "fog"}]}],
            },
            "toolUseResult": {"interrupted": False},
        },
        {"type": "system", "subtype": "compact_boundary", "uuid": "u4", "parentUuid": None, "logicalParentUuid": "u3"},
        {"type": "user", "uuid": "u5", "parentUuid": "u4", "isCompactSummary": True, "message": {"content": "So far."}},
        {
            "type": "attachment",
            "uuid": "u6",
            "parentUuid": "u5",
            "attachment": {"type": "queued_command", "prompt": "x"},
        },
        {"type": "user", "uuid": "u7", "parentUuid": "u6", "message": {"content": "On."}},
    ),
    "codex": jsonl(
        {"timestamp": "t", "type": "session_meta", "payload": {"id": "r-1", "cwd": "/w"}},
        {
            "timestamp": "t",
            "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
        },
        {
            "timestamp": "t",
            "type": "response_item",
            "payload": {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "gone"}]},
        },
        {"type": "response_item", "payload": {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "1"}},
        {
            "type": "response_item",
            "payload": {"type": "function_call_output", "call_id": "1", "output": "Exit code: 1"},
        },
        {
            "type": "event_msg",
            "payload": {
                "type": "token_count",
                "info": {"last_token_usage": {"input_tokens": 9, "output_tokens": 1}, "total_token_usage": {"n": 10}},
            },
        },
        {"type": "compacted", "payload": {"message": "so far", "replacement_history": [{"type": "compaction"}]}},
        {"type": "event_msg", "payload": {"type": "thread_rolled_back", "num_turns": 1}},
        {"type": "response_item", "payload": {"type": "message", "role": "user", "content": "again"}},
    ),
    "pi": jsonl(
        {"type": "session", "version": 3, "id": "p-1", "cwd": "/w"},
        {"type": "message", "id": "a", "parentId": None, "message": {"role": "user", "content": "go"}},
        {
            "type": "message",
            "id": "b",
            "parentId": "a",
            "message": {
                "role": "assistant",
                "api": "openai-responses",
                "content": [
                    {"type": "thinking", "thinking": "hm", "thinkingSignature": "s"},
                    {"type": "text", "text": "gone"},
                    {"type": "toolCall", "id": "1", "name": "f", "arguments": {}},
                ],
                "model": "m",
                "usage": {"input": 1, "output": 1},
                "stopReason": "toolUse",
            },
        },
        {
            "type": "message",
            "id": "c",
            "parentId": "b",
            "message": {
                "role": "toolResult",
                "toolCallId": "1",
                "content": [{"type": "image", "data": "", "mimeType": "i"}],
            },
        },
        {"type": "compaction", "id": "d", "parentId": "c", "summary": "so far"},
        {
            "type": "message",
            "id": "e",
            "parentId": "d",
            "message": {"role": "bashExecution", "command": "ls", "exitCode": 1},
        },
    ),
    "gemini_cli": jsonl(
        {"sessionId": "g-1", "projectHash": "h", "startTime": "t", "kind": "main"},
        {"$set": {"messages": [{"id": "0", "type": "user", "content": [{"text": "<session_context>"}]}]}},
        {"id": "1", "type": "user", "content": [{"text": "go"}]},
        {"id": "2", "type": "gemini", "content": "going", "tokens": {"input": 9, "output": 1}, "model": "m"},
        {
            "id": "2",
            "type": "gemini",
            "content": "going",
            "thoughts": [{"subject": "way", "description": "left"}],
            "tokens": {"input": 9, "output": 1, "cached": 4, "thoughts": 2},
            "model": "m",
            "toolCalls": [
                {
                    "id": "c",
                    "name": "look",
                    "args": {"at": "map"},
                    "status": "success",
                    "result": [{"functionResponse": {"id": "c", "name": "look", "response": {"output": "fog"}}}],
                }
            ],
        },
        {
            "id": "3",
            "type": "user",
            "content": [{"functionResponse": {"id": "c", "name": "look", "response": {"output": "fog"}}}],
        },
        {"id": "4", "type": "info", "content": "saved"},
        {"id": "5", "type": "user", "content": "no"},
        {"$rewindTo": "5"},
        {"$set": {"lastUpdated": "t"}},
    ),
    "opencode": jsonl(
        {
            "info": {"id": "ses_1", "projectID": "p", "time": {"created": 1}},
            "messages": [
                {"info": {"id": "msg_1", "role": "user"}, "parts": [{"type": "text", "text": "go"}]},
                {
                    "info": {
                        "id": "msg_2",
                        "role": "assistant",
                        "modelID": "m",
                        "providerID": "anthropic",
                        "tokens": {"input": 1, "output": 2, "reasoning": 1, "cache": {"read": 5, "write": 3}},
                    },
                    "parts": [
                        {"type": "step-start"},
                        {"type": "reasoning", "text": "hm", "metadata": {"anthropic": {"signature": "s"}}},
                        {"type": "text", "text": "going"},
                        {
                            "type": "tool",
                            "callID": "c",
                            "tool": "look",
                            "state": {"status": "completed", "input": {"at": "map"}, "output": "fog"},
                        },
                    ],
                },
            ],
        }
    ),
}


@pytest.fixture
def samples() -> dict[str, str]:
    return SAMPLES


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(content: str | bytes | list[object], name: str = "session.jsonl") -> Path:
        if isinstance(content, list):
            content = jsonl(*content)
        data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return write


@pytest.fixture
def one(write: Write) -> Callable[[list[object]], Recording]:
    """The single recording in a file of these lines."""

    def one(records: list[object]) -> Recording:
        [recording] = read(write(records))
        return recording

    return one
