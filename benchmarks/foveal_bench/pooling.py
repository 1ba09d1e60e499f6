"""Outcomes pooled over sessions: shares, costs under each price list, and their 95 % intervals."""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import pairwise

import msgspec

from foveal.analysis.measurement.grounding import FAR
from foveal.analysis.measurement.outcome import AGES, Figures, PolicyOutcome
from foveal.analysis.measurement.shares import Interval, interval, share
from foveal.analysis.replay.bills import bill
from foveal.models.catalogue import ModelFacts, find

PRICE_MODELS = {"anthropic": "claude-sonnet-4-5", "openai": "gpt-5", "openai, 2025": "gpt-4.1"}
"""The price lists: reading the cache costs 0.1, 0.1 and 0.25 of fresh input, writing it 1.25, 1 and 1."""

MAIN_PRICES = "anthropic"


class Cost(msgspec.Struct, frozen=True):
    """USD for the prompts of a policy, and for the whole history in the same calls."""

    sent: float
    raw: float

    @property
    def ratio(self) -> float:
        return self.sent / self.raw if self.raw else 1.0


class Row(msgspec.Struct, frozen=True):
    """One policy under one budget, over some sessions."""

    policy: str
    budget: int
    group: str
    sessions: int
    figures: Figures
    cost: dict[str, float]
    """Ratio to the whole history, by price list."""
    grounding: float
    on_offer: float
    complete: float
    short_range: float
    cached: float
    listed: float
    """The share of sent tokens in bare lists of names."""
    cpu_ms: float
    """CPU time for each call."""
    by_age: tuple[float, ...]
    grounding_interval: Interval
    cost_interval: Interval
    explained: float | None = None
    """What the prompt adds to the newest messages, as a share of what everything adds; None where it was not measured."""
    explained_interval: Interval | None = None
    failures: tuple[str, ...] = ()


@cache
def price_facts(name: str) -> ModelFacts:
    """Return a price list without the surcharge for long input, which would make the whole history look dearer than it is."""
    return msgspec.structs.replace(find(PRICE_MODELS[name]), long_prices=None)


def cost_of(outcome: PolicyOutcome, prices: str) -> Cost:
    """Return the cost of one session's input under a price list. Refused calls are in neither bill."""
    facts = price_facts(prices)
    sent = raw = 0.0
    for tokens, shared, raw_tokens, raw_shared in outcome.tokens:
        sent += bill(facts, tokens, shared).cost_usd or 0.0
        raw += bill(facts, raw_tokens, raw_shared).cost_usd or 0.0
    return Cost(sent, raw)


def row_of(outcomes: Sequence[PolicyOutcome], group: str) -> Row:
    """Return the row of these sessions, all of one policy and budget."""
    one, figures = outcomes[0], added(outcome.figures for outcome in outcomes)
    costs = {name: [cost_of(outcome, name) for outcome in outcomes] for name in PRICE_MODELS}
    shown = [(outcome.figures.far_shown, outcome.figures.far) for outcome in outcomes]
    gained = [explained_of(outcome.figures) for outcome in outcomes]
    is_gauged = any(whole for _, whole in gained)
    return Row(
        policy=one.policy,
        budget=one.budget,
        group=group,
        sessions=len(outcomes),
        figures=figures,
        cost={name: share((cost.sent, cost.raw) for cost in of_name) for name, of_name in costs.items()},
        grounding=share(shown),
        on_offer=_part(figures.far_offered, figures.far),
        complete=_part(figures.complete, figures.actions),
        short_range=_part(figures.near_shown, figures.near),
        cached=_part(figures.shared_tokens, figures.sent_tokens),
        listed=_part(figures.list_tokens, figures.sent_tokens, empty=0.0),
        cpu_ms=_part(1_000 * figures.cpu_s, figures.calls, empty=0.0),
        by_age=tuple(_part(shown, all_) for shown, all_ in zip(figures.ages_shown, figures.ages, strict=True)),
        grounding_interval=interval(shown),
        cost_interval=interval([(cost.sent, cost.raw) for cost in costs[MAIN_PRICES]]),
        explained=share(gained) if is_gauged else None,
        explained_interval=interval(gained) if is_gauged else None,
        failures=tuple(dict.fromkeys(outcome.failed for outcome in outcomes if outcome.failed)),
    )


def explained_of(figures: Figures) -> tuple[float, float]:
    """Return the bytes that the prompt saves beyond the newest messages, and those that the whole history would save."""
    return figures.near_bytes - figures.prompt_bytes, figures.near_bytes - figures.everything_bytes


def added(figures: Iterable[Figures]) -> Figures:
    total = Figures()
    for one in figures:
        for name in Figures.__struct_fields__:
            mine, other = getattr(total, name), getattr(one, name)
            match name:
                case "largest":
                    total.largest = max(mine, other)
                case "ages" | "ages_shown":
                    setattr(total, name, [a + b for a, b in zip(mine, other, strict=True)])
                case _:
                    setattr(total, name, mine + other)
    return total


def _part(part: float, whole: float, *, empty: float = 1.0) -> float:
    return part / whole if whole else empty


AGE_NAMES = (*(f"{low}–{high}" for low, high in pairwise((FAR, *AGES))), f"over {AGES[-1]}")
