"""Requests written by hand, for tests that need no SDK."""

import json
from typing import Any

import httpx2

from .clients import contents_of
from .conftest import RunningGateway

PATHS = {
    "anthropic": "/v1/messages",
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "gemini": "/v1beta/models/gemini-2.5-pro:generateContent",
}
READ = {"name": "read", "description": "Reads a file.", "input_schema": {"type": "object"}}


def said(
    text: str, *, model: str = "claude-opus-4-5", system: str = "Be careful.", steps: int = 0, **more: Any
) -> bytes:
    """Return a request to Anthropic: a user's text, and steps of a tool loop after it."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": text}]
    for i in range(steps):
        use = {"type": "tool_use", "id": f"u{i}", "name": "read", "input": {"path": f"m{i}.py"}}
        result = {"type": "tool_result", "tool_use_id": f"u{i}", "content": contents_of(f"m{i}.py")}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    body = {"model": model, "max_tokens": 500, "system": system, "messages": messages, "tools": [READ], **more}
    return json.dumps(body).encode()


def asked(dialect: str, steps: int) -> bytes:
    """Return a request of any dialect with a tool loop of some steps behind it."""
    paths = [f"m{i}.py" for i in range(steps)]
    match dialect:
        case "anthropic":
            return said("Read.", steps=steps)
        case "openai_chat":
            chat: list[dict[str, Any]] = [{"role": "user", "content": "Read."}]
            for i, path in enumerate(paths):
                call = {"id": f"c{i}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
                chat.append({"role": "assistant", "content": None, "tool_calls": [call]})
                chat.append({"role": "tool", "tool_call_id": f"c{i}", "content": contents_of(path)})
            return json.dumps({"model": "gpt-4.1", "messages": chat}).encode()
        case "openai_responses":
            items: list[dict[str, Any]] = [{"role": "user", "content": "Read."}]
            for i, path in enumerate(paths):
                items.append({"type": "function_call", "call_id": f"c{i}", "name": "read", "arguments": "{}"})
                items.append({"type": "function_call_output", "call_id": f"c{i}", "output": contents_of(path)})
            return json.dumps({"model": "gpt-5", "input": items, "store": False}).encode()
        case _:
            contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": "Read."}]}]
            for path in paths:
                contents.append(
                    {"role": "model", "parts": [{"functionCall": {"name": "read", "args": {"path": path}}}]}
                )
                answer = {"name": "read", "response": {"output": contents_of(path)}}
                contents.append({"role": "user", "parts": [{"functionResponse": answer}]})
            return json.dumps({"contents": contents}).encode()


def post(gateway: RunningGateway, body: bytes, path: str = PATHS["anthropic"], **headers: str) -> httpx2.Response:
    """Send a request; underscores of header names are dashes."""
    named = {"x-api-key": "k-1", **{name.replace("_", "-"): value for name, value in headers.items()}}
    with httpx2.Client(timeout=30) as client:
        return client.post(gateway.url + path, content=body, headers={"content-type": "application/json", **named})


def names(gateway: RunningGateway) -> list[str]:
    """Return the names of the conversations so far."""
    return [conversation.name for conversation in gateway.gateway.conversations]
