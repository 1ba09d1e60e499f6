"""A provider's counts beside ours: how the two are related, and our bills in its counts.

A recording often lacks the system prompt and the tools of its client, which the provider counted with every call, and our
vocabulary may not be the model's own. Both must be in a bill that is to be compared with the recorded one.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from foveal.analysis.replay.bills import Bill, RecordedBill
from foveal.models.catalogue import ModelFacts, cost_usd

_LEAST_PAIRS = 8
_LEAST_SPREAD = 1.5
"""A line through fewer calls, or through prompts of nearly one length, says nothing."""
_RATIOS = (0.8, 2.0)
"""Vocabularies of today's models differ by less than this."""


class ProviderCounts(msgspec.Struct, frozen=True):
    """The provider's count of a prompt: a fixed part that is not in the log, and ours of the rest times a ratio."""

    fixed: int = 0
    ratio: float = 1.0

    def of(self, tokens: int) -> int:
        return self.fixed + round(self.ratio * tokens)

    def usd(self, bill: Bill, output_tokens: int, facts: ModelFacts, *, fixed_cached: int) -> float | None:
        """Return the price of a call in the provider's counts. `fixed_cached` is the cached share of the fixed part, which leads
        the prompt."""
        cached = round(self.ratio * bill.cached) + min(self.fixed, fixed_cached)
        return cost_usd(facts, cached, max(0, self.of(bill.tokens) - cached), output_tokens)


class RecordedCall(NamedTuple):
    """A call that the provider counted, and our bills for it."""

    sent: Bill | None
    """None if no prompt could have been sent."""
    whole: Bill | None
    """None if the model does not take the whole history."""
    recorded: RecordedBill


def provider_bills(
    calls: Sequence[RecordedCall],
    counts: ProviderCounts,
    facts: ModelFacts,
    *,
    recorded_usd: float | None,
    is_compacted: bool,
) -> tuple[float | None, float | None]:
    """Return the bills of the prompts and of the whole history in the provider's counts: only so can they be compared with the
    recorded bill. `is_compacted` says that the client did not send its whole history."""

    def price(call: RecordedCall, bill: Bill | None) -> float | None:
        cached = call.recorded.cached if call is calls[0] else counts.fixed
        return counts.usd(bill, call.recorded.output_tokens, facts, fixed_cached=cached) if bill else 0.0

    sent, whole = _sum(price(call, call.sent) for call in calls), _sum(price(call, call.whole) for call in calls)
    if sent is None or not whole or not recorded_usd or is_compacted or any(call.whole is None for call in calls):
        return sent, whole
    # The client sent its whole history, so its price is known; pauses and other errors of ours fall out of the ratio.
    return recorded_usd * sent / whole, recorded_usd


def _sum(prices: Iterable[float | None]) -> float | None:
    known = list(prices)
    return None if None in known else sum(usd for usd in known if usd is not None)


def provider_counts(pairs: Sequence[tuple[int, int]]) -> ProviderCounts:
    """Return how the second counts of the pairs follow from the first: ours and the provider's, of the same whole prompts."""
    if not pairs:
        return ProviderCounts()
    ours, theirs = [one for one, _ in pairs], [other for _, other in pairs]
    if len(pairs) >= _LEAST_PAIRS and max(ours) >= _LEAST_SPREAD * max(1, min(ours)):
        middle, level = sum(ours) / len(ours), sum(theirs) / len(theirs)
        spread = sum((one - middle) ** 2 for one in ours)
        ratio = sum((one - middle) * (other - level) for one, other in pairs) / spread
        fixed = level - ratio * middle
        if _RATIOS[0] <= ratio <= _RATIOS[1] and fixed >= 0:
            return ProviderCounts(round(fixed), ratio)
    return ProviderCounts(max(0, min(other - one for one, other in pairs)))
