"""Requests the Gemini API refuses, and requests it takes."""

import warnings
from typing import Any

import pytest

from foveal.dialects.gemini.rules import problems

with warnings.catch_warnings():
    # The SDK's source holds an invalid escape sequence, and compiling it the first time warns.
    warnings.simplefilter("ignore")
    from google.genai import types

PNG = {"inline_data": {"mime_type": "image/png", "data": b"\x89PNG"}}


def text(value: Any = "hi", **more: Any) -> dict[str, Any]:
    return {"text": value, **more}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": list(parts)}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": list(parts)}


def call(name: Any = "ls", call_id: Any = None, args: Any = None, **more: Any) -> dict[str, Any]:
    return {"function_call": {"name": name, "id": call_id, "args": {} if args is None else args}, **more}


def reply(name: Any = "ls", call_id: Any = None, response: Any = None, **more: Any) -> dict[str, Any]:
    value = {"output": "a.txt"} if response is None else response
    return {"function_response": {"name": name, "id": call_id, "response": value, **more}}


def request(*contents: Any, config: Any = None, model: str = "gemini-2.5-pro") -> dict[str, Any]:
    return {"model": model, "contents": list(contents), "config": config or {}}


def tools(*declarations: Any) -> dict[str, Any]:
    return {"tools": [{"function_declarations": list(declarations)}]}


ASK = user(text("list the files"))

REFUSED: dict[str, tuple[str, str, dict[str, Any]]] = {
    "no contents": ("G0", "contents", request()),
    "Please use a valid role": ("G0", "contents[0]", request({"role": "assistant", "parts": [text()]})),
    "starts with the model": ("M1", "contents[0]", request(model(text()), ASK)),
    "ends with the model": ("M2", "contents[-1]", request(ASK, model(text()))),
    "two user turns in a row": ("M3", "contents[1]", request(ASK, ASK)),
    "two model turns in a row": ("M3", "contents[2]", request(ASK, model(text()), model(text()), ASK)),
    "number of function response parts, too few": (
        "M4",
        "contents[2]",
        request(ASK, model(call("a"), call("b")), user(reply("a"))),
    ),
    "number of function response parts, too many": (
        "M4",
        "contents[2]",
        request(ASK, model(call()), user(reply(), reply())),
    ),
    "number of function response parts, none": ("M4", "contents[2]", request(ASK, model(call()), ASK)),
    "function response without a call": ("M4", "contents[0]", request(user(reply()))),
    "function response after a text": ("M4", "contents[2]", request(ASK, model(text()), user(reply()))),
    "responses in two turns": (
        "M4",
        "contents[2]",
        request(ASK, model(call("a"), call("b")), user(reply("a")), user(reply("b"))),
    ),
    "context between call and response": (
        "M4",
        "contents[2]",
        request(ASK, model(call()), ASK, model(text()), user(reply())),
    ),
    "response of another function": ("M4", "contents[2].parts[0]", request(ASK, model(call("a")), user(reply("b")))),
    "response with another id": (
        "M4",
        "contents[2].parts[0]",
        request(ASK, model(call("a", "1")), user(reply("a", "2"))),
    ),
    "function call of the user": ("M4", "contents[0].parts[0]", request(user(call()))),
    "function response of the model": ("M4", "contents[1]", request(user(text()), model(reply()), ASK)),
    "list ends with a function call": ("M4", "contents[-1]", request(ASK, model(call()))),
    "responses in another order": (
        "M5",
        "contents[2].parts[0]",
        request(ASK, model(call("a"), call("b")), user(reply("b"), reply("a"))),
    ),
    "text before a response": ("M5", "contents[2].parts[0]", request(ASK, model(call()), user(text(), reply()))),
    "content without parts": ("M8", "contents[1].parts", request(ASK, model(), ASK)),
    "must have one initialized field": ("M8", "contents[0].parts[0]", request(user({}))),
    "a signature alone": ("M8", "contents[1].parts[0]", request(ASK, model({"thought_signature": b"s"}), ASK)),
    "text and call in one part": (
        "M8",
        "contents[1].parts[0]",
        request(ASK, model({**call(), **text()}), user(reply())),
    ),
    "response is a string": (
        "M10",
        "contents[2].parts[0].function_response.response",
        request(ASK, model(call()), user(reply(response="ok"))),
    ),
    "response is a list": (
        "M10",
        "contents[2].parts[0].function_response.response",
        request(ASK, model(call()), user(reply(response=["ok"]))),
    ),
    "media in a response before Gemini 3": (
        "M11",
        "contents[2].parts[0].function_response.parts",
        request(ASK, model(call()), user(reply(parts=[PNG]))),
    ),
    "id used again in a later turn": (
        "G3",
        "contents[3].parts[0].function_call.id",
        request(ASK, model(call("a", "1")), user(reply("a", "1")), model(call("a", "1")), user(reply("a", "1"))),
    ),
    "id used twice in one turn": (
        "G3",
        "contents[1].parts[1].function_call.id",
        request(ASK, model(call("a", "1"), call("a", "1")), user(reply("a", "1"), reply("a", "1"))),
    ),
    "id of 65 characters": (
        "G11",
        "contents[1].parts[0].function_call.id",
        request(ASK, model(call("a", "i" * 65)), user(reply("a", "i" * 65))),
    ),
    "args as a string": (
        "G5",
        "contents[1].parts[0].function_call.args",
        request(ASK, model(call(args="{}")), user(reply())),
    ),
    "args not finite": (
        "G5",
        "contents[1].parts[0].function_call.args.x",
        request(ASK, model(call(args={"x": float("-inf")})), user(reply())),
    ),
    "lone surrogate in a text": ("G5", "contents[0].parts[0].text", request(user(text("\ud83d")))),
    "lone surrogate in the system instruction": (
        "G5",
        "config.system_instruction",
        request(ASK, config={"system_instruction": "a\udfff"}),
    ),
    "empty text": ("G6", "contents[0].parts[0].text", request(user(text("")))),
    "blank text of the model": ("G6", "contents[1].parts[0].text", request(ASK, model(text("\n")), ASK)),
    "empty system instruction": ("G6", "config.system_instruction", request(ASK, config={"system_instruction": ""})),
    "name starts with a digit": (
        "G12",
        "config.tools[0].function_declarations[0].name",
        request(ASK, config=tools({"name": "1st"})),
    ),
    "name with a space": (
        "G12",
        "contents[1].parts[0].function_call.name",
        request(ASK, model(call("l s")), user(reply("l s"))),
    ),
    "Duplicate function declaration found": (
        "G13",
        "config.tools[0].function_declarations[1].name",
        request(ASK, config=tools({"name": "ls"}, {"name": "ls"})),
    ),
    "parameters of a string": (
        "G14",
        "config.tools[0].function_declarations[0].parameters",
        request(ASK, config=tools({"name": "ls", "parameters": {"type": "STRING"}})),
    ),
    "Unsupported MIME type": (
        "G15",
        "contents[0].parts[0].inline_data",
        request(user({"inline_data": {"mime_type": "image/tiff", "data": b"II"}})),
    ),
    "media without data": (
        "G15",
        "contents[0].parts[0].inline_data",
        request(user({"inline_data": {"mime_type": "audio/wav", "data": b""}})),
    ),
    "file without address": (
        "G0",
        "contents[0].parts[0].file_data.file_uri",
        request(user({"file_data": {"mime_type": "image/png"}})),
    ),
    "wire spelling, number of responses": (
        "M4",
        "contents[2]",
        request(ASK, model({"functionCall": {"name": "ls"}}), user(text())),
    ),
}

TAKEN: dict[str, dict[str, Any]] = {
    "one question": request(ASK, config={"system_instruction": "be brief"}),
    "no role means the user": request({"parts": [text()]}),
    "turn by turn": request(ASK, model(text()), ASK),
    "call and response": request(ASK, model(text(), call()), user(reply(), text("go on"))),
    "responses in order": request(ASK, model(call("a", "1"), call("a", "2")), user(reply("a", "1"), reply("a", "2"))),
    "id on the call alone": request(ASK, model(call("a", "1")), user(reply("a"))),
    "fifty calls at once": request(
        ASK, model(*(call("ls", f"c{i}") for i in range(50))), user(*(reply("ls", f"c{i}") for i in range(50)))
    ),
    "call without args": request(ASK, model({"function_call": {"name": "now"}}), user(reply("now"))),
    "response with an error": request(ASK, model(call()), user(reply(response={"error": "no such file"}))),
    "empty response": request(ASK, model(call()), user(reply(response={}))),
    "thought with a signature": request(
        ASK, model(text("hm", thought=True), call(thought_signature=b"sig")), user(reply()), model="gemini-3-pro"
    ),
    "empty text that carries a signature": request(ASK, model(text(), text("", thought_signature=b"sig")), ASK),
    "media": request(
        user(
            text(),
            PNG,
            {"inline_data": {"mime_type": "application/pdf", "data": b"%PDF"}},
            {"file_data": {"file_uri": "gs://bucket/a.mp4", "mime_type": "video/mp4"}},
        )
    ),
    "media in a response of Gemini 3": request(ASK, model(call()), user(reply(parts=[PNG])), model="gemini-3-pro"),
    "wire spelling": request(
        ASK,
        model({"functionCall": {"name": "ls", "args": {}}, "thoughtSignature": "c2ln"}),
        user(
            {"functionResponse": {"name": "ls", "response": {"output": ""}}},
            {"inlineData": {"mimeType": "image/png", "data": "AA=="}},
        ),
    ),
    "tools": request(
        ASK,
        config=tools(
            {"name": "fs.ls:v1", "parameters": {"type": "OBJECT", "properties": {"path": {"type": "STRING"}}}},
            {"name": "_now", "parameters_json_schema": {"type": "object"}},
            {"name": "n" * 128},
        ),
    ),
}


@pytest.mark.parametrize(("rule", "where", "given"), REFUSED.values(), ids=REFUSED)
def test_names_the_rule_and_the_place(rule: str, where: str, given: dict[str, Any]) -> None:
    """A request of a shape the API answers with 400 is reported under its rule, at its place."""
    assert (rule, where) in [(found.rule, found.where) for found in problems(given)]


@pytest.mark.parametrize("given", TAKEN.values(), ids=TAKEN)
def test_takes_what_the_api_takes(given: dict[str, Any]) -> None:
    """A valid request has no problems, and the SDK's own types take it too."""
    for content in given["contents"]:
        types.Content.model_validate(content)
    types.GenerateContentConfig.model_validate(given["config"])
    assert problems(given) == []


def test_takes_what_the_sdk_dumps() -> None:
    """Fields the SDK leaves unset come out as None, and count as unset."""
    contents = [
        types.Content(role="user", parts=[types.Part(text="list")]),
        types.Content(role="model", parts=[types.Part(function_call=types.FunctionCall(name="ls", args={}))]),
        types.Content(role="user", parts=[types.Part.from_function_response(name="ls", response={"output": "a"})]),
    ]
    assert problems(request(*(content.model_dump() for content in contents))) == []


@pytest.mark.parametrize("signature", [b"sig", "skip_thought_signature_validator"])
def test_a_signature_on_the_first_call_is_enough(signature: Any) -> None:
    """Parallel calls share the signature of the first."""
    given = request(ASK, model(call("a", thought_signature=signature), call("b")), user(reply("a"), reply("b")))
    assert problems(given, signatures=True) == []


@pytest.mark.parametrize("parts", [(call(),), (text("hm", thought=True), call()), (call(thought_signature=b""),)])
def test_function_call_is_missing_a_thought_signature(parts: Any) -> None:
    """Without a signature on the first call the request is refused, when signatures are asked for."""
    given = request(ASK, model(*parts), user(reply()))
    assert problems(given) == []
    assert [(found.rule, found.where) for found in problems(given, signatures=True)] == [
        ("M6", f"contents[1].parts[{len(parts) - 1}]")
    ]


def test_contents_may_be_a_string() -> None:
    """The SDK takes a string in place of the list, and so does the validator."""
    assert problems({"model": "gemini-2.5-pro", "contents": "hi"}) == []
