"""The layers of retention: the rules for a tool, and the source of each value.

Layers are applied from the lowest to the highest; each overrides the fields it sets:

    built in  <  the tool's definition  <  policy file: toolkit < pattern < exact name  <  scenario: likewise  <  the call

The author of a tool knows what it returns; the operator of the agent, who writes the file, knows what it is used for.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from foveal.values.errors import BadPolicy
from foveal.values.retention import FULL, Retention, RetentionRule, overlay

_LIMITS = frozenset({"limit_tokens", "limit_characters"})


class Toolkit(RetentionRule, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A rule for several tools, named one by one or by patterns (`git_*`)."""

    tools: tuple[str, ...] = ()


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Rules that hold only where the environment picks them."""

    tools: dict[str, RetentionRule] = {}
    toolkits: dict[str, Toolkit] = {}


class Layer(msgspec.Struct, frozen=True):
    """One rule, the tools that it is for, and its source."""

    source: str
    pattern: str
    rule: RetentionRule


class Layers(msgspec.Struct, frozen=True):
    """All layers of retention that are known before a call, lowest first."""

    layers: tuple[Layer, ...] = ()

    def of(self, tool: str) -> Retention:
        """Return the retention of this tool."""
        retention = FULL
        for layer in self._about(tool):
            retention = overlay(retention, layer.rule)
        return retention

    def sources(self, tool: str) -> dict[str, str]:
        """Return the layer that each value of a tool's retention comes from."""
        said: dict[str, str] = {}
        for layer in self._about(tool):
            named = {name for name in RetentionRule.__struct_fields__ if getattr(layer.rule, name) is not None}
            if named & _LIMITS:  # a layer that sets one limit removes the other
                named |= _LIMITS
            said.update(dict.fromkeys(named, layer.source))
        return {name: said.get(name, "built in") for name in Retention.__struct_fields__}

    def canonical(self) -> str:
        """Return the layers as JSON, the same for equal layers."""
        return msgspec.json.encode(self.layers, order="deterministic").decode()

    def _about(self, tool: str) -> Iterator[Layer]:
        return (layer for layer in self.layers if fnmatchcase(tool, layer.pattern))


def layers_of(
    base: Scenario, scenarios: Mapping[str, Scenario], chosen: str | None, declared: Mapping[str, RetentionRule]
) -> Layers:
    """Return the layers of the tools' own definitions, of a policy, and of the chosen scenario."""
    if chosen and chosen not in scenarios:
        known = ", ".join(sorted(scenarios)) or "none"
        raise BadPolicy(f"there is no scenario {chosen!r} in the policy; known: {known}")
    layers = [Layer("definition", _literal(name), rule) for name, rule in sorted(declared.items())]
    layers.extend(_table("policy", base))
    if chosen:
        layers.extend(_table(f"scenario {chosen}", scenarios[chosen]))
    return Layers(tuple(layers))


def layers_from(canonical: str) -> Layers:
    """Return the layers that `Layers.canonical` wrote."""
    return Layers(msgspec.json.decode(canonical, type=tuple[Layer, ...]))


def declared_in(canonical: str) -> dict[str, RetentionRule]:
    """Return the rules of the tools' own definitions, from layers that were kept in a log."""
    return {layer.pattern: layer.rule for layer in layers_from(canonical).layers if layer.source == "definition"}


def rule_from(table: Mapping[str, Any], where: str) -> RetentionRule:
    """Return the rule of plain data, such as a tool list has. `BadPolicy` names `where` if it is wrong."""
    try:
        return msgspec.convert(dict(table), RetentionRule)
    except (msgspec.ValidationError, BadPolicy) as error:
        raise BadPolicy(f"{where}: {error}") from None


def _table(source: str, scenario: Scenario) -> Iterator[Layer]:
    for name, kit in sorted(scenario.toolkits.items()):
        rule = RetentionRule(**{field: getattr(kit, field) for field in RetentionRule.__struct_fields__})
        yield from (Layer(f"{source}, toolkit {name}", pattern, rule) for pattern in kit.tools)
    names = sorted(scenario.tools, key=lambda name: (not _is_pattern(name), name))  # patterns first, exact names last
    yield from (Layer(f"{source}, {name}", name, scenario.tools[name]) for name in names)


def _is_pattern(name: str) -> bool:
    return any(mark in name for mark in "*?[")


def _literal(name: str) -> str:
    """Return the pattern that matches exactly this name."""
    return "".join(f"[{mark}]" if mark in "*?[" else mark for mark in name)
