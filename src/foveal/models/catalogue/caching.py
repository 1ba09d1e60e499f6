"""The cache rules of each provider: the facts that decide whether a stable prefix of a prompt pays.

Prices of cached tokens come from the price data where it has them; the multipliers here, on the price of fresh input, are
used where it has not. `cache_minimum` of a model in the price data wins over the provider's minimum here.
"""

import re
from functools import lru_cache

import msgspec


class CacheRules(msgspec.Struct, frozen=True):
    """The rules of one provider, or of one generation of its models."""

    minimum_tokens: int  # a shorter prefix is silently not cached
    block_tokens: int  # hits come in steps of this many tokens
    read_multiplier: float
    write_multiplier: float
    ttl_s: int | None  # since the last hit; None where the provider promises nothing


# Write 1.25 times for five minutes, read a tenth: the provider's caching guide. 4 096 is the largest minimum of all its models,
# for those that the price data does not know.
_ANTHROPIC = CacheRules(minimum_tokens=4_096, block_tokens=1, read_multiplier=0.1, write_multiplier=1.25, ttl_s=300)
# Automatic from 1 024 tokens in steps of 128. The price data has the discount (half to 90 %) of every model that gives one;
# those it has none for, such as the "pro" models, give none.
_OPENAI = CacheRules(minimum_tokens=1_024, block_tokens=128, read_multiplier=1.0, write_multiplier=1.0, ttl_s=300)
# From GPT-5.6 on writes are billed.
_OPENAI_BILLED_WRITES = msgspec.structs.replace(_OPENAI, write_multiplier=1.25, ttl_s=1_800)
# Implicit hits are not promised; 4 096 is the largest of the minimums its pages give (1 024, 2 048, 4 096).
_GEMINI = CacheRules(minimum_tokens=4_096, block_tokens=1, read_multiplier=0.1, write_multiplier=1.0, ttl_s=None)
_GEMINI_2_0 = msgspec.structs.replace(_GEMINI, read_multiplier=0.25)
_DEEPSEEK = CacheRules(minimum_tokens=64, block_tokens=64, read_multiplier=0.1, write_multiplier=1.0, ttl_s=None)
# Nothing is known, so nothing is promised: cached input costs as much as fresh.
_UNKNOWN = CacheRules(minimum_tokens=1_024, block_tokens=1, read_multiplier=1.0, write_multiplier=1.0, ttl_s=None)

# The minimums that the caching guide gives by model, for ids without one in the price data.
_ANTHROPIC_MINIMUMS = (
    (re.compile(r"sonnet-4-[05]|sonnet-4(?!-\d)|3-7-sonnet|opus-4-[01]|opus-4(?!-\d)"), 1_024),
    (re.compile(r"sonnet-4-6|fable-5|3-5-haiku|3-haiku"), 2_048),
)
_GPT_VERSION = re.compile(r"gpt-(\d+)(?:[.-](\d)(?!\d))?")


@lru_cache(maxsize=256)  # asked for with every bill, and a page holds the bills of thousands of calls
def cache_rules(provider: str, model: str) -> CacheRules:
    """Return the rules for a model of a provider ("openai", "anthropic", "google", "deepseek"; anything else is unknown)."""
    name = model.lower()
    match provider:
        case "anthropic":
            minimum = next((tokens for pattern, tokens in _ANTHROPIC_MINIMUMS if pattern.search(name)), None)
            return msgspec.structs.replace(_ANTHROPIC, minimum_tokens=minimum) if minimum else _ANTHROPIC
        case "openai":
            return _openai(name)
        case "google":
            return _GEMINI_2_0 if "gemini-2.0" in name or "gemini-1" in name else _GEMINI
        case "deepseek":
            return _DEEPSEEK
        case _:
            return _UNKNOWN


def _openai(name: str) -> CacheRules:
    found = _GPT_VERSION.search(name)
    generation = None if found is None else (int(found[1]), int(found[2] or 0))
    return _OPENAI if generation is None or generation < (5, 6) else _OPENAI_BILLED_WRITES
