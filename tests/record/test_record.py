"""Recording, by example: a host appends messages, results and replies as they come, and each becomes entries of the log.

The log holds facts at the grain the provider spoke. Nothing is shortened here: that is decided later, for a prompt.
"""

import pytest

from foveal import BadInput
from foveal.stores.memory import MemoryStore
from foveal.stores.rows import to_entry
from foveal.testing.builders import open_session
from foveal.values.entry import (
    Body,
    Message,
    Note,
    Opaque,
    Overflow,
    Pin,
    Stored,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Usage,
    result,
    system,
    user,
)
from foveal.values.errors import BadEntry

LS = ToolCall("c1", "ls", '{"path":"."}')


def record(*items: object, dialect: str = "openai_chat", model: str = "gpt-5") -> list[Body]:
    """The bodies of the entries that appending these items makes."""
    store = MemoryStore()
    session = open_session(store, dialect=dialect, model=model)
    for item in items:
        session.append(item)
    return [to_entry(row, "test").body for row in store.rows("test")]


def test_a_message_is_one_entry() -> None:
    """System prompt, request and result are kept as they were given."""
    messages = [system("Be brief."), user("Which files?"), Message("assistant", (LS,)), result("c1", "a.py")]
    assert record(*messages) == messages


def test_entries_form_a_chain() -> None:
    """Each entry names the one before it as its parent, so that a branch is a head and nothing is copied."""
    store = MemoryStore()
    session = open_session(store)
    first, second = session.append(user("One.")), session.append(user("Two."))
    assert (first.parent, second.parent) == (None, first.id)
    assert [to_entry(row, "test").id for row in store.rows("test")] == [first.id, second.id]


def test_a_reply_of_openai_chat_is_a_message_and_its_usage() -> None:
    """The body that the SDK returns is read; the model is the one that was asked, not the dated name of the answer."""
    call = {"id": "c1", "type": "function", "function": {"name": "ls", "arguments": '{"path":"."}'}}
    message = {"role": "assistant", "content": "I look.", "tool_calls": [call]}
    usage = {"prompt_tokens": 90, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 64}}
    reply = {"model": "gpt-5-2026-01-01", "choices": [{"message": message}], "usage": usage}
    assert record(reply) == [
        Message("assistant", (Text("I look."), LS), "gpt-5"),
        Usage("gpt-5", 90, 7, cache_read_tokens=64),
    ]


def test_a_reply_of_anthropic_keeps_the_signature_of_its_thinking() -> None:
    """The usage counts the cached tokens as input, as the other providers do."""
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "."}},
    ]
    usage = {"input_tokens": 10, "cache_read_input_tokens": 80, "output_tokens": 7}
    reply = {"model": "claude-opus-4-5-20260101", "content": blocks, "usage": usage}
    assert record(reply, dialect="anthropic", model="claude-opus-4-5") == [
        Message("assistant", (Thinking("Hm.", "c2ln"), LS), "claude-opus-4-5"),
        Usage("claude-opus-4-5", 90, 7, cache_read_tokens=80),
    ]


def test_a_reply_of_openai_responses_keeps_its_reasoning_verbatim() -> None:
    """An item that no part models is kept as JSON text."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    call = {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"path":"."}'}
    (message,) = record({"model": "gpt-5", "output": [reasoning, call]}, dialect="openai_responses")
    kept = Opaque("openai", '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"gAAA"}')
    assert message == Message("assistant", (kept, LS), "gpt-5")


def test_a_reply_of_gemini_may_call_without_an_id() -> None:
    """The signature stays with the part that it came with; a call without an id is answered by order."""
    parts = [{"functionCall": {"name": "ls", "args": {"path": "."}}, "thoughtSignature": "c2ln"}]
    reply = {"candidates": [{"content": {"role": "model", "parts": parts}}], "modelVersion": "gemini-2.5-pro-001"}
    (message,) = record(reply, dialect="gemini", model="gemini-2.5-pro")
    assert message == Message("assistant", (ToolCall("", "ls", '{"path":"."}', "c2ln"),), "gemini-2.5-pro")


def test_a_large_result_is_moved_to_an_artifact() -> None:
    """The log keeps head, tail and the hash; the text itself is one recall away."""
    (message,) = record(result("c1", "a line of a table\n" * 20_000))
    assert isinstance(message, Message)
    (part,) = message.parts
    assert isinstance(part, ToolResult)
    (stored,) = part.content
    assert isinstance(stored, Stored)
    assert (stored.lines, stored.size_bytes) == (20_000, 360_000)
    assert stored.head.startswith("a line of a table\n")


def test_a_reply_beyond_the_window_is_marked_as_an_overflow() -> None:
    """The provider counted more tokens than the model takes, so the next prompts are kept below its window."""
    reply = {"choices": [{"message": {"content": "Hm."}}], "usage": {"prompt_tokens": 9_000_000}}
    overflow = record(reply)[-1]
    assert isinstance(overflow, Overflow)
    assert overflow.limit < 9_000_000


def test_marks_are_entries_as_well() -> None:
    """A pin must name an entry or a tool; a note is for people and is shown to no model."""
    assert record(Pin(tool="ls", reason="needed"), Note("hm")) == [Pin(tool="ls", reason="needed"), Note("hm")]
    with pytest.raises(BadEntry, match="a pin names an entry or a tool"):
        record(Pin())


def test_a_reply_of_another_provider_is_refused() -> None:
    """The error names the dialect of the session, and nothing is recorded."""
    with pytest.raises(BadInput, match="not a reply of the openai_chat dialect"):
        record({"content": [{"type": "text", "text": "Hello."}]})
    with pytest.raises(BadInput, match="neither an entry nor a message or reply"):
        record(42)
