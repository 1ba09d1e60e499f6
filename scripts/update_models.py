"""Write src/foveal/models/catalogue/models.json from the price and window data of two maintained packages.

    python scripts/update_models.py [--litellm path/to/model_prices_and_context_window_backup.json] [--litellm-version 1.2.3]

genai-prices (installed with the dev extra) leads for prices; litellm's table, read as a file so that nothing needs that
package, adds what only it has: input and output limits, cache minimums, and models the other lacks. Both are MIT. Where
they disagree the report says so: prices are genai-prices', and of two windows the smaller limits the input.
"""

import argparse
import datetime
import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from genai_prices.data import providers as genai_providers
from genai_prices.types import (
    ClauseEquals,
    ClauseOr,
    ClauseStartsWith,
    ConditionalPrice,
    TieredPrices,
    TimeOfDateConstraint,
)

from foveal.models.catalogue.table import normalised, undated

TARGET = Path(__file__).parents[1] / "src" / "foveal" / "models" / "catalogue" / "models.json"
Row = dict[str, Any]


class Source(NamedTuple):
    """Where one provider's models are found: the provider's name in each source, and litellm's id prefixes."""

    genai: str | None
    litellm: tuple[str, ...]
    prefixes: tuple[str, ...] = ()


SOURCES = {
    "openai": Source("openai", ("openai",)),
    "anthropic": Source("anthropic", ("anthropic",)),
    "google": Source("google", ("gemini", "vertex_ai-language-models"), ("gemini/",)),
    "amazon": Source("aws", ("bedrock", "bedrock_converse")),
    "cerebras": Source("cerebras", ("cerebras",), ("cerebras/",)),
    "cohere": Source("cohere", ("cohere_chat",)),
    "deepseek": Source("deepseek", ("deepseek",), ("deepseek/",)),
    "fireworks": Source("fireworks", ("fireworks_ai",), ("fireworks_ai/accounts/fireworks/models/", "fireworks_ai/")),
    "groq": Source("groq", ("groq",), ("groq/",)),
    "meta": Source("meta", ("meta",), ("meta/",)),
    "minimax": Source("minimax", ("minimax",), ("minimax/",)),
    "mistral": Source("mistral", ("mistral",), ("mistral/",)),
    "moonshot": Source("moonshotai", ("moonshot",), ("moonshot/",)),
    "qwen": Source(None, ("dashscope",), ("dashscope/",)),
    "together": Source("together", ("together_ai",), ("together_ai/",)),
    "xai": Source("x-ai", ("xai",), ("xai/",)),
    "zai": Source("zai", ("zai",), ("zai/",)),
}
# Hosts that sell everybody's models: of these only their own are taken, the others are found at their makers.
OWN_MODELS = {"amazon": re.compile(r"^amazon\.nova-(?!.*sonic)"), "google": re.compile(r"^(?:gemini|gemma)")}
NOT_CHAT = re.compile(
    r"embed|tts|whisper|transcri|image|audio|realtime|moderation|ocr|voice|[-/]live|rerank|guard|robotics|banana|voxtral"
    r"|orpheus|davinci|curie|babbage|^ada$|^ft:|lyria|gemini-exp|learnlm|together-ai-|:free$|:extended$|\.ft-|sam-3"
)
FLAT_PRICES = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cache_read": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
}
LITELLM_PRICES = {
    "input": "input_cost_per_token",
    "output": "output_cost_per_token",
    "cache_read": "cache_read_input_token_cost",
    "cache_write": "cache_creation_input_token_cost",
}
OPENAI_WHOLE_WINDOWS = (400_000, 1_000_000, 1_050_000)  # of GPT-5 and later
LONG = re.compile(r"_above_(\d+)k_tokens$")


def active_price(prices: Any, today: datetime.date) -> Any:
    """The price in force: the last whose start date has come, or a dearer one that applies at some hours of the day."""
    if not isinstance(prices, list):
        return prices
    found = None
    for each in prices:
        assert isinstance(each, ConditionalPrice)
        if isinstance(each.constraint, TimeOfDateConstraint):
            if found is None or base_price(each.prices.input_mtok) > base_price(found.input_mtok):
                found = each.prices
        elif each.constraint is None or each.constraint.start_date <= today:
            found = each.prices
    return found


def base_price(price: Any) -> float:
    return float(price.base if isinstance(price, TieredPrices) else price or 0)


def genai_row(model: Any, today: datetime.date) -> Row | None:
    price = active_price(model.prices, today)
    if price is None:
        return None
    row: Row = {}
    long: Row = {}
    for name, key in FLAT_PRICES.items():
        value = getattr(price, key)
        if isinstance(value, TieredPrices):
            tier = value.tiers[0]
            long |= {"above": tier.start, name: float(tier.price)}
            value = value.base
        if value is not None:
            row[name] = float(value)
    if "input" not in row or "output" not in row:
        return None
    if long:
        row["long"] = long
    if model.context_window:
        row["window"] = model.context_window
    return row


def aliases(match: Any) -> list[str]:
    if isinstance(match, ClauseOr):
        return [alias for clause in match.or_ for alias in aliases(clause)]
    if isinstance(match, ClauseEquals):
        return [match.equals]
    return [match.starts_with] if isinstance(match, ClauseStartsWith) else []


def per_million(usd_per_token: float) -> float:
    return round(usd_per_token * 1e6, 6)


def litellm_row(entry: Row) -> Row:
    row: Row = {name: per_million(entry[key]) for name, key in LITELLM_PRICES.items() if entry.get(key)}
    if listed := entry.get("tiered_pricing"):
        return row | limits_of(entry) | listed_tiers(listed)
    tiers = sorted({int(found[1]) for key in entry if (found := LONG.search(key))})
    if tiers:
        tail = f"_above_{tiers[0]}k_tokens"
        row["long"] = {"above": tiers[0] * 1_000} | {
            name: per_million(entry[key + tail]) for name, key in LITELLM_PRICES.items() if entry.get(key + tail)
        }
    row |= limits_of(entry)
    if entry.get("mode") == "responses":
        row["dialect"] = "openai_responses"
    return row


def limits_of(entry: Row) -> Row:
    names = {
        "max_input": "max_input_tokens",
        "max_output": "max_output_tokens",
        "cache_minimum": "prompt_cache_min_tokens",
    }
    return {name: int(entry[key]) for name, key in names.items() if entry.get(key)}


def listed_tiers(listed: list[Row]) -> Row:
    """The other spelling of tiers: a list with ranges. The first is the base, the second the long tier."""
    tiers = [{name: per_million(tier[key]) for name, key in LITELLM_PRICES.items() if tier.get(key)} for tier in listed]
    above = int(listed[0].get("range", (0, 0))[1])
    return tiers[0] | ({"long": {"above": above} | tiers[1]} if len(tiers) > 1 and above else {})


def read_genai(provider: str, source: Source, today: datetime.date) -> dict[str, tuple[str, Row]]:
    found: dict[str, tuple[str, Row]] = {}
    for each in genai_providers:
        if each.id != source.genai:
            continue
        for model in each.models:
            row = genai_row(model, today)
            if row is None or not wanted(provider, model.id):
                continue
            own = normalised(model.id)
            names = {normalised(name) for name in aliases(model.match)} - {own}
            names = sorted(
                name for name in names if undated(name) != own and not name.startswith("ft:") and len(name) > 3
            )
            found[own] = model.id, row | ({"aliases": names} if names else {})
    return found


def read_litellm(provider: str, source: Source, data: dict[str, Row]) -> dict[str, tuple[str, Row]]:
    found: dict[str, tuple[str, Row]] = {}
    for where in reversed(source.litellm):  # the first named provider is the better source and overwrites
        for key, entry in data.items():
            if entry.get("litellm_provider") != where or entry.get("mode") not in ("chat", "responses"):
                continue
            name = next((key.removeprefix(prefix) for prefix in source.prefixes if key.startswith(prefix)), key)
            if wanted(provider, name):
                found[normalised(name)] = name, litellm_row(entry)
    return found


def wanted(provider: str, name: str) -> bool:
    own = OWN_MODELS.get(provider)
    return not NOT_CHAT.search(name.lower()) and (own is None or bool(own.search(name.lower())))


def merged(label: str, first: Row, second: Row, report: list[str]) -> Row:
    """genai-prices' row completed by litellm's; what differs goes to the report."""
    for name in FLAT_PRICES:
        ours, theirs = first.get(name), second.get(name)
        if ours is not None and theirs is not None and abs(ours - theirs) > 1e-6:
            report.append(f"price   {label}: {name} {ours} (genai-prices, taken) against {theirs} (litellm)")
    window, max_input = first.get("window"), second.get("max_input")
    if window and max_input and window != max_input:
        taken = "litellm's limits the input" if max_input < window else "the smaller is taken"
        report.append(f"window  {label}: {window} (genai-prices) against max input {max_input} (litellm): {taken}")
    if first:  # cache prices of one source do not go with the input price of the other
        second = {key: value for key, value in second.items() if key not in (*FLAT_PRICES, "long")}
    return second | first


def finished(provider: str, row: Row) -> Row:
    """Windows made consistent: `window` is the whole, `max_input` is kept only where it is smaller."""
    row = dict(row)
    window = row.setdefault("window", row.get("max_input"))
    if window is None:
        del row["window"]
    elif row.get("max_input", window) >= window:
        row.pop("max_input", None)
    # These hold input and output together, which their sources give inconsistently: the reply's share is taken off.
    if provider == "openai" and window in OPENAI_WHOLE_WINDOWS and "max_output" in row:
        row["max_input"] = min(row.get("max_input", window), window - row["max_output"])
    dialect = {"anthropic": "anthropic", "google": "gemini"}.get(provider)
    if dialect:
        row["dialect"] = dialect
    return {key: row[key] for key in ORDER if key in row}


ORDER = (
    *("window", "max_input", "max_output", "input", "output", "cache_read", "cache_write", "long"),
    *("cache_minimum", "dialect", "aliases"),
)


def build(litellm: dict[str, Row], today: datetime.date, report: list[str]) -> dict[str, Row]:
    models: dict[str, Row] = {}
    for provider, source in SOURCES.items():
        first, second = read_genai(provider, source, today), read_litellm(provider, source, litellm)
        rows: dict[str, Row] = {}
        for name in first.keys() | second.keys():
            shown = (first.get(name) or second[name])[0]
            row = merged(f"{provider}/{shown}", first.get(name, ("", {}))[1], second.get(name, ("", {}))[1], report)
            if "input" in row or "window" in row or "max_input" in row:
                rows[shown] = finished(provider, row)
        models |= {f"{provider}/{name}": row for name, row in without_dated_copies(rows).items()}
    return models


def without_dated_copies(rows: dict[str, Row]) -> dict[str, Row]:
    """Leaves out "gpt-x-2025-01-01" where it costs the same as "gpt-x": the lookup strips dates by itself."""
    costs = {normalised(name): (row.get("input"), row.get("output")) for name, row in rows.items()}
    return {
        name: row
        for name, row in rows.items()
        if (plain := undated(own := normalised(name))) == own or costs.get(plain) != costs[own]
    }


def text(about: Row, models: dict[str, Row]) -> str:
    lines = [
        f"{json.dumps(name)}: {json.dumps(models[name], separators=(', ', ': '))}"
        for name in sorted(models, key=str.lower)
    ]
    return '{\n"about": ' + json.dumps(about) + ',\n"models": {\n' + ",\n".join(lines) + "\n}\n}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--litellm", type=Path, help="litellm's model_prices_and_context_window_backup.json")
    parser.add_argument("--litellm-version", default="unknown")
    parser.add_argument("--date", type=datetime.date.fromisoformat, default=datetime.datetime.now(datetime.UTC).date())
    options = parser.parse_args()
    litellm: dict[str, Row] = json.loads(options.litellm.read_text(encoding="utf-8")) if options.litellm else {}
    report: list[str] = []
    models = build(litellm, options.date, report)
    sources = [f"genai-prices {version('genai-prices')} (MIT)"]
    if litellm:
        sources.append(f"litellm {options.litellm_version} (MIT)")
    about = {"read": options.date.isoformat(), "sources": sources, "units": "tokens; USD per million tokens"}
    TARGET.write_text(text(about, models), encoding="utf-8")
    print("\n".join(sorted(report)))
    print(f"{len(models)} models, {TARGET.stat().st_size:,} bytes, {len(report)} disagreements")


if __name__ == "__main__":
    main()
