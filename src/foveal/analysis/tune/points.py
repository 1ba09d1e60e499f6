"""The figures of every variant on every session, as the benchmark measures them, under one price list."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from foveal.analysis.measurement.case import MODEL, Case, Runner, Sent
from foveal.analysis.measurement.outcome import Job, PolicyOutcome
from foveal.analysis.measurement.session_runner import run_policy
from foveal.analysis.measurement.shares import share
from foveal.analysis.measurement.suite import run
from foveal.analysis.replay.bills import bill
from foveal.analysis.tune.grid import Variant
from foveal.models.catalogue import ModelFacts, find
from foveal.values.errors import BadInput


class Cell(msgspec.Struct, frozen=True):
    """One variant on one session: each figure as a part and its whole, so that sessions can be added up."""

    cost: tuple[float, float]
    """USD for the prompts, and for the whole history in the same calls."""
    grounding: tuple[float, float]
    complete: tuple[float, float]
    short_range: tuple[float, float]
    broken: int
    """Calls that were refused, over the budget or invalid."""


class TunePoint(msgspec.Struct, frozen=True):
    """One variant over some sessions."""

    cost: float
    """Ratio to sending the whole history."""
    grounding: float
    complete: float
    short_range: float
    broken: int


def point_of(cells: Sequence[Cell]) -> TunePoint:
    """Return the figures of one variant over these sessions."""
    return TunePoint(
        cost=share(cell.cost for cell in cells),
        grounding=share(cell.grounding for cell in cells),
        complete=share(cell.complete for cell in cells),
        short_range=share(cell.short_range for cell in cells),
        broken=sum(cell.broken for cell in cells),
    )


def price_list(text: str) -> ModelFacts:
    """Return the prices of a model, or those in `READ,WRITE`: of a token from the cache, and of any other."""
    numbers = text.split(",")
    if len(numbers) == 2:
        return _own_prices(text, numbers)
    facts = find(text)
    if facts.price_cache_read is None or not facts.price_cache_write:
        raise BadInput(
            f"{text!r} is free or its prices are not known; name another model (`foveal models`), or give the prices "
            "of cached and of other input, such as 0.3,3.75"
        )
    # As in the benchmark: with the surcharge for long input, the whole history would look dearer than it is for most users.
    return msgspec.structs.replace(facts, long_prices=None)


def _own_prices(text: str, numbers: Sequence[str]) -> ModelFacts:
    try:
        read, write = map(float, numbers)
    except ValueError:
        read, write = -1.0, 0.0
    if not 0 <= read <= write < float("inf") or not write:
        raise BadInput(f"prices {text!r}: write READ,WRITE, two numbers of which the first is not the larger: 0.3,3.75")
    return ModelFacts(
        id=f"{read:g} read, {write:g} written", price_cache_read=read, price_cache_write=write, known=True
    )


def measure_variants(
    cases: Sequence[Case],
    variants: Sequence[Variant],
    *,
    budget: int,
    prices: ModelFacts,
    jobs: int = 1,
    tick: Callable[[int], None] = lambda calls: None,
) -> dict[Variant, tuple[Cell, ...]]:
    """Return the cells of each variant, in the order of the cases, which must be `longest_first`: ids need not be unique."""
    named = {variant.name: variant for variant in variants}
    found: dict[Variant, list[Cell]] = {variant: [] for variant in variants}
    work = [Job(name, budget) for name in named]
    for outcome in run(cases, work, find=partial(_runner, named, prices), jobs=jobs):
        found[named[outcome.policy]].append(_cell(outcome, prices))
        tick(outcome.figures.calls)
    return {variant: tuple(cells) for variant, cells in found.items()}


def _cell(outcome: PolicyOutcome, prices: ModelFacts) -> Cell:
    figures, sent_usd, raw_usd = outcome.figures, 0.0, 0.0
    for tokens, shared, raw_tokens, raw_shared in outcome.tokens:
        sent_usd += bill(prices, tokens, shared).cost_usd or 0.0
        raw_usd += bill(prices, raw_tokens, raw_shared).cost_usd or 0.0
    return Cell(
        cost=(sent_usd, raw_usd),
        grounding=(figures.far_shown, figures.far),
        complete=(figures.complete, figures.actions),
        short_range=(figures.near_shown, figures.near),
        broken=figures.refused + figures.over + figures.invalid,
    )


def _runner(named: dict[str, Variant], prices: ModelFacts, name: str) -> Runner:
    return partial(_run_variant, named[name], prices)


def _run_variant(variant: Variant, facts: ModelFacts, case: Case, budget: int) -> Iterator[Sent]:
    """Yield the prompts of a variant. Early folds are judged by the prices that it is tuned for."""
    prices = {"price_cache_read": facts.price_cache_read or 0.0, "price_cache_write": facts.price_cache_write or 0.0}
    for sent in run_policy(case, msgspec.structs.replace(variant.policy(budget), models={MODEL: prices})):
        yield msgspec.structs.replace(sent, offered=tuple)  # no figure of tuning reads the offers, which are long
