"""Approval rules: they are about the arguments that a tool gets, with its defaults and its types, and about no others."""

import json
from typing import Any

import msgspec
import pytest

import foveal
from foveal.agent import Agent, ApprovalRule, tool
from foveal.agent.approvals import verdict_on


@tool
def remove(path: str, force: bool = True, options: dict[str, Any] = {}) -> str:  # noqa: B006 - never changed
    """Remove."""
    return path


def nested(levels: int) -> dict[str, Any]:
    """An object in an object, and so on."""
    return {"a": nested(levels - 1)} if levels else {}


FORCED = ApprovalRule("remove", {"force": "^true$"}, "deny")


@pytest.mark.parametrize(
    ("rule", "given"),
    [
        (FORCED, {"path": "/prod"}),
        (FORCED, {"path": "/prod", "force": 1}),
        (FORCED, {"path": "/prod", "force": "True"}),
        (ApprovalRule("remove", {"path": "^/prod"}, "deny"), {"path": "/prod", "options": nested(70)}),
    ],
    ids=["by default", "a number", "a text", "beside many levels"],
)
def test_a_rule_sees_the_arguments_that_the_tool_gets(rule, given):
    """However the model writes a value, or leaves it to the default, the rule about it decides."""
    assert verdict_on([rule], remove, json.dumps(given)).verdict == "deny"


def test_a_rule_does_not_hold_for_other_arguments():
    """A flag that is not set is none that is."""
    assert verdict_on([FORCED], remove, '{"path": "/prod", "force": false}').verdict == "allow"


def test_a_rule_sees_the_defaults_of_a_schema():
    """A tool whose server fills in the defaults, as those of MCP do, gets them as its schema states them."""
    schema = {"type": "object", "properties": {"force": {"type": "boolean", "default": True}}}
    far = msgspec.structs.replace(remove, parameters=schema, check=msgspec.json.decode)
    assert verdict_on([FORCED], far, "{}").verdict == "deny"


def test_a_rule_about_an_argument_that_its_tool_has_not_is_refused():
    """It would never match; the error has the nearest name."""
    with pytest.raises(foveal.BadInput, match=r"names no argument of remove: 'forse'.*force"):
        Agent(model="gpt-5", tools=[remove], approvals=[ApprovalRule("rem*", {"forse": "true"}, "deny")])
