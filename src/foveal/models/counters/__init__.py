"""Token counts: the tokens of a text for a model, and the known error of the count.

    counter_for("gpt-5")            exact
    counter_for("claude-opus-4-5")  o200k_base times a measured factor, until usage calibrates it

A *counter* counts one vocabulary. A *factor* carries its counts to the safe upper side for a model whose vocabulary is
not public. A *calibration* learns the true factor from the usage that the provider reports. Counts never change: the
engine divides the budget's limit by the factor.
"""

from foveal.models.counters.calibration import factor_of
from foveal.models.counters.counter import Counter
from foveal.models.counters.encodings import encoding
from foveal.models.counters.families import ModelCounter, counter_for
from foveal.models.counters.images import has_end, image_size, image_tokens, image_type

__all__ = [
    "Counter",
    "ModelCounter",
    "counter_for",
    "encoding",
    "factor_of",
    "has_end",
    "image_size",
    "image_tokens",
    "image_type",
]
