"""Messages as providers' formats write them, appended one by one."""

from typing import Any

import pytest

from foveal.testing import oracles
from foveal.testing.builders import MODELS, READ_TOOL, open_session
from foveal.values.entry import Message, Text, ToolCall, ToolResult
from foveal.values.errors import BadInput

DIALECTS = sorted(MODELS)
LOOPS: dict[str, list[dict[str, Any]]] = {
    "openai_chat": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Read a."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "AAA"},
    ],
    "openai_responses": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_text", "text": "Read a."}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I will.", "annotations": []}],
        },
        {"role": "user", "content": "AAA"},
    ],
    "anthropic": [
        {"role": "user", "content": [{"type": "text", "text": "Read a."}]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "AAA"}]},
    ],
    "gemini": [
        {"role": "user", "parts": [{"text": "Read a."}]},
        {"role": "model", "parts": [{"text": "I will."}]},
        {"role": "user", "parts": [{"text": "AAA"}]},
    ],
}


@pytest.mark.parametrize("into", DIALECTS)
@pytest.mark.parametrize("of", DIALECTS)
def test_messages_of_any_format_go_into_a_session_of_any_model(of: str, into: str) -> None:
    """They are read as their own format says, and sent as the model's format wants them."""
    session = open_session(dialect=into)
    for message in LOOPS[of]:
        session.append(message)
    prompt = session.prompt([READ_TOOL])
    sent = "\n".join(oracles.strings(prompt.request))
    assert "Read a." in sent
    assert "AAA" in sent
    assert oracles.problems(prompt) == []


def test_a_plain_message_is_what_it_says() -> None:
    """The simplest thing that a stranger tries."""
    session = open_session(dialect="anthropic")
    entry = session.append({"role": "user", "content": "hello"})
    assert entry.body == Message("user", (Text("hello"),))


def test_a_turn_of_several_parts_is_several_messages() -> None:
    """Anthropic puts results and words into one turn; the log keeps a message for each."""
    session = open_session(dialect="anthropic")
    session.extend(LOOPS["anthropic"][:2])
    blocks = [*LOOPS["anthropic"][2]["content"], {"type": "text", "text": "Tool loaded."}]
    made = session.extend([{"role": "user", "content": blocks}])
    assert [entry.body.role for entry in made if isinstance(entry.body, Message)] == ["tool", "user"]


def test_the_message_of_a_reply_is_a_message() -> None:
    """Some hosts append `choices[0].message` of what the SDK returned."""
    session = open_session()
    entry = session.append(LOOPS["openai_chat"][2])
    assert isinstance(entry.body, Message)
    assert entry.body.parts == (ToolCall("c1", "read", "{}"),)
    assert entry.body.model == MODELS["openai_chat"]
    result = session.append({"role": "tool", "tool_call_id": "c1", "content": "AAA"})
    assert isinstance(result.body, Message)
    assert isinstance(result.body.parts[0], ToolResult)


@pytest.mark.parametrize("odd", [{"role": "narrator", "content": "x"}, {"role": "king", "parts": []}, {"role": None}])
def test_a_message_of_no_format_is_refused(odd: dict[str, Any]) -> None:
    """With the formats that were tried; nothing is written."""
    session = open_session()
    with pytest.raises(BadInput, match=r"is not of the format (openai_chat or openai_responses or anthropic|gemini): "):
        session.append(odd)
    assert session.view.facts.head is None
