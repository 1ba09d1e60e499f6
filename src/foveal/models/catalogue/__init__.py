"""Windows and prices of models, from the data of maintained packages, made compact by `scripts/update_models.py`.

    facts = find("aws-claude-opus-4-5")
    facts.window, facts.price_input, facts.notes
    cost_usd(facts, cached=90_000, written=2_000, output=500)

Nothing is read before the first lookup. A model that is not in the table is said to be unknown, and so is its cost.
"""

from foveal.models.catalogue.caching import CacheRules, cache_rules
from foveal.models.catalogue.cost import cost_usd
from foveal.models.catalogue.table import LongPrices, ModelFacts, all_models, data_about, find

__all__ = ["CacheRules", "LongPrices", "ModelFacts", "all_models", "cache_rules", "cost_usd", "data_about", "find"]
