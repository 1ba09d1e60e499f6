"""Bytes of requests: the client's own until the first fold, and in every message that is shown whole after it."""

import json
from typing import Any

import httpx2
import msgspec
import pytest

from foveal.testing.provider import ScriptedProvider, Turn

from .clients import contents_of
from .conftest import Gateways, RunningGateway
from .requests import asked

PATHS = {
    "anthropic": "/v1/messages?beta=true",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-2.5-pro:generateContent",
}

ODD = {
    "anthropic": rb"""{ "stream":false, "max_tokens" : 1e3,"temperature":1.0,"new_field":{"z":1,"a":[1.50, 1e5,-0.0]},
 "model":"claude-opus-4-5","system":[
 {"type":"text","text":"Be care\u0066ul \u00e9","cache_control":{"type":"ephemeral","ttl":"1h"}}],
 "tools":[{"input_schema":{"type":"object"},"name":"read","defer_loading":false,"eager":1.0},
 {"type":"web_search_20250305","name":"web_search"}],
 "messages":[ {"content":[{"type":"text","text":"caf\u00e9 \ud83d\ude00 \/ tab\t"},
 {"type":"new_block","data":{"b":2,"a":1.0}}],"role":"user"},
 {"role":"user","content":"twice the user"},
 {"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"c2ln"},
 {"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"q":"\u0078"}},
 {"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]},
 {"type":"tool_use","id":"t1","name":"read","input":{"n":1.0,"path":"\u0061"}}]},
 {"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[
 {"type":"text","text":"\u0041"},{"type":"tool_reference","tool_name":"x"}],
 "cache_control":{"type":"ephemeral"}}]},
 {"role":"system","content":"<system-reminder>in the middle</system-reminder>","output_config":{"effort":"low"}},
 {"role":"assistant","content":"ok","extra":null},{"role":"user","content":"go on"} ] }""",
    "openai_chat": rb"""{"model":"gpt-4.1", "temperature":1.0,"x":{"b":1e5,"a":0.10}, "messages":[
 {"role":"system","content":"Be \u0063areful","name":"ops"},
 {"role":"user","content":[{"type":"text","text":"caf\u00e9"},{"type":"new_part","v":1.0}]},
 {"role":"user","content":"again"},
 {"role":"assistant","content":null,"tool_calls":[
 {"id":"c1","type":"function","function":{"arguments":"{\"path\": \"a\"}","name":"read"},"extra":{"k":1.0}}],
 "reasoning_details":[{"z":1}]},
 {"tool_call_id":"c1","role":"tool","content":"\u0041","cache":{"x":1.0}},
 {"role":"system","content":"in the middle"},{"role":"user","content":"go"}],
 "tools":[{"type":"function","function":{"name":"read","parameters":{"type":"object"},"strict":null},"hint":1.0}]}""",
    "openai_responses": rb"""{"input":[{"role":"developer","content":"Be \u0063areful"},
 {"type":"message","role":"user","content":[{"type":"input_text","text":"caf\u00e9"}]},
 {"type":"new_item","v":1.0},{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"abc","status":null},

  {"type":"function_call","call_id":"c1","name":"read","arguments":"{\"path\": \"a\"}","id":"fc_1","namespace":"n"},
 {"type":"function_call_output","call_id":"c1","output":"\u0041","x":1.0},
 {"role":"user","content":"go"}], "model":"gpt-5","store":false,"text":{"verbosity":"low"},"x":{"b":1e5,"a":0.10},
 "tools":[{"type":"function","name":"read","parameters":{"type":"object"},"strict":false,"hint":1.0},
 {"type":"namespace","name":"n","tools":[]}]}""",
    "gemini": rb"""{"generationConfig":{"temperature":1.0,"topK":1e1},"systemInstruction":{"parts":[
 {"text":"Be \u0063areful"}]},
 "contents":[{"parts":[{"text":"caf\u00e9"},{"newPart":{"v":1.0}}],"role":"user"},{"role":"model","parts":[
 {"functionCall":{"name":"read","args":{"path":"\u0061","n":1.0}},"thoughtSignature":"c2ln"}]},
 {"role":"user","parts":[{"functionResponse":{"name":"read","response":{"output":"\u0041","n":1.0}}}]},
 {"role":"user","parts":[{"text":"go"}]}],
 "tools":[{"functionDeclarations":[{"name":"read","parametersJsonSchema":{"type":"object"},"x":1.0}]},
 {"googleSearch":{}}]}""",
}


def _post(gateway: RunningGateway, path: str, body: bytes, **headers: str) -> httpx2.Response:
    with httpx2.Client(timeout=30) as client:
        return client.post(gateway.url + path, content=body, headers={"content-type": "application/json", **headers})


@pytest.mark.parametrize("dialect", PATHS)
def test_before_a_fold_the_body_is_the_clients(start: Gateways, provider: ScriptedProvider, dialect: str) -> None:
    """Until something is folded, the provider gets the client's bytes: escapes, order, numbers, unknown fields and blocks."""
    provider.is_strict = False
    provider.script(Turn("Well."), Turn("Well."))
    gateway = start(30_000)

    for _ in range(2):  # a retry is the same again
        reply = _post(gateway, PATHS[dialect], ODD[dialect])
        assert reply.status_code == 200, reply.text

    assert [request.raw for request in provider.requests] == [ODD[dialect]] * 2
    assert [request.path for request in provider.requests] == [PATHS[dialect]] * 2
    assert gateway.figures.unmanaged == 0, gateway.lines
    assert gateway.figures.calls == 2


def _grown(body: bytes, key: str, more: list[dict[str, Any]]) -> bytes:
    """Return the body with messages added behind its own, which keep their bytes."""
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    listed = msgspec.json.decode(fields[key], type=list[msgspec.Raw])
    added = [msgspec.Raw(json.dumps(one).encode()) for one in more]
    return msgspec.json.encode({**fields, key: [*listed, *added]})


def test_after_a_fold_messages_that_are_shown_whole_keep_their_bytes(
    start: Gateways, provider: ScriptedProvider
) -> None:
    """A fold changes what it folds: the newest messages are the client's bytes, unknown blocks and marks included."""
    provider.is_strict = False
    provider.improvise = lambda request: Turn("Well.")
    gateway = start(8_000)
    history: list[dict[str, Any]] = []
    for i in range(20):
        use = {"type": "tool_use", "id": f"u{i}", "name": "read", "input": {"path": f"m{i}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"u{i}", "content": contents_of(f"m{i}.py")}
        history += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    use = {"type": "tool_use", "id": "v", "name": "read", "input": {"n": 1.0}}
    result = {"type": "tool_result", "tool_use_id": "v", "content": [{"type": "tool_reference", "tool_name": "x"}]}
    newest = [
        {"content": "an odd order of keys", "role": "assistant"},
        {"role": "user", "content": [{"type": "new_block", "v": 1.0}, {"type": "text", "text": "caf\u00e9 next"}]},
        {"role": "system", "content": "said in the middle", "output_config": {"effort": "low"}},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "h", "signature": "c2ln"}, use]},
        {"role": "user", "content": [{**result, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
    ]
    body = _grown(ODD["anthropic"], "messages", [*history, *newest])

    assert _post(gateway, PATHS["anthropic"], body).status_code == 200

    sent = provider.last.raw
    assert gateway.figures.folds == 1
    assert provider.last.tokens < 9_000
    for one in newest:
        assert json.dumps(one).encode() in sent, one
    fields = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    for key, value in fields.items():
        if key not in ("messages", "tools"):
            assert bytes(value) in sent, key
    for tool in msgspec.json.decode(fields["tools"], type=list[msgspec.Raw]):
        assert bytes(tool) in sent


@pytest.mark.parametrize("dialect", ["openai_chat", "openai_responses", "gemini"])
def test_after_a_fold_the_newest_words_keep_their_bytes(
    start: Gateways, provider: ScriptedProvider, dialect: str
) -> None:
    """In every format, a message that is shown whole after a fold is the client's to the byte."""
    provider.is_strict = False
    provider.improvise = lambda request: Turn("Well.")
    gateway = start(8_000)
    key = {"openai_responses": "input", "gemini": "contents"}.get(dialect, "messages")
    newest: list[dict[str, Any]] = {
        "openai_chat": [
            {"content": "odd order", "role": "assistant", "annotations": []},
            {"role": "system", "content": "in the middle"},
            {"role": "user", "content": [{"type": "new_part", "v": 1.0}, {"text": "caf\u00e9", "type": "text"}]},
        ],
        "openai_responses": [
            {"content": [{"text": "odd order", "type": "output_text"}], "role": "assistant", "type": "message"},
            {"role": "developer", "content": "in the middle"},
            {"content": [{"type": "input_text", "text": "caf\u00e9", "v": 1.0}], "role": "user"},
        ],
        "gemini": [
            {"parts": [{"text": "odd order"}], "role": "model"},
            {"parts": [{"newPart": {"v": 1.0}}, {"text": "caf\u00e9"}], "role": "user"},
        ],
    }[dialect]

    assert _post(gateway, PATHS[dialect], _grown(asked(dialect, 20), key, newest)).status_code == 200

    assert (gateway.figures.folds, gateway.figures.unmanaged) == (1, 0), gateway.lines
    assert provider.last.tokens < 9_000
    for one in newest:
        assert json.dumps(one).encode() in provider.last.raw, one
