"""Rules that say which calls a person must allow: by tool, and by patterns of the arguments. The first rule that matches
decides."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from foveal.agent.near_names import did_you_mean
from foveal.agent.tools import Tool
from foveal.dialects.json_values import fields
from foveal.text.repair import json_object
from foveal.values.errors import BadInput

Verdict: TypeAlias = Literal["allow", "ask", "deny"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


class ApprovalRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One rule: `ApprovalRule("shell", {"command": r"\\brm\\b"}, "deny", "nothing is removed here")`."""

    tool: str
    """Name of the tool, or a pattern with `*` and `?`."""
    arguments: dict[str, str] = {}
    """Regular expressions by argument, each found somewhere in its value as the tool gets it: `true` for a flag that is set, also
    by default. All of them must match."""
    verdict: Verdict = "ask"
    reason: str = ""
    """Shown to the person who is asked, and to the model with a denial."""

    def __post_init__(self) -> None:
        for name, pattern in self.arguments.items():
            try:
                _compiled(pattern)
            except re.error as error:
                raise BadInput(
                    f"the approval rule for {self.tool!r}: {name} = {pattern!r} is no pattern ({error})"
                ) from None

    def matches(self, tool: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether the rule is about this call."""
        if not fnmatchcase(tool, self.tool):
            return False
        return all(
            name in arguments and _compiled(pattern).search(_text(arguments[name]))
            for name, pattern in self.arguments.items()
        )


def check_rules(rules: Iterable[ApprovalRule], tools: Mapping[str, Collection[str] | None]) -> None:
    """Raise `BadInput` for a rule that can match no call: of a tool, or by an argument, that the agent does not have.

    `tools` are the names of the tools with those of their arguments; None where any name may come. `*` is never wrong.
    """
    for place, rule in enumerate(rules):
        found = [name for name in tools if fnmatchcase(name, rule.tool)]
        if not found and rule.tool != "*":
            raise BadInput(
                f"approvals[{place}] names no tool of this agent: {rule.tool!r}. {did_you_mean(rule.tool, tools)}"
            )
        taken = [tools[name] for name in found]
        known = {name for names in taken for name in names or ()}
        if found and None not in taken and (wrong := [name for name in rule.arguments if name not in known]):
            raise BadInput(
                f"approvals[{place}] names no argument of {' or '.join(found)}: {wrong[0]!r}. {did_you_mean(wrong[0], known)}"
            )


@lru_cache(256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def verdict_on(rules: Sequence[ApprovalRule], tool: Tool, arguments: str) -> ApprovalRule:
    """Return the rule that decides about a call; one with the tool's usual verdict if none matches."""
    given: Mapping[str, Any] = _given(tool, arguments) if any(rule.arguments for rule in rules) else {}
    usual: Verdict = "ask" if tool.is_guarded else "allow"
    return next((rule for rule in rules if rule.matches(tool.name, given)), ApprovalRule(tool.name, verdict=usual))


def _given(tool: Tool, arguments: str) -> Mapping[str, Any]:
    """Return the arguments as the tool gets them, with its defaults and its types, in the form of JSON; as the model wrote them
    if the tool does not take them."""
    stated = {name: fields(schema) for name, schema in fields(tool.parameters.get("properties")).items()}
    defaults = {name: schema["default"] for name, schema in stated.items() if "default" in schema}
    try:
        return {**defaults, **msgspec.to_builtins(dict(tool.check(arguments)), enc_hook=str)}
    except Exception:  # noqa: BLE001, RUF100 - of the tool's own check: the call says why when it is run
        return json_object(arguments) or {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
