"""Show the policy that holds: budget, stages, compaction, recall, and each tool's retention with the layer it comes from.

`foveal policy show [TOOL…]`. Layers, the lowest first: built in, definition, toolkit, pattern, exact name, scenario, call.
`definition` and `call` are set in code, so `policy show` cannot list them.
"""

import os
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, cast

import msgspec

from foveal.analysis.replay.replay import DEFAULT_MODEL
from foveal.cli.arguments import add_json
from foveal.cli.output import Output
from foveal.models.catalogue import ModelFacts, find
from foveal.project.retention_layers import Layers
from foveal.session.model_setup import SCENARIO, budget_of
from foveal.session.policy import Compact, Policy
from foveal.session.policy_file import read_policy
from foveal.values.budget import Budget
from foveal.values.errors import BadPolicy
from foveal.values.retention import Retention


def configure(parser: ArgumentParser) -> None:
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    show = commands.add_parser("show", help="print the effective policy", description=__doc__, allow_abbrev=False)
    show.add_argument("tools", metavar="TOOL", nargs="*", help="beside the tools that the policy names")
    show.add_argument(
        "--policy", metavar="FILE", type=Path, help="a policy in TOML or YAML (default: the built-in one)"
    )
    show.add_argument("--scenario", metavar="NAME", help=f"one of the policy's scenarios (default: ${SCENARIO})")
    show.add_argument("--model", metavar="M", default=DEFAULT_MODEL, help=f"(default: {DEFAULT_MODEL})")
    add_json(show)


def run(args: Namespace, out: Output) -> None:
    policy = read_policy(args.policy) if args.policy else Policy()
    source = str(args.policy) if args.policy else "the built-in policy"
    scenario = args.scenario or os.environ.get(SCENARIO) or None
    try:
        layers = policy.layers(scenario)
        facts = find(args.model, policy.models)
        budget = budget_of(policy, facts)
    except BadPolicy as error:
        raise BadPolicy(f"{source}: {error}") from None
    names = dict.fromkeys((*args.tools, *(layer.pattern for layer in layers.layers)))
    tools = {tool: _retention(layers, tool) for tool in names}
    if out.is_json:
        out.document(_document(policy, facts, budget, tools) | {"policy": source, "scenario": scenario})
        return
    out.line(f"{source}{f', scenario {scenario}' if scenario else ''}", "strong")
    _print_budget(facts, budget, out)
    _print_stages(policy, out)
    _print_compact(policy.compact, out)
    out.line()
    out.line(f"recall tools: {'offered while something is shown below full' if policy.recall else 'not offered'}")
    out.line()
    if tools:
        rows = [
            (tool * (place == 0), name, _plain(one["value"]), one["from"])
            for tool, values in tools.items()
            for place, (name, one) in enumerate(values.items())
        ]
        out.table(("tool", "retention", "value", "from"), rows, "llll")
    else:
        out.wrapped("No tool is named: every result starts full and may be covered. Name a TOOL to see its values.")


def _retention(layers: Layers, tool: str) -> dict[str, dict[str, Any]]:
    """Return each value of a tool's retention with the layer that it comes from."""
    # A pattern need not match its own text (`[ab]*`), but its own layer applies to its line.
    own = (msgspec.structs.replace(one, pattern="*") if one.pattern == tool else one for one in layers.layers)
    about = Layers(tuple(own))
    retention, sources = about.of(tool), about.sources(tool)
    names = Retention.__struct_fields__
    return {name: {"value": getattr(retention, name), "from": sources[name]} for name in names}


def _plain(value: object) -> str:
    match value:
        case None | "" | ():
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case tuple():
            return ", ".join(map(str, cast("tuple[object, ...]", value)))
        case _:
            return str(value)


def _print_budget(facts: ModelFacts, budget: Budget, out: Output) -> None:
    out.line()
    output = "" if facts.max_output is None else f", output {facts.max_output:,}"
    out.line(f"budget for {facts.id}: input limit {facts.max_input:,} (window {facts.window:,}{output})")
    names = [*Budget.__struct_fields__, "sendable"]
    given = [(name, value) for name in names if (value := getattr(budget, name)) is not None]
    out.table(("", ""), [(f"  {name}", f"{value:,}") for name, value in given], "lr")
    for note in facts.notes:
        out.wrapped(note, "  ")


def _print_stages(policy: Policy, out: Output) -> None:
    out.line()
    out.line("stages, in order")
    rows: list[tuple[str, str]] = []
    for number, stage in enumerate(policy.stages, 1):
        options = ((name, getattr(stage, name)) for name in stage.__struct_fields__)
        said = (f"{name} {_plain(value)}" for name, value in options)
        rows.append((f"  {number}. {stage.__struct_config__.tag}", "; ".join(said)))
    out.table(("", ""), rows, "ll")


def _print_compact(compact: Compact, out: Output) -> None:
    out.line()
    out.line("compaction")
    named = {**_compact(compact), "summariser": compact.summariser or "none: code writes summaries"}
    out.table(("", ""), [(f"  {name}", _plain(value)) for name, value in named.items()], "ll")


def _compact(compact: Compact) -> dict[str, Any]:
    """Return every value, defaults included."""
    return {name: getattr(compact, name) for name in Compact.__struct_fields__}


def _document(policy: Policy, facts: ModelFacts, budget: Budget, tools: dict[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "model": facts.id,
        "window": facts.window,
        "input_limit": facts.max_input,
        "budget": msgspec.to_builtins(budget) | {"sendable": budget.sendable},
        "stages": msgspec.to_builtins(policy.stages, enc_hook=str),
        "compact": _compact(policy.compact),
        "recall": policy.recall,
        "tools": tools,
    }
