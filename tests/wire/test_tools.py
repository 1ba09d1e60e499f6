"""Tools in whichever shape the host has them."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from foveal import BadInput, Policy, user
from foveal.session.model_setup import setup_for
from foveal.session.options import Model
from foveal.session.rebuild import prompt_at
from foveal.stores import Store
from foveal.testing.provider import ScriptedProvider
from foveal.testing.provider.replies import Turn

from .conftest import DIALECTS
from .lines import Line

SCHEMA = {
    "type": "object",
    "properties": {
        "zone": {"type": "string"},
        "at": {"type": "array", "items": {"type": "integer"}},
        "type": {"type": "string", "enum": ["STRING"]},
    },
    "required": ["zone"],
}
LOUD = {
    "type": "OBJECT",
    "properties": {
        "zone": {"type": "STRING"},
        "at": {"type": "ARRAY", "items": {"type": "INTEGER"}},
        "type": {"type": "STRING", "enum": ["STRING"]},
    },
    "required": ["zone"],
}
BARE = {"name": "clock", "description": "Tell the time."}

SHAPES: dict[str, dict[str, Any]] = {
    "openai_chat": {"type": "function", "function": BARE | {"parameters": SCHEMA}},
    "openai_responses": {"type": "function", "strict": False} | BARE | {"parameters": SCHEMA},
    "anthropic": BARE | {"input_schema": SCHEMA},
    "anthropic, typed": {"type": "custom"} | BARE | {"input_schema": SCHEMA},
    "gemini": BARE | {"parameters": LOUD},
    "gemini, as JSON schema": BARE | {"parameters_json_schema": SCHEMA},
    "gemini, grouped": {"function_declarations": [BARE | {"parameters": LOUD}]},
    "gemini, from the wire": {"functionDeclarations": [BARE | {"parametersJsonSchema": SCHEMA}]},
}

SENT: dict[str, list[dict[str, Any]]] = {
    "openai_chat": [{"type": "function", "function": BARE | {"parameters": SCHEMA}}],
    "openai_responses": [{"type": "function"} | BARE | {"parameters": SCHEMA, "strict": False}],
    "anthropic": [BARE | {"input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}}],
    "gemini": [{"function_declarations": [BARE | {"parameters_json_schema": SCHEMA}]}],
}

HOSTED: dict[str, list[dict[str, Any]]] = {
    "openai_chat": [{"type": "custom", "custom": {"name": "sql", "format": {"type": "text"}}}],
    "openai_responses": [
        {"type": "web_search", "search_context_size": "low"},
        {"type": "mcp", "server_label": "one", "server_url": "https://one.example.org", "require_approval": "never"},
        {"type": "mcp", "server_label": "two", "server_url": "https://two.example.org", "require_approval": "never"},
        {"type": "custom", "name": "sql", "description": "Query.", "format": {"type": "text"}},
    ],
    "anthropic": [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 3},
        {"type": "bash_20250124", "name": "bash"},
    ],
    "gemini": [{"google_search": {}}, {"code_execution": {}}],
}


def offered(dialect: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    return body["config"]["tools"] if dialect == "gemini" else body["tools"]


def ask(provider: ScriptedProvider, line: Line, store: Store, tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The tools that arrive when these are offered."""
    provider.script(Turn("It is noon."))
    session = line.session(store)
    session.append(user("What time is it?"))
    line.send(provider, session, tools)
    return offered(line.dialect, provider.last.arguments)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tool_of_any_shape_arrives_in_the_providers_own(
    provider: ScriptedProvider, line: Line, store: Store, shape: str
) -> None:
    """The same tool, declared in eight ways, is the same bytes to a provider."""
    assert json.dumps(ask(provider, line, store, [SHAPES[shape]])) == json.dumps(_ordered(line.dialect))


def _ordered(dialect: str) -> list[dict[str, Any]]:
    """Gemini's SDK sorts the fields of a declaration; the schema inside stays as it is."""
    if dialect != "gemini":
        return SENT[dialect]
    (declaration,) = SENT["gemini"][0]["function_declarations"]
    return [
        {
            "function_declarations": [
                {key: declaration[key] for key in ("description", "name", "parameters_json_schema")}
            ]
        }
    ]


def test_a_strict_tool_stays_strict(provider: ScriptedProvider, line: Line, store: Store) -> None:
    """A host that asks for arguments that follow the schema gets them wherever the provider can promise it."""
    tool = {"type": "function", "function": BARE | {"parameters": SCHEMA, "strict": True}}
    text = json.dumps(ask(provider, line, store, [tool]))
    assert ('"strict": true' in text) == (line.dialect != "gemini")


def test_hosted_tools_pass_through_unchanged(provider: ScriptedProvider, line: Line, store: Store) -> None:
    """What the provider runs itself is declared in its own words, beside the host's tools."""
    got = ask(provider, line, store, [*HOSTED[line.dialect], SHAPES["openai_chat"]])
    assert len(got) == len(HOSTED[line.dialect]) + 1
    bare = [{key: value for key, value in tool.items() if key != "cache_control"} for tool in got]
    assert all(tool in bare for tool in HOSTED[line.dialect])


@pytest.mark.parametrize(("owner", "to"), [(one, other) for one in DIALECTS for other in DIALECTS if one != other])
def test_a_hosted_tool_is_not_offered_to_another_provider(
    lines: Callable[[str], Line], store: Store, owner: str, to: str
) -> None:
    """Whoever switches providers and keeps the tools is told which tool is in the way, before any call."""
    session = lines(to).session(store)
    session.append(user("Hi."))
    with pytest.raises(BadInput, match=rf"'\w+' is one of the {owner} format's own; it cannot be offered in {to}"):
        session.prompt(HOSTED[owner][:1])


def test_a_past_prompt_is_built_again_with_the_same_tools(provider: ScriptedProvider, line: Line, store: Store) -> None:
    """The log keeps the tools in the host's order of keys, because models write arguments in it."""
    ask(provider, line, store, [SHAPES["openai_chat"], *HOSTED[line.dialect]])
    again = prompt_at(store, "wire", setup_for(Model(line.model, line.dialect), Policy()), 1)
    sent = again.request["config"]["tools"] if line.dialect == "gemini" else again.request["tools"]
    if line.dialect != "gemini":
        assert json.dumps(sent) == json.dumps(offered(line.dialect, provider.last.arguments))
    assert sent == offered(line.dialect, provider.last.arguments)
