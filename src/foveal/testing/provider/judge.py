"""Judgement of a request that came over the wire: the reasons for which its provider would refuse it."""

from base64 import urlsafe_b64decode
from collections.abc import Iterator, Mapping
from typing import Any, cast

from foveal.dialects.anthropic import rules as anthropic_rules
from foveal.dialects.gemini import rules as gemini_rules
from foveal.dialects.json_values import elements, fields
from foveal.dialects.openai_chat import rules as openai_chat_rules
from foveal.dialects.openai_responses import rules as openai_responses_rules
from foveal.dialects.rules import RequestProblem

_GEMINI_KEYS = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "inlineData": "inline_data",
    "fileData": "file_data",
    "thoughtSignature": "thought_signature",
    "mimeType": "mime_type",
    "fileUri": "file_uri",
    "executableCode": "executable_code",
    "codeExecutionResult": "code_execution_result",
    "functionDeclarations": "function_declarations",
    "parametersJsonSchema": "parameters_json_schema",
    "googleSearch": "google_search",
    "codeExecution": "code_execution",
    "urlContext": "url_context",
}
_FREE_FORM = frozenset({"args", "response", "parameters_json_schema"})
_BYTES = frozenset({"data", "thought_signature"})


def gemini_arguments(model: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the SDK arguments that lead to this body: keys in Python's spelling, bytes as bytes."""
    config: dict[str, Any] = {}
    if "systemInstruction" in body:
        config["system_instruction"] = "".join(part["text"] for part in body["systemInstruction"]["parts"])
    if "tools" in body:
        config["tools"] = pythonic(body["tools"])
    return {"model": model, "contents": pythonic(body["contents"]), "config": config}


def pythonic(value: Any) -> Any:
    """Return Gemini's JSON as its SDK spells it."""
    if isinstance(value, list):
        return [pythonic(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    plain: dict[str, Any] = {}
    for wire_key, item in cast("dict[str, Any]", value).items():
        key = _GEMINI_KEYS.get(wire_key, wire_key)
        if key in _BYTES:
            plain[key] = urlsafe_b64decode(item.replace("+", "-").replace("/", "_"))
        else:
            plain[key] = item if key in _FREE_FORM else pythonic(item)
    return plain


def _lost_reasoning(body: Mapping[str, Any]) -> Iterator[RequestProblem]:
    """Yield reasoning that is named by its id alone, in a request that has nothing stored."""
    for i, one in enumerate(elements(body.get("input")) if body.get("store") is False else ()):
        item = fields(one)
        if item.get("type") == "reasoning" and not item.get("encrypted_content"):
            yield RequestProblem(
                "R5", f"input[{i}]", f"Item with id {item.get('id')!r} not found: items are not stored."
            )


def judge(dialect: str, body: Mapping[str, Any]) -> list[RequestProblem]:
    """Return the problems for which the provider would refuse a request that an SDK sent."""
    match dialect:
        case "openai_chat":
            return openai_chat_rules.problems(body)
        case "openai_responses":
            return openai_responses_rules.problems(body) + list(_lost_reasoning(body))
        case "anthropic":
            return anthropic_rules.problems(body)
        case _:
            return gemini_rules.problems(body, signatures="gemini-3" in body["model"])
