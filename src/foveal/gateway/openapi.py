"""The OpenAPI document of the HTTP API, made of the table that makes the routes and of the types that are read and written."""

from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec

from foveal.gateway.api_types import ErrorReply, NoParameters
from foveal.gateway.operations import OPERATIONS, PREFIX, ApiOperation

_TEMPLATE = "#/components/schemas/{name}"
_JSON = "application/json"


@cache
def openapi_document() -> dict[str, Any]:
    """Return the document. It is not to be changed."""
    kinds = [one.given for one in OPERATIONS] + [one.returns for one in OPERATIONS] + [ErrorReply]
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_TEMPLATE)
    count = len(OPERATIONS)
    paths: dict[str, dict[str, Any]] = {}
    for place, one in enumerate(OPERATIONS):
        given = components[one.given.__name__]
        described = _described(one, schemas[place], given, returns=schemas[count + place], error=schemas[-1])
        paths.setdefault(one.address, {})[one.method.lower()] = described
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Foveal",
            "version": version("foveal"),
            "description": "Sessions and runs of a Foveal gateway.",
        },
        "servers": [{"url": PREFIX}],
        "paths": paths,
        "components": {"schemas": components},
    }


def _described(
    one: ApiOperation, schema: dict[str, Any], given: dict[str, Any], *, returns: dict[str, Any], error: dict[str, Any]
) -> dict[str, Any]:
    parameters: list[dict[str, Any]] = []
    if one.place is not None:
        parameters.append(
            {"name": one.path[one.place].strip("{}"), "in": "path", "required": True, "schema": {"type": "string"}}
        )
    found: dict[str, Any] = {"operationId": one.name, "summary": one.summary}
    if one.base != PREFIX:
        found["servers"] = [{"url": one.base}]
    if one.method == "POST":
        is_needed = bool(given.get("required"))
        found["requestBody"] = {"required": is_needed, "content": {_JSON: {"schema": schema}}}
    elif one.given is not NoParameters:
        required = given.get("required", ())
        parameters += [
            {"name": name, "in": "query", "required": name in required, "schema": field}
            for name, field in given["properties"].items()
        ]
    if one.is_stream:
        parameters.append({"name": "last-event-id", "in": "header", "required": False, "schema": {"type": "integer"}})
    media = "text/event-stream" if one.is_stream else _JSON
    return found | {
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done.", "content": {media: {"schema": returns}}},
            "default": {"description": "Refused.", "content": {_JSON: {"schema": error}}},
        },
    }
