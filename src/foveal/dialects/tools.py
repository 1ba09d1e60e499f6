"""Tool definitions as users have them, made one shape: OpenAI chat, OpenAI Responses, Anthropic or Gemini declarations."""

import re
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, cast

import msgspec

from foveal.core.errors import BadInput
from foveal.dialects.port import ToolSpec

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}


def read_tools(tools: Iterable[Mapping[str, Any]]) -> tuple[ToolSpec, ...]:
    """The tools sorted by name: their order is part of the cached prefix, and hosts do not keep it stable."""
    specs = sorted((_read(tool) for tool in tools), key=lambda spec: spec.name)
    for one, next_one in pairwise(specs):
        if one.name == next_one.name:
            raise BadInput(f"two tools are named {one.name!r}; a name can be offered once")
    return tuple(specs)


def tools_json(specs: Iterable[ToolSpec]) -> str:
    """Canonical JSON of the tools, in OpenAI's chat form: what is counted and what is kept in the log."""
    return msgspec.json.encode([_chat_form(spec) for spec in specs], order="deterministic").decode()


def _chat_form(spec: ToolSpec) -> dict[str, Any]:
    if spec.hosted is not None:
        return spec.hosted
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": {key: value for key, value in function.items() if value}}


def _read(tool: Mapping[str, Any]) -> ToolSpec:
    if not isinstance(tool, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadInput(f"a tool definition is a mapping, not {type(tool).__name__}")
    plain = cast("dict[str, Any]", msgspec.to_builtins(dict(tool)))
    inner = plain.get("function") if isinstance(plain.get("function"), dict) else plain
    name = inner.get("name")
    if "function" not in plain and plain.get("type", "function") not in ("function", "custom"):
        return ToolSpec(str(name or plain["type"]), "", {}, hosted=plain)
    if not isinstance(name, str) or not _NAME.match(name):
        raise BadInput(f"the tool name {name!r} is not 1 to 64 letters, digits, '_' or '-'; providers refuse it")
    parameters = inner.get("parameters") or inner.get("input_schema") or inner.get("parameters_json_schema")
    return ToolSpec(name, str(inner.get("description") or ""), parameters or _NO_PARAMETERS)
