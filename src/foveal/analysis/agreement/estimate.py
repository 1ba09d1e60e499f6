"""The price of an experiment: an estimate before anything is sent, and the bill of the answers afterwards."""

from collections.abc import Iterable

import msgspec

from foveal.analysis.agreement.sample import AskTerms, SampledCall
from foveal.analysis.replay.bills import recorded_bill
from foveal.models.catalogue import ModelFacts, cost_usd, find
from foveal.models.counters import counter_for
from foveal.recall.tools import MOST_CHARACTERS
from foveal.values.entry import Usage

ROUNDS = 3
"""Times that a model may recall before its next action: agents that recall more were not seen."""

RECALLED_TOKENS = MOST_CHARACTERS // 3
"""Tokens that a round of recall adds to the prompt at most, at three characters a token."""


class Estimate(msgspec.Struct, frozen=True):
    """The size and price of asking. USD are None where a price is not known."""

    requests: int = 0
    input_tokens: int = 0
    about_usd: float | None = 0.0
    """Nothing is read from a cache, replies are as long as the recorded ones, nothing is recalled."""
    most_usd: float | None = 0.0
    """Every reply is as long as it may be, and every folded prompt recalls as often as it may."""


def estimate(terms: AskTerms, asks: Iterable[tuple[SampledCall, bool]]) -> Estimate:
    """Return the price of asking with these prompts: each the whole one (False) or the folded one (True) of a call."""
    facts, factor = find(terms.model, terms.policy.models), counter_for(terms.model).factor
    total = Estimate()
    for call, is_folded in asks:
        tokens = round((call.folded_tokens if is_folded else call.whole_tokens) * factor)
        reply = min(terms.reply_tokens, round(call.recorded_tokens * factor))
        rounds = range(ROUNDS + 1 if is_folded else 1)
        added = round(RECALLED_TOKENS * factor) + terms.reply_tokens
        most = [_usd(facts, tokens + added * number, terms.reply_tokens) for number in rounds]
        total = Estimate(
            total.requests + 1,
            total.input_tokens + tokens,
            sum_usd((total.about_usd, _usd(facts, tokens, reply))),
            sum_usd((total.most_usd, *most)),
        )
    return total


def sum_usd(amounts: Iterable[float | None]) -> float | None:
    """Return the sum; None if any amount is unknown."""
    total = 0.0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


def usage_usd(terms: AskTerms, usage: Usage | None) -> float | None:
    """Return the price of one answered request, by the provider's own count; None where it reported none."""
    return recorded_bill(usage, find(terms.model, terms.policy.models)).cost_usd if usage else None


def _usd(facts: ModelFacts, tokens: int, output: int) -> float | None:
    """Return the price of a request of which nothing is in the cache yet; the dearer of entering it and not."""
    found = [cost_usd(facts, 0, tokens, output), cost_usd(facts, 0, 0, output, fresh=tokens)]
    known = [one for one in found if one is not None]
    return max(known) if known else None
