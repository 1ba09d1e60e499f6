"""A caller of the HTTP API that holds every answer against the gateway's own OpenAPI document."""

import json
import re
from types import TracebackType
from typing import Any
from urllib.parse import quote

import httpx2

from .conftest import RunningGateway

PREFIX = "/foveal/v1"


class ApiClient:
    """Calls operations by their names. `headers` go with every request."""

    def __init__(self, gateway: RunningGateway, **headers: str) -> None:
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        self.http = httpx2.Client(base_url=gateway.url + PREFIX, headers=self.headers, timeout=30)
        self.document: dict[str, Any] = self.http.get("/openapi.json").json()
        self._operations = {
            one["operationId"]: (method.upper(), path, one)
            for path, methods in self.document["paths"].items()
            for method, one in methods.items()
        }

    def send(self, operation: str, name: str = "", /, **given: Any) -> httpx2.Response:
        """Send a request and return the answer, which is as the document says."""
        method, path, described = self._operations[operation]
        address = re.sub(r"{\w+}", quote(name, safe=""), path)
        if method == "POST":
            told = {"content": json.dumps(given).encode(), "headers": {"content-type": "application/json"}}
            reply = self.http.request(method, address, **told)
        else:
            reply = self.http.request(method, address, params=given)
        kind = "200" if reply.status_code == 200 else "default"
        schema = described["responses"][kind]["content"]["application/json"]["schema"]
        assert problems(reply.json(), schema, self.document) == []
        return reply

    def ask(self, operation: str, name: str = "", /, **given: Any) -> Any:
        """Return the answer to a request that succeeds."""
        reply = self.send(operation, name, **given)
        assert reply.status_code == 200, reply.text
        return reply.json()

    def refused(self, operation: str, name: str = "", /, **given: Any) -> tuple[int, str, str]:
        """Return status, type and message of a request that is refused."""
        reply = self.send(operation, name, **given)
        assert reply.status_code != 200, reply.text
        error = reply.json()["error"]
        return reply.status_code, error["type"], error["message"]

    def __enter__(self) -> "ApiClient":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.http.close()


TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def _is_of(value: object, kind: str) -> bool:
    return isinstance(value, TYPES[kind]) and (kind == "boolean" or not isinstance(value, bool))


def problems(value: Any, schema: dict[str, Any], document: dict[str, Any], at: str = "$") -> list[str]:
    """Return where a value is not as a JSON schema says; fields that the schema does not name are such a place."""
    if ref := schema.get("$ref"):
        return problems(value, document["components"]["schemas"][ref.rpartition("/")[2]], document, at)
    if options := schema.get("anyOf"):
        found = [problems(value, option, document, at) for option in options]
        return [] if [] in found else min(found, key=len)
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{at}: {value!r} is none of {schema['enum']}"]
    kind = schema.get("type")
    if kind is None:
        return []
    if not _is_of(value, kind):
        return [f"{at}: {value!r:.60} is no {kind}"]
    if kind == "array":
        return [
            problem
            for i, one in enumerate(value)
            for problem in problems(one, schema.get("items") or {}, document, f"{at}[{i}]")
        ]
    if kind == "object":
        fields, more = schema.get("properties", {}), schema.get("additionalProperties")
        lost = [f"{at}: {name} is missing" for name in schema.get("required", ()) if name not in value]
        for name, one in value.items():
            if name in fields:
                lost += problems(one, fields[name], document, f"{at}.{name}")
            elif isinstance(more, dict):
                lost += problems(one, more, document, f"{at}.{name}")
            elif fields:
                lost.append(f"{at}: {name} is not known")
        return lost
    return []
