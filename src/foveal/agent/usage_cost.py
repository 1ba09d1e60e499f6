"""The cost of a model call."""

from collections.abc import Mapping
from typing import Any

from foveal.models.catalogue import cost_usd, find
from foveal.values.entry import Usage
from foveal.values.errors import BadPolicy


def usage_usd(usage: Usage, models: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return the cost of one call; None if its model has no known price. `models` are the facts that a policy has."""
    try:
        facts = find(usage.model, models)
    except BadPolicy:  # of a newer Foveal, in the log of its session
        return None
    if not facts.known:
        return None
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    return cost_usd(facts, read, written, usage.output_tokens, fresh=max(0, usage.input_tokens - read - written))
