"""What a provider makes of a request that came over the wire."""

from base64 import urlsafe_b64decode
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from foveal.dialects.anthropic import rules as anthropic_rules
from foveal.dialects.gemini import rules as gemini_rules
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
    """The SDK arguments that lead to this body: keys in Python's spelling, bytes as bytes."""
    config: dict[str, Any] = {}
    if "systemInstruction" in body:
        config["system_instruction"] = "".join(part["text"] for part in body["systemInstruction"]["parts"])
    if "tools" in body:
        config["tools"] = pythonic(body["tools"])
    return {"model": model, "contents": pythonic(body["contents"]), "config": config}


def pythonic(value: Any) -> Any:
    """Gemini's JSON as its SDK spells it."""
    if isinstance(value, list):
        return [pythonic(item) for item in value]
    if not isinstance(value, dict):
        return value
    fields: dict[str, Any] = value
    plain: dict[str, Any] = {}
    for wire_key, item in fields.items():
        key = _GEMINI_KEYS.get(wire_key, wire_key)
        if key in _BYTES:
            plain[key] = urlsafe_b64decode(item.replace("+", "-").replace("/", "_"))
        else:
            plain[key] = item if key in _FREE_FORM else pythonic(item)
    return plain


def _lost_reasoning(body: Mapping[str, Any]) -> Iterator[RequestProblem]:
    """Reasoning that is named by its id alone, in a request that has nothing stored."""
    for i, item in enumerate(body["input"] if body.get("store") is False else ()):
        if item.get("type") == "reasoning" and not item.get("encrypted_content"):
            yield RequestProblem(
                "R5", f"input[{i}]", f"Item with id {item.get('id')!r} not found: items are not stored."
            )


def judge(dialect: str, body: Mapping[str, Any]) -> list[RequestProblem]:
    """What the provider would refuse in a request that an SDK sent."""
    match dialect:
        case "openai_chat":
            return openai_chat_rules.problems(body)
        case "openai_responses":
            return openai_responses_rules.problems(body) + list(_lost_reasoning(body))
        case "anthropic":
            return anthropic_rules.problems(body)
        case _:
            return gemini_rules.problems(body, signatures="gemini-3" in body["model"])


def refusal(dialect: str, problems: Iterable[object]) -> dict[str, Any]:
    """A 400 as the provider words it."""
    message = "; ".join(str(problem) for problem in problems)
    match dialect:
        case "anthropic":
            return {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        case "gemini":
            return {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
        case _:
            return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}
