"""Retention declared where a tool is defined: on its function, or in the tool list that goes to the model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from foveal.dialects.tools import DECLARATIONS
from foveal.project.retention_layers import rule_from
from foveal.values.errors import BadPolicy
from foveal.values.retention import Level, Mode, RetentionRule

F = TypeVar("F", bound=Callable[..., Any])
_MARK = "__foveal_retention__"
_RENDERER = "__foveal_renderer__"
_KEY = "retention"


class Rules(dict[str, RetentionRule]):
    """What functions declare, by the names of their tools."""

    renderers: dict[str, Callable[[str], str]]
    """Their renderers, under the names that the rules call them by: those of the tools."""

    def __init__(self, rules: Mapping[str, RetentionRule], renderers: Mapping[str, Callable[[str], str]]) -> None:
        super().__init__(rules)
        self.renderers = dict(renderers)


def retain(
    mode: Mode | None = None,
    *,
    limit_tokens: int | None = None,
    limit_characters: int | None = None,
    head: float | None = None,
    hint: str | None = None,
    ttl_turns: int | None = None,
    floor: Level | None = None,
    renderer: Callable[[str], str] | None = None,
) -> Callable[[F], F]:
    """Declare the retention of a tool on its function. `rules_of` collects what was declared.

    `renderer` is a function from a result's text to what the model is shown of it.
    """
    if renderer is not None and not callable(renderer):
        raise BadPolicy(f"retain: the renderer is {renderer!r:.80}; it is a function from text to text")
    said = {
        "mode": mode,
        "limit_tokens": limit_tokens,
        "limit_characters": limit_characters,
        "head": head,
        "hint": hint,
        "ttl_turns": ttl_turns,
        "floor": floor,
    }
    rule = rule_from(said, "retain")

    def mark(function: F) -> F:
        # The log names the renderer, and a tool's name is known wherever the session is opened again.
        named = msgspec.structs.replace(rule, renderer=function.__name__) if renderer else rule
        setattr(function, _MARK, named)
        setattr(function, _RENDERER, renderer)
        return function

    return mark


def rules_of(functions: Iterable[Callable[..., Any]]) -> Rules:
    """The retention that these functions declare, by name; functions without one are left out."""
    marked = {function.__name__: function for function in functions if getattr(function, _MARK, None) is not None}
    renderers = {name: getattr(function, _RENDERER) for name, function in marked.items()}
    rules = {name: getattr(function, _MARK) for name, function in marked.items()}
    return Rules(rules, {name: renderer for name, renderer in renderers.items() if renderer})


def split_retention(tools: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], dict[str, RetentionRule]]:
    """The tools as providers take them, and the rules that stood beside their definitions under `retention`."""
    rules: dict[str, RetentionRule] = {}
    return [_without_retention(tool, rules) for tool in tools], rules


def _without_retention(tool: Mapping[str, Any], rules: dict[str, RetentionRule]) -> Mapping[str, Any]:
    """The tool, wherever its format puts the definition; what it says of retention is added to the rules."""
    if not isinstance(tool, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        return tool  # whoever reads the tools says what is wrong with it
    plain = {key: value for key, value in tool.items() if key != _KEY}
    inner = plain.get("function")
    if isinstance(inner, Mapping):
        plain["function"] = _without_retention(cast("Mapping[str, Any]", inner), rules)
    for key in DECLARATIONS:
        if isinstance(several := plain.get(key), list | tuple):
            plain[key] = [_without_retention(one, rules) for one in cast("Sequence[Mapping[str, Any]]", several)]
    if tool.get(_KEY) is not None:
        named = cast("Mapping[str, Any]", inner) if isinstance(inner, Mapping) else tool
        name = str(named.get("name"))
        rules[name] = _rule(tool[_KEY], f"the retention of the tool {name!r}")
    return plain


def _rule(said: object, where: str) -> RetentionRule:
    if isinstance(said, RetentionRule):
        return said
    if not isinstance(said, Mapping):
        raise BadPolicy(f"{where}: it is a table of values such as {{'mode': 'summary'}}, not {said!r:.80}")
    return rule_from(cast("Mapping[str, Any]", said), where)
