"""The cost of a model call."""

from foveal.models.catalogue import cost_usd, find
from foveal.values.entry import Usage


def usage_usd(usage: Usage) -> float | None:
    """Return the cost of one call; None if its model has no known price."""
    facts = find(usage.model)
    if not facts.known:
        return None
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    return cost_usd(facts, read, written, usage.output_tokens, fresh=max(0, usage.input_tokens - read - written))
