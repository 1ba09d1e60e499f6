"""Requests of real clients, read: each case is a shape that some client sends."""

import json
from typing import Any

import pytest

from foveal.dialects import find_dialect
from foveal.dialects.wire_request import WireRequest
from foveal.values.entry import (
    File,
    Image,
    Message,
    Opaque,
    Part,
    RedactedThinking,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    assistant,
    result,
    system,
    user,
)
from foveal.values.errors import BadInput

PIXEL = "cGl4ZWw="


def read(dialect: str, **body: Any) -> WireRequest:
    return find_dialect(dialect).reader.request({"model": "m", **body})


def replied(*parts: Part) -> Message:
    return Message("assistant", parts, "m")


# Anthropic


@pytest.mark.parametrize(
    "given",
    ["Be brief.", [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]],
    ids=["string", "block with a cache mark"],
)
def test_anthropic_system_is_a_string_or_blocks(given: object) -> None:
    """The cache mark is no part of the system prompt."""
    request = read("anthropic", system=given, messages=[{"role": "user", "content": "hi"}])
    assert request.system == (system("Be brief."),)
    assert request.messages == (user("hi"),)


def test_anthropic_system_blocks_stay_apart() -> None:
    """A client keeps the changing block of its system prompt last, so that the cache holds the first."""
    blocks = [{"type": "text", "text": "You are an agent."}, {"type": "text", "text": "Today is Sunday."}]
    request = read("anthropic", system=blocks, messages=[])
    assert request.system == (system("You are an agent."), system("Today is Sunday."))
    assert request.instructions == "You are an agent.\n\nToday is Sunday."


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("ok", (Text("ok"),)),
        ([{"type": "text", "text": "ok"}], (Text("ok"),)),
        (None, ()),
        (
            [
                {"type": "text", "text": "see"},
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
            ],
            (Text("see"), Image("image/png", b"pixel")),
        ),
        ([{"type": "tool_reference", "tool_name": "x"}], (Text('{"type":"tool_reference","tool_name":"x"}'),)),
    ],
    ids=["string", "blocks", "nothing", "image", "block that is not modelled"],
)
def test_anthropic_tool_results_hold_strings_blocks_or_nothing(content: object, expected: tuple[Any, ...]) -> None:
    """A block that no part models is kept as its JSON text."""
    block = {"type": "tool_result", "tool_use_id": "c1", "content": content}
    request = read("anthropic", messages=[{"role": "user", "content": [block]}])
    assert request.messages == (Message("tool", (ToolResult("c1", expected),)),)


def test_anthropic_results_and_the_users_words_share_a_turn() -> None:
    """Each result is a message, and the user's words after them are another."""
    blocks = [
        {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "c2", "content": "boom", "is_error": True},
        {"type": "text", "text": "Go on.", "cache_control": {"type": "ephemeral"}},
    ]
    request = read("anthropic", messages=[{"role": "user", "content": blocks}])
    assert request.messages == (result("c1", "one"), result("c2", "boom", status="error"), user("Go on."))


def test_anthropic_thinking_keeps_its_signature() -> None:
    """Thinking, redacted thinking and calls come back as the reply's parts, by the request's model."""
    blocks = [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "ZGF0YQ=="},
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "ü.py", "n": 1}},
    ]
    request = read("anthropic", messages=[{"role": "assistant", "content": blocks}])
    call = ToolCall("c1", "read", '{"path":"ü.py","n":1}')
    assert request.messages == (replied(Thinking("Hm.", "c2ln"), RedactedThinking("ZGF0YQ=="), call),)


def test_anthropic_system_messages_among_the_others_stay_system_messages() -> None:
    """Newer clients remind the model in the middle of the list."""
    messages = [{"role": "user", "content": "hi"}, {"role": "system", "content": "Be kind."}]
    assert read("anthropic", messages=messages).messages == (user("hi"), system("Be kind."))


def test_anthropic_blocks_that_are_not_modelled_are_kept_verbatim() -> None:
    """A search of the provider is kept as it came, with its nulls, but without a cache mark."""
    search = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "q", "n": None}}
    (message,) = read(
        "anthropic", messages=[{"role": "assistant", "content": [{**search, "cache_control": {"type": "ephemeral"}}]}]
    ).messages
    (part,) = message.parts
    assert isinstance(part, Opaque)
    assert json.loads(part.json) == search


def test_anthropic_blocks_of_the_user_that_are_not_modelled_go_back() -> None:
    """An uploaded file of the user is kept verbatim and written again."""
    upload = {"type": "container_upload", "file_id": "file_1"}
    (message,) = read("anthropic", messages=[{"role": "user", "content": [upload]}]).messages
    dialect = find_dialect("anthropic")
    assert [dialect.hides(part, message.model, "m") for part in message.parts] == [""]
    assert dialect.chunk([message]) == [{"role": "user", "content": [upload]}]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"type": "base64", "media_type": "application/pdf", "data": PIXEL}, File("application/pdf", "a", b"pixel")),
        ({"type": "text", "media_type": "text/plain", "data": "words"}, File("text/plain", "a", b"words")),
        ({"type": "url", "url": "https://x.org/a.pdf"}, File("application/pdf", "a", url="https://x.org/a.pdf")),
    ],
    ids=["bytes", "text", "address"],
)
def test_anthropic_documents_are_files(source: dict[str, Any], expected: File) -> None:
    """A document is a file by its bytes, its text or its address."""
    block = {"type": "document", "source": source, "title": "a"}
    assert read("anthropic", messages=[{"role": "user", "content": [block]}]).messages == (user(expected),)


def test_anthropic_options_and_tools_are_handed_on() -> None:
    """Every other field is kept as it came; a tool loses its cache mark only."""
    tool = {"name": "read", "input_schema": {"type": "object"}, "defer_loading": True}
    request = read(
        "anthropic",
        messages=[{"role": "user", "content": "hi"}],
        tools=[{**tool, "cache_control": {"type": "ephemeral"}}],
        max_tokens=9,
        thinking={"type": "adaptive"},
    )
    assert request.tools == (tool,)
    assert request.rest == {"max_tokens": 9, "thinking": {"type": "adaptive"}}


# OpenAI Chat Completions


@pytest.mark.parametrize("role", ["system", "developer"])
def test_chat_system_and_developer_messages_are_the_system_prompt(role: str) -> None:
    """Those before the conversation are the system prompt, those in it are system messages."""
    messages = [
        {"role": role, "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": role, "content": "Be kind."},
    ]
    request = read("openai_chat", messages=messages)
    assert request.system == (system("Be brief."),)
    assert request.messages == (user("hi"), system("Be kind."))


def test_chat_calls_and_results_are_read_in_order() -> None:
    """Arguments stay the text that the model wrote; null content is no part."""
    function = {"name": "read", "arguments": '{ "path": "a.py" }'}
    messages = [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "x = 1"}]},
    ]
    call = ToolCall("c1", "read", '{ "path": "a.py" }')
    assert read("openai_chat", messages=messages).messages == (replied(call), result("c1", "x = 1"))


def test_chat_refusals_and_reasoning_are_parts() -> None:
    """A refusal is a text of the model; reasoning is thinking; other fields of a server are kept verbatim."""
    message = {"role": "assistant", "content": "", "refusal": "No.", "reasoning_content": "Hm.", "audio": {"id": "a"}}
    (read_message,) = read("openai_chat", messages=[message]).messages
    assert read_message == replied(Thinking("Hm."), Text("No."), Opaque("openai_chat", '{"audio":{"id":"a"}}'))


def test_chat_images_are_read_by_their_bytes_or_their_address() -> None:
    """An address without a suffix counts as PNG, because writers refuse an image of unknown type."""
    urls = [f"data:image/png;base64,{PIXEL}", "https://x.org/a.jpg", "https://x.org/picture"]
    content = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    request = read("openai_chat", messages=[{"role": "user", "content": content}])
    assert request.messages == (
        user(
            Image("image/png", b"pixel"),
            Image("image/jpeg", url="https://x.org/a.jpg"),
            Image("image/png", url="https://x.org/picture"),
        ),
    )
    assert find_dialect("openai_chat").chunk(request.messages)[0]["content"] == content


# OpenAI Responses


def test_responses_input_may_be_a_string() -> None:
    """The short form is what the user said; instructions are the system prompt."""
    request = read("openai_responses", instructions="Be brief.", input="hi", store=False)
    assert (request.system, request.messages) == ((system("Be brief."),), (user("hi"),))
    assert request.rest == {"store": False}


def test_responses_developer_items_are_system_messages() -> None:
    """Codex sends no instructions, but developer items before the conversation."""
    items = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "rules"}]},
        {"role": "user", "content": "hi"},
    ]
    request = read("openai_responses", input=items)
    assert (request.system, request.messages) == ((system("rules"),), (user("hi"),))


def test_responses_items_of_the_model_in_a_row_are_one_reply() -> None:
    """Reasoning keeps its encrypted content; calls of every client-side kind are calls, and their outputs results."""
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    items = [
        {"role": "user", "content": "Fix it."},
        reasoning,
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}", "id": "fc_1"},
        {"type": "custom_tool_call", "call_id": "c2", "name": "apply_patch", "input": "*** Begin"},
        {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
        {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "Done!"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No more."}]},
    ]
    assert read("openai_responses", input=items).messages == (
        user("Fix it."),
        replied(
            Opaque("openai", json.dumps(reasoning, separators=(",", ":"))),
            Text("I look."),
            ToolCall("c1", "ls", "{}"),
            ToolCall("c2", "apply_patch", '{"input":"*** Begin"}'),
        ),
        result("c1", "a.py"),
        result("c2", "Done!"),
        replied(Text("No more.")),
    )


def test_responses_items_that_are_not_modelled_are_kept_in_their_place() -> None:
    """A search, a compaction and a reference are the provider's own and go back as they came."""
    own = [
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"},
        {"type": "item_reference", "id": "msg_1"},
    ]
    (message,) = read("openai_responses", input=own).messages
    assert [json.loads(part.json) for part in message.parts if isinstance(part, Opaque)] == own


def test_responses_outputs_say_how_a_shell_command_ended() -> None:
    """Codex writes the exit code into the head of the output; an image is an image."""
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
    items = [
        {"type": "function_call_output", "call_id": "c1", "output": "Exit code: 1\nOutput:\nboom"},
        {"type": "function_call_output", "call_id": "c2", "output": [image]},
    ]
    assert read("openai_responses", input=items).messages == (
        result("c1", "Exit code: 1\nOutput:\nboom", status="error"),
        result("c2", Image("image/png", b"pixel")),
    )


# Gemini


def test_gemini_contents_are_read_in_both_spellings() -> None:
    """The SDK's arguments and a body of the REST interface give the same conversation."""
    told = [{"role": "user", "parts": [{"text": "hi"}]}]
    sdk = read("gemini", contents=told, config={"system_instruction": "Be brief.", "temperature": 0.5})
    rest = read("gemini", contents=told, systemInstruction={"parts": [{"text": "Be brief."}]}, generationConfig={})
    for request in (sdk, rest):
        assert (request.system, request.messages) == ((system("Be brief."),), (user("hi"),))
    assert (sdk.rest, rest.rest) == ({"config": {"temperature": 0.5}}, {"generationConfig": {}})


def test_gemini_calls_without_ids_find_their_responses() -> None:
    """Responses answer the calls of the turn before, by name and order; with ids, by id."""
    contents = [
        {"role": "model", "parts": [{"functionCall": {"name": "ls"}}, {"functionCall": {"id": "c2", "name": "cat"}}]},
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"name": "cat", "response": {"error": "no such file"}}},
                {"functionResponse": {"name": "ls", "response": {"output": "a.py"}}},
                {"text": "And now?"},
            ],
        },
    ]
    assert read("gemini", contents=contents).messages == (
        replied(ToolCall("", "ls", "{}"), ToolCall("c2", "cat", "{}")),
        result("c2", "no such file", status="error"),
        result("", "a.py"),
        user("And now?"),
    )


def test_gemini_signatures_stay_with_their_parts() -> None:
    """Thoughts, texts and calls are signed; the word that stands in for a signature is none."""
    parts = [
        {"text": "Hm.", "thought": True},
        {"text": "", "thoughtSignature": "c2ln"},
        {
            "functionCall": {"id": "c1", "name": "ls", "args": {}},
            "thoughtSignature": "skip_thought_signature_validator",
        },
    ]
    message = replied(Thinking("Hm."), Text("", "c2ln"), ToolCall("c1", "ls", "{}"))
    assert read("gemini", contents=[{"role": "model", "parts": parts}]).messages == (message,)


def test_gemini_media_are_images_and_files() -> None:
    """Bytes and addresses; a file has no name in this format. What else the user sends is kept verbatim."""
    parts = [
        {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://b/a.pdf"}},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
    ]
    (message,) = read("gemini", contents=[{"role": "user", "parts": parts}]).messages
    assert message.parts == (
        Image("image/png", b"pixel"),
        File("application/pdf", "file", url="gs://b/a.pdf"),
        Opaque("gemini", '{"executableCode":{"language":"PYTHON","code":"1"}}'),
    )


def test_gemini_responses_of_other_shapes_are_kept_as_json() -> None:
    """A response is any object; only `output` and `error` alone are texts."""
    response = {"functionResponse": {"id": "c1", "name": "ls", "response": {"files": ["a.py"], "n": 1}}}
    request = read("gemini", contents=[{"role": "user", "parts": [response]}])
    assert request.messages == (result("c1", '{"files":["a.py"],"n":1}'),)


# All of them


@pytest.mark.parametrize(
    ("dialect", "body", "words"),
    [
        ("anthropic", {"messages": [{"role": "wizard", "content": "x"}]}, "message 0: role 'wizard' is not known"),
        ("anthropic", {"messages": "hi"}, "`messages` must be a list, not a string"),
        ("openai_chat", {"messages": [{"role": "user", "content": 5}]}, "message 0: `content` must be a string"),
        ("openai_chat", {"messages": [{"role": "tool", "content": "x"}]}, "a tool result names no call"),
        ("openai_responses", {"input": [{"role": "user", "content": 5}]}, "item 0: `content` of an item must be"),
        ("openai_responses", {"input": [{"type": "function_call", "call_id": "1"}]}, "`name` of a function_call"),
        ("gemini", {"contents": [{"role": "wizard", "parts": []}]}, "content 0: role 'wizard' is not known"),
        ("gemini", {"contents": [{"role": "user", "parts": [5]}]}, "content 0: a part must be an object"),
    ],
)
def test_a_request_that_is_not_understood_names_the_place(dialect: str, body: dict[str, Any], words: str) -> None:
    """The error names the dialect, the message and what was expected."""
    with pytest.raises(BadInput, match=f"not a request of the {dialect} dialect") as caught:
        read(dialect, **body)
    assert words in str(caught.value)


def test_a_reply_and_its_echo_are_the_same_message() -> None:
    """What a client sends back of a reply reads as the reply did, so that a session can recognise it."""
    blocks = [
        {"type": "text", "text": "I read."},
        {"type": "tool_use", "id": "c1", "name": "read", "input": {"n": 1e20}},
    ]
    reply = find_dialect("anthropic").reader.reply({"model": "m", "content": blocks}).message
    echo = read("anthropic", messages=[{"role": "assistant", "content": blocks}]).messages
    assert echo == (reply,)
    assert reply == assistant("I read.", ToolCall("c1", "read", '{"n":1e+20}'), model="m")
