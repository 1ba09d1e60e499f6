"""Requests the Messages API refuses, and requests it takes."""

from typing import Any

import pytest
from anthropic.types import MessageParam, TextBlockParam, ToolUnionParam
from anthropic.types.beta import BetaMessageParam
from pydantic import TypeAdapter

from foveal.dialects.anthropic import rules as anthropic_rules
from foveal.dialects.anthropic.rules import problems

USER = {"role": "user", "content": "list the files"}
ASSISTANT = {"role": "assistant", "content": "done"}
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "Eq8B"}
ENABLED = {"type": "enabled", "budget_tokens": 2000}


def text(value: Any = "hi", **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def use(use_id: Any = "toolu_1", **more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": use_id, "name": "ls", "input": {}, **more}


def result(use_id: Any = "toolu_1", content: Any = "a.txt", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": use_id, "content": content, **more}


def request(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "claude-sonnet-4-5", "max_tokens": 100, "messages": list(messages), **more}


def tool(name: Any = "ls", **more: Any) -> dict[str, Any]:
    return {"name": name, "input_schema": {"type": "object"}, **more}


REFUSED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "at least one message is required": ("G0", "messages", request()),
    "unknown role": ("G0", "messages[0]", request({"role": "tool", "content": "hi"})),
    "first message is the assistant's": ("A1", "messages[0]", request(ASSISTANT, USER)),
    "two user messages in a row": ("A1", "messages[1]", request(USER, USER)),
    "two assistant messages in a row": ("A1", "messages[2]", request(USER, ASSISTANT, ASSISTANT, USER)),
    "text before a tool result": (
        "A2",
        "messages[2].content[0]",
        request(USER, assistant(use()), user(text(), result())),
    ),
    "tool_result in an assistant message": ("A2", "messages[1].content[0]", request(USER, assistant(result()), USER)),
    "tool_use in a user message": ("A2", "messages[0].content[0]", request(user(use()))),
    "tool_use ids were found without tool_result blocks immediately after": (
        "A3",
        "messages[2]",
        request(USER, assistant(use()), USER),
    ),
    "one of two tool uses unanswered": (
        "A3",
        "messages[2]",
        request(USER, assistant(use("a"), use("b")), user(result("a"))),
    ),
    "results in two messages": (
        "A3",
        "messages[2]",
        request(USER, assistant(use("a"), use("b")), user(result("a")), user(result("b"))),
    ),
    "unexpected tool_use_id found in tool_result blocks": (
        "A3",
        "messages[0].content[0].tool_use_id",
        request(user(result())),
    ),
    "each tool_use must have a single result": (
        "A3",
        "messages[2].content[1].tool_use_id",
        request(USER, assistant(use()), user(result(), result())),
    ),
    "list ends with a tool use": ("A3", "messages[-1]", request(USER, assistant(use()))),
    "id with a colon": (
        "A4",
        "messages[1].content[0].id",
        request(USER, assistant(use("call:1")), user(result("call:1"))),
    ),
    "id of 65 characters": (
        "A4",
        "messages[2].content[0].tool_use_id",
        request(USER, assistant(use("t" * 65)), user(result("t" * 65))),
    ),
    "thinking without signature": (
        "A5",
        "messages[1].content[0].signature",
        request(USER, assistant({"type": "thinking", "thinking": "hm"}, text()), USER),
    ),
    "thinking with a blank signature": (
        "A5",
        "messages[1].content[0].signature",
        request(USER, assistant({**THINKING, "signature": " "}, text()), USER),
    ),
    "redacted thinking without data": (
        "A5",
        "messages[1].content[0].data",
        request(USER, assistant({"type": "redacted_thinking", "data": ""}, text()), USER),
    ),
    "Expected thinking but found tool_use": (
        "A5",
        "messages[1].content[0]",
        request(USER, assistant(use()), user(result()), thinking=ENABLED),
    ),
    "thinking of the loop lost two steps ago": (
        "A5",
        "messages[1].content[0]",
        request(
            USER,
            assistant(use("a")),
            user(result("a")),
            assistant(THINKING, use("b")),
            user(result("b")),
            thinking=ENABLED,
        ),
    ),
    "thinking in a user message": ("A5", "messages[0].content[0]", request(user(THINKING))),
    "ends with the assistant": ("A7", "messages[-1]", request(USER, ASSISTANT)),
    "image in the result of a failed tool": (
        "A8",
        "messages[2].content[0].content[1]",
        request(USER, assistant(use()), user(result(content=[text(), PNG], is_error=True))),
    ),
    "final assistant content cannot end with trailing whitespace": (
        "A9",
        "messages[-1]",
        request(USER, {"role": "assistant", "content": "The answer is "}),
    ),
    "five cache marks": (
        "A10",
        "messages[0].content[2].cache_control",
        request(
            user(*(text(cache_control=MARK) for _ in range(3))),
            system=[text(cache_control=MARK)],
            tools=[tool(cache_control=MARK)],
        ),
    ),
    "four cache marks and an automatic one": (
        "A10",
        "cache_control",
        request(user(*(text(cache_control=MARK) for _ in range(4))), cache_control=MARK),
    ),
    "one hour after five minutes": (
        "A10",
        "messages[0].content[0].cache_control",
        request(user(text(cache_control=HOUR)), system=[text(cache_control=MARK)]),
    ),
    "cache mark on thinking": (
        "A10",
        "messages[1].content[0].cache_control",
        request(USER, assistant({**THINKING, "cache_control": MARK}, text()), USER),
    ),
    "cache_control cannot be set for empty text blocks": (
        "A10",
        "messages[0].content[1].cache_control",
        request(user(text(), text("", cache_control=MARK))),
    ),
    "cache mark of two hours": (
        "A10",
        "messages[0].content[0].cache_control",
        request(user(text(cache_control={"type": "ephemeral", "ttl": "2h"}))),
    ),
    "system message first": ("A11", "messages[0]", request({"role": "system", "content": "be brief"}, ASSISTANT, USER)),
    "system message after the assistant": (
        "A11",
        "messages[2]",
        request(USER, ASSISTANT, {"role": "system", "content": "be brief"}),
    ),
    "user after a system message": (
        "A11",
        "messages[2]",
        request(USER, {"role": "system", "content": "be brief"}, USER),
    ),
    "image in a system message": ("A11", "messages[1].content[0]", request(USER, {"role": "system", "content": [PNG]})),
    "empty compaction": (
        "A12",
        "messages[1].content[0].content",
        request(USER, assistant({"type": "compaction", "content": ""}), USER),
    ),
    "compaction in a user message": (
        "A12",
        "messages[0].content[0]",
        request(user({"type": "compaction", "content": "so far"})),
    ),
    "input as a string": (
        "G5",
        "messages[1].content[0].input",
        request(USER, assistant(use(input="{}")), user(result())),
    ),
    "input that is not finite": (
        "G5",
        "messages[1].content[0].input.x[0]",
        request(USER, assistant(use(input={"x": [float("inf")]})), user(result())),
    ),
    "no low surrogate in string": (
        "G5",
        "messages[2].content[0].content",
        request(USER, assistant(use()), user(result(content="\ud800"))),
    ),
    "lone surrogate in the system prompt": ("G5", "system[0].text", request(USER, system=[text("a\udc80")])),
    "text content blocks must be non-empty": ("G6", "messages[0].content[0].text", request(user(text("")))),
    "text content blocks must contain non-whitespace text": (
        "G6",
        "messages[1].content",
        request(USER, {"role": "assistant", "content": "\n"}, USER),
    ),
    "empty text inside a tool result": (
        "G6",
        "messages[2].content[0].content[0].text",
        request(USER, assistant(use()), user(result(content=[text("")]))),
    ),
    "all messages must have non-empty content": ("G6", "messages[1].content", request(USER, assistant(), USER)),
    "tool_use ids must be unique": (
        "G3",
        "messages[3].content[0].id",
        request(USER, assistant(use()), user(result()), assistant(use()), user(result())),
    ),
    "same id twice in one message": (
        "G3",
        "messages[1].content[1].id",
        request(USER, assistant(use(), use()), user(result())),
    ),
    "tool name with a slash": ("G12", "tools[0].name", request(USER, tools=[tool("fs/ls")])),
    "tool name of 129 characters": ("G12", "tools[0].name", request(USER, tools=[tool("n" * 129)])),
    "Tool names must be unique": ("G13", "tools[1].name", request(USER, tools=[tool(), tool()])),
    "input_schema.type: Field required": ("G14", "tools[0].input_schema", request(USER, tools=[tool(input_schema={})])),
    "media type of a bitmap": (
        "G15",
        "messages[0].content[0].source",
        request(user({"type": "image", "source": {"type": "base64", "media_type": "image/bmp", "data": "Qk0="}})),
    ),
    "image without data": (
        "G15",
        "messages[0].content[0].source",
        request(user({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}})),
    ),
    "data URL where base64 is due": (
        "G15",
        "messages[0].content[0].source",
        request(
            user(
                {
                    "type": "image",
                    "source": {"type": "base64", "media_type": "image/png", "data": "data:image/png;base64,AA=="},
                }
            )
        ),
    ),
}

TAKEN: dict[str, dict[str, Any]] = {
    "one question": request(USER),
    "system as blocks": request(USER, system=[text(cache_control=HOUR), text(cache_control=MARK)]),
    "turn by turn": request(USER, ASSISTANT, USER),
    "call, result, and a remark after it": request(USER, assistant(text(), use()), user(result(), text("go on"))),
    "fifty calls at once": request(
        USER, assistant(*(use(f"t{i}") for i in range(50))), user(*(result(f"t{i}") for i in reversed(range(50))))
    ),
    "result as a list, with an image": request(USER, assistant(use()), user(result(content=[text(), PNG]), PNG)),
    "empty result": request(USER, assistant(use()), user(result(content=""))),
    "failed tool": request(USER, assistant(use()), user(result(content=[text("no such file")], is_error=True))),
    "thinking with its signature": request(USER, assistant(THINKING, text(), use()), user(result()), thinking=ENABLED),
    "thinking without its text": request(USER, assistant({**THINKING, "thinking": ""}, text()), USER),
    "redacted thinking": request(
        USER, assistant({"type": "redacted_thinking", "data": "EmwK"}, use()), user(result()), thinking=ENABLED
    ),
    "only the first step of a loop thinks": request(
        USER, assistant(THINKING, use("a")), user(result("a")), assistant(use("b")), user(result("b")), thinking=ENABLED
    ),
    "a system message inside a thinking loop": request(
        USER,
        assistant(THINKING, use("a")),
        user(result("a")),
        {"role": "system", "content": "be brief"},
        assistant(use("b")),
        user(result("b")),
        thinking=ENABLED,
    ),
    "adaptive thinking asks for none": request(USER, assistant(use()), user(result()), thinking={"type": "adaptive"}),
    "a system message at the end": request(USER, {"role": "system", "content": [text("be brief")]}),
    "four cache marks": request(
        user(text(cache_control=MARK), text()),
        ASSISTANT,
        user(text(cache_control=MARK)),
        system=[text(cache_control=HOUR)],
        tools=[tool(cache_control=HOUR)],
    ),
    "images from elsewhere": request(
        user({"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}})
    ),
    "document": request(
        user(
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}},
            text(),
        )
    ),
    "tools of the server and a long name": request(
        USER, tools=[tool("n" * 128), {"type": "web_search_20250305", "name": "web_search"}]
    ),
}

COMPACTED = {
    "compaction": request(USER, assistant({"type": "compaction", "content": "so far"}, text()), USER),
    "failed compaction": request(USER, assistant({"type": "compaction", "content": None}, text()), USER),
}


@pytest.mark.parametrize(("rule", "where", "given"), REFUSED.values(), ids=REFUSED)
def test_names_the_rule_and_the_place(rule: str, where: str, given: dict[str, Any]) -> None:
    """A request of a shape the API answers with 400 is reported under its rule, at its place."""
    assert (rule, where) in [(found.rule, found.where) for found in problems(given)]


@pytest.mark.parametrize("given", TAKEN.values(), ids=TAKEN)
def test_takes_what_the_api_takes(given: dict[str, Any]) -> None:
    """A valid request has no problems, and the SDK's own types take it too."""
    TypeAdapter(list[MessageParam]).validate_python(given["messages"])
    TypeAdapter(list[ToolUnionParam]).validate_python(given.get("tools", []))
    TypeAdapter(list[TextBlockParam]).validate_python(given.get("system", []))
    assert problems(given) == []


@pytest.mark.parametrize("given", COMPACTED.values(), ids=COMPACTED)
def test_takes_the_blocks_of_the_beta(given: dict[str, Any]) -> None:
    """A compaction block goes back as it came."""
    TypeAdapter(list[BetaMessageParam]).validate_python(given["messages"])
    assert problems(given) == []


def test_refuses_too_many_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of messages is limited, whatever part of them is new."""
    assert anthropic_rules.MAX_MESSAGES == 100_000
    monkeypatch.setattr(anthropic_rules, "MAX_MESSAGES", 2)
    given = request(USER, ASSISTANT, USER)
    assert [found.rule for found in problems(given, since=3)] == ["A13"]


def test_refuses_a_body_over_32_megabytes() -> None:
    """Screenshots may be few tokens and still too many bytes."""
    shot = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 4_000_000}}
    assert [found.rule for found in problems(request(user(*[shot] * 8, text("compare"))))] == ["A13"]


def test_a_result_removed_before_the_tail_is_seen_from_the_tail() -> None:
    """The tail check looks back to the message whose tool uses the new one answers."""
    given = request(USER, assistant(use()), USER)
    assert [(found.rule, found.where) for found in problems(given, since=2)] == [("A3", "messages[2]")]
