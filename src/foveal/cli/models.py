"""List the models whose windows and prices are known.

Without a pattern: those of the providers whose key is set, or else some. Prices are in USD for a million tokens.
A pattern is part of an id, or has `*` and `?` in it.
"""

import os
from argparse import ArgumentParser, Namespace
from fnmatch import fnmatchcase

from foveal.agent.providers import FACTS
from foveal.cli.agent_options import USUAL_MODELS
from foveal.cli.arguments import add_json
from foveal.cli.output import Output
from foveal.models.catalogue import ModelFacts, all_models, data_about, find
from foveal.values.errors import NotFound

_HEAD = ("model", "input limit", "window", "output", "input $", "output $", "cache read $", "write $")


def configure(parser: ArgumentParser) -> None:
    parser.add_argument("pattern", metavar="PATTERN", nargs="?", default="")
    parser.add_argument("--all", action="store_true", help="all of them, and not those of providers whose key is set")
    add_json(parser)


def run(args: Namespace, out: Output) -> None:
    found = _matching(args.pattern) if args.pattern or args.all else _usable()
    if out.is_json:
        out.document({"models": found, "about": data_about()})
        return
    rows = [_row(facts) for facts in found]
    out.table(_HEAD, rows, "lrrrrrrr")
    for note in dict.fromkeys(f"{facts.id}: {note}" for facts in found for note in facts.notes):
        out.wrapped(note)
    for facts in found:
        if facts.long_prices and len(found) == 1:
            out.wrapped(f"{facts.id}: dearer above {facts.long_prices.above:,} tokens of input")
    if not args.pattern and not args.all:
        out.line(
            f"Of {len(all_models()):,} models, those of providers whose key is set, or else some; --all lists all."
        )
    about = data_about()
    out.line(
        f"{len(found):,} model{'s' * (len(found) > 1)}; "
        + ", ".join(f"{key} {_plain(value)}" for key, value in about.items())
    )


def _usable() -> list[ModelFacts]:
    """Return the models of the providers whose key is set; those that agents take by default, if none is."""
    usable = {name for name, facts in FACTS.items() if any(os.environ.get(key) for key in facts.key_names)}
    found = [facts for facts in all_models() if facts.provider in usable]
    return found or [find(model) for model in dict.fromkeys(USUAL_MODELS.values())]


def _matching(pattern: str) -> list[ModelFacts]:
    wanted = pattern.lower()
    is_glob = any(sign in wanted for sign in "*?")
    listed = [
        facts for facts in all_models() if (fnmatchcase(facts.id, wanted) if is_glob else wanted in facts.id.lower())
    ]
    if listed:
        return listed
    facts = find(pattern)  # another spelling: a host's prefix, a date
    if not facts.known:
        raise NotFound(f"no model matches {pattern!r}; {' '.join(facts.notes)}")
    return [facts]


def _row(facts: ModelFacts) -> tuple[str, ...]:
    prices = (facts.price_input, facts.price_output, facts.price_cache_read, facts.price_cache_write)
    output = "unknown" if facts.max_output is None else f"{facts.max_output:,}"
    return (
        facts.id,
        f"{facts.max_input:,}",
        f"{facts.window:,}",
        output,
        *("unknown" if p is None else f"{p:,.4g}" for p in prices),
    )


def _plain(value: str | list[str]) -> str:
    return value if isinstance(value, str) else ", ".join(value)
