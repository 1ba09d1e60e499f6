"""What each format makes of the same conversation."""

from typing import Any

import pytest

from foveal.testing import oracles
from foveal.testing.builders import MODELS, Asks, Player
from foveal.testing.strategies import ODD_NAMES, tiny_png
from foveal.values.entry import (
    File,
    Image,
    Message,
    Opaque,
    Text,
    ToolCall,
    ToolResult,
    assistant,
    result,
    system,
    user,
)

DIALECTS = sorted(MODELS)


def request(dialect: str, *moves: Message) -> dict[str, Any]:
    player = Player(dialect=dialect).play([*moves, Asks()])
    assert not player.refusals, player.refusals
    assert oracles.problems(player.prompts[-1]) == []
    return player.prompts[-1].request


def test_chat_puts_images_of_results_after_all_results() -> None:
    """A tool message holds text only; its image follows in a message of the user."""
    image = Image("image/png", tiny_png())
    calls = ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}")
    messages = request("openai_chat", user("Look."), assistant("", *calls), result("a", image), result("b", "text"))[
        "messages"
    ]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "user"]
    assert messages[2]["content"] == "[see below]"


def test_chat_splits_more_calls_than_a_message_may_hold() -> None:
    """Three hundred calls are three replies, each with its results."""
    calls = [ToolCall(f"c{i}", "look", "{}") for i in range(300)]
    messages = request("openai_chat", user("Look."), assistant("All.", *calls), *(result(c.id, c.id) for c in calls))[
        "messages"
    ]
    replies = [len(message["tool_calls"]) for message in messages if message["role"] == "assistant"]
    assert replies == [128, 128, 44]


def test_anthropic_sends_results_first_and_images_of_errors_after_them() -> None:
    """The result of a failed tool is text only."""
    content = (Text("broken"), Image("image/png", tiny_png()))
    failed = Message("tool", (ToolResult("a", content, "error"),))
    blocks = request("anthropic", user("Look."), assistant("", ToolCall("a", "look", "{}")), failed)["messages"][2][
        "content"
    ]
    assert [block["type"] for block in blocks] == ["tool_result", "image"]
    assert blocks[0]["is_error"] is True


def test_anthropic_marks_three_places_for_its_cache() -> None:
    """The system prompt, the end of the prompt before and the end of this one are marked, and nothing else."""
    found = request(
        "anthropic", system("Be."), user("One."), assistant("Two."), user("Three."), assistant("Four."), user("Five.")
    )
    marked = [text for text, block in _texts(found) if "cache_control" in block]
    assert marked == ["Three.", "Five.", "Be."]


def _texts(value: Any) -> list[tuple[str, dict[str, Any]]]:
    blocks = [block for message in value["messages"] for block in message["content"]] + value["system"]
    return [(block["text"], block) for block in blocks]


def test_responses_leaves_out_reasoning_that_leads_nowhere() -> None:
    """A reasoning item that nothing of its reply follows is not sent."""
    sealed = Opaque("openai", '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"QUJD"}')
    items = request(
        "openai_responses", user("Go."), Message("assistant", (Text("Yes."), sealed), "gpt-5"), user("On.")
    )["input"]
    assert [item["type"] for item in items] == ["message", "message", "message"]


def test_responses_puts_a_compaction_before_the_calls() -> None:
    """Nothing stands between a call and its output."""
    compacted = Opaque("openai", '{"type":"compaction","id":"cmp_1","encrypted_content":"QUJD"}')
    said = Message("assistant", (ToolCall("a", "look", "{}"), compacted), "gpt-5")
    items = request("openai_responses", user("Go."), said, result("a", "seen"))["input"]
    assert [item["type"] for item in items] == ["message", "compaction", "function_call", "function_call_output"]


def test_responses_names_a_file_by_its_address() -> None:
    """A file that is somewhere else goes as an address and not as data."""
    items = request(
        "openai_responses", user("Read.", File("application/pdf", "a.pdf", url="https://example.org/a.pdf"))
    )["input"]
    assert items[0]["content"][1] == {"type": "input_file", "file_url": "https://example.org/a.pdf"}


@pytest.mark.parametrize("signature", [None, "no base64!", "\ud800", "c2ln"])
def test_gemini_signs_the_first_call_of_a_turn(signature: str | None) -> None:
    """The call's own signature goes back; where there is none that can be, the provider's word for that."""
    call = ToolCall("a", "look", "{}", signature)
    said = Message("assistant", (call, ToolCall("b", "look", "{}")), MODELS["gemini"])
    parts = request("gemini", user("Go."), said)["contents"][1]["parts"]
    expected = b"sig" if signature == "c2ln" else b"skip_thought_signature_validator"
    assert [part.get("thought_signature") for part in parts] == [expected, None]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", ODD_NAMES)
def test_names_of_tools_that_a_provider_refuses_are_mended(dialect: str, name: str) -> None:
    """A call under a name that no tool can have is sent under one that it can have, and so is its result."""
    request(dialect, user("Go."), assistant("", ToolCall("a", name, "{}")), result("a", "done"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_system_message_among_the_others_is_labelled_once(dialect: str) -> None:
    """Where only the user can speak, an instruction in the middle says what it is."""
    found = request(dialect, user("Go."), Message("system", (Text("Be quick."), Text("Be kind."))), user("On."))
    text = "\n".join(oracles.strings(found))
    assert text.count("[system]") == (dialect in ("anthropic", "gemini"))
    assert "Be kind." in text


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "tool", [{"name": "t"}, {"name": "t", "description": "Does it.", "input_schema": {"type": "object"}}]
)
def test_many_tools_are_counted_as_they_are_sent(dialect: str, tool: dict[str, Any]) -> None:
    """A hundred tools take no more in any format than was counted for them."""
    player = Player(dialect=dialect, tools=[tool | {"name": f"tool_{i}"} for i in range(100)])
    player.play([user("Go."), Asks()])
    assert oracles.recount(player.prompts[-1]) <= player.prompts[-1].tokens
