"""The table of models, found under any of the names that hosts give them.

The rules are tried in this order, and the note of the result says which one matched:

1. the id as given, or with its provider: "gpt-5", "openai/gpt-5";
2. without the host in front and its revision behind: "aws-claude-opus-4-5", "us.anthropic.claude-opus-4-5-v1:0";
3. without a date: "gpt-5-2025-08-07";
4. the longest known id it begins with, ending at a separator and not followed by a version number: "gpt-5-mini-acme" is
   "gpt-5-mini", but "gpt-4o" is not "gpt-4" and "claude-opus-4-9" is not "claude-opus-4".

Ids are compared in lower case with "-" for "." between digits, because hosts write both.
"""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypedDict

import msgspec

from foveal.models.catalogue.caching import cache_rules
from foveal.values.errors import BadPolicy

Dialect = Literal["openai_chat", "openai_responses", "anthropic", "gemini"]

UNKNOWN_WINDOW = 32_000  # the smallest window of models that agents are commonly run with


class LongPrices(msgspec.Struct, frozen=True):
    """Prices of all tokens once the input is longer than `above` tokens; None where the price stays the same."""

    above: int
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Limits in tokens, prices in USD per million tokens; None is unknown, never free."""

    id: str
    provider: str = "unknown"
    dialect: Dialect = "openai_chat"
    window: int = UNKNOWN_WINDOW
    max_input: int = UNKNOWN_WINDOW
    max_output: int | None = None
    price_input: float | None = None
    price_output: float | None = None
    price_cache_read: float | None = None
    price_cache_write: float | None = None
    long_prices: LongPrices | None = None
    cache_minimum: int = 1_024
    known: bool = False
    notes: tuple[str, ...] = ()


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line of the data file."""

    window: int | None = None
    max_input: int | None = None
    max_output: int | None = None
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    long: LongPrices | None = None
    cache_minimum: int | None = None
    dialect: Dialect = "openai_chat"
    aliases: tuple[str, ...] = ()


class _File(msgspec.Struct, frozen=True):
    about: dict[str, str | list[str]]
    models: dict[str, _Row]


class _Override(TypedDict, total=False):
    """The facts about a model that a policy file may replace; a field that it leaves out stays as found."""

    provider: str
    dialect: Dialect
    window: int
    max_input: int
    max_output: int
    price_input: float
    price_output: float
    price_cache_read: float
    price_cache_write: float
    cache_minimum: int


# Whose entry a bare id means when several sell the model: its makers, then the hosts.
_MAKERS = (
    "openai",
    "anthropic",
    "google",
    "deepseek",
    "mistral",
    "xai",
    "qwen",
    "moonshot",
    "zai",
    "meta",
    "minimax",
    "cohere",
)
_PROVIDER_NAMES = {
    "gemini": "google",
    "vertex_ai": "google",
    "x-ai": "xai",
    "together_ai": "together",
    "dashscope": "qwen",
}
_HOST = re.compile(
    r"^(?:(?:us|eu|apac|jp|au|ca|global|us-gov|anthropic|openai|google|meta|mistral|mistralai|deepseek|deepseek-ai|qwen|cohere"
    r"|moonshot|moonshotai|minimax|zai|z-ai|xai|x-ai)\."
    r"|(?:aws|azure|bedrock|vertex|gcp|google|openai|anthropic|databricks|snowflake|github|copilot)-)(?=[a-z])"
)
_REVISION = re.compile(r"(?:-v\d+(?::\d+)?(?::\d+k)?|:[a-z][a-z0-9-]*)$")  # "-v1:0", "-v2:0:200k", ":free", ":beta"
_DATE = re.compile(r"[-@](?:20\d{6}|20\d\d-\d\d-\d\d|\d\d-20\d\d|\d{4}|\d\d-\d\d|00\d|latest|default)$")
_DOT = re.compile(r"(?<=\d)\.(?=\d)")
_SEPARATOR = re.compile(r"[-@:._/]")
_VERSION_AHEAD = re.compile(r"[-@:._/]v?\d")


def normalised(model: str) -> str:
    """Return the id as it is compared; "gpt-35" is how one host must write "gpt-3.5"."""
    return _DOT.sub("-", model.strip().lower()).replace("gpt-35", "gpt-3-5")


def undated(name: str) -> str:
    """Return the id without its date, snapshot number or "latest" at the end."""
    return _DATE.sub("", name)


@cache
def _index() -> dict[str, str]:
    """Return the row key of every spelling, with and without its provider; the first to claim a spelling keeps it."""
    models = _data().models
    rank = {provider: place for place, provider in enumerate(_MAKERS)}
    keys = sorted(models, key=lambda key: (rank.get(_provider(key), len(rank)), key))
    index: dict[str, str] = {}
    for key in keys:
        index.setdefault(normalised(key), key)
    for key in keys:
        name = normalised(key.partition("/")[2])
        index.setdefault(name, key)
        index.setdefault(name.rpartition("/")[2], key)
    for key in keys:
        for alias in models[key].aliases:
            index.setdefault(alias, key)
            index.setdefault(f"{_provider(key)}/{alias}", key)
    return index


@cache
def _data() -> _File:
    return msgspec.json.decode(Path(__file__).with_name("models.json").read_bytes(), type=_File)


def _provider(key: str) -> str:
    return key.partition("/")[0]


def data_about() -> Mapping[str, str | list[str]]:
    """Return the sources that the table was made from, and the date."""
    return _data().about


def all_models() -> tuple[ModelFacts, ...]:
    """Return every model in the table under "provider/id", in that order."""
    return tuple(_facts(key, key, ()) for key in _data().models)


def find(model: str, overrides: Mapping[str, Mapping[str, object]] | None = None) -> ModelFacts:
    """Return the facts about a model id in any host's spelling; `overrides`, from a policy file, win field by field."""
    checked = {normalised(name): _override(name, fields) for name, fields in (overrides or {}).items()}
    found = _found(model)
    override = checked.get(normalised(model))
    return found if override is None else _overridden(found, override)


def _found(model: str) -> ModelFacts:
    for name, rule in _spellings(normalised(model)):
        key = _index().get(name)
        if key is not None:
            own = normalised(key)
            said = rule if own == name or own.endswith(f"/{name}") else f"{rule}, another name of"
            return _facts(model, key, (f"{said}: {key}",))
    prefix = _longest_prefix(normalised(model))
    if prefix is not None:
        key = _index()[prefix]
        return _facts(
            model, key, (f"no entry of its own; limits and prices are those of the id it begins with: {key}",)
        )
    note = f"unknown model: a window of {UNKNOWN_WINDOW:,} tokens is assumed and its prices are unknown; set them in the policy"
    return ModelFacts(id=model, notes=(note,))


def _spellings(name: str) -> Iterator[tuple[str, str]]:
    """Yield the names to look for, each with the rule that made it."""
    stripped = list(_without_host(name))
    yield name, "exact id"
    for each in stripped[1:]:
        yield each, "without host and revision"
    for each in stripped:
        once = undated(each)
        yield once, "without date"
        yield undated(once), "without date"


def _without_host(name: str) -> Iterator[str]:
    """Yield the name, then the name with one more piece of its host or revision removed, down to the bare id."""
    yield name
    head, slash, tail = name.partition("/")
    if slash and head in _PROVIDER_NAMES:
        yield f"{_PROVIDER_NAMES[head]}/{tail}"
    for pattern in (_HOST, _REVISION):
        shorter = pattern.sub("", name)
        if shorter != name:
            yield from _without_host(shorter)
    if slash and tail:
        yield from _without_host(tail)


def _longest_prefix(model: str) -> str | None:
    """Return the longest known id that `model` continues with a separator and something that is not a version."""
    best: str | None = None
    for name in _without_host(model):
        for cut in _SEPARATOR.finditer(name):
            prefix = name[: cut.start()]
            longer = best is None or len(prefix) > len(best)
            if longer and prefix in _index() and not _VERSION_AHEAD.match(name, cut.start()):
                best = prefix
    return best


def _facts(model: str, key: str, notes: tuple[str, ...]) -> ModelFacts:
    row, provider = _data().models[key], _provider(key)
    rules = cache_rules(provider, key)
    window = row.window
    if window is None:
        window = UNKNOWN_WINDOW
        notes += (f"its window is not in the data: {UNKNOWN_WINDOW:,} tokens are assumed; set it in the policy",)
    read, write = row.cache_read, row.cache_write
    if row.input is not None and read is None:
        read = row.input * rules.read_multiplier
        notes += (f"no cache price in the data: cached input counts {rules.read_multiplier:g} times the input price",)
    if row.input is not None and write is None:
        write = row.input * rules.write_multiplier
    return ModelFacts(
        id=model,
        provider=provider,
        dialect=row.dialect,
        window=window,
        max_input=window if row.max_input is None else row.max_input,
        max_output=row.max_output,
        price_input=row.input,
        price_output=row.output,
        price_cache_read=read,
        price_cache_write=write,
        long_prices=_long_prices(row, read, write),
        cache_minimum=rules.minimum_tokens if row.cache_minimum is None else row.cache_minimum,
        known=True,
        notes=notes,
    )


def _long_prices(row: _Row, read: float | None, write: float | None) -> LongPrices | None:
    """Return the long tier with its missing cache prices at the same share of the input price as in the base tier."""
    long = row.long
    if long is None or long.input is None or not row.input:
        return long
    rise = long.input / row.input
    return msgspec.structs.replace(
        long,
        cache_read=long.cache_read if long.cache_read is not None or read is None else read * rise,
        cache_write=long.cache_write if long.cache_write is not None or write is None else write * rise,
    )


def _override(model: str, fields: Mapping[str, object]) -> _Override:
    allowed = list(_Override.__annotations__)
    for key in fields:
        if key not in allowed:
            near = get_close_matches(key, allowed, n=1, cutoff=0.0)[0]
            raise BadPolicy(
                f"{key!r} is not a field of a model ({model!r}); did you mean {near!r}? Known: {', '.join(allowed)}"
            )
    try:
        override = msgspec.convert(fields, _Override)
    except msgspec.ValidationError as error:
        raise BadPolicy(f"the override of model {model!r} is not valid: {error}") from error
    for key in allowed:
        value = override.get(key)
        if isinstance(value, int | float) and (value < 0 or (value == 0 and isinstance(value, int))):
            raise BadPolicy(
                f"{key} of model {model!r} is {value}: token counts are above zero, prices are not negative"
            )
    return override


def _overridden(facts: ModelFacts, override: _Override) -> ModelFacts:
    """Return the facts with the given fields replaced; a value derived from a replaced field is derived anew."""
    given: dict[str, Any] = {**override}
    said = f"set by the policy: {', '.join(sorted(given))}"
    if "window" in given:
        given.setdefault("max_input", given["window"])
    if "price_input" in given:
        rules = cache_rules(given.get("provider", facts.provider), facts.id)
        given.setdefault("price_cache_read", given["price_input"] * rules.read_multiplier)
        given.setdefault("price_cache_write", given["price_input"] * rules.write_multiplier)
        given["long_prices"] = None
    known = facts.known or "window" in given
    kept = facts.notes if facts.known or not known else ()
    return msgspec.structs.replace(facts, **given, known=known, notes=(*kept, said))
