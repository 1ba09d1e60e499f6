"""Requests the Responses API refuses, and requests it takes."""

from typing import Any

import pytest
from openai.types.responses import ResponseInputItemParam, ToolParam
from pydantic import TypeAdapter

from foveal.dialects.openai_responses.rules import problems

USER = {"role": "user", "content": "list the files"}
PNG = "data:image/png;base64,iVBORw0KGgo="


def call(call_id: Any = "call_1", **more: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": "ls", "arguments": "{}", **more}


def output(call_id: Any = "call_1", value: Any = "a.txt", kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "output": value}


def reasoning(item_id: Any = "rs_1") -> dict[str, Any]:
    return {"type": "reasoning", "id": item_id, "summary": [], "encrypted_content": "gAAA"}


def says(text: str = "done", **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed", "content": [part], **more}


def custom(call_id: str = "call_1") -> dict[str, Any]:
    return {"type": "custom_tool_call", "id": "ctc_1", "call_id": call_id, "name": "sql", "input": "select 1"}


def request(*items: Any, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-5", "input": list(items), **more}


REFUSED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "no input": ("G0", "input", request()),
    "item without type or role": ("G0", "input[0]", request({"type": 7})),
    "No tool call found for function call output": ("R1", "input[1]", request(USER, output())),
    "output of another call": ("R1", "input[2]", request(USER, call(), output("call_2"))),
    "second output of one call": ("G1", "input[3]", request(USER, call(), output(), output())),
    "No tool output found, the list ends": ("R2", "input[-1]", request(USER, call())),
    "No tool output found, the user speaks": ("R2", "input[2]", request(USER, call(), USER)),
    "one of two calls unanswered": (
        "R2",
        "input[4]",
        request(USER, call("a"), call("b"), output("a"), call("c"), output("c")),
    ),
    "compaction between call and output": (
        "R2",
        "input[2]",
        request(USER, call(), {"type": "compaction", "encrypted_content": "gAAA"}, output()),
    ),
    "reasoning at the end": ("R3", "input[-1]", request(USER, reasoning())),
    "reasoning without its following item": ("R3", "input[2]", request(USER, reasoning(), USER)),
    "reasoning after an output, then the user": (
        "R3",
        "input[4]",
        request(USER, call(), output(), reasoning(), USER),
    ),
    "reasoning before an output": ("R3", "input[3]", request(USER, call(), reasoning(), output())),
    "function_call id begins with call": ("R4", "input[1].id", request(USER, call(id="call_1"), output())),
    "message id is a uuid": ("R4", "input[1].id", request(USER, says(id="019f629b-43ee-7a82"), USER)),
    "reasoning id begins with item": ("R4", "input[1].id", request(USER, reasoning("item_1"), says())),
    "item id of 85 characters": ("R4", "input[1].id", request(USER, reasoning("rs_" + "0" * 82), says())),
    "empty item id": ("R4", "input[1].id", request(USER, reasoning(""), says())),
    "call id as the id of an output": ("R4", "input[2].id", request(USER, call(), {**output(), "id": "call_1"})),
    "custom call without output": ("R6", "input[-1]", request(USER, custom())),
    "custom output without call": ("R6", "input[1]", request(USER, output(kind="custom_tool_call_output"))),
    "custom call answered as a function": ("R6", "input[-1]", request(USER, custom(), output())),
    "client tool search without output": (
        "R6",
        "input[-1]",
        request(USER, {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {}}),
    ),
    "local shell call without output": (
        "R6",
        "input[2]",
        request(
            USER, {"type": "local_shell_call", "id": "lsh_1", "call_id": "c", "action": {}, "status": "completed"}, USER
        ),
    ),
    "output is an object": ("R8", "input[2].output", request(USER, call(), output(value={"files": []}))),
    "output holds output_text": (
        "R8",
        "input[2].output[0]",
        request(USER, call(), output(value=[{"type": "output_text", "text": "a"}])),
    ),
    "Invalid value input_text in an assistant message": (
        "G0",
        "input[1].content[0].type",
        request(USER, {"role": "assistant", "content": [{"type": "input_text", "text": "hi"}]}, USER),
    ),
    "output_text in a user message": (
        "G0",
        "input[0].content[0].type",
        request({"role": "user", "content": [{"type": "output_text", "text": "hi"}]}),
    ),
    "Missing required parameter summary": (
        "G0",
        "input[1].summary",
        request(USER, {"type": "reasoning", "id": "rs_1"}, says()),
    ),
    "call id used twice": ("G3", "input[3].call_id", request(USER, call(), output(), call(), output())),
    "Duplicate item found with id": (
        "G3",
        "input[4].id",
        request(USER, reasoning(), says(), USER, reasoning(), says(id="msg_2")),
    ),
    "call id of 65 characters": ("G11", "input[1].call_id", request(USER, call("c" * 65), output("c" * 65))),
    "output without call id": ("G11", "input[1].call_id", request(USER, output(None))),
    "arguments are not JSON": ("G5", "input[1].arguments", request(USER, call(arguments="{'a': 1}"), output())),
    "arguments as an object": ("G5", "input[1].arguments", request(USER, call(arguments={}), output())),
    "lone surrogate in an output": ("G5", "input[2].output", request(USER, call(), output(value="\udfff"))),
    "number that is not finite": (
        "G5",
        "tools[0].x",
        request(USER, tools=[{"type": "function", "name": "ls", "x": float("nan")}]),
    ),
    "blank user text": ("G6", "input[0].content", request({"role": "user", "content": "  "})),
    "message without content": ("G6", "input[0].content", request({"role": "user", "content": []})),
    "call name with a space": ("G12", "input[1].name", request(USER, call(name="list files"), output())),
    "tool name twice": (
        "G13",
        "tools[1].name",
        request(USER, tools=[{"type": "function", "name": "ls"}, {"type": "custom", "name": "ls"}]),
    ),
    "tool name twice in a namespace": (
        "G13",
        "tools[0].tools[1].name",
        request(USER, tools=[{"type": "namespace", "name": "fs", "tools": [{"type": "function", "name": "ls"}] * 2}]),
    ),
    "parameters are a string": (
        "G14",
        "tools[0].parameters",
        request(USER, tools=[{"type": "function", "name": "ls", "parameters": "{}"}]),
    ),
    "image of an unknown type": (
        "G15",
        "input[2].output[0].image_url",
        request(USER, call(), output(value=[{"type": "input_image", "image_url": "data:image/bmp;base64,AA=="}])),
    ),
}

TAKEN: dict[str, dict[str, Any]] = {
    "one question": request(USER),
    "reasoning, call, output": request(USER, reasoning(), call(id="fc_1"), output()),
    "reasoning twice, then a message": request(USER, reasoning(), reasoning("rs_2"), says(), USER),
    "reasoning, message, calls": request(
        USER, reasoning(), says(phase="commentary"), call("a"), call("b"), output("b"), output("a")
    ),
    "fifty calls at once": request(USER, *(call(f"c{i}") for i in range(50)), *(output(f"c{i}") for i in range(50))),
    "step after step": request(
        USER, reasoning(), call("a"), output("a"), reasoning("rs_2"), call("b"), output("b"), says(), USER
    ),
    "each output right after its call": request(USER, call("a"), output("a"), call("b"), output("b")),
    "empty output": request(USER, call(), output(value="")),
    "image and text in an output": request(
        USER,
        call(),
        output(
            value=[{"type": "input_text", "text": "shot"}, {"type": "input_image", "image_url": PNG, "detail": "auto"}]
        ),
    ),
    "custom tool": request(
        USER, reasoning(), custom(), output(kind="custom_tool_call_output"), tools=[{"type": "custom", "name": "sql"}]
    ),
    "local shell, answered by id": request(
        USER,
        {
            "type": "local_shell_call",
            "id": "lsh_1",
            "call_id": "c",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
            "status": "completed",
        },
        {"type": "local_shell_call_output", "id": "c", "output": "{}"},
    ),
    "server tool search": request(
        USER,
        {"type": "tool_search_call", "execution": "server", "arguments": {}},
        {"type": "tool_search_output", "execution": "server", "tools": []},
        says(),
        USER,
    ),
    "compaction, then on": request(
        {"type": "compaction", "encrypted_content": "gAAA"}, USER, reasoning(), says(), USER
    ),
    "output of a stored call": request(output(), previous_response_id="resp_1"),
    "output of a referenced call": request({"type": "item_reference", "id": "fc_1"}, output()),
    "system and developer in the list": request(
        {"role": "developer", "content": "be brief"},
        USER,
        {"role": "system", "content": [{"type": "input_text", "text": "now"}]},
    ),
    "empty text of the model": request(USER, says(""), USER),
    "tools of all sorts": request(
        USER,
        tools=[
            {"type": "function", "name": "ls", "parameters": {"type": "object", "properties": {}}, "strict": False},
            {"type": "web_search"},
            {"type": "namespace", "name": "fs", "description": "files", "tools": [{"type": "function", "name": "ls"}]},
        ],
    ),
}


@pytest.mark.parametrize(("rule", "where", "given"), REFUSED.values(), ids=REFUSED)
def test_names_the_rule_and_the_place(rule: str, where: str, given: dict[str, Any]) -> None:
    """A request of a shape the API answers with 400 is reported under its rule, at its place."""
    assert (rule, where) in [(found.rule, found.where) for found in problems(given)]


@pytest.mark.parametrize("given", TAKEN.values(), ids=TAKEN)
def test_takes_what_the_api_takes(given: dict[str, Any]) -> None:
    """A valid request has no problems, and the SDK's own types take it too."""
    TypeAdapter(list[ResponseInputItemParam]).validate_python(given["input"])
    TypeAdapter(list[ToolParam]).validate_python(given.get("tools", []))
    assert problems(given) == []


def test_input_may_be_a_string() -> None:
    """The SDK takes a string in place of the list, and so does the validator."""
    assert problems({"model": "gpt-5", "input": "hi", "instructions": "be brief"}) == []


def test_reasoning_before_the_tail_is_seen_from_the_tail() -> None:
    """The tail check knows that the item before it was reasoning."""
    assert [found.rule for found in problems(request(USER, reasoning(), USER), since=2)] == ["R3"]
