"""Replies that are not the usual text or call: kept, and never in the way of the next request."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from foveal import BadInput, Message, Text, ToolCall, result, user
from foveal.stores import Store
from foveal.stores.rows import to_entry
from foveal.testing.provider import ScriptedProvider
from foveal.testing.provider import replies as spelled
from foveal.testing.provider.judge import pythonic
from foveal.testing.provider.replies import SPELLED, Call, Turn
from foveal.values.entry import Opaque

from .conftest import DIALECTS
from .lines import Line


def replies(store: Store) -> list[Message]:
    bodies = [to_entry(row, "wire").body for row in store.rows("wire")]
    return [body for body in bodies if isinstance(body, Message) and body.role == "assistant"]


def talk(provider: ScriptedProvider, line: Line, store: Store, odd: dict[str, Any]) -> dict[str, Any]:
    """The odd reply, then one more request. Returns that request as it arrived."""
    provider.script(odd, Turn("All right."))
    session = line.session(store)
    session.append(user("First."))
    line.send(provider, session)
    session.append(user("Second."))
    line.send(provider, session)
    return provider.last.arguments


def empty_chat(model: str) -> dict[str, Any]:
    body = spelled.chat(Turn(), model, 1, 100)
    body["choices"][0]["message"]["content"] = ""
    return body


EMPTY: dict[str, Callable[[str], dict[str, Any]]] = {
    "openai_chat": empty_chat,
    "openai_responses": lambda model: spelled.responses_body([], model),
    "anthropic": lambda model: spelled.anthropic_body([], model),
    "gemini": lambda model: spelled.gemini_body([{"text": ""}], model),
}

REFUSED: dict[str, Callable[[str], dict[str, Any]]] = {
    "openai_chat": lambda model: _chat_message(model, {"content": None, "refusal": "I cannot."}),
    "openai_responses": lambda model: spelled.responses_body(
        [_message({"type": "refusal", "refusal": "I cannot."})], model
    ),
    "anthropic": lambda model: (
        spelled.anthropic_body([{"type": "text", "text": "I cannot."}], model) | {"stop_reason": "refusal"}
    ),
    "gemini": lambda model: {
        "candidates": [{"content": {"role": "model", "parts": [{"text": "I cannot."}]}, "finishReason": "SAFETY"}],
        "modelVersion": model,
    },
}


def _chat_message(model: str, message: dict[str, Any], finish: str = "stop") -> dict[str, Any]:
    body = spelled.chat(Turn(), model, 1, 100)
    body["choices"][0] |= {"message": {"role": "assistant"} | message, "finish_reason": finish}
    return body


def _message(content: dict[str, Any]) -> dict[str, Any]:
    return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [content]}


def _cut_call(dialect: str, model: str) -> dict[str, Any]:
    """A reply that ended by length in the middle of the arguments; only OpenAI hands those out as text."""
    broken = '{"path": "a/very/long'
    if dialect == "openai_chat":
        call = {"id": "cut", "type": "function", "function": {"name": "read", "arguments": broken}}
        return _chat_message(model, {"content": "I read", "tool_calls": [call]}, "length")
    call = {"type": "function_call", "id": "fc_1", "call_id": "cut", "name": "read", "arguments": broken}
    body = spelled.responses_body([_message({"type": "output_text", "text": "I read", "annotations": []}), call], model)
    return body | {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}


def test_an_empty_reply_is_kept_and_not_sent(provider: ScriptedProvider, line: Line, store: Store) -> None:
    """A model may say nothing. Nobody invents words for it."""
    body = talk(provider, line, store, EMPTY[line.dialect](line.model))
    assert len(replies(store)) == 2
    assert "First." in json.dumps(body, default=str)


def test_a_refusal_is_sent_back_as_what_the_model_said(provider: ScriptedProvider, line: Line, store: Store) -> None:
    """The next request shows that the model declined."""
    body = talk(provider, line, store, REFUSED[line.dialect](line.model))
    assert replies(store)[0].parts == (Text("I cannot."),)
    assert "I cannot." in json.dumps(body, default=str)


@pytest.mark.parametrize("line", ["openai_chat", "openai_responses"], indirect=True)
def test_arguments_cut_off_by_length_are_kept_and_shown_as_valid_json(
    provider: ScriptedProvider, line: Line, store: Store
) -> None:
    """The log holds what the model wrote; the provider gets an object that says so, with a result."""
    body = talk(provider, line, store, _cut_call(line.dialect, line.model))
    assert ToolCall("cut", "read", '{"path": "a/very/long') in replies(store)[0].parts
    assert "invalid_json" in json.dumps(body)


@pytest.mark.parametrize("line", ["gemini"], indirect=True)
@pytest.mark.parametrize(
    "odd",
    [
        {"candidates": [{"finishReason": "MAX_TOKENS", "index": 0}]},
        {"candidates": [{"content": {"role": "model"}, "finishReason": "SAFETY"}]},
        {"promptFeedback": {"blockReason": "SAFETY"}},
    ],
    ids=["no content", "no parts", "no candidates"],
)
def test_a_blocked_gemini_reply_is_an_empty_one(
    provider: ScriptedProvider, line: Line, store: Store, odd: dict[str, Any]
) -> None:
    """Gemini answers a blocked prompt with less and less; the session goes on."""
    talk(provider, line, store, odd | {"modelVersion": line.model})
    assert replies(store)[0].parts == ()


UNKNOWN: dict[str, tuple[list[dict[str, Any]], Callable[[list[dict[str, Any]], str], dict[str, Any]]]] = {
    "openai_responses": (
        [
            {
                "id": "ws_1",
                "type": "web_search_call",
                "status": "completed",
                "action": {"type": "search", "query": "q"},
            },
            {"id": "br_1", "type": "brand_new", "blob": {"b": [1, 2.5, True], "a": "ü\u0000"}},
        ],
        spelled.responses_body,
    ),
    "anthropic": (
        [
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
            {
                "type": "web_search_tool_result",
                "tool_use_id": "srvtoolu_1",
                "content": [
                    {
                        "type": "web_search_result",
                        "title": "t",
                        "url": "https://example.org",
                        "encrypted_content": spelled.SEAL,
                    }
                ],
            },
            {
                "type": "text",
                "text": "Cited.",
                "citations": [
                    {
                        "type": "web_search_result_location",
                        "url": "https://example.org",
                        "title": "t",
                        "encrypted_index": spelled.SEAL,
                        "cited_text": "c",
                    }
                ],
            },
            {"type": "brand_new", "blob": {"b": [1, 2.5, True], "a": "ü\u0000"}},
        ],
        spelled.anthropic_body,
    ),
    "gemini": (
        [
            {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}},
            {"inlineData": {"mimeType": "image/png", "data": spelled.SEAL}},
        ],
        spelled.gemini_body,
    ),
}


# The SDK warns when it dumps what it has no type for.
@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize("line", UNKNOWN, indirect=True)
def test_parts_that_we_do_not_model_go_back_as_they_came(provider: ScriptedProvider, line: Line, store: Store) -> None:
    """Searches, citations, code, and kinds that nobody has heard of: kept in the log, and sent back in their own dialect."""
    said, body = UNKNOWN[line.dialect]
    got = talk(provider, line, store, body(said, line.model))
    assert all(isinstance(part, Opaque) for part in replies(store)[0].parts)
    match line.dialect:
        case "openai_responses":
            assert got["input"][1:-1] == said
        case "anthropic":
            assert got["messages"][1]["content"] == said
        case _:
            assert got["contents"][1]["parts"] == pythonic(said)


@pytest.mark.parametrize("line", ["anthropic"], indirect=True)
def test_a_kind_that_the_sdk_does_not_know_raises_no_warning(
    provider: ScriptedProvider, line: Line, store: Store
) -> None:
    """A new kind of block is the provider's doing; the host hears nothing of it."""
    talk(provider, line, store, spelled.anthropic_body([{"type": "brand_new", "blob": 1}], line.model))


@pytest.mark.parametrize("line", ["openai_chat"], indirect=True)
def test_fields_that_chat_has_no_place_for_are_kept_in_the_log(
    provider: ScriptedProvider, line: Line, store: Store
) -> None:
    """Compatible servers add their own fields. They are not sent back, because others refuse them, and not lost."""
    extra = {"content": "Hm.", "brand_new": [{"data": spelled.SEAL}]}
    body = talk(provider, line, store, _chat_message(line.model, extra))
    text, kept = replies(store)[0].parts
    assert text == Text("Hm.")
    assert isinstance(kept, Opaque)
    assert json.loads(kept.json) == {"brand_new": extra["brand_new"]}
    assert body["messages"][1] == {"role": "assistant", "content": "Hm."}


THOUGHTS: dict[str, Any] = {
    "reasoning_content": "First read – then write.",
    "reasoning_details": [{"type": "reasoning.text", "text": "First read.", "signature": spelled.SEAL}],
    "extra_content": {"google": {"thought_signature": spelled.SEAL}},
}


@pytest.mark.parametrize("line", ["openai_chat"], indirect=True)
def test_reasoning_of_a_compatible_server_goes_back_to_its_model_and_to_no_other(
    provider: ScriptedProvider, line: Line, store: Store
) -> None:
    """DeepSeek, OpenRouter and Gemini's compatible endpoint want their fields back; another model never sees them."""
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    call |= {"extra_content": {"google": {"thought_signature": spelled.OTHER_SEAL}}}
    provider.script(_chat_message(line.model, {"content": None, **THOUGHTS, "tool_calls": [call]}), Turn("Done."))
    session = line.session(store)
    session.append(user("First."))
    line.send(provider, session)
    session.append(result("c1", "x = 1"))
    line.send(provider, session)
    assert provider.last.body["messages"][1] == {"role": "assistant", "content": None, **THOUGHTS, "tool_calls": [call]}
    session.close()
    provider.script(Turn("Hi."))
    other = line.session(store, model=line.sibling)
    other.append(user("Second."))
    line.send(provider, other)
    assert not {"reasoning_content", "reasoning_details", "extra_content"} & provider.last.body["messages"][1].keys()
    assert spelled.OTHER_SEAL not in json.dumps(provider.last.body)


@pytest.mark.parametrize("line", ["openai_chat"], indirect=True)
def test_a_reply_of_reasoning_alone_is_not_sent(provider: ScriptedProvider, line: Line, store: Store) -> None:
    """A chat message without text and calls is refused, whatever else it holds."""
    body = talk(provider, line, store, _chat_message(line.model, {"content": None, "reasoning_content": "Hm."}))
    assert [message["role"] for message in body["messages"]] == ["user", "user"]


CLIENT_CALLS: dict[str, dict[str, Any]] = {
    "custom": {"id": "ctc_1", "type": "custom_tool_call", "call_id": "c1", "name": "sql", "input": "select 1"},
    "shell": {
        "id": "sh_1",
        "type": "local_shell_call",
        "call_id": "c1",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
}


@pytest.mark.parametrize("kind", CLIENT_CALLS)
@pytest.mark.parametrize("line", ["openai_responses"], indirect=True)
def test_calls_of_other_client_side_tools_are_answered_like_functions(
    provider: ScriptedProvider, line: Line, store: Store, kind: str
) -> None:
    """Whatever kind of tool the host runs, its call and its result stay together."""
    provider.script(spelled.responses_body([CLIENT_CALLS[kind]], line.model), Turn("Done."))
    session = line.session(store)
    session.append(user("Look."))
    line.send(provider, session)
    session.append(result("c1", "1"))
    line.send(provider, session)
    call, output = provider.last.arguments["input"][1:]
    assert call["type"] == "function_call"
    assert json.loads(call["arguments"]) in ({"input": "select 1"}, {"action": CLIENT_CALLS["shell"]["action"]})
    assert output == {"type": "function_call_output", "call_id": "c1", "output": "1"}


@pytest.mark.parametrize("line", ["openai_chat"], indirect=True)
def test_a_custom_call_of_chat_is_answered_like_a_function(
    provider: ScriptedProvider, line: Line, store: Store
) -> None:
    """Free text is not JSON; it goes back inside an object and keeps its result."""
    call = {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "select 1"}}
    provider.script(_chat_message(line.model, {"content": None, "tool_calls": [call]}, "tool_calls"), Turn("Done."))
    session = line.session(store)
    session.append(user("Look."))
    line.send(provider, session)
    session.append(result("c1", "1"))
    line.send(provider, session)
    function = provider.last.arguments["messages"][1]["tool_calls"][0]["function"]
    assert function == {"name": "sql", "arguments": '{"input":"select 1"}'}


@pytest.mark.parametrize("line", ["openai_responses"], indirect=True)
def test_reasoning_without_its_content_is_not_referred_to(provider: ScriptedProvider, line: Line, store: Store) -> None:
    """Nothing is stored at the provider, so an id alone names nothing, and the provider would refuse it."""
    items = [
        {"id": "rs_1", "type": "reasoning", "summary": []},
        _message({"type": "output_text", "text": "4", "annotations": []}),
    ]
    body = talk(provider, line, store, spelled.responses_body(items, line.model))
    assert [item["type"] for item in body["input"]] == ["message"] * 3
    assert isinstance(replies(store)[0].parts[0], Opaque)


@pytest.mark.parametrize(("said", "asked"), [(one, other) for one in DIALECTS for other in DIALECTS if one != other])
def test_a_reply_of_another_provider_is_refused(
    provider: ScriptedProvider, lines: Callable[[str], Line], store: Store, said: str, asked: str
) -> None:
    """A reply given to the wrong session is not kept, and the error says what is wrong."""
    other, line = lines(said), lines(asked)
    provider.script(Turn("Hello.", (Call("c1"),), thinking="hm"))
    foreign = other.session(store, name="foreign")
    foreign.append(user("Hi."))
    reply = other.ask(**foreign.prompt().request)
    session = line.session(store)
    session.append(user("Hi."))
    with pytest.raises(BadInput, match=f"not a reply of the {asked} dialect"):
        session.append(reply)
    assert replies(store) == []
    session.append(SPELLED[asked](Turn("Mine."), line.model, 1, 10))
    assert [reply.parts for reply in replies(store)] == [(Text("Mine."),)]
