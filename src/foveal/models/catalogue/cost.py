"""The cost of a call."""

from foveal.models.catalogue.table import LongPrices, ModelFacts

_NO_LONG_PRICES = LongPrices(above=0)


def cost_usd(facts: ModelFacts, cached: int, written: int, output: int, *, fresh: int = 0) -> float | None:
    """Return the USD for one call, or None when a price it needs is unknown.

    Input tokens are split as the provider bills them: `cached` were read from its cache, `written` entered it, `fresh` did
    neither. Where a model costs more above some length of input, all tokens of such a call do.
    """
    tier = facts.long_prices
    long = tier if tier is not None and cached + written + fresh > tier.above else _NO_LONG_PRICES
    bill = (
        (cached, long.cache_read, facts.price_cache_read),
        (written, long.cache_write, facts.price_cache_write),
        (fresh, long.input, facts.price_input),
        (output, long.output, facts.price_output),
    )
    total_usd = 0.0
    for tokens, long_price, price in bill:
        used = price if long_price is None else long_price
        if tokens and used is None:
            return None
        total_usd += tokens * (used or 0.0) / 1e6
    return total_usd
