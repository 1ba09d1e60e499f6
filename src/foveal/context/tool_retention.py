"""Retention declared with a tool's definition: on its function, or in the tool list of a prompt."""

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


class DeclaredRetention(dict[str, RetentionRule]):
    """The retention that functions declare, by the names of their tools."""

    renderers: dict[str, Callable[[str], str]]
    """The renderers of these functions, by the names of their tools."""

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
    """Declare the retention of a tool on its function. `rules_of` collects the declarations.

    `renderer` is a function from a result's text to the text that the model is shown.
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
        # The log names the renderer; the tool's name is known wherever the session is opened again.
        named = msgspec.structs.replace(rule, renderer=function.__name__) if renderer else rule
        setattr(function, _MARK, named)
        setattr(function, _RENDERER, renderer)
        return function

    return mark


def rules_of(functions: Iterable[Callable[..., Any]]) -> DeclaredRetention:
    """Return the retention that these functions declare, by name; functions without a declaration are left out."""
    marked = {function.__name__: function for function in functions if getattr(function, _MARK, None) is not None}
    rules = {name: getattr(function, _MARK) for name, function in marked.items()}
    renderers = {name: getattr(function, _RENDERER) for name, function in marked.items() if rules[name].renderer}
    return DeclaredRetention(rules, renderers)


def split_retention(tools: Sequence[Mapping[str, Any]]) -> tuple[list[Mapping[str, Any]], dict[str, RetentionRule]]:
    """Return the tools without their `retention` keys, as providers take them, and the rules of those keys."""
    rules: dict[str, RetentionRule] = {}
    return [_without_retention(tool, rules) for tool in tools], rules


def _without_retention(tool: Mapping[str, Any], rules: dict[str, RetentionRule]) -> Mapping[str, Any]:
    """Return the tool without retention, in any provider's format; its rule is added to `rules`."""
    if not isinstance(tool, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        return tool  # the reader of the tools reports the error
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
