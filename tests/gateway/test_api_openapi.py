"""The OpenAPI document: everything that the API does, and nothing else."""

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import msgspec
import pytest

from foveal import Session
from foveal.context import SideContext
from foveal.gateway.openapi import openapi_document
from foveal.gateway.operations import OPERATIONS, PREFIX, ApiOperation
from foveal.session.compaction import Compaction
from foveal.session.session import Branches

from .conftest import Gateways

DOCUMENT: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(openapi_document()))


def described(one: ApiOperation) -> dict[str, Any]:
    return DOCUMENT["paths"][one.address][one.method.lower()]


def references(value: Any) -> Iterator[str]:
    """Yield every reference to a schema."""
    if isinstance(value, dict):
        yield from (one for name, one in value.items() if name == "$ref")
        for one in value.values():
            yield from references(one)
    elif isinstance(value, list):
        for one in value:
            yield from references(one)


def test_every_operation_is_in_the_document() -> None:
    """Routes and document have the same operations, each under its own name."""
    listed = [
        (path, method, one["operationId"]) for path, ways in DOCUMENT["paths"].items() for method, one in ways.items()
    ]
    assert sorted(listed) == sorted((one.address, one.method.lower(), one.name) for one in OPERATIONS)
    assert len({name for _, _, name in listed}) == len(OPERATIONS)


@pytest.mark.parametrize("one", OPERATIONS, ids=lambda one: one.name)
def test_an_operation_is_described(one: ApiOperation) -> None:
    """Each has a sentence, its path's parameters, its own parameters where they are sent, and what it returns."""
    found = described(one)
    assert re.match(r"[A-Z].*[.]$", found["summary"])
    in_path = {each["name"] for each in found["parameters"] if each["in"] == "path"}
    assert in_path == set(re.findall(r"{(\w+)}", one.address))
    in_query = {each["name"] for each in found["parameters"] if each["in"] == "query"}
    fields = set(one.given.__struct_fields__)
    assert in_query == (set() if one.method == "POST" else fields)
    assert ("requestBody" in found) == (one.method == "POST")
    assert {"200", "default"} == set(found["responses"])


def test_every_reference_leads_somewhere() -> None:
    """All schemas that are named are there, and none is there for nobody."""
    named = set(references(DOCUMENT))
    known = {f"#/components/schemas/{name}" for name in DOCUMENT["components"]["schemas"]}
    assert named <= known
    for_queries = {f"#/components/schemas/{one.given.__name__}" for one in OPERATIONS}
    assert known - named <= for_queries


def test_the_gateway_serves_the_document_and_all_of_its_addresses(start: Gateways) -> None:
    """A program that is made of the document finds every address: none of them is refused as unknown."""
    gateway = start()
    assert httpx2.get(f"{gateway.url}{PREFIX}/openapi.json").json() == DOCUMENT
    for one in OPERATIONS:
        (server,) = described(one).get("servers", DOCUMENT["servers"])
        address = gateway.url + server["url"] + re.sub(r"{\w+}", "none", one.address)
        reply = httpx2.request(one.method, address, json={} if one.method == "POST" else None)
        assert reply.status_code != 405
        assert "there is no address" not in reply.text, one.name


def test_operations_are_named_like_the_verbs_of_the_library() -> None:
    """A name that is learned in Python is known here, with the same parameters."""
    verbs = {
        name: getattr(Session, name) for name in ("append", "extend", "follow", "prompt", "serve", "why", "recall")
    }
    verbs |= {"pressure": Compaction.pressure, "recover": Compaction.recover, "compact": Compaction.fold}
    verbs |= {"rewind": Branches.rewind, "inject": SideContext.inject, "remind": SideContext.remind}
    given = {one.name: set(one.given.__struct_fields__) for one in OPERATIONS}
    for name, verb in verbs.items():
        code = verb.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        assert set(code.co_varnames[1:count]) <= given[name], name
