"""Retention declared where a tool is defined: on its function, or in the tool list that goes to the model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

from foveal.core.errors import BadPolicy
from foveal.core.retention import Level, Mode, Rule
from foveal.policies.retention import rule_from

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__foveal_retention__"


def retain(
    mode: Mode | None = None,
    *,
    limit_tokens: int | None = None,
    limit_characters: int | None = None,
    head: float | None = None,
    hint: str | None = None,
    ttl_turns: int | None = None,
    floor: Level | None = None,
) -> Callable[[F], F]:
    """Declare the retention of a tool on its function. `rules_of` collects what was declared."""
    try:
        rule = Rule(mode, limit_tokens, limit_characters, head, hint, ttl_turns, floor)
    except BadPolicy as error:
        raise BadPolicy(f"retain: {error}") from None

    def mark(function: F) -> F:
        setattr(function, _MARK, rule)
        return function

    return mark


def rules_of(functions: Iterable[Callable[..., Any]]) -> dict[str, Rule]:
    """The retention that these functions declare, by name; functions without one are left out."""
    return {function.__name__: rule for function in functions if (rule := getattr(function, _MARK, None)) is not None}


def split_retention(tools: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], dict[str, Rule]]:
    """The tools as providers take them, and the rules that stood beside their definitions under `retention`."""
    plain: list[Mapping[str, Any]] = []
    rules: dict[str, Rule] = {}
    for tool in tools:
        inner = tool.get("function")
        named = cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else tool
        said = tool.get("retention") or named.get("retention")
        if said is None:
            plain.append(tool)
            continue
        name = str(named.get("name"))
        rules[name] = said if isinstance(said, Rule) else rule_from(said, f"the retention of the tool {name!r}")
        rest = {key: value for key, value in tool.items() if key != "retention"}
        if named is not tool:
            rest["function"] = {key: value for key, value in named.items() if key != "retention"}
        plain.append(rest)
    return plain, rules
