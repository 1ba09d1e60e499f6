"""What calls would have cost: cached prefix, provider rules, prices.

The cached prefix of a call is what it shares with the call before it, message by message, from the first on; a provider caches
nothing below its minimum and in whole blocks. What is shared is read, the rest is written. Output is what was recorded, whoever
built the prompt.
"""

import msgspec

from foveal.models.catalogue import ModelFacts, cache_rules, cost_usd


class Bill(msgspec.Struct, frozen=True):
    """One call's input. `cost_usd` is None where a price is unknown."""

    tokens: int
    cached: int
    cost_usd: float | None


def bill(facts: ModelFacts, tokens: int, shared: int) -> Bill:
    """The input of one call, `shared` tokens of which the call before it had sent as well."""
    rules = cache_rules(facts.provider, facts.id)
    usable = shared - shared % rules.block_tokens
    cached = usable if usable >= max(facts.cache_minimum, rules.minimum_tokens) else 0
    return Bill(tokens, cached, cost_usd(facts, cached, tokens - cached, 0))
