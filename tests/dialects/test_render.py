"""Rendering, by example: the same few messages in the wire format of each provider.

A dialect renders one atom at a time (`chunk`), joins it to the wire messages before it (`join`), and puts system prompt, tools
and cache marks around them (`request`).
"""

from typing import Any

import pytest

from foveal.dialects import find_dialect
from foveal.dialects.port import CannotSay, RequestOptions, Wire
from foveal.dialects.tools import read_tools
from foveal.values.entry import File, Message, Opaque, Text, Thinking, ToolCall, assistant, result, system, user

LS = ToolCall("c1", "ls", '{"path":"."}')
CALLED = [assistant("I look.", LS), result("c1", "a.py")]


def render(dialect: str, *atoms: list[Message]) -> list[Wire]:
    """The wire messages of these atoms."""
    wires: list[Wire] = []
    for atom in atoms:
        find_dialect(dialect).join(wires, find_dialect(dialect).chunk(atom))
    return wires


def request(dialect: str, *atoms: list[Message]) -> dict[str, Any]:
    """The keyword arguments of the SDK, with a system prompt and one tool."""
    tools = read_tools([{"name": "ls", "input_schema": {"type": "object"}}])
    options = RequestOptions("model-1", tools, reply_tokens=100)
    return find_dialect(dialect).request(options, [system("Be brief.")], render(dialect, *atoms))


def test_openai_chat_has_a_message_for_each_result() -> None:
    """Calls travel beside the content, with their arguments as text; a result is a message of the role `tool`."""
    function = {"name": "ls", "arguments": '{"path":"."}'}
    assert render("openai_chat", [user("Which files?")], CALLED) == [
        {"role": "user", "content": "Which files?"},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
    ]


def test_openai_responses_has_an_item_for_each_part() -> None:
    """Text, call and result are items of one flat list."""
    assert render("openai_responses", [user("Which files?")], CALLED) == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Which files?"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"path":"."}'},
        {"type": "function_call_output", "call_id": "c1", "output": "a.py"},
    ]


def test_anthropic_answers_calls_in_the_next_turn_of_the_user() -> None:
    """Arguments travel as an object, and results are blocks of the user's turn."""
    answer = {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "a.py"}]}
    assert render("anthropic", [user("Which files?")], CALLED) == [
        {"role": "user", "content": [{"type": "text", "text": "Which files?"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "."}},
            ],
        },
        {"role": "user", "content": [answer]},
    ]


def test_gemini_signs_the_first_call_of_a_turn() -> None:
    """A call that Gemini did not make itself carries a word in place of the signature."""
    call = {"id": "c1", "name": "ls", "args": {"path": "."}}
    response = {"id": "c1", "name": "ls", "response": {"output": "a.py"}}
    assert render("gemini", [user("Which files?")], CALLED) == [
        {"role": "user", "parts": [{"text": "Which files?"}]},
        {
            "role": "model",
            "parts": [
                {"text": "I look."},
                {"function_call": call, "thought_signature": b"skip_thought_signature_validator"},
            ],
        },
        {"role": "user", "parts": [{"function_response": response}]},
    ]


@pytest.mark.parametrize(
    ("dialect", "found"),
    [
        ("openai_chat", lambda request: request["messages"][0]["content"]),
        ("openai_responses", lambda request: request["instructions"]),
        ("anthropic", lambda request: request["system"][0]["text"]),
        ("gemini", lambda request: request["config"]["system_instruction"]),
    ],
)
def test_each_format_has_its_place_for_the_system_prompt(dialect: str, found: Any) -> None:
    """The system prompt is a message, a field, a block or a part of the config."""
    assert found(request(dialect, [user("Hello.")])) == "Be brief."


def test_anthropic_marks_the_ends_of_stable_prefixes_for_its_cache() -> None:
    """The system prompt, the end of the previous prompt and the end of this one carry a cache mark."""
    made = request("anthropic", [user("One.")], [assistant("Two.")], [user("Three.")])
    blocks = [*made["system"], *(block for message in made["messages"] for block in message["content"])]
    assert [block["text"] for block in blocks if "cache_control" in block] == ["Be brief.", "One.", "Three."]


@pytest.mark.parametrize("dialect", ["anthropic", "gemini"])
def test_two_formats_want_turns_that_alternate(dialect: str) -> None:
    """Messages of the user in a row are one turn, and between two replies the user asks to go on."""
    wires = render(dialect, [user("One.")], [user("Two.")], [assistant("Three.")], [assistant("Four.")])
    assert [wire["role"] for wire in wires] in (["user", "assistant"] * 2, ["user", "model"] * 2)
    assert [len(wire.get("content") or wire["parts"]) for wire in wires] == [2, 1, 1, 1]


def test_thinking_goes_back_to_the_model_that_signed_it() -> None:
    """The same signed thinking is shown to its own model and hidden from every other."""
    thinking, hides = Thinking("Hm.", "c2ln"), find_dialect("anthropic").hides
    assert hides(thinking, "claude-opus-4-5", "claude-opus-4-5") == ""
    assert hides(thinking, "gpt-5", "claude-opus-4-5") == "thinking of gpt-5, which claude-opus-4-5 cannot verify"


def test_a_part_of_a_provider_goes_back_as_it_came() -> None:
    """A block that no part models is kept as JSON text and written verbatim, nulls included."""
    search = Opaque("anthropic", '{"type":"server_tool_use","id":"s1","name":"web_search","input":{"page":null}}')
    (wire,) = render("anthropic", [Message("assistant", (search, Text("Found.")))])[1:]
    assert wire["content"][0] == {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"page": None}}


@pytest.mark.parametrize("dialect", ["openai_chat", "anthropic"])
def test_a_format_without_words_for_a_part_says_so(dialect: str) -> None:
    """Nothing is dropped in silence: the renderer turns this into an error that names the entry."""
    with pytest.raises(CannotSay, match=r"notes\.odt"):
        render(dialect, [user(File("application/vnd.oasis.opendocument.text", "notes.odt", b"PK"))])
