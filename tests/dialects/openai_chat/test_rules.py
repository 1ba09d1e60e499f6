"""Requests the Chat Completions API refuses, and requests it takes."""

from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessageParam, ChatCompletionToolUnionParam
from pydantic import TypeAdapter

from foveal.dialects.openai_chat.rules import problems

USER = {"role": "user", "content": "list the files"}
PNG = "data:image/png;base64,iVBORw0KGgo="


def call(call_id: Any = "call_1", name: Any = "ls", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def acts(*calls: Any, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": list(calls), **more}


def result(call_id: Any = "call_1", content: Any = "a.txt") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def request(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-5", "messages": list(messages), **more}


def tool(name: Any = "ls", parameters: Any = None) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters or {"type": "object"}}}


REFUSED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "no messages": ("G0", "messages", request()),
    "unknown role": ("G0", "messages[0].role", request({"role": "bot", "content": "hi"})),
    "tool message without calls before it": ("C2", "messages[1]", request(USER, result())),
    "tool_call_id not among the calls": (
        "G1",
        "messages[2].tool_call_id",
        request(USER, acts(call()), result("call_9")),
    ),
    "second result of one call": ("G1", "messages[3].tool_call_id", request(USER, acts(call()), result(), result())),
    "user speaks before the result": ("C1", "messages[2]", request(USER, acts(call()), USER, result())),
    "reminder between call and result": (
        "C1",
        "messages[2]",
        request(USER, acts(call()), {"role": "system", "content": "be brief"}, result()),
    ),
    "one of two calls unanswered": ("C1", "messages[3]", request(USER, acts(call(), call("call_2")), result(), USER)),
    "list ends with an open call": ("C1", "messages[-1]", request(USER, acts(call()))),
    "result cut from its call": ("C2", "messages[2]", request(USER, {"role": "assistant", "content": "ok"}, result())),
    "id used twice in one message": (
        "G3",
        "messages[1].tool_calls[1].id",
        request(USER, acts(call(), call()), result()),
    ),
    "id used again in a later turn": (
        "G3",
        "messages[3].tool_calls[0].id",
        request(USER, acts(call()), result(), acts(call()), result()),
    ),
    "id of 65 characters": (
        "G11",
        "messages[1].tool_calls[0].id",
        request(USER, acts(call("c" * 65)), result("c" * 65)),
    ),
    "empty id": ("G11", "messages[1].tool_calls[0].id", request(USER, acts(call("")), result(""))),
    "129 calls in one message": (
        "C7",
        "messages[1].tool_calls",
        request(USER, acts(*(call(f"c{i}") for i in range(129))), *(result(f"c{i}") for i in range(129))),
    ),
    "empty list of calls": ("C7", "messages[1].tool_calls", request(USER, acts(content="hm"), USER)),
    "assistant without content or calls": ("C3", "messages[1].content", request(USER, {"role": "assistant"}, USER)),
    "image in a tool message": (
        "C3",
        "messages[2].content[0]",
        request(USER, acts(call()), result(content=[{"type": "image_url", "image_url": {"url": PNG}}])),
    ),
    "content is an object": ("C3", "messages[0].content", request({"role": "user", "content": {"text": "hi"}})),
    "arguments as an object": (
        "C4",
        "messages[1].tool_calls[0].function.arguments",
        request(USER, acts(call(arguments={})), result()),
    ),
    "arguments cut in the middle": (
        "G5",
        "messages[1].tool_calls[0].function.arguments",
        request(USER, acts(call(arguments='{"path": "a')), result()),
    ),
    "arguments empty": (
        "G5",
        "messages[1].tool_calls[0].function.arguments",
        request(USER, acts(call(arguments="")), result()),
    ),
    "arguments are a list": (
        "G5",
        "messages[1].tool_calls[0].function.arguments",
        request(USER, acts(call(arguments="[]")), result()),
    ),
    "arguments hold NaN": (
        "G5",
        "messages[1].tool_calls[0].function.arguments",
        request(USER, acts(call(arguments='{"x": NaN}')), result()),
    ),
    "arguments nested ten thousand deep": (
        "G5",
        "messages[1].tool_calls[0].function.arguments",
        request(USER, acts(call(arguments='{"a":' * 10_000 + "1" + "}" * 10_000)), result()),
    ),
    "lone surrogate in a text": ("G5", "messages[0].content", request({"role": "user", "content": "half \ud83d"})),
    "lone surrogate in a key": ("G5", "messages[0]", request({**USER, "x\udc00": 1})),
    "blank text": ("G6", "messages[0].content", request({"role": "user", "content": " \n"})),
    "empty text part": (
        "G6",
        "messages[0].content[0].text",
        request({"role": "user", "content": [{"type": "text", "text": ""}]}),
    ),
    "no parts": ("G6", "messages[0].content", request({"role": "user", "content": []})),
    "unknown image type": (
        "G15",
        "messages[0].content[0].image_url.url",
        request(
            {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AA=="}}]}
        ),
    ),
    "image without data": (
        "G15",
        "messages[0].content[0].image_url.url",
        request({"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}]}),
    ),
    "call name with a dot": (
        "G12",
        "messages[1].tool_calls[0].function.name",
        request(USER, acts(call(name="fs.ls")), result()),
    ),
    "tool name of 65 characters": ("G12", "tools[0].function.name", request(USER, tools=[tool("n" * 65)])),
    "tool name twice": ("G13", "tools[1].function.name", request(USER, tools=[tool(), tool()])),
    "parameters are not an object schema": (
        "G14",
        "tools[0].function.parameters",
        request(USER, tools=[tool(parameters={"type": "array"})]),
    ),
    "empty list of tools": ("G0", "tools", request(USER, tools=[])),
}

TAKEN: dict[str, dict[str, Any]] = {
    "one question": request(USER),
    "system first, developer later": request(
        {"role": "system", "content": "be brief"},
        USER,
        {"role": "developer", "content": [{"type": "text", "text": "now"}]},
    ),
    "call with null content": request(USER, acts(call(), content=None), result()),
    "call with empty content": request(USER, acts(call(), content=""), result()),
    "results in another order than the calls": request(USER, acts(call("a"), call("b")), result("b"), result("a")),
    "fifty calls at once": request(
        USER, acts(*(call(f"c{i}") for i in range(50))), *(result(f"c{i}") for i in reversed(range(50))), USER
    ),
    "empty result": request(USER, acts(call()), result(content="")),
    "result as text parts": request(USER, acts(call()), result(content=[{"type": "text", "text": "a.txt"}])),
    "custom tool": request(
        USER,
        acts({"id": "call_1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}),
        result(),
        tools=[{"type": "custom", "custom": {"name": "sql"}}],
    ),
    "images by address and inline": request(
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "compare"},
                {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
                {"type": "image_url", "image_url": {"url": PNG}},
            ],
        }
    ),
    "refusal without content": request(USER, {"role": "assistant", "refusal": "no"}, USER),
    "ends with the assistant": request(USER, {"role": "assistant", "content": "done"}),
    "escaped pair and emoji in arguments": request(USER, acts(call(arguments='{"t": "\\ud83d\\ude00 😀"}')), result()),
    "tools with and without parameters": request(
        USER, tools=[tool(), {"type": "function", "function": {"name": "now"}}]
    ),
}


@pytest.mark.parametrize(("rule", "where", "given"), REFUSED.values(), ids=REFUSED)
def test_names_the_rule_and_the_place(rule: str, where: str, given: dict[str, Any]) -> None:
    """A request of a shape the API answers with 400 is reported under its rule, at its place."""
    assert (rule, where) in [(found.rule, found.where) for found in problems(given)]


@pytest.mark.parametrize("given", TAKEN.values(), ids=TAKEN)
def test_takes_what_the_api_takes(given: dict[str, Any]) -> None:
    """A valid request has no problems, and the SDK's own types take it too."""
    TypeAdapter(list[ChatCompletionMessageParam]).validate_python(given["messages"])
    TypeAdapter(list[ChatCompletionToolUnionParam]).validate_python(given.get("tools", []))
    assert problems(given) == []


def test_an_unanswered_call_before_the_tail_is_seen_from_the_tail() -> None:
    """The tail check looks back to the assistant message whose calls are still open."""
    given = request(USER, acts(call("a"), call("b")), result("a"), USER)
    assert [(found.rule, found.where) for found in problems(given, since=3)] == [("C1", "messages[3]")]
