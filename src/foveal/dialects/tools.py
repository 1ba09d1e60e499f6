"""Tool definitions in any of the four formats (OpenAI chat, OpenAI Responses, Anthropic, Gemini), read into one shape.

A tool that a provider runs itself, or that only its format can declare, is `hosted`: it is sent as it is, and to that provider
only.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Any, cast

import msgspec

from foveal.dialects.json_values import fields
from foveal.dialects.port import Dialect, ToolSpec
from foveal.values.errors import BadInput

_NO_PARAMETERS: dict[str, Any] = {"type": "object", "properties": {}}
_SCHEMAS = ("parameters", "input_schema", "parameters_json_schema", "parametersJsonSchema")
DECLARATIONS = ("function_declarations", "functionDeclarations")

# Gemini's tools have no type: the key that is set says which it is. Compared without case and underscores.
_GEMINI_HOSTED = frozenset(
    {"codeexecution", "computeruse", "enterprisewebsearch", "exaaisearch", "filesearch", "googlemaps", "googlesearch"}
    | {"googlesearchretrieval", "mcpservers", "parallelaisearch", "retrieval", "urlcontext"}
)
_DATED = re.compile(r"_\d{8}\Z")  # Anthropic's own tools carry their version: bash_20250124
_GEMINI_TYPES = frozenset({"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL"})


def read_tools(tools: Iterable[Mapping[str, Any]]) -> tuple[ToolSpec, ...]:
    """Return the tools sorted by name: their order is part of the cached prefix, and hosts do not keep it stable."""
    specs = sorted((spec for tool in tools for spec in _read(tool)), key=lambda spec: (spec.name, repr(spec.hosted)))
    for one, next_one in pairwise(specs):
        if one.name == next_one.name and (one.hosted is None or one.hosted == next_one.hosted):
            raise BadInput(f"two tools are named {one.name!r}; a name can be offered once")
    return tuple(specs)


def tools_json(specs: Iterable[ToolSpec]) -> str:
    """Return the tools as JSON in OpenAI's chat form, which is counted and kept in the log.

    Keys stay in the order of the host: models write arguments in the order of the properties.
    """
    return msgspec.json.encode([chat_form(spec) for spec in specs]).decode()


def chat_form(spec: ToolSpec) -> dict[str, Any]:
    if spec.hosted is not None:
        return spec.hosted
    function: dict[str, Any] = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    if spec.strict:
        function["strict"] = True
    return {"type": "function", "function": {key: value for key, value in function.items() if value}}


def sent_tools(specs: tuple[ToolSpec, ...], dialect: Dialect) -> tuple[ToolSpec, ...]:
    """Return the tools under the names that this dialect's provider takes."""
    if all(spec.hosted is not None or dialect.tool_name(spec.name) == spec.name for spec in specs):
        return specs
    return tuple(
        spec if spec.hosted is not None else msgspec.structs.replace(spec, name=dialect.tool_name(spec.name))
        for spec in specs
    )


@lru_cache(maxsize=16)
def renamed_tools(tools: str, dialect: Dialect) -> Mapping[str, str]:
    """Return the host's names of recorded tools that are offered under another one, by the names that are sent."""
    functions = (tool.get("function") for tool in msgspec.json.decode(tools, type=list[dict[str, Any]]))
    names: list[str] = [function["name"] for function in functions if isinstance(function, dict)]
    return MappingProxyType({sent: name for name in names if (sent := dialect.tool_name(name)) != name})


def hosted_by(spec: ToolSpec, dialect: str) -> dict[str, Any] | None:
    """Return the definition of a tool that this dialect's provider hosts; None for an ordinary tool."""
    if spec.hosted is None:
        return None
    owner = _owner(spec.hosted)
    if owner != dialect:
        raise BadInput(f"the tool {spec.name!r} is one of the {owner} format's own; it cannot be offered in {dialect}")
    return spec.hosted


def is_offered_in(spec: ToolSpec, dialect: str) -> bool:
    """Return whether a tool can be offered in a dialect: an ordinary one in all of them, a hosted one in its owner's."""
    return spec.hosted is None or _owner(spec.hosted) == dialect


def _owner(hosted: Mapping[str, Any]) -> str:
    kind = str(hosted.get("type") or "")
    if not kind:
        return "gemini"
    if _DATED.search(kind) or kind == "mcp_toolset":
        return "anthropic"
    return "openai_chat" if kind in hosted else "openai_responses"


def _read(tool: Mapping[str, Any]) -> Iterator[ToolSpec]:
    if not isinstance(tool, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise BadInput(f"a tool definition is a mapping, not {type(tool).__name__}")
    plain = _plain(tool)
    for key in DECLARATIONS:
        declared: object = plain.pop(key, None) or []
        if not isinstance(declared, list) or not all(isinstance(one, dict) for one in cast("list[object]", declared)):
            raise BadInput(f"{key} of a tool is no list of functions: {declared!r:.80}")
        yield from map(_declared, cast("list[dict[str, Any]]", declared))
    if not plain:
        return
    kind = plain.get("type")
    if kind is not None and not isinstance(kind, str):
        raise BadInput(f"a tool has the type {kind!r:.80}; a type is a text")
    if isinstance(plain.get("function"), dict):
        yield _declared(plain["function"])
    elif kind is None and all(key.replace("_", "").lower() in _GEMINI_HOSTED for key in plain):
        yield ToolSpec(min(plain), "", {}, hosted=plain)
    elif kind in (None, "function") or (kind == "custom" and "input_schema" in plain):
        yield _declared(plain)
    else:
        name = plain.get("name") or plain.get("server_label") or fields(plain.get(kind)).get("name")
        yield ToolSpec(str(name or kind), "", {}, hosted=plain)


def _plain(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the definition, checked to be JSON."""
    try:
        return msgspec.json.decode(msgspec.json.encode(dict(tool)), type=dict[str, Any])
    except (TypeError, ValueError, RecursionError) as error:
        raise BadInput(f"the tool {tool.get('name') or 'without a name'!r:.80} is not JSON: {error}") from error


def _declared(plain: Mapping[str, Any]) -> ToolSpec:
    name = plain.get("name")
    if not isinstance(name, str) or not name.strip():
        raise BadInput(f"a tool has the name {name!r:.80}; a name is a text that is not blank")
    schema: Any = next((plain[key] for key in _SCHEMAS if plain.get(key)), _NO_PARAMETERS)
    if not isinstance(schema, dict) or str(cast("dict[str, Any]", schema).get("type", "object")).lower() != "object":
        raise BadInput(f"the parameters of the tool {name!r} are not the schema of an object; providers refuse them")
    schema = {"type": "object"} | cast("dict[str, Any]", schema)
    if schema.get("type") in _GEMINI_TYPES:
        schema = _json_schema(schema)
    return ToolSpec(name, str(plain.get("description") or ""), schema, strict=plain.get("strict") is True)


def _json_schema(schema: Any) -> Any:
    """Return Gemini's schema as JSON schema, which spells its types in small letters."""
    if not isinstance(schema, dict):
        return schema
    plain: dict[str, Any] = {}
    for key, value in cast("dict[str, Any]", schema).items():
        match value:
            case str() if key == "type" and value in _GEMINI_TYPES:
                plain[key] = value.lower()
            case dict() if key == "properties":
                plain[key] = {name: _json_schema(one) for name, one in cast("dict[str, Any]", value).items()}
            case dict() if key == "items":
                plain[key] = _json_schema(value)
            case list() if key in ("anyOf", "any_of"):
                plain["anyOf"] = [_json_schema(one) for one in cast("list[Any]", value)]
            case _:
                plain[key] = value
    return plain
